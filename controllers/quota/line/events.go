// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package line

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/quota"
	"github.com/lighterage/lighterage/controllers/wake"
)

// shownPlaces are woken whenever their place changes.
const shownPlaces = 10

// queue is a controller's.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Watch has a controller of the kind look at objects whose turn it is, and at all that wait when limits change. empty
// is an object of the kind.
func (l *Line[T]) Watch(b *builder.Builder, empty T) *builder.Builder {
	b.Watches(empty, l.events())
	if l.Pods != nil {
		b.Watches(&corev1.Pod{}, l.podEvents())
	}
	return b.Watches(&v1alpha1.DataQuota{}, l.All(), wake.LaterIf(predicate.GenerationChangedPredicate{}))
}

// events takes over what an object holds and waits for. When it gives something back, the next are woken. One that
// begins to wait looks once more: what it waits for may have been given back before others could see that it waits.
func (l *Line[T]) events() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ queue) {
			if object, ok := e.Object.(T); ok {
				l.standings.set(object.GetResourceVersion(), l.standing(object))
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			object, ok := e.ObjectNew.(T)
			if !ok {
				return
			}
			now := l.standing(object)
			before := l.standings.set(object.GetResourceVersion(), now)
			if now.freed(before) {
				l.wake(ctx, object.GetNamespace(), q)
			}
			if now.waits && !before.waits {
				q.Add(reconcile.Request{NamespacedName: now.key})
			}
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			if l.standings.remove(e.Object.GetUID(), client.ObjectKeyFromObject(e.Object)).counts() {
				l.wake(ctx, e.Object.GetNamespace(), q)
			}
		},
	}
}

// All wakes all that wait, in the namespace of an object if it has one. Of an object without one, as a Peer, all are
// woken.
func (l *Line[T]) All() handler.EventHandler {
	all := func(object client.Object, q queue) {
		l.standings.all(object.GetNamespace(), func(now standing) {
			if now.waits {
				q.Add(reconcile.Request{NamespacedName: now.key})
			}
		})
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { all(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { all(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { all(e.Object, q) },
	}
}

// wake wakes those whose turn it is in a namespace, soon: while somebody looks who that is, others that give something
// back neither wait for it nor look for themselves.
func (l *Line[T]) wake(ctx context.Context, namespace string, q queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dirty == nil {
		l.dirty = map[string]bool{}
	}
	l.dirty[namespace] = true
	if !l.waking {
		l.waking = true
		go l.wakeDirty(context.WithoutCancel(ctx), q) // A handler's context ends when it returns.
	}
}

// wakeDirty wakes those whose turn it is in namespaces in which something was given back, until there is none.
func (l *Line[T]) wakeDirty(ctx context.Context, q queue) {
	for {
		l.mu.Lock()
		dirty := l.dirty
		l.dirty = nil
		if l.waking = len(dirty) > 0; !l.waking {
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		looked := map[string]bool{}
		for namespace := range dirty {
			if err := l.wakeNext(ctx, namespace, q, looked); err != nil {
				log.FromContext(ctx).Error(err, "Objects that wait for a quota cannot be found", "namespace", namespace)
			}
		}
	}
}

// wakeNext wakes those whose turn it is in the scope of a namespace, unless that was looked at.
func (l *Line[T]) wakeNext(ctx context.Context, namespace string, q queue, looked map[string]bool) error {
	if looked[""] {
		return nil // that was all
	}
	quotas, err := lookup.DataQuotas(ctx, l.Client, namespace)
	if err != nil {
		return err
	}
	s, err := l.scope(ctx, namespace, quotas)
	if err != nil || looked[s.namespace] {
		return err
	}
	looked[s.namespace] = true
	view, err := l.told(s)()
	if err != nil || len(view.Waiting) == 0 {
		return err
	}
	positions := view.Positions()
	l.standings.all(s.namespace, func(now standing) {
		if at, looked := positions[now.request.ID]; now.waits && looked && (at.Granted || l.stale(now, at)) {
			q.Add(reconcile.Request{NamespacedName: now.key})
		}
	})
	return nil
}

// stale reports whether an object shows another place than it has.
func (l *Line[T]) stale(now standing, at quota.Position) bool {
	return l.Shown != nil && at.Place <= shownPlaces && (int(now.place) != at.Place || int(now.waiting) != at.Waiting)
}
