// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package wake is how controllers learn that something which their objects depend on has changed, without looking at
// all objects.
package wake

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/index"
)

// Later lets pass what a manager has not found when it started. Then every object is reconciled, after all kinds that
// its controller watches have been read; to look besides for whom each of them concerns takes time that grows with the
// product of both numbers.
func Later() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList }}
}

// LaterIf has a watch let pass what Later does, if the predicates do as well. A second option with predicates of a watch
// would take the place of the first one.
func LaterIf(predicates ...predicate.Predicate) builder.Predicates {
	return builder.WithPredicates(append(predicates, Later())...)
}

// Requests are those of the objects that a list would have. keep, unless it is nil, takes some of them, which it must
// not change: they are the cache's. An error is logged, as there is nobody to return it to, and the clock looks again
// later.
func Requests[T client.Object](
	ctx context.Context, reader client.Reader, list client.ObjectList, keep func(T) bool, options ...client.ListOption,
) []reconcile.Request {
	if err := reader.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "Objects cannot be listed", "kind", fmt.Sprintf("%T", list))
		return nil
	}
	var requests []reconcile.Request
	// Nothing in it returns an error.
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(T); ok && (keep == nil || keep(object)) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)})
		}
		return nil
	})
	return requests
}

// Labelled finds the object whose UID is in a label of another of its namespace. list makes an empty list of its kind.
func Labelled(reader client.Reader, list func() client.ObjectList, label string) handler.MapFunc {
	return func(ctx context.Context, object client.Object) []reconcile.Request {
		uid := object.GetLabels()[label]
		if uid == "" {
			return nil
		}
		return Requests[client.Object](
			ctx, reader, list(), nil, client.InNamespace(object.GetNamespace()), client.MatchingFields{index.UID: uid},
		)
	}
}

// OfAttempt finds the Transfer or Delivery, of a kind of which list makes an empty list, that a pod of an attempt is
// of, with its UID in that label. Its Job says who owns it; without one, as when somebody deleted it, the namespace is
// searched: an index of UIDs would take more memory than anything else that is known of a Transfer.
func OfAttempt(reader client.Reader, kind string, list func() client.ObjectList, label string) handler.MapFunc {
	return func(ctx context.Context, pod client.Object) []reconcile.Request {
		uid := pod.GetLabels()[label]
		if uid == "" {
			return nil
		}
		if ref := metav1.GetControllerOf(pod); ref != nil && ref.Kind == "Job" {
			job := &batchv1.Job{}
			err := reader.Get(ctx, client.ObjectKey{Namespace: pod.GetNamespace(), Name: ref.Name}, job)
			if owner := metav1.GetControllerOf(job); err == nil && owner != nil && owner.Kind == kind &&
				string(owner.UID) == uid {
				key := client.ObjectKey{Namespace: pod.GetNamespace(), Name: owner.Name}
				return []reconcile.Request{{NamespacedName: key}}
			}
		}
		return Requests(ctx, reader, list(), func(o client.Object) bool { return string(o.GetUID()) == uid },
			client.InNamespace(pod.GetNamespace()))
	}
}

// OfPolicy finds the objects that name a LocalCompressionPolicy in its namespace, or a CompressionPolicy in any, and, if
// that is or was a default, those that depend on the default one. list makes an empty list of their kind.
func OfPolicy(reader client.Reader, list func() client.ObjectList) handler.MapFunc {
	return func(ctx context.Context, policy client.Object) []reconcile.Request {
		var requests []reconcile.Request
		for _, name := range index.PolicyNames(policy) {
			requests = append(
				requests, Requests[client.Object](ctx, reader, list(), nil, client.InNamespace(policy.GetNamespace()),
					client.MatchingFields{index.Policy: name})...,
			)
		}
		return requests
	}
}

// CanaryChanged lets pass a CompressionPolicy whose canary began or ended: what objects that serve are told changes.
func CanaryChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, ok := e.ObjectOld.(*v1alpha1.CompressionPolicy)
		is, same := e.ObjectNew.(*v1alpha1.CompressionPolicy)
		return ok && same && phase(was.Status.Canary) != phase(is.Status.Canary)
	}}
}

func phase(c *v1alpha1.CanaryStatus) [2]string {
	if c == nil {
		return [2]string{}
	}
	return [2]string{c.Revision, string(c.State)}
}

// Waiting finds the objects of every namespace that index.Waits says wait. list makes an empty list of their kind.
func Waiting(reader client.Reader, list func() client.ObjectList) func(context.Context) []reconcile.Request {
	return func(ctx context.Context) []reconcile.Request {
		return Requests[client.Object](ctx, reader, list(), nil, client.MatchingFields{index.Waits: index.Yes})
	}
}

// conflictPause gives the cache time to catch up after a write from a stale read.
const conflictPause = 200 * time.Millisecond

// Again is how every controller looks at an object again. Such looks take turns with all else: objects that a manager
// finds when it starts come after what happens then, and without this they would do so for as long as it runs. A
// conflict is no failure, since the cache is only behind.
func Again(r reconcile.Reconciler) reconcile.Reconciler {
	return reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
		result, err := r.Reconcile(ctx, request)
		if apierrors.IsConflict(err) {
			result, err = reconcile.Result{RequeueAfter: conflictPause}, nil
		}
		if result.Priority == nil {
			result.Priority = new(int)
		}
		return result, err
	})
}
