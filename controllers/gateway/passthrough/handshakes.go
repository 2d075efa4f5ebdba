// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"container/list"
	"net"
	"net/netip"
	"sync"
)

// handshakes are the connections that have not finished their ClientHello, oldest first. An honest client needs a round trip for
// it, so when there are too many the oldest are the ones least likely to be honest, and those are closed.
type handshakes struct {
	limit, limitPerSource int

	mu       sync.Mutex
	all      *list.List
	bySource map[netip.Prefix]*list.List
}

// handshake is one of them.
type handshake struct {
	conn    net.Conn
	source  netip.Prefix
	inAll   *list.Element
	inOwn   *list.Element
	evicted bool
}

func newHandshakes(limit, limitPerSource int) *handshakes {
	return &handshakes{
		limit:          limit,
		limitPerSource: limitPerSource,
		all:            list.New(),
		bySource:       map[netip.Prefix]*list.List{},
	}
}

// add takes a connection in, and closes one if there are now too many.
func (h *handshakes) add(conn net.Conn) *handshake {
	h.mu.Lock()
	defer h.mu.Unlock()
	entry := &handshake{conn: conn, source: sourceOf(conn.RemoteAddr())}
	if own := h.bySource[entry.source]; own != nil && own.Len() >= h.limitPerSource {
		h.evict(own.Front())
	}
	if h.all.Len() >= h.limit {
		h.evict(h.all.Front())
	}
	own := h.bySource[entry.source]
	if own == nil {
		own = list.New()
		h.bySource[entry.source] = own
	}
	entry.inAll, entry.inOwn = h.all.PushBack(entry), own.PushBack(entry)
	return entry
}

// done takes a connection out. It reports false if the connection was closed to make room.
func (h *handshakes) done(entry *handshake) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if entry.evicted {
		return false
	}
	h.remove(entry)
	return true
}

func (h *handshakes) evict(element *list.Element) {
	entry := element.Value.(*handshake)
	entry.evicted = true
	h.remove(entry)
	// Whoever reads from it gets an error and cleans up.
	_ = entry.conn.Close()
}

func (h *handshakes) remove(entry *handshake) {
	h.all.Remove(entry.inAll)
	own := h.bySource[entry.source]
	own.Remove(entry.inOwn)
	if own.Len() == 0 {
		delete(h.bySource, entry.source)
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
