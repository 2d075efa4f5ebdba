// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// pool bounds connections in one state, in all and for each of the groups that they belong to. It never rejects one: a
// connection that would exceed a bound evicts the one that was used longest ago, of those that are not busy if there
// are any. Where nothing is ever used that is the oldest. An honest connection leaves the state of an unknown one
// within a round trip or two, so the oldest are the least likely to be honest.
type pool struct {
	limit int

	mu     sync.Mutex
	all    *list.List
	groups map[any]*list.List
}

// group is what a bound counts: everything in a pool with the same key.
type group struct {
	key   any
	limit int
}

// pooled is one connection in a pool.
type pooled struct {
	// end is called once, if the connection is evicted, with the pool locked.
	end      func()
	groups   []group
	elements []*list.Element // in all, then in each group
	busy     int
	gone     bool
}

func newPool(limit int) *pool {
	return &pool{limit: limit, all: list.New(), groups: map[any]*list.List{}}
}

// add takes a connection in, and evicts others that are now too many. end must make whoever uses the connection return.
func (p *pool) add(end func(), groups ...group) *pooled {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range groups {
		if members := p.groups[g.key]; members != nil && members.Len() >= g.limit {
			p.evict(members)
		}
	}
	if p.all.Len() >= p.limit {
		p.evict(p.all)
	}
	return p.insert(end, groups)
}

// tryAdd takes a connection in that nobody evicts, if there is place for it without evicting another.
func (p *pool) tryAdd(groups ...group) (*pooled, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all.Len() >= p.limit {
		return nil, false
	}
	for _, g := range groups {
		if members := p.groups[g.key]; members != nil && members.Len() >= g.limit {
			return nil, false
		}
	}
	return p.insert(func() {}, groups), true
}

func (p *pool) insert(end func(), groups []group) *pooled {
	entry := &pooled{end: end, groups: groups, elements: []*list.Element{}}
	entry.elements = append(entry.elements, p.all.PushBack(entry))
	for _, g := range groups {
		members := p.groups[g.key]
		if members == nil {
			members = list.New()
			p.groups[g.key] = members
		}
		entry.elements = append(entry.elements, members.PushBack(entry))
	}
	return entry
}

// done takes a connection out. It reports false if the connection was evicted, or taken out before.
func (p *pool) done(entry *pooled) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if entry.gone {
		return false
	}
	p.remove(entry)
	return true
}

// use marks a connection as busy until the function that it returns is called.
func (p *pool) use(entry *pooled) (release func()) {
	p.change(entry, 1)
	return sync.OnceFunc(func() { p.change(entry, -1) })
}

func (p *pool) change(entry *pooled, busy int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if entry.busy += busy; entry.gone {
		return
	}
	p.all.MoveToBack(entry.elements[0])
	for i, g := range entry.groups {
		p.groups[g.key].MoveToBack(entry.elements[i+1])
	}
}

func (p *pool) evict(members *list.List) {
	chosen := members.Front()
	for element := chosen; element != nil; element = element.Next() {
		if element.Value.(*pooled).busy == 0 {
			chosen = element
			break
		}
	}
	entry := chosen.Value.(*pooled)
	p.remove(entry)
	entry.end()
}

func (p *pool) remove(entry *pooled) {
	entry.gone = true
	p.all.Remove(entry.elements[0])
	for i, g := range entry.groups {
		members := p.groups[g.key]
		if members.Remove(entry.elements[i+1]); members.Len() == 0 {
			delete(p.groups, g.key)
		}
	}
}

// sourceOf groups addresses by who can plausibly use several of them.
func sourceOf(address net.Addr) netip.Prefix {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	prefix, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}
