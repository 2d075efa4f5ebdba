// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"strings"
	"sync"

	"golang.org/x/time/rate"

	"github.com/lighterage/lighterage/controllers/pki"
)

// maxTenants is how many namespaces of one peer are remembered. Those that are idle are forgotten when there are more.
const maxTenants = 1024

// peerLimits keep one peer from taking what the others need, and one namespace of a peer from taking what its others
// need. There are as many entries as Peers ever vouched for a caller.
type peerLimits struct {
	peer, tenant limits
	// strangers bounds what callers without a Peer cost, and what is logged of them, all together.
	strangers *rate.Limiter

	mu    sync.Mutex
	peers map[string]*peerUse
}

// limits of a peer, or of a namespace in it.
type limits struct {
	perSecond rate.Limit
	burst     int
	opens     int
}

// use is what counts towards limits.
type use struct {
	requests *rate.Limiter
	opens    int
}

// peerUse is that of a peer and of its tenants: its namespaces and its manager. What the manager does counts towards
// its own limits only, so that the namespaces together cannot take them either.
type peerUse struct {
	use
	tenants map[string]*use
}

func newPeerLimits(o Options) *peerLimits {
	peer := limits{perSecond: rate.Limit(o.RequestsPerSecond), burst: o.RequestBurst, opens: o.OpensPerPeer}
	return &peerLimits{
		peer: peer,
		// One tenant leaves half to the others.
		tenant:    limits{perSecond: peer.perSecond / 2, burst: max(1, peer.burst/2), opens: max(1, peer.opens/2)},
		strangers: rate.NewLimiter(peer.perSecond, peer.burst), peers: map[string]*peerUse{},
	}
}

func (l limits) use() use {
	return use{requests: rate.NewLimiter(l.perSecond, l.burst)}
}

// tenantOf names who shares limits with the holder of an identity: all of its namespace, or whoever else has its path.
func tenantOf(identity pki.Identity) string {
	rest, ok := strings.CutPrefix(identity.Path, "/ns/")
	if !ok {
		return identity.Path
	}
	namespace, _, _ := strings.Cut(rest, "/")
	return namespace
}

// of returns what counts towards the limits of a peer and of a tenant. The tenant's is nil where the peer has too many
// that are not idle.
func (l *peerLimits) of(peer, tenant string) (*peerUse, *use) {
	all := l.peers[peer]
	if all == nil {
		all = &peerUse{use: l.peer.use(), tenants: map[string]*use{}}
		l.peers[peer] = all
	}
	own := all.tenants[tenant]
	if own == nil {
		if len(all.tenants) >= maxTenants {
			all.forget(l.tenant.burst)
		}
		if len(all.tenants) >= maxTenants {
			return all, nil
		}
		made := l.tenant.use()
		own = &made
		all.tenants[tenant] = own
	}
	return all, own
}

// forget drops tenants of which nothing has to be remembered.
func (p *peerUse) forget(burst int) {
	for tenant, own := range p.tenants {
		if own.opens == 0 && own.requests.Tokens() >= float64(burst) {
			delete(p.tenants, tenant)
		}
	}
}

// stranger reports whether one more request of somebody without a Peer is looked at.
func (l *peerLimits) stranger() bool {
	return l.strangers.Allow()
}

// request returns an error if the tenant of a peer may not make a request now.
func (l *peerLimits) request(peer, tenant string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, own := l.of(peer, tenant)
	switch {
	case own == nil, !own.requests.Allow():
		return unavailable("%s of peer %s makes more requests than this gateway allows; trying again later helps",
			describe(tenant), peer)
	case tenant != pki.ManagerPath && !all.requests.Allow():
		return unavailable("peer %s makes more requests than this gateway allows; trying again later helps", peer)
	}
	return nil
}

// open returns an error if the tenant of a peer may not have one more run waiting. Without one, done must be called
// once.
func (l *peerLimits) open(peer, tenant string) (done func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, own := l.of(peer, tenant)
	switch {
	case own == nil, own.opens >= l.tenant.opens:
		return nil, unavailable("%s of peer %s has as many runs waiting as this gateway allows; trying again later helps",
			describe(tenant), peer)
	case all.opens >= l.peer.opens:
		return nil, unavailable("peer %s has as many runs waiting as this gateway allows; trying again later helps", peer)
	}
	all.opens++
	own.opens++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		all.opens--
		own.opens--
	}, nil
}

func describe(tenant string) string {
	if strings.HasPrefix(tenant, "/") {
		return "identity " + tenant
	}
	return "namespace " + tenant
}
