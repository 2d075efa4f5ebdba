// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/agent/wire/tunnel"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/gateway/passthrough"
	"github.com/lighterage/lighterage/controllers/gateway/reverse"
	"github.com/lighterage/lighterage/controllers/pki"
)

const (
	// tunnelKeyPrefix is that of the keys of connections to peers.
	tunnelKeyPrefix = "tunnel/"
	// siblingsPause is the wait before other replicas are asked again.
	siblingsPause = 300 * time.Millisecond
	// controlGrace is how long they are asked when no replica has a control connection.
	controlGrace = 4 * time.Second
	// connectTime bounds what it takes to make a connection for a pod, which gives up after tunnel.Timeout.
	connectTime = 10 * time.Second
	// maxCredentials bounds user and password for a proxy, in bytes.
	maxCredentials = 1 << 10
)

// Outbound are options for connections to peers that agents do not dial themselves.
type Outbound struct {
	// Own is where other replicas reach this one's port for other clusters; the zero value: there are no others.
	Own netip.AddrPort
	// Replicas looks up the addresses of all replicas; nil: there are no others.
	Replicas func(context.Context) ([]netip.Addr, error)
	// Port at which replicas take requests for tunnels.
	Port uint16
	// Credentials is a directory with the users and passwords of proxies, read with each connection.
	Credentials string
	// Limits of tunnels.
	Limits reverse.Limits
}

// outbound makes connections to peers.
type outbound struct {
	options  Options
	front    *passthrough.Server
	registry *reverse.Registry
	server   *reverse.Server
	siblings reverse.Siblings
	// own CAs, by which pods authenticate.
	own     ownRoots
	metrics *outboundMetrics

	mu sync.Mutex
	// dialled are the Peers with connection: Dial, by name.
	dialled map[string]*dialled
	// running ends when the gateway is stopped; nil before it serves.
	running context.Context //nolint:containedctx // of Serve, for Peers that come later
	all     sync.WaitGroup
}

// dialled is a peer to which control connections are kept.
type dialled struct {
	// spec that it was made for.
	spec    v1alpha1.PeerSpec
	dialler *reverse.Dialler
	stop    context.CancelFunc
}

func newOutbound(o Options, front *passthrough.Server, registry *reverse.Registry) (*outbound, error) {
	b := &outbound{
		options: o, front: front, registry: registry, dialled: map[string]*dialled{},
		siblings: reverse.Siblings{Lookup: o.Outbound.Replicas, Own: o.Outbound.Own.Addr(), Port: o.Outbound.Port},
		own:      ownRoots{issuer: o.Issuer},
	}
	if o.Issuer != nil { // a gateway whose metrics are listed has none
		// The CA of now is the former one when it is rotated. Without it there is nothing to remember.
		_, _ = b.own.at(o.Clock.Now())
	}
	var err error
	if b.metrics, err = newOutboundMetrics(o.Registerer, b); err != nil {
		return nil, err
	}
	b.server = reverse.NewServer(reverse.ServerOptions{
		Authenticate: b.authenticate, Connect: b.connect, State: b.state, Count: b.metrics.count, Limits: o.Outbound.Limits,
		Manager: tenantOf(pki.Identity{Path: pki.ManagerPath}),
		Join: func(peer string, remote, local *net.TCPConn, first []byte) error {
			return front.Join(passthrough.Target{Key: tunnelKeyPrefix + peer}, remote, local, first, func() bool {
				var still v1alpha1.Peer
				return o.Client.Get(context.Background(), client.ObjectKey{Name: peer}, &still) == nil && tunnelled(&still.Spec)
			})
		},
		Log: o.Log,
	})
	return b, nil
}

// authenticate returns the namespace, or the path, of who is of this cluster and asks for a target.
func (b *outbound) authenticate(proof, target string) (owner string, err error) {
	now := b.options.Clock.Now()
	presented, err := tunnel.Verify(proof, target, now)
	if err != nil {
		return "", err
	}
	roots, err := b.own.at(now)
	if err != nil {
		return "", err
	}
	_, identity, err := pki.VerifyAgainst(roots, presented, now)
	if err != nil {
		return "", err
	}
	return tenantOf(identity), nil
}

// connect makes a connection to the gateway of a Peer that pods do not dial themselves.
func (b *outbound) connect(ctx context.Context, asked reverse.Asked) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	var peer v1alpha1.Peer
	err := b.options.Client.Get(ctx, client.ObjectKey{Name: asked.Peer}, &peer)
	if apierrors.IsNotFound(err) {
		return nil, &tunnel.Error{Reason: tunnel.NotAllowed}
	}
	if err != nil {
		return nil, fmt.Errorf("looking up Peer %q: %w", asked.Peer, err)
	}
	// The others are no way around the NetworkPolicies of agents.
	if !tunnelled(&peer.Spec) {
		return nil, &tunnel.Error{Reason: tunnel.NotAllowed}
	}
	if peer.Spec.Connection == v1alpha1.PeerListen {
		return b.reversed(ctx, asked)
	}
	conn, err := b.dial(&peer.Spec)(ctx, "tcp", peer.Spec.Endpoint)
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		_ = conn.Close()
		return nil, fmt.Errorf("the connection to Peer %q is %T, not TCP", asked.Peer, conn)
	}
	return tcp, nil
}

// tunnelled reports whether pods reach a Peer through this gateway.
func tunnelled(spec *v1alpha1.PeerSpec) bool {
	return spec.Connection == v1alpha1.PeerListen || spec.Proxy != nil && spec.Endpoint != ""
}

// reversed has the peer make a connection: over a control connection of this replica, or of another.
func (b *outbound) reversed(ctx context.Context, asked reverse.Asked) (*net.TCPConn, error) {
	single := b.siblings.Lookup == nil
	until := time.Now().Add(controlGrace)
	for {
		conn, err := b.registry.Connect(ctx, asked, single && !asked.Passed)
		if reason, _ := tunnel.ReasonOf(err); reason != tunnel.NotConnected || single || asked.Passed {
			return conn, err
		}
		conn, err = b.siblings.Connect(ctx, asked, until)
		if reason, _ := tunnel.ReasonOf(err); reason != tunnel.NotConnected || time.Now().After(until) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(siblingsPause):
		}
	}
}

// dial is how connections to a Peer's endpoint are made.
func (b *outbound) dial(spec *v1alpha1.PeerSpec) tunnel.Dial {
	if spec.Proxy == nil {
		return reverse.Directly
	}
	address := strings.TrimSuffix(strings.TrimPrefix(spec.Proxy.URL, "http://"), "/")
	return reverse.ThroughProxy(address, func() (string, error) {
		if spec.Proxy.CredentialsKey == "" {
			return "", nil
		}
		return readCredentials(b.options.Outbound.Credentials, spec.Proxy.CredentialsKey, address)
	})
}

// readCredentials reads user and password for the proxy at an address, which the Secret must name: who may write Peers
// may not read them. The key is a label of DNS, by the API.
func readCredentials(directory, key, proxy string) (string, error) {
	content, err := os.ReadFile(filepath.Join(directory, filepath.Base(key)))
	if err != nil {
		return "", fmt.Errorf("reading the credentials of a proxy: %w", err)
	}
	given := strings.TrimSpace(string(content))
	at := strings.LastIndexByte(given, '@') // a password may have others
	if len(given) > maxCredentials || at < 0 || !strings.Contains(given[:at], ":") {
		return "", errors.New("reading the credentials of a proxy: they are not user:password@host:port, of at most " +
			"1 KiB, with the host and port of the proxy")
	}
	if !strings.EqualFold(given[at+1:], proxy) {
		return "", fmt.Errorf("reading the credentials of a proxy: key %s is not for %s; it must end with @ and the host "+
			"and port of the proxy that may have them", key, proxy)
	}
	return given[:at], nil
}

// state of the control connections of this replica with a peer.
func (b *outbound) state(peer string) reverse.State {
	b.mu.Lock()
	one := b.dialled[peer]
	b.mu.Unlock()
	if one != nil {
		return one.dialler.State()
	}
	n, since := b.registry.Connections(peer)
	return reverse.State{Connections: n, Since: since}
}

// run keeps control connections to the Peers that are to be dialled, until the context ends.
func (b *outbound) run(ctx context.Context) {
	b.mu.Lock()
	b.running = ctx
	b.mu.Unlock()
	b.follow() //nolint:contextcheck // a lookup in the cache; what it starts has b.running
	<-ctx.Done()
	b.mu.Lock()
	b.running = nil
	b.mu.Unlock()
	b.all.Wait()
}

// follow begins and ends control connections as the Peers say.
func (b *outbound) follow() {
	// Held before the Peers are listed, so that an older list does not come after a newer one.
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running == nil {
		return
	}
	var peers v1alpha1.PeerList
	if err := b.options.Client.List(context.Background(), &peers); err != nil {
		b.options.Log.Error(err, "Peers cannot be listed")
		return
	}
	wanted := map[string]bool{}
	for i := range peers.Items {
		peer := &peers.Items[i]
		if peer.Spec.Connection == v1alpha1.PeerDial && peer.DeletionTimestamp.IsZero() {
			wanted[peer.Name] = true
			b.keep(peer)
		}
	}
	for name, one := range b.dialled {
		if !wanted[name] {
			one.stop()
			delete(b.dialled, name)
		}
	}
}

// keep is called with the lock held.
func (b *outbound) keep(peer *v1alpha1.Peer) {
	before := b.dialled[peer.Name]
	if before != nil && sameWay(before.spec, peer.Spec) {
		return
	}
	if before != nil {
		before.stop()
	}
	ctx, stop := context.WithCancel(b.running)
	name := peer.Name
	one := &dialled{spec: *peer.Spec.DeepCopy(), stop: stop}
	one.dialler = reverse.NewDialler(reverse.DiallerOptions{
		Gateway: agentclient.Gateway{
			Endpoint: one.spec.Endpoint, CABundle: one.spec.CABundle, Dial: b.dial(&one.spec),
		},
		Certificate: b.options.Certificate, Accept: b.front.Accept,
		Count: func(result string) { b.metrics.dialled.WithLabelValues(name, result).Inc() }, Log: b.options.Log,
	})
	b.dialled[name] = one
	b.all.Go(func() { one.dialler.Run(ctx) })
}

// sameWay reports whether control connections made for one spec are as good for another.
func sameWay(a, b v1alpha1.PeerSpec) bool {
	return a.Endpoint == b.Endpoint && bytes.Equal(a.CABundle, b.CABundle) && (a.Proxy == nil) == (b.Proxy == nil) &&
		(a.Proxy == nil || *a.Proxy == *b.Proxy)
}
