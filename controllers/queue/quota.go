// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/quota"
)

// +kubebuilder:rbac:groups=lighterage.dev,resources=dataquotas,verbs=get;list;watch

// admit has the namespace's quotas admit the storage that a Queue asks for, and notes in its status what they did,
// before anything is made of it. It returns what is wanted with the storage that is admitted, and why that is less than
// the spec asks for; nil if it is all. What is wanted is nil when none is.
func (r *Reconciler) admit(ctx context.Context, queue *v1alpha1.Queue, wanted Wanted) (*Wanted, *plan.Problem, error) {
	admitted := queue.Status.StorageSize
	if queue.DeletionTimestamp != nil || admitted != nil && admitted.Cmp(queue.Spec.Storage.Size) >= 0 {
		return r.sized(wanted, admitted, nil)
	}
	quotas, err := lookup.DataQuotas(ctx, r.Client, queue.Namespace)
	if err != nil {
		return nil, nil, err
	}
	view := func(reader client.Reader) func() (quota.View, error) {
		return func() (quota.View, error) { return view(ctx, reader, queue.Namespace, quotas) }
	}
	answer, written, err := r.turns.Admit(queue.Namespace, quota.QueueRequest(queue), view(r.Client), view(r.Reader))
	defer written()
	if err != nil {
		return nil, nil, err
	}
	if answer.Exceeded != nil {
		problem := &plan.Problem{Reason: v1alpha1.ReasonQuotaExceeded, Message: storageExceeds(queue, *answer.Exceeded)}
		if admitted == nil {
			return nil, problem, nil
		}
		return r.sized(wanted, admitted, problem)
	}
	before, size := queue.DeepCopy(), queue.Spec.Storage.Size.DeepCopy()
	queue.Status.StorageSize = &size
	if _, err := conditions.WriteStatus(ctx, r.Client, before, queue); err != nil {
		return nil, nil, err
	}
	return &wanted, nil, nil
}

// sized is what is wanted with members that have no more storage than that; nil: than the spec says.
func (r *Reconciler) sized(
	wanted Wanted, size *resource.Quantity, problem *plan.Problem,
) (*Wanted, *plan.Problem, error) {
	if size == nil || size.Cmp(wanted.Queue.Spec.Storage.Size) >= 0 {
		return &wanted, problem, nil
	}
	wanted, err := wanted.limited(*size)
	return &wanted, problem, err
}

// storageExceeds says which limit a Queue exceeds.
func storageExceeds(queue *v1alpha1.Queue, e quota.Exceeded) string {
	mend := fmt.Sprintf("delete a Queue that is not needed, or ask the platform team to raise the limit of the %s", e.Kind)
	if queue.Status.StorageSize != nil {
		mend += fmt.Sprintf("; until then members go on with %s each", queue.Status.StorageSize)
	}
	text := e.Resource.Text
	return fmt.Sprintf("%s %q allows %s of storage of Queues in this namespace (spec.hard.%s); others have %s, and this "+
		"Queue needs %s, which is storage.size times replicas; %s",
		e.Kind, e.Name, text(e.Limit), e.Resource, text(e.Used), text(e.Wanted), mend)
}

// view is what a namespace's Queues hold and wait for.
func view(
	ctx context.Context, reader client.Reader, namespace string, quotas []v1alpha1.DataQuota,
) (quota.View, error) {
	if len(quotas) == 0 {
		return quota.View{}, nil
	}
	queues := &v1alpha1.QueueList{}
	if err := reader.List(ctx, queues, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return quota.View{}, fmt.Errorf("listing Queues in %s: %w", namespace, err)
	}
	return quota.Queues(quotas, queues.Items), nil
}

// standingChanged lets pass what may let another Queue of the namespace go on.
func standingChanged() predicate.Predicate {
	standing := func(object client.Object) (holds int64, waits bool) {
		if queue, ok := object.(*v1alpha1.Queue); ok {
			held, _ := quota.QueueHolds(queue)
			_, waits := quota.QueueWaits(queue)
			return held.Amounts[quota.QueueBytes], waits
		}
		return 0, false
	}
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			held, waited := standing(e.ObjectOld)
			holds, waits := standing(e.ObjectNew)
			return held != holds || waited != waits
		},
		DeleteFunc: func(event.DeleteEvent) bool { return true },
	}
}

// ofNext wakes those of a namespace that have enough storage now.
func (r *Reconciler) ofNext(ctx context.Context, object client.Object) []reconcile.Request {
	quotas, err := lookup.DataQuotas(ctx, r.Client, object.GetNamespace())
	var seen quota.View
	if err == nil {
		seen, err = view(ctx, r.Client, object.GetNamespace(), quotas)
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Queues that wait for a quota cannot be found")
		return nil
	}
	next := map[string]bool{}
	for _, id := range quota.Next(seen) {
		next[id] = true
	}
	if len(next) == 0 {
		return nil
	}
	isNext := func(q *v1alpha1.Queue) bool { return next[string(q.UID)] }
	return r.requests(ctx, isNext, client.InNamespace(object.GetNamespace()))
}

// ofQuota wakes all that want more storage in a namespace, whose limits have changed.
func (r *Reconciler) ofQuota(ctx context.Context, object client.Object) []reconcile.Request {
	return r.requests(ctx, func(q *v1alpha1.Queue) bool {
		return q.Status.StorageSize == nil || q.Status.StorageSize.Cmp(q.Spec.Storage.Size) < 0
	}, client.InNamespace(object.GetNamespace()))
}
