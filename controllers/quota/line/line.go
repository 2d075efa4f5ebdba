// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package line has objects of a kind wait for what the DataQuotas of their namespace limit, and wakes those whose turn
// it is.
package line

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
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
	// View is what the namespace's objects of the kind hold and wait for, of those that the options list.
	View func(
		ctx context.Context, reader client.Reader, namespace string, quotas []v1alpha1.DataQuota,
		options ...client.ListOption,
	) (quota.View, error)
	// Limited has Client list those alone that hold something or wait; nil: it lists all.
	Limited client.ListOption
	// Shared are the limits that namespaces share; nil: the kind has none. Where there are any, View is called for all
	// namespaces, "", with all DataQuotas.
	Shared func(ctx context.Context) ([]quota.Limits, error)
	// Shown is the place that an object shows; nil: the kind shows none.
	Shown func(T) (place, waiting int32)

	turns quota.Turns

	mu sync.Mutex
	// last is the newest write by which something was granted.
	last write
	// unsure are the scopes, by their namespaces, in which nobody knows whether a grant was written.
	unsure map[string]bool
}

// write of an object.
type write struct {
	key     client.ObjectKey
	version string
}

const (
	// shownPlaces are woken whenever their place changes.
	shownPlaces = 10
	// cachePause is between two looks at whether the cache shows a write, and cachePatience how long it may take to.
	cachePause, cachePatience = 2 * time.Millisecond, time.Second
)

// Admit answers a request of an object; see quota.Turns about done. That is told what came of writing the object: nil
// also where nothing was to be written.
func (l *Line[T]) Admit(
	ctx context.Context, object T, request quota.Request, quotas []v1alpha1.DataQuota,
) (answer quota.Answer, done func(error), err error) {
	s, err := l.scope(ctx, object.GetNamespace(), quotas)
	if err != nil {
		return answer, func(error) {}, err
	}
	answer, end, err := l.turns.Admit(s.namespace, request, l.cached(ctx, s), l.current(ctx, s, object))
	if err != nil || answer.Exceeded != nil {
		return answer, func(error) { end() }, err
	}
	return answer, l.noted(s, object, end), nil
}

// Cached is what the cache shows of those that share limits with a namespace. Current shows every grant besides, and
// nobody else is admitted until done is called.
func (l *Line[T]) Cached(ctx context.Context, namespace string, quotas []v1alpha1.DataQuota) (quota.View, error) {
	s, err := l.scope(ctx, namespace, quotas)
	if err != nil {
		return quota.View{}, err
	}
	return l.cached(ctx, s)()
}

// Current is described at Cached, and done at Admit.
func (l *Line[T]) Current(
	ctx context.Context, object T, quotas []v1alpha1.DataQuota,
) (view quota.View, done func(error), err error) {
	s, err := l.scope(ctx, object.GetNamespace(), quotas)
	if err != nil {
		return view, func(error) {}, err
	}
	view, end, err := l.turns.Current(s.namespace, l.current(ctx, s, object))
	if err != nil {
		return view, func(error) { end() }, err
	}
	return view, l.noted(s, object, end), nil
}

// cached is what the cache shows.
func (l *Line[T]) cached(ctx context.Context, s scope) func() (quota.View, error) {
	return func() (quota.View, error) {
		if l.Limited == nil {
			return s.look(ctx, l.Client)
		}
		return s.look(ctx, l.Client, l.Limited)
	}
}

// current shows every grant. One watch brings all writes of a kind in their order, so that a cache which shows the last
// grant of this manager shows those before it, and those of the manager before this one. Only where it does not, all
// objects are listed from the API server, which takes seconds where there are many.
func (l *Line[T]) current(ctx context.Context, s scope, object T) func() (quota.View, error) {
	return func() (quota.View, error) {
		if l.shown(ctx, s, object) {
			return l.cached(ctx, s)()
		}
		return s.look(ctx, l.Reader)
	}
}

// shown reports whether the cache shows all grants of a scope, and waits a moment for it. object is one of the kind.
func (l *Line[T]) shown(ctx context.Context, s scope, object T) bool {
	l.mu.Lock()
	last, unsure := l.last, l.unsure[s.namespace]
	l.mu.Unlock()
	found, ok := object.DeepCopyObject().(T)
	if !ok || unsure || last.version == "" {
		return false
	}
	return wait.PollUntilContextTimeout(ctx, cachePause, cachePatience, true, func(ctx context.Context) (bool, error) {
		err := l.Client.Get(ctx, last.key, found)
		if apierrors.IsNotFound(err) {
			return true, nil // it was deleted since
		}
		if err != nil {
			return false, err
		}
		order, err := resourceversion.CompareResourceVersion(found.GetResourceVersion(), last.version)
		return order >= 0, err
	}) == nil
}

// noted notes how an object was written to which something was granted, and ends the turn.
func (l *Line[T]) noted(s scope, object T, end func()) func(error) {
	before := object.GetResourceVersion()
	var once sync.Once
	return func(err error) {
		once.Do(func() {
			l.note(s, write{client.ObjectKeyFromObject(object), object.GetResourceVersion()}, before, err)
			end()
		})
	}
}

func (l *Line[T]) note(s scope, last write, before string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // nothing was written
	case err != nil:
		if l.unsure == nil {
			l.unsure = map[string]bool{}
		}
		l.unsure[s.namespace] = true
	case last.version != before:
		delete(l.unsure, s.namespace)
		// Of two namespaces that are granted something at a time, the later one may be noted first.
		order, unknown := resourceversion.CompareResourceVersion(last.version, l.last.version)
		if unknown != nil || order > 0 {
			l.last = last
		}
	}
}

// scope is what has to be seen to admit something in a namespace.
type scope struct {
	// namespace; "": all.
	namespace string
	look      func(context.Context, client.Reader, ...client.ListOption) (quota.View, error)
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
	look := func(ctx context.Context, reader client.Reader, options ...client.ListOption) (quota.View, error) {
		view, err := l.View(ctx, reader, namespace, quotas, options...)
		view.Limits = append(view.Limits, shared...)
		return view, err
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
		view, err = l.cached(ctx, s)()
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Objects that wait for a quota cannot be found", "namespace", namespace)
		return nil
	}
	if len(view.Waiting) == 0 {
		return nil
	}
	positions := view.Positions()
	return l.requests(ctx, s.namespace, func(o T) bool {
		at, waits := positions[string(o.GetUID())]
		return waits && (at.Granted || l.stale(o, at))
	})
}

// requests are those of a namespace's objects that hold something or wait.
func (l *Line[T]) requests(ctx context.Context, namespace string, keep func(T) bool) []reconcile.Request {
	options := []client.ListOption{client.InNamespace(namespace)}
	if l.Limited != nil {
		options = append(options, l.Limited)
	}
	return wake.Requests(ctx, l.Client, l.List(), keep, options...)
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
	return l.requests(ctx, object.GetNamespace(), func(o T) bool { _, waits := l.Waits(o); return waits })
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
