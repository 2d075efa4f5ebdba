// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/owned"
)

// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch;create;patch;delete

// ensureAll makes what is wanted to be, and returns the Deployment as it is then. The problem is what the API server,
// or somebody else's object, has against it.
func (r *Reconciler) ensureAll(
	ctx context.Context, wanted Wanted, in inputs, backend *corev1.Service, affinity *corev1.Affinity,
) (*appsv1.Deployment, *agentpod.Problem, error) {
	deployment, problem, err := r.tryAll(ctx, wanted, in, backend, affinity)
	rejected, err := owned.Persistent(&r.rejected, wanted.Endpoint, err, r.Clock.Now())
	if rejected != nil {
		problem = rejected
	}
	return deployment, problem, err
}

// tryAll is ensureAll, whose error may be one that will not go.
func (r *Reconciler) tryAll(
	ctx context.Context, wanted Wanted, in inputs, backend *corev1.Service, affinity *corev1.Affinity,
) (*appsv1.Deployment, *agentpod.Problem, error) {
	present := in.deployment
	budget, err := r.budget(ctx, wanted.Endpoint)
	if err != nil {
		return present, nil, err
	}
	problem, err := r.ensureSecret(ctx, wanted, wanted.content(), budget, in.replicas.Agents)
	if problem != nil || err != nil {
		return present, problem, err
	}
	if problem, err := r.ensureNetwork(ctx, wanted, backend); problem != nil || err != nil {
		return present, problem, err
	}
	m := r.memories.Of(client.ObjectKeyFromObject(wanted.Endpoint), wanted.Endpoint.UID)
	for _, object := range wanted.Objects(present, affinity, r.Image) {
		if deployment, ok := object.(*appsv1.Deployment); ok {
			may, err := r.mayRoll(wanted.Endpoint, deployment, present, budget)
			if err != nil {
				return present, nil, err
			}
			if m.rolloutWaits = !may; !may {
				continue
			}
		}
		after, problem, err := r.objects.Ensure(ctx, wanted.Endpoint, object)
		if problem != nil || err != nil {
			return present, problem, err
		}
		if deployment, ok := after.(*appsv1.Deployment); ok {
			present = deployment
		}
	}
	if wanted.Endpoint.Spec.Autoscaling == nil {
		return present, nil, r.removeAutoscaler(ctx, wanted.Endpoint)
	}
	return present, nil, nil
}

// mayRoll reports whether the Deployment may become what is wanted now. The budget is as it was before this look.
func (r *Reconciler) mayRoll(
	endpoint *v1alpha1.HTTPEndpoint, wanted, present *appsv1.Deployment, budget *policyv1.PodDisruptionBudget,
) (bool, error) {
	if present == nil {
		return true, nil
	}
	atOnce := budget != nil && owned.SpecChanged(endpoint, budget) || readyReplicas(present) == 0
	return r.rollouts.May(endpoint.UID, wanted, present, atOnce, rolledOut(present), r.Clock.Now())
}

// removeAutoscaler is idempotent.
func (r *Reconciler) removeAutoscaler(ctx context.Context, endpoint *v1alpha1.HTTPEndpoint) error {
	autoscaler := &autoscalingv2.HorizontalPodAutoscaler{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: endpoint.Namespace, Name: objectName(endpoint)}, autoscaler)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the autoscaler of %s: %w", client.ObjectKeyFromObject(endpoint), err)
	}
	if !metav1.IsControlledBy(autoscaler, endpoint) {
		return nil
	}
	if err := r.Client.Delete(ctx, autoscaler); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the autoscaler of %s: %w", client.ObjectKeyFromObject(endpoint), err)
	}
	return nil
}
