// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"crypto/tls"
	"io"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
)

// running is a run whose agent is ready and connected.
type running struct {
	*west
	grant *v1alpha1.PeerGrant
	peer  *v1alpha1.Peer
	name  string
	conn  *tls.Conn
}

func newRunning(t *testing.T, change func(*v1alpha1.PeerGrant)) *running {
	t.Helper()
	east := newCA(t, "east")
	r := &running{grant: grantOf("vault", "east", "bank", "ledger-copy"), peer: peerOf("east", east)}
	change(r.grant)
	r.west = newWest(t, nil, r.peer, r.grant)
	request := ledger("7f3ca", 1)
	request.Destination.Path, request.Mirror = "/in/sub", true
	s := open(t, r.dial(issueFor(t, east, sender("east"), time.Now(), func(c *pki.RunClaims) {
		c.Path = "/in/sub"
	})), request)
	s.pending()
	address := r.receiver(func() string { return r.name })
	r.name = r.ready(ledgerKey("7f3ca", 1), address)
	var err error
	if r.conn, err = r.connect(r.name); err != nil {
		t.Fatal(err)
	}
	r.echo()
	return r
}

func (r *running) echo() {
	r.t.Helper()
	if _, err := r.conn.Write([]byte("data")); err != nil {
		r.t.Fatal(err)
	}
	if _, err := io.ReadFull(r.conn, make([]byte, 4)); err != nil {
		r.t.Fatalf("nothing comes back: %v", err)
	}
}

// ended waits until the connection has ended, and sees that none replaces it.
func (r *running) ended() {
	r.t.Helper()
	if _, err := r.conn.Read(make([]byte, 1)); err == nil {
		r.t.Error("something came that was not asked for")
	} else if timeout, ok := err.(interface{ Timeout() bool }); ok && timeout.Timeout() {
		r.t.Error("the connection goes on")
	}
	if _, err := r.connect(r.name); err == nil {
		r.t.Error("a new connection of the running Delivery is passed through")
	}
}

func (r *running) update(change func(*v1alpha1.PeerGrant)) {
	r.t.Helper()
	if err := r.api.Get(context.Background(), client.ObjectKeyFromObject(r.grant), r.grant); err != nil {
		r.t.Fatal(err)
	}
	change(r.grant)
	if err := r.api.Update(context.Background(), r.grant); err != nil {
		r.t.Fatal(err)
	}
	r.gateway.GrantChanged(r.grant, false)
}

func whole(g *v1alpha1.PeerGrant) { g.Spec.To[0].AllowDelete = true }

// A running Delivery does not depend on the manager for its revocation: the gateway ends its connections and passes no
// new ones.
func TestRevocationOfARunningDelivery(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.PeerGrant){
		"path narrowed":    func(g *v1alpha1.PeerGrant) { g.Spec.To[0].Path = "/in/other" },
		"delete withdrawn": func(g *v1alpha1.PeerGrant) { g.Spec.To[0].AllowDelete = false },
		"other namespaces": func(g *v1alpha1.PeerGrant) { g.Spec.From[0].Namespaces = []string{"shop"} },
		"other claim":      func(g *v1alpha1.PeerGrant) { g.Spec.To[0].Name = "other" },
		"ended": func(g *v1alpha1.PeerGrant) {
			g.Spec.ExpirationTime = &metav1.Time{Time: time.Now().Add(-time.Second)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRunning(t, whole)
			r.update(change)
			r.ended()
		})
	}
	t.Run("deleted", func(t *testing.T) {
		r := newRunning(t, whole)
		if err := r.api.Delete(context.Background(), r.grant); err != nil {
			t.Fatal(err)
		}
		r.gateway.GrantChanged(r.grant, true)
		r.ended()
	})
	t.Run("new connections, before any event", func(t *testing.T) {
		r := newRunning(t, whole)
		if err := r.api.Delete(context.Background(), r.grant); err != nil {
			t.Fatal(err)
		}
		if _, err := r.connect(r.name); err == nil {
			t.Error("a new connection of the running Delivery is passed through")
		}
	})
	t.Run("peer deleted", func(t *testing.T) {
		r := newRunning(t, whole)
		if err := r.api.Delete(context.Background(), r.peer); err != nil {
			t.Fatal(err)
		}
		r.gateway.EndRevoked("")
		r.ended()
	})
}

// The gateway ends connections by its own timer when a grant expires.
func TestExpiryDuringARun(t *testing.T) {
	r := newRunning(t, whole)
	r.update(func(g *v1alpha1.PeerGrant) {
		g.Spec.ExpirationTime = &metav1.Time{Time: time.Now().Add(2 * time.Second).Truncate(time.Second)}
	})
	r.ended()
	if time.Now().Before(r.grant.Spec.ExpirationTime.Time) {
		t.Error("the connection ended before the grant")
	}
}

// What concerns others, and what still allows the run, ends nothing.
func TestChangesThatRevokeNothing(t *testing.T) {
	r := newRunning(t, whole)
	for name, change := range map[string]func(*v1alpha1.PeerGrant){
		"widened":            func(g *v1alpha1.PeerGrant) { g.Spec.To[0].Name = "" },
		"narrowed around it": func(g *v1alpha1.PeerGrant) { g.Spec.To[0].Path = "/in" },
		"expires later": func(g *v1alpha1.PeerGrant) {
			g.Spec.ExpirationTime = &metav1.Time{Time: time.Now().Add(time.Hour)}
		},
		"expires never again": func(g *v1alpha1.PeerGrant) { g.Spec.ExpirationTime = nil },
	} {
		r.update(change)
		if r.echo(); t.Failed() {
			t.Fatal(name)
		}
	}
	other := grantOf("elsewhere", "east", "bank", "claim")
	r.gateway.GrantChanged(other, true)
	r.gateway.EndRevoked("")
	r.echo()
	if _, err := r.connect(r.name); err != nil {
		t.Errorf("a new connection: %v", err)
	}
}
