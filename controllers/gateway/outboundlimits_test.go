// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/lighterage/lighterage/agent/wire/tunnel"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/pki"
)

// askFor asks a gateway for a tunnel, as the manager of west.
func askFor(t *testing.T, w *west, tunnels, target string) error {
	t.Helper()
	return askForAt(t, w, tunnels, target, time.Now())
}

func askForAt(t *testing.T, w *west, tunnels, target string, now time.Time) error {
	t.Helper()
	certificate := issue(t, w.ca, manager("west"), now)
	proof, err := tunnel.Proof(&certificate, target, now)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", tunnels)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return tunnel.Ask(t.Context(), conn, tunnel.Request{Target: target, Authorization: proof})
}

// The gateway dials no Peer that pods dial themselves.
func TestNoWayAroundNetworkPolicies(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	direct := peerOf("direct", newCA(t, "direct"))
	direct.Spec.Endpoint = listener.Addr().String()
	dialled := peerOf("dialled", newCA(t, "dialled"))
	dialled.Spec.Endpoint, dialled.Spec.Connection = listener.Addr().String(), v1alpha1.PeerDial
	w := newWest(t, unlimited, direct, dialled)
	tunnels := serveTunnels(t, w.gateway)
	for _, peer := range []string{"direct", "dialled"} {
		if reason, _ := tunnel.ReasonOf(askFor(t, w, tunnels, tunnel.Target(peer))); reason != tunnel.NotAllowed {
			t.Errorf("%s: %q", peer, reason)
		}
	}
}

// changing has a gateway see a change of a Peer right after it has first read it, when nothing is there to be ended.
func changing(t *testing.T, name string, change func(client.Client)) func(*gateway.Options) {
	t.Helper()
	return func(o *gateway.Options) {
		unlimited(o)
		api := o.Client.(client.WithWatch)
		var once sync.Once
		o.Client = interceptor.NewClient(api, interceptor.Funcs{Get: func(
			ctx context.Context, reader client.WithWatch, key client.ObjectKey, into client.Object,
			options ...client.GetOption,
		) error {
			err := reader.Get(ctx, key, into, options...)
			if _, ok := into.(*v1alpha1.Peer); ok && key.Name == name {
				once.Do(func() { change(api) })
			}
			return err
		}})
	}
}

func TestPeerChangesAsAControlConnectionIsMade(t *testing.T) {
	ca := newCA(t, "east")
	listened := listeningTo("east", ca)
	// The gateway itself reads the Peer only when it is called.
	w := newWest(t, changing(t, "east", func(api client.Client) {
		both := listened.DeepCopy()
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(both), both); err != nil {
			t.Error(err)
		}
		both.Spec.Connection = v1alpha1.PeerBoth
		if err := api.Update(t.Context(), both); err != nil {
			t.Error(err)
		}
	}), listened)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := w.control(ctx, issue(t, ca, pki.Identity{Cluster: "east", Path: pki.GatewayPath}, time.Now(),
		pki.GatewayServerName), func(string) { t.Error("the control connection was accepted") })
	if err == nil || !strings.Contains(err.Error(), "connection: Listen") {
		t.Error(err)
	}
}

// A control connection that is not allowed any more is closed, also for a client that would not go.
func TestControlConnectionIsClosed(t *testing.T) {
	ca := newCA(t, "east")
	w := newWest(t, unlimited, listeningTo("east", ca))
	cut, between := newCutter(t, w.address, 0)
	w.Cluster.Address = between
	accepted := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- w.control(t.Context(), issue(t, ca, pki.Identity{Cluster: "east", Path: pki.GatewayPath}, time.Now(),
			pki.GatewayServerName), func(name string) { accepted <- name })
	}()
	<-accepted
	if err := w.api.Delete(t.Context(), &v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: "east"}}); err != nil {
		t.Fatal(err)
	}
	w.gateway.PeersChanged()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "not allow the control connection any more") {
		t.Error(err)
	}
	for deadline := time.Now().Add(patience); cut.passing.Load() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the connection is still open")
		}
	}
}

func TestPeerGoesAsATunnelIsMade(t *testing.T) {
	var made atomic.Int32
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	behind := peerOf("east", newCA(t, "east"))
	behind.Spec.Endpoint = listener.Addr().String()
	behind.Spec.Proxy = &v1alpha1.PeerProxy{URL: "http://" + connectProxy(t, "", &made)}
	w := newWest(t, changing(t, "east", func(api client.Client) {
		if err := api.Delete(t.Context(), behind.DeepCopy()); err != nil {
			t.Error(err)
		}
	}), behind)
	tunnels := serveTunnels(t, w.gateway)
	certificate := issue(t, w.ca, manager("west"), time.Now())
	conn, err := tunnel.Through(new(net.Dialer).DialContext, tunnel.Target("east"), func() (*tls.Certificate, error) {
		return &certificate, nil
	})(t.Context(), "tcp", tunnels)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the tunnel outlived its Peer: %v", err)
	}
	if made.Load() != 1 {
		t.Errorf("%d connections were made", made.Load())
	}
}

// When the CA is rotated, running attempts keep their tunnels until they have other certificates.
func TestTunnelsWithTheFormerCA(t *testing.T) {
	var issuing atomic.Pointer[pki.CA]
	clock := testclock.NewFakeClock(time.Now())
	w := newWest(t, func(o *gateway.Options) {
		unlimited(o)
		own, err := o.Issuer()
		if err != nil {
			t.Error(err)
		}
		o.Clock = clock
		o.Issuer = func() (*x509.Certificate, error) {
			if ca := issuing.Load(); ca != nil {
				return ca.Certificate, nil
			}
			return own, nil
		}
	}, peerOf("direct", newCA(t, "direct")))
	tunnels := serveTunnels(t, w.gateway)
	former, next := w.ca, newCA(t, "west")
	issuing.Store(next)
	// Peer direct is refused, and not who asks.
	const authenticated, stranger = http.StatusBadGateway, http.StatusForbidden
	expect := func(ca *pki.CA, want int) {
		t.Helper()
		w.ca = ca
		var refused *tunnel.Error
		if err := askForAt(t, w, tunnels, tunnel.Target("direct"), clock.Now()); !errors.As(err, &refused) ||
			refused.Status != want {
			t.Errorf("%v in place of status %d", err, want)
		}
	}
	expect(next, authenticated)
	expect(former, authenticated)
	expect(newCA(t, "west"), stranger)
	clock.Step(4 * time.Hour)
	expect(next, authenticated)
	expect(former, stranger)
}

// Names that pods make up neither end the gateway nor stay in its metrics.
func TestMadeUpPeers(t *testing.T) {
	w := newWest(t, unlimited, listeningTo("east", newCA(t, "east")))
	tunnels := serveTunnels(t, w.gateway)
	for peer, want := range map[string]tunnel.Reason{
		"\xff": tunnel.ProxyRefused, "Nobody": tunnel.ProxyRefused, "nobody": tunnel.NotAllowed,
	} {
		if reason, _ := tunnel.ReasonOf(askFor(t, w, tunnels, tunnel.Target(peer))); reason != want {
			t.Errorf("%q: %q", peer, reason)
		}
	}
	families, err := w.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var counted []string
	for _, family := range families {
		if family.GetName() != "lighterage_gateway_tunnels_total" {
			continue
		}
		for _, one := range family.GetMetric() {
			for _, label := range one.GetLabel() {
				counted = append(counted, label.GetName()+"="+label.GetValue())
			}
		}
	}
	if want := []string{"peer=", "result=NotAllowed"}; !slices.Equal(counted, want) {
		t.Errorf("counted %q", counted)
	}
}
