// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/replicas"
	"github.com/lighterage/lighterage/controllers/trialplan"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=httpendpoints;queues,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch

// gatherSource looks for what the trial samples.
func (r *Reconciler) gatherSource(ctx context.Context, trial *v1alpha1.CompressionTrial, facts *trialplan.Facts) error {
	source := trial.Spec.Source
	switch {
	case source.PersistentVolumeClaim != nil:
		claim := &corev1.PersistentVolumeClaim{}
		found, err := lookup.Get(
			ctx, r.Client, client.ObjectKey{Namespace: trial.Namespace, Name: source.PersistentVolumeClaim.ClaimName}, claim,
		)
		if found {
			facts.Claim = claim
		}
		return err
	case source.HTTPEndpoint != nil:
		endpoint := &v1alpha1.HTTPEndpoint{}
		found, err := lookup.Get(
			ctx, r.Client, client.ObjectKey{Namespace: trial.Namespace, Name: source.HTTPEndpoint.Name}, endpoint,
		)
		if err != nil || !found {
			return err
		}
		facts.Sampled, err = r.sampled(
			ctx, endpoint, v1alpha1.HTTPEndpointLabel, "ReplicaSet", pki.HTTPServerName(string(endpoint.UID)),
		)
		return err
	case source.Queue != nil:
		queue := &v1alpha1.Queue{}
		found, err := lookup.Get(ctx, r.Client, client.ObjectKey{Namespace: trial.Namespace, Name: source.Queue.Name}, queue)
		if err != nil || !found {
			return err
		}
		facts.Sampled, err = r.sampled(ctx, queue, v1alpha1.QueueLabel, "StatefulSet", pki.QueueServerName(string(queue.UID)))
		return err
	}
	return nil
}

// sampled are the agents of an object that are ready. Whoever bears the label without having the key of the object's
// Secret is asked and cannot answer.
func (r *Reconciler) sampled(
	ctx context.Context, object client.Object, label, owner, serverName string,
) (*trialplan.Sampled, error) {
	pods := &corev1.PodList{}
	err := r.Client.List(ctx, pods, client.InNamespace(object.GetNamespace()), client.MatchingLabels{
		label: string(object.GetUID()),
	},
		client.MatchingFields{index.Owner: string(object.GetUID())})
	if err != nil {
		return nil, fmt.Errorf("listing the agents of %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	// In the order of their names, so that what is written is the same each time.
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	s := &trialplan.Sampled{Deleting: object.GetDeletionTimestamp() != nil, ServerName: serverName}
	for i := range pods.Items {
		pod := &pods.Items[i]
		controller := metav1.GetControllerOf(pod)
		if replicas.Ended(pod) || !replicas.Answers(pod) || !replicas.Ready(pod) || controller == nil ||
			controller.Kind != owner || len(s.Addresses) == trialplan.MaxSampled {
			continue
		}
		s.Addresses = append(s.Addresses, replicas.Address(pod, agentpod.ControlPort))
	}
	return s, nil
}

// claimName is that of the claim that is sampled; empty for other sources.
func claimName(trial *v1alpha1.CompressionTrial) string {
	if claim := trial.Spec.Source.PersistentVolumeClaim; claim != nil {
		return claim.ClaimName
	}
	return ""
}
