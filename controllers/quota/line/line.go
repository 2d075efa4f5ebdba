// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package line has objects of a kind wait for what the DataQuotas of their namespace limit, and wakes those whose turn
// it is.
package line

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/lookup"
	"github.com/lighterage/lighterage/controllers/quota"
)

// Line is of one kind. It knows what events of the manager's cache tell, once Watch has a controller watch. It is safe
// for concurrent use.
type Line[T client.Object] struct {
	// Client reads from the manager's cache, Reader past it.
	Client client.Client
	Reader client.Reader
	// List makes an empty list of the kind.
	List func() client.ObjectList
	// Holds and Waits are those of package quota for the kind.
	Holds func(T) (quota.Held, bool)
	Waits func(T) (quota.Request, bool)
	// Pods are those of the kind's agents; nil: they count for nothing.
	Pods *Pods[T]
	// Shared are the limits that namespaces share; nil: the kind has none.
	Shared func(ctx context.Context) ([]quota.Limits, error)
	// Shown is the place that an object shows; nil: the kind shows none.
	Shown func(T) (place, waiting int32)

	turns     quota.Turns
	standings standings
	pods      pods

	mu sync.Mutex
	// sure are the scopes, by their namespaces, in which this manager has granted something, and knows what came of it:
	// when events have told of that, they have told of what was granted before, by the last manager too.
	sure map[string]bool
	// dirty are namespaces in which something was given back; waking: somebody looks after them.
	dirty  map[string]bool
	waking bool
}

const (
	// toldPause is between two looks at whether events have told of all grants, and toldPatience how long it may take.
	toldPause, toldPatience = 2 * time.Millisecond, time.Second
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
	answer, end, err := l.turns.Admit(s.namespace, request, l.told(s), l.current(ctx, s))
	if err != nil || answer.Exceeded != nil {
		return answer, func(error) { end() }, err
	}
	return answer, l.noted(s, object, end), nil
}

// Told is what events have told of those that share limits with a namespace. Current shows every grant besides, and
// nobody else is admitted until done is called.
func (l *Line[T]) Told(ctx context.Context, namespace string, quotas []v1alpha1.DataQuota) (quota.View, error) {
	s, err := l.scope(ctx, namespace, quotas)
	if err != nil {
		return quota.View{}, err
	}
	return l.told(s)()
}

// Current is described at Told, and done at Admit.
func (l *Line[T]) Current(
	ctx context.Context, object T, quotas []v1alpha1.DataQuota,
) (view quota.View, done func(error), err error) {
	s, err := l.scope(ctx, object.GetNamespace(), quotas)
	if err != nil {
		return view, func(error) {}, err
	}
	view, end, err := l.turns.Current(s.namespace, l.current(ctx, s))
	if err != nil {
		return view, func(error) { end() }, err
	}
	return view, l.noted(s, object, end), nil
}

// told is what events have told.
func (l *Line[T]) told(s scope) func() (quota.View, error) {
	return func() (quota.View, error) {
		return l.view(s, func(count func(standing)) error {
			l.standings.all(s.namespace, count)
			return nil
		})
	}
}

// current shows every grant. Only where events may not have told of all, the objects are listed from the API server,
// which takes seconds where there are many.
func (l *Line[T]) current(ctx context.Context, s scope) func() (quota.View, error) {
	return func() (quota.View, error) {
		if l.toldOfAll(ctx, s) {
			return l.told(s)()
		}
		return l.view(s, func(count func(standing)) error { return l.listed(ctx, s.namespace, count) })
	}
}

// listed calls count with the standings of a namespace's objects that the API server lists.
func (l *Line[T]) listed(ctx context.Context, namespace string, count func(standing)) error {
	list := l.List()
	if err := l.Reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing %T in %s: %w", list, namespace, err)
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		if object, ok := item.(T); ok {
			count(l.standing(object))
		}
		return nil
	})
}

// view is what is held and waited for in a scope, of the standings that each calls a function with.
func (l *Line[T]) view(s scope, each func(func(standing)) error) (quota.View, error) {
	view := quota.View{Limits: s.limits, Weights: s.weights}
	if !s.limited() {
		return view, nil
	}
	jobs := map[client.ObjectKey]bool{}
	err := each(func(now standing) {
		if now.holds {
			view.Held = append(view.Held, now.held)
		}
		if now.waits {
			view.Waiting = append(view.Waiting, now.request)
		}
		if now.job != "" {
			jobs[client.ObjectKey{Namespace: now.key.Namespace, Name: now.job}] = true
		}
	})
	if l.Pods != nil {
		view.Held = append(view.Held, l.strays(s.namespace, jobs)...)
	}
	return view, err
}

func (l *Line[T]) standing(object T) (now standing) {
	now.key, now.uid = client.ObjectKeyFromObject(object), object.GetUID()
	now.held, now.holds = l.Holds(object)
	now.request, now.waits = l.Waits(object)
	if l.Pods != nil {
		now.job = l.Pods.Job(object)
	}
	if l.Shown != nil {
		now.place, now.waiting = l.Shown(object)
	}
	return now
}

// toldOfAll reports whether events have told of all grants in a scope, and waits a moment for it.
func (l *Line[T]) toldOfAll(ctx context.Context, s scope) bool {
	l.mu.Lock()
	sure := l.sure[s.namespace]
	l.mu.Unlock()
	return sure && wait.PollUntilContextTimeout(ctx, toldPause, toldPatience, true, func(context.Context) (bool, error) {
		return l.standings.current(s.namespace), nil
	}) == nil
}

// noted notes how an object is written to which something was granted, and ends the turn.
func (l *Line[T]) noted(s scope, object T, end func()) func(error) {
	key, before := client.ObjectKeyFromObject(object), object.GetResourceVersion()
	l.standings.expect(key, object.GetUID())
	var once sync.Once
	return func(err error) {
		once.Do(func() {
			version := ""
			if err == nil && object.GetResourceVersion() != before {
				version = object.GetResourceVersion()
			}
			l.standings.wrote(key, version)
			l.note(s, version != "", err)
			end()
		})
	}
}

func (l *Line[T]) note(s scope, written bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err): // nothing was written
	case err != nil:
		delete(l.sure, s.namespace)
	case written:
		if l.sure == nil {
			l.sure = map[string]bool{}
		}
		l.sure[s.namespace] = true
	}
}

// scope is what has to be seen to admit something in a namespace.
type scope struct {
	// namespace; "": all.
	namespace string
	limits    []quota.Limits
	weights   map[string]int64
}

func (s scope) limited() bool { return len(s.limits) > 0 }

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
	return scope{namespace, append(quota.LimitsOf(quotas), shared...), quota.Weights(quotas)}, nil
}
