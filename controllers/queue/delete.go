// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/conditions"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=queues,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=lighterage.dev,resources=queues/finalizers,verbs=update

// protect makes sure that the Queue outlives its deletion for as long as keep says. A deletion in the foreground
// deletes what the Queue owns at once, and again whenever it is recreated; kept is one that goes on serving, so it is
// made one in the background.
func (r *Reconciler) protect(ctx context.Context, queue *v1alpha1.Queue) error {
	before := queue.DeepCopy()
	var changed bool
	if queue.DeletionTimestamp == nil {
		changed = controllerutil.AddFinalizer(queue, v1alpha1.Finalizer)
	} else {
		changed = controllerutil.RemoveFinalizer(queue, metav1.FinalizerDeleteDependents)
	}
	return r.patchFinalizers(ctx, before, queue, changed)
}

// release deletes the claims and lets the Queue go. Everything else that it consists of is owned by it and goes with
// it.
func (r *Reconciler) release(ctx context.Context, queue *v1alpha1.Queue, claims []corev1.PersistentVolumeClaim) error {
	for i := range claims {
		err := r.Client.Delete(ctx, &claims[i], client.Preconditions{UID: &claims[i].UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting claim %s: %w", client.ObjectKeyFromObject(&claims[i]), err)
		}
	}
	before := queue.DeepCopy()
	changed := controllerutil.RemoveFinalizer(queue, v1alpha1.Finalizer)
	return client.IgnoreNotFound(r.patchFinalizers(ctx, before, queue, changed))
}

// patchFinalizers is refused for a stale read, so that no other's finalizer is lost.
func (r *Reconciler) patchFinalizers(ctx context.Context, before, queue *v1alpha1.Queue, changed bool) error {
	if !changed {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, queue, patch, client.FieldOwner(conditions.FieldOwner)); err != nil {
		return fmt.Errorf("writing the finalizers of Queue %s: %w", client.ObjectKeyFromObject(queue), err)
	}
	return nil
}

// keep is why a Queue that is to be deleted has to stay, nil if it need not. Nothing was ever put into one that has no
// StatefulSet and no claims; and what external servers keep stays there, for a Queue of the same name.
func keep(queue *v1alpha1.Queue, in inputs) *agentpod.Problem {
	if queue.Spec.Engine.External != nil || queue.Annotations[v1alpha1.DeleteMessagesAnnotation] == "true" ||
		in.set == nil && len(in.claims) == 0 {
		return nil
	}
	fix := fmt.Sprintf(
		"; get them, or annotate the Queue with %s=true to delete them with it", v1alpha1.DeleteMessagesAnnotation,
	)
	content := contentOf(in.members.Agents)
	switch {
	case content == nil || content.GetLeader() == "":
		return &agentpod.Problem{Reason: v1alpha1.ReasonMessagesRemain, Message: "the Queue is to be deleted, and whether " +
			"there are messages in it is not known, because its members do not say so; let them run" + fix}
	case content.GetMessages() > 0 || content.GetDeadLetters() > 0:
		what := fmt.Sprintf("%d messages", content.GetMessages())
		if dead := content.GetDeadLetters(); dead > 0 {
			what += fmt.Sprintf(" and %d dead letters, which gRPC and HTTP give out,", dead)
		}
		return &agentpod.Problem{
			Reason: v1alpha1.ReasonMessagesRemain,
			Message: fmt.Sprintf("the Queue is to be deleted, but "+
				"has %s in it, which would be lost%s",
				what, fix),
		}
	}
	return nil
}
