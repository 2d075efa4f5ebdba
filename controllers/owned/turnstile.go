// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package owned

import (
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// rollShare of the objects of a kind, and at least rollLeast, roll out at a time what nobody changed their specs
	// for.
	rollShare = 8
	rollLeast = 3
	// rollPatience is how long one keeps its place: a tenant whose pods do not become ready must not keep all others
	// waiting.
	rollPatience = 10 * time.Minute

	// generationAnnotation has the generation of the owner for which an object was last written.
	generationAnnotation = "lighterage.dev/owner-generation"
)

// Turnstile paces rollouts of many objects of one kind that one cause has at the same moment, such as another image of
// the agents. It lives in memory. The zero value is ready for use, also concurrent.
type Turnstile struct {
	mu    sync.Mutex
	known map[types.UID]bool
	// rolling is since when.
	rolling map[types.UID]time.Time
}

// Enter reports whether an object may roll out now. It keeps its place until Leave.
func (t *Turnstile) Enter(object types.UID, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.see(object)
	for other, since := range t.rolling {
		if now.Sub(since) >= rollPatience {
			delete(t.rolling, other)
		}
	}
	if _, in := t.rolling[object]; !in && len(t.rolling) >= max(rollLeast, len(t.known)/rollShare) {
		return false
	}
	if t.rolling[object].IsZero() {
		t.rolling[object] = now
	}
	return true
}

// May reports whether what owner has, present, may become what is wanted now. What nobody changed the owner's spec for,
// such as another image, is paced across owners. atOnce is for what is not: the spec has changed, or nothing serves
// that could become worse. rolledOut: present is all there, and no other is being replaced.
func (t *Turnstile) May(
	owner types.UID, wanted, present client.Object, atOnce, rolledOut bool, now time.Time,
) (bool, error) {
	differs, err := Differs(wanted, present)
	switch {
	case err != nil:
		return false, err
	case differs:
		return atOnce || t.Enter(owner, now), nil
	case rolledOut:
		t.Leave(owner)
	}
	return true, nil
}

// Leave says that an object is there and has nothing to roll out any more.
func (t *Turnstile) Leave(object types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.see(object)
	delete(t.rolling, object)
}

func (t *Turnstile) see(object types.UID) {
	if t.known == nil {
		t.known, t.rolling = map[types.UID]bool{}, map[types.UID]time.Time{}
	}
	t.known[object] = true
}

// Forget says that an object is gone.
func (t *Turnstile) Forget(object types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, object)
	delete(t.rolling, object)
}

// GenerationOf is an annotation with the generation of an owner.
func GenerationOf(owner client.Object) map[string]string {
	return map[string]string{generationAnnotation: strconv.FormatInt(owner.GetGeneration(), 10)}
}

// SpecChanged reports whether the owner's spec has changed since an object was written with GenerationOf.
func SpecChanged(owner, bearer client.Object) bool {
	written := bearer.GetAnnotations()[generationAnnotation]
	return written != "" && written != strconv.FormatInt(owner.GetGeneration(), 10)
}

// Differs reports whether an object is to become another than it was last written as. What somebody else changed in it
// does not count.
func Differs(wanted, present client.Object) (bool, error) {
	mark, err := digest(wanted)
	return err == nil && present.GetAnnotations()[digestAnnotation] != mark, err
}
