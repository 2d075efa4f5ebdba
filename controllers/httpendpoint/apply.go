// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch;create;patch;delete

// ensureAll makes what is wanted to be, and returns the Deployment as it is then. The problem is what the API server, or somebody
// else's object, has against it.
func (r *Reconciler) ensureAll(
	ctx context.Context, wanted Wanted, present *appsv1.Deployment, backend *corev1.Service, affinity *corev1.Affinity,
) (*appsv1.Deployment, *plan.Problem, error) {
	if problem, err := r.ensureSecret(ctx, wanted, wanted.content()); problem != nil || err != nil {
		return present, problem, err
	}
	if problem, err := r.ensureNetwork(ctx, wanted, backend); problem != nil || err != nil {
		return present, problem, err
	}
	for _, object := range wanted.Objects(present, affinity, r.Image) {
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
