// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package quota

import "sync"

// Turns admits in a namespace one after the other, so that two that look at the same moment are not both granted what
// is left for one. The zero value is ready for use.
type Turns struct {
	mu         sync.Mutex
	namespaces map[string]*turn
}

type turn struct {
	sync.Mutex
	users int
}

// Admit answers a request. A refusal may rest on what cached shows, which may be old: whatever frees something is seen
// later, and wakes those that wait. A grant rests on what current shows, which must have all earlier grants. After a
// grant nobody else is admitted in the namespace until done is called, which is to be done when the grant is written
// where current shows it, or is given up. Done may be called several times, and is never nil.
func (t *Turns) Admit(
	namespace string, request Request, cached, current func() (View, error),
) (answer Answer, done func(), err error) {
	nothing := func() {}
	view, err := cached()
	if err != nil {
		return Answer{}, nothing, err
	}
	if answer = Decide(view, request); answer.Exceeded != nil {
		return answer, nothing, nil
	}
	done = t.take(namespace)
	if view, err = current(); err != nil {
		done()
		return Answer{}, nothing, err
	}
	if answer = Decide(view, request); answer.Exceeded != nil {
		done()
		return answer, nothing, nil
	}
	return answer, done, nil
}

// Current returns what current shows, with nobody else being admitted in the namespace until done is called.
func (t *Turns) Current(namespace string, current func() (View, error)) (view View, done func(), err error) {
	done = t.take(namespace)
	view, err = current()
	if err != nil {
		done()
	}
	return view, done, err
}

// take waits for the turn in a namespace, and returns what ends it.
func (t *Turns) take(namespace string) func() {
	t.mu.Lock()
	if t.namespaces == nil {
		t.namespaces = map[string]*turn{}
	}
	own := t.namespaces[namespace]
	if own == nil {
		own = &turn{}
		t.namespaces[namespace] = own
	}
	own.users++
	t.mu.Unlock()

	own.Lock()
	return sync.OnceFunc(func() {
		own.Unlock()
		t.mu.Lock()
		defer t.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(t.namespaces, namespace)
		}
	})
}
