// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/replicas"
	"github.com/lighterage/lighterage/controllers/topology"
)

// inputs are what a decision needs of the cluster, the replicas excepted.
type inputs struct {
	policies         []v1alpha1.CompressionPolicy
	privilegeAllowed bool
	backend          *corev1.Service
	deployment       *appsv1.Deployment
	placement        placement.Facts
}

func (r *Reconciler) gather(ctx context.Context, endpoint *v1alpha1.HTTPEndpoint) (inputs, error) {
	var in inputs
	policies := &v1alpha1.CompressionPolicyList{}
	if err := r.Client.List(ctx, policies); err != nil {
		return in, fmt.Errorf("listing CompressionPolicies: %w", err)
	}
	in.policies = policies.Items

	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	found, err := lookup.Get(ctx, r.Client, client.ObjectKey{Name: endpoint.Namespace}, namespace)
	if err != nil {
		return in, err
	}
	in.privilegeAllowed = found && namespace.Annotations[v1alpha1.AllowPrivilegedAnnotation] == "true"

	if named := endpoint.Spec.Backend.Service; named != nil {
		service := &corev1.Service{}
		if found, err = lookup.Get(ctx, r.Client, client.ObjectKey{Namespace: endpoint.Namespace, Name: named.Name}, service); err != nil {
			return in, err
		}
		if found {
			in.backend = service
		}
	}
	deployment := &appsv1.Deployment{}
	if found, err = lookup.Get(ctx, r.Client, client.ObjectKey{Namespace: endpoint.Namespace, Name: objectName(endpoint)}, deployment); err != nil {
		return in, err
	}
	if found && metav1.IsControlledBy(deployment, endpoint) {
		in.deployment = deployment
	}
	in.placement, err = topology.Facts(ctx, r.Client, endpoint.Namespace, "")
	// Slots of accelerators are for agents that end; a replica that took one would keep it, and where it may be would change with what
	// the others take.
	in.placement.FreeSlots = nil
	return in, err
}

// askReplicas returns the replicas that are not being stopped, with what they say. Whoever bears the labels without having the key of
// the HTTPEndpoint's Secret cannot answer.
func (r *Reconciler) askReplicas(
	ctx context.Context, endpoint *v1alpha1.HTTPEndpoint, profiles map[string]v1alpha1.NodeProfileStatus,
) ([]Replica, error) {
	pods := &corev1.PodList{}
	err := r.Client.List(ctx, pods, client.InNamespace(endpoint.Namespace), client.MatchingLabels(selector(endpoint.UID)))
	if err != nil {
		return nil, fmt.Errorf("listing the replicas of %s: %w", client.ObjectKeyFromObject(endpoint), err)
	}
	var list []Replica
	for i := range pods.Items {
		pod := &pods.Items[i]
		owner := metav1.GetControllerOf(pod)
		if replicas.Ended(pod) || owner == nil || owner.Kind != "ReplicaSet" || !strings.HasPrefix(owner.Name, objectName(endpoint)+"-") {
			continue
		}
		list = append(list, Replica{
			Pod: pod, Asked: replicas.Answers(pod), NetworkSecondsPerGiB: replicas.NetworkSeconds(profiles, pod.Spec.NodeName),
		})
	}
	replicas.EachAtOnce(len(list), func(i int) {
		if list[i].Asked {
			r.ask(ctx, endpoint, &list[i])
		}
	})
	return list, nil
}

// ask fills in a replica's report. One that does not answer has just started, or status will say so.
func (r *Reconciler) ask(ctx context.Context, endpoint *v1alpha1.HTTPEndpoint, replica *Replica) {
	report, err := r.Agents.HTTPReport(ctx, agentclient.Target{
		Address:    replicas.Address(replica.Pod, controlPort),
		ServerName: pki.HTTPServerName(string(endpoint.UID)),
	})
	if err != nil {
		log.FromContext(ctx).V(1).Info("Replica does not answer", "pod", replica.Pod.Name, "reason", err.Error())
		return
	}
	replica.Report = plan.Bounded(report)
}
