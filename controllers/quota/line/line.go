// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package line has objects of a kind wait for what the DataQuotas of their namespace limit, and wakes those whose turn
// it is.
package line

import (
	"context"

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

// Line is of one kind. It is safe for concurrent use.
type Line[T client.Object] struct {
	// Client reads from the manager's cache, Reader past it.
	Client client.Client
	Reader client.Reader
	// List makes an empty list of the kind.
	List func() client.ObjectList
	// Holds and Waits are those of package quota for the kind.
	Holds func(T) (quota.Held, bool)
	Waits func(T) (quota.Request, bool)
	// View is what the namespace's objects of the kind hold and wait for.
	View func(ctx context.Context, reader client.Reader, namespace string, quotas []v1alpha1.DataQuota) (quota.View, error)
	// Shared are the limits that namespaces share; nil: the kind has none. Where there are any, View is called for all
	// namespaces, "", with all DataQuotas.
	Shared func(ctx context.Context) ([]quota.Limits, error)
	// Shown is the place that an object shows; nil: the kind shows none.
	Shown func(T) (place, waiting int32)

	turns quota.Turns
}

// shownPlaces are woken whenever their place changes.
const shownPlaces = 10

// Admit answers a request; see quota.Turns about done.
func (l *Line[T]) Admit(
	ctx context.Context, namespace string, request quota.Request, quotas []v1alpha1.DataQuota,
) (answer quota.Answer, done func(), err error) {
	s, err := l.scope(ctx, namespace, quotas)
	if err != nil {
		return answer, func() {}, err
	}
	return l.turns.Admit(s.namespace, request, s.look(ctx, l.Client), s.look(ctx, l.Reader))
}

// Cached is what the cache shows of those that share limits with a namespace; Current is what the API server has, and
// nobody else is admitted until done is called.
func (l *Line[T]) Cached(ctx context.Context, namespace string, quotas []v1alpha1.DataQuota) (quota.View, error) {
	s, err := l.scope(ctx, namespace, quotas)
	if err != nil {
		return quota.View{}, err
	}
	return s.look(ctx, l.Client)()
}

// Current is described at Cached.
func (l *Line[T]) Current(
	ctx context.Context, namespace string, quotas []v1alpha1.DataQuota,
) (view quota.View, done func(), err error) {
	s, err := l.scope(ctx, namespace, quotas)
	if err != nil {
		return view, func() {}, err
	}
	return l.turns.Current(s.namespace, s.look(ctx, l.Reader))
}

// scope is what has to be seen to admit something in a namespace.
type scope struct {
	// namespace; "": all.
	namespace string
	look      func(context.Context, client.Reader) func() (quota.View, error)
	limited   bool
}

// scope is that of a namespace with those DataQuotas.
func (l *Line[T]) scope(ctx context.Context, namespace string, quotas []v1alpha1.DataQuota) (scope, error) {
	var shared []quota.Limits
	var err error
	if l.Shared != nil {
		if shared, err = l.Shared(ctx); err != nil {
			return scope{}, err
		}
	}
	if len(shared) > 0 {
		namespace = ""
		if quotas, err = lookup.DataQuotas(ctx, l.Client, ""); err != nil {
			return scope{}, err
		}
	}
	look := func(ctx context.Context, reader client.Reader) func() (quota.View, error) {
		return func() (quota.View, error) {
			view, err := l.View(ctx, reader, namespace, quotas)
			view.Limits = append(view.Limits, shared...)
			return view, err
		}
	}
	return scope{namespace, look, len(quotas)+len(shared) > 0}, nil
}

// Watch has a controller of the kind look at objects whose turn it is, and at all that wait when limits change. empty
// is an object of the kind.
func (l *Line[T]) Watch(b *builder.Builder, empty T) *builder.Builder {
	return b.
		Watches(empty, l.Next(), builder.WithPredicates(l.freed())).
		Watches(empty, &handler.EnqueueRequestForObject{}, builder.WithPredicates(l.queued())).
		Watches(&v1alpha1.DataQuota{}, l.All(),
			wake.LaterIf(predicate.GenerationChangedPredicate{}))
}

// All wakes all that wait, in the namespace of an object if it has one.
func (l *Line[T]) All() handler.EventHandler { return handler.EnqueueRequestsFromMapFunc(l.waiting) }

// Next wakes those of an object's namespace whose turn it is.
func (l *Line[T]) Next() handler.EventHandler { return handler.EnqueueRequestsFromMapFunc(l.next) }

func (l *Line[T]) next(ctx context.Context, object client.Object) []reconcile.Request {
	namespace := object.GetNamespace()
	quotas, err := lookup.DataQuotas(ctx, l.Client, namespace)
	var s scope
	if err == nil {
		s, err = l.scope(ctx, namespace, quotas)
	}
	if err == nil && !s.limited {
		return nil // nobody waits, or is woken by waiting
	}
	var view quota.View
	if err == nil {
		view, err = s.look(ctx, l.Client)()
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Objects that wait for a quota cannot be found", "namespace", namespace)
		return nil
	}
	if len(view.Waiting) == 0 {
		return nil
	}
	positions := view.Positions()
	return wake.Requests(ctx, l.Client, l.List(), func(o T) bool {
		at, waits := positions[string(o.GetUID())]
		return waits && (at.Granted || l.stale(o, at))
	}, client.InNamespace(s.namespace))
}

// stale reports whether an object shows another place than it has.
func (l *Line[T]) stale(object T, at quota.Position) bool {
	if l.Shown == nil || at.Place > shownPlaces {
		return false
	}
	place, waiting := l.Shown(object)
	return int(place) != at.Place || int(waiting) != at.Waiting
}

// waiting wakes all that wait in a namespace, whose limits have changed. Of an object without one, all are woken.
func (l *Line[T]) waiting(ctx context.Context, object client.Object) []reconcile.Request {
	waits := func(o T) bool { _, waits := l.Waits(o); return waits }
	return wake.Requests(ctx, l.Client, l.List(), waits, client.InNamespace(object.GetNamespace()))
}

// standing is what an object holds and whether it waits.
type standing struct {
	held         quota.Held
	holds, waits bool
}

// changed lets pass updates of objects of the kind, by their standing before and after.
func (l *Line[T]) changed(pass func(before, after standing) bool) predicate.Funcs {
	of := func(object T) (s standing) {
		s.held, s.holds = l.Holds(object)
		_, s.waits = l.Waits(object)
		return s
	}
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, was := e.ObjectOld.(T)
			after, is := e.ObjectNew.(T)
			return was && is && pass(of(before), of(after))
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// freed lets pass what may leave something to another object of the namespace that waits: one gives back some of what
// it held, or waits no more and holds nothing.
func (l *Line[T]) freed() predicate.Predicate {
	freed := l.changed(func(before, after standing) bool {
		return before.holds && (!after.holds || less(after.held.Amounts, before.held.Amounts)) ||
			before.waits && !after.waits && !after.holds
	})
	freed.DeleteFunc = func(event.DeleteEvent) bool { return true }
	return freed
}

// less reports whether some amount is smaller than it was.
func less(now, before quota.Amounts) bool {
	for resource, amount := range before {
		if now[resource] < amount {
			return true
		}
	}
	return false
}

// queued lets pass that an object begins to wait. It looks once more: what it waits for may have been given back before
// anybody could see that it waits.
func (l *Line[T]) queued() predicate.Predicate {
	return l.changed(func(before, after standing) bool { return !before.waits && after.waits })
}
