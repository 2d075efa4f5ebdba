// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package line

import (
	"cmp"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/quota"
)

// standing is what an object holds and what it waits for.
type standing struct {
	key          client.ObjectKey
	uid          types.UID
	holds, waits bool
	held         quota.Held
	request      quota.Request
	// place and waiting are what the object shows of its place.
	place, waiting int32
	// job has the pods that belong to what the object holds; empty: none has.
	job string
}

// counts reports whether others are to know of it.
func (s standing) counts() bool { return s.holds || s.waits || s.job != "" }

// freed reports whether it leaves something to another object that waits: it gives back some of what it held before, or
// waits no more and holds nothing.
func (s standing) freed(before standing) bool {
	return before.holds && (!s.holds || less(s.held.Amounts, before.held.Amounts)) ||
		before.waits && !s.waits && !s.holds
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

// standings are those of all objects of a kind that count, by namespace, as events of the manager's cache tell. To list
// the objects for each question costs a copy of each, which is most of what admission would cost a manager with
// thousands. The zero value is ready for use, by several goroutines.
type standings struct {
	mu         sync.RWMutex
	namespaces map[string]map[string]standing // by name
	// grants are objects that are being written, or were, and of which no event has told yet.
	grants map[client.ObjectKey]*grant
}

// grant is the write of an object by which something was granted.
type grant struct {
	uid types.UID
	// writing is true while nobody knows what comes of it.
	writing bool
	// told is the newest version that an event told of since, wanted the last one that was written; empty: none.
	told, wanted string
}

// set notes an object that an event tells of, and returns what was known before of the one with its name. That may have
// been another: where a watch was lost, one event tells that an object is gone and that another has its name.
func (s *standings) set(version string, now standing) (before standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.namespaces[now.key.Namespace]
	before = own[now.key.Name]
	switch {
	case !now.counts():
		s.drop(now.key)
	case own == nil:
		if s.namespaces == nil {
			s.namespaces = map[string]map[string]standing{}
		}
		s.namespaces[now.key.Namespace] = map[string]standing{now.key.Name: now}
	default:
		own[now.key.Name] = now
	}
	if g := s.grants[now.key]; g != nil {
		g.told = version
		s.settle(now.key, g)
	}
	return before
}

// remove notes that an object is gone, and returns what was known of it.
func (s *standings) remove(uid types.UID, key client.ObjectKey) (before standing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.grants[key]; g != nil && g.uid == uid {
		delete(s.grants, key)
	}
	if before = s.namespaces[key.Namespace][key.Name]; before.uid != uid {
		return standing{}
	}
	s.drop(key)
	return before
}

func (s *standings) drop(key client.ObjectKey) {
	own := s.namespaces[key.Namespace]
	if delete(own, key.Name); len(own) == 0 {
		delete(s.namespaces, key.Namespace)
	}
}

// expect is called before an object is written by which something is granted. Wrote is called afterwards.
func (s *standings) expect(key client.ObjectKey, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grants == nil {
		s.grants = map[client.ObjectKey]*grant{}
	}
	if s.grants[key] == nil {
		s.grants[key] = &grant{}
	}
	s.grants[key].writing, s.grants[key].uid = true, uid
}

// wrote says as which version the object was written; empty: it was not.
func (s *standings) wrote(key client.ObjectKey, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.grants[key]
	if g == nil {
		return // The object is gone.
	}
	g.writing, g.wanted = false, cmp.Or(version, g.wanted)
	s.settle(key, g)
}

// settle forgets a grant that an event has told of.
func (s *standings) settle(key client.ObjectKey, g *grant) {
	if g.writing {
		return
	}
	if g.wanted != "" {
		order, err := resourceversion.CompareResourceVersion(g.told, g.wanted)
		if err != nil || order < 0 {
			return
		}
	}
	delete(s.grants, key)
}

// current reports whether events have told of all that was granted in a namespace; "": in all.
func (s *standings) current(namespace string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for key, g := range s.grants {
		if g.wanted != "" && (namespace == "" || key.Namespace == namespace) {
			return false
		}
	}
	return true
}

// all calls f with each standing of a namespace; "": of all. F must not keep what it changes of a standing.
func (s *standings) all(namespace string, f func(standing)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	each := func(own map[string]standing) {
		for now := range maps.Values(own) {
			f(now)
		}
	}
	if namespace != "" {
		each(s.namespaces[namespace])
		return
	}
	for own := range maps.Values(s.namespaces) {
		each(own)
	}
}
