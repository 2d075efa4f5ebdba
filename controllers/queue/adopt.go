// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/owned"
)

// claimName is that of a member's claim: the name of its Queue's StatefulSet, which begins with that of the Queue, and
// the member's number.
var claimName = regexp.MustCompile(`^` + dataVolume + `-((.+)-queue-[0-9a-f]{8})-(?:0|[1-9][0-9]?)$`)

// gatherFormer looks for claims that a former Queue of this name left. It looks at all claims of the namespace only
// while the Queue has no StatefulSet, or adopts claims.
func (r *Reconciler) gatherFormer(ctx context.Context, own client.Reader, queue *v1alpha1.Queue, in *inputs) error {
	adopted := queue.Spec.Storage.Adopt
	if adopted == "" && (in.set != nil || queue.DeletionTimestamp != nil || len(in.claims) > 0) {
		return nil
	}
	if adopted != "" {
		set := &appsv1.StatefulSet{}
		found, err := lookup.Get(ctx, own, client.ObjectKey{Namespace: queue.Namespace, Name: ownName(queue)}, set)
		if err != nil {
			return err
		}
		if found {
			in.former = &agentpod.Problem{
				Reason: v1alpha1.ReasonInvalidSpec,
				Message: fmt.Sprintf("this Queue keeps messages in "+
					"claims of StatefulSet %q already, so it cannot adopt those of %q; create it again with spec.storage.adopt from "+
					"the beginning", set.Name, adopted),
			}
			return nil
		}
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := own.List(ctx, claims, client.InNamespace(queue.Namespace)); err != nil {
		return fmt.Errorf("listing the claims of namespace %s: %w", queue.Namespace, err)
	}
	if adopted != "" {
		in.claims = ownClaims(queue, claims.Items)
		return nil
	}
	if left := former(queue, claims.Items); len(left) > 0 {
		in.former = remaining(queue, left)
	}
	return nil
}

// former are the StatefulSets whose claims are left of Queues of this name, the latest first.
func former(queue *v1alpha1.Queue, claims []corev1.PersistentVolumeClaim) []string {
	slices.SortStableFunc(claims, func(a, b corev1.PersistentVolumeClaim) int {
		return b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
	})
	var sets []string
	for i := range claims {
		parts := claimName.FindStringSubmatch(claims[i].Name)
		if len(parts) != 3 || parts[2] != queue.Name || claims[i].DeletionTimestamp != nil ||
			claims[i].Labels[v1alpha1.QueueLabel] == "" ||
			slices.Contains(sets, parts[1]) {
			continue
		}
		sets = append(sets, parts[1])
	}
	return sets
}

func remaining(queue *v1alpha1.Queue, sets []string) *agentpod.Problem {
	message := fmt.Sprintf("claims of a former Queue %q are left, %s-%s-0 among them, and may hold messages; set "+
		"spec.storage.adopt to %q to go on with them, or delete them to begin empty: kubectl -n %s delete "+
		"persistentvolumeclaim %s-%s-0", queue.Name, dataVolume, sets[0], sets[0], queue.Namespace, dataVolume, sets[0])
	if len(sets) > 1 {
		message += "; there are older ones, too, of " + strings.Join(sets[1:min(len(sets), 5)], ", ")
	}
	return &agentpod.Problem{Reason: v1alpha1.ReasonClaimsRemain, Message: message}
}

// labelClaims has claims that were adopted bear the labels of this Queue, by which they are found and deleted with it.
func (r *Reconciler) labelClaims(
	ctx context.Context, queue *v1alpha1.Queue, claims []corev1.PersistentVolumeClaim,
) (*agentpod.Problem, error) {
	for i := range claims {
		claim := &claims[i]
		if claim.DeletionTimestamp != nil || claim.Labels[v1alpha1.QueueLabel] == string(queue.UID) {
			continue
		}
		labelled := claim.DeepCopy()
		labelled.Labels = maps.Clone(claim.Labels)
		if labelled.Labels == nil {
			labelled.Labels = map[string]string{}
		}
		maps.Copy(labelled.Labels, labels(queue.UID))
		if err := r.Client.Patch(
			ctx, labelled, client.MergeFrom(claim), client.FieldOwner(conditions.FieldOwner),
		); err != nil {
			claim.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
			return owned.Refusal(claim, fmt.Errorf("adopting claim %s: %w", client.ObjectKeyFromObject(claim), err))
		}
	}
	return nil, nil
}
