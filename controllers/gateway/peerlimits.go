// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"sync"

	"golang.org/x/time/rate"
)

// peerLimits keep one peer from taking what the others need. There are as many entries as Peers ever vouched for a caller.
type peerLimits struct {
	perSecond rate.Limit
	burst     int
	opens     int
	// strangers bounds what callers without a Peer cost, and what is logged of them, all together.
	strangers *rate.Limiter

	mu    sync.Mutex
	peers map[string]*peerLimit
}

type peerLimit struct {
	requests *rate.Limiter
	opens    int
}

func newPeerLimits(o Options) *peerLimits {
	perSecond := rate.Limit(o.RequestsPerSecond)
	return &peerLimits{
		perSecond: perSecond, burst: o.RequestBurst, opens: o.OpensPerPeer,
		strangers: rate.NewLimiter(perSecond, o.RequestBurst), peers: map[string]*peerLimit{},
	}
}

func (l *peerLimits) of(peer string) *peerLimit {
	limit := l.peers[peer]
	if limit == nil {
		limit = &peerLimit{requests: rate.NewLimiter(l.perSecond, l.burst)}
		l.peers[peer] = limit
	}
	return limit
}

// stranger reports whether one more request of somebody without a Peer is looked at.
func (l *peerLimits) stranger() bool {
	return l.strangers.Allow()
}

// request reports whether the peer may make a request now.
func (l *peerLimits) request(peer string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of(peer).requests.Allow()
}

// open reports whether the peer may have one more run waiting; close must follow then.
func (l *peerLimits) open(peer string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := l.of(peer)
	if limit.opens >= l.opens {
		return false
	}
	limit.opens++
	return true
}

func (l *peerLimits) close(peer string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(peer).opens--
}
