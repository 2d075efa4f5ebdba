// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package statement

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/lighterage/lighterage/controllers/ledger"
	"github.com/lighterage/lighterage/controllers/refusal"
	"github.com/lighterage/lighterage/controllers/wake"
)

// Setup registers the controller with a manager. Its requests are names of namespaces.
func Setup(mgr ctrl.Manager, b *Books) error {
	build := ctrl.NewControllerManagedBy(mgr).Named("statement").
		WatchesRawSource(source.Channel(b.waiting, handler.EnqueueRequestsFromMapFunc(
			func(_ context.Context, namespace client.Object) []reconcile.Request {
				return request(namespace.GetName())
			},
		))).
		WithOptions(refusal.ControllerOptions(1))
	for _, kind := range ledger.Kinds {
		build = build.Watches(kind.Object(), b.handler(kind))
	}
	return build.Complete(wake.Again(b))
}

// handler has the namespace of an object booked, and keeps objects that were deleted until they are.
func (b *Books) handler(kind ledger.Kind) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(q queue, object client.Object) {
		for _, r := range request(object.GetNamespace()) {
			q.Add(r)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			// So arrives an object that was deleted and made again under its name between two watches.
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				b.gone(kind, e.ObjectOld)
			} else {
				b.changed(e.ObjectOld, e.ObjectNew)
			}
			add(q, e.ObjectNew)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			b.gone(kind, e.Object)
			add(q, e.Object)
		},
	}
}

func request(namespace string) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: namespace}}}
}
