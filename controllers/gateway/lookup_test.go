// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/plan"
)

// receiver is a receiving agent that echoes over TLS of its own.
func (w *west) receiver(serverName func() string) string {
	w.t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			certificate := issue(w.t, w.ca, pki.DeliveryIdentity("west", "vault", "d"), time.Now(), serverName())
			return &certificate, nil
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return listener.Addr().String()
}

func (w *west) connect(serverName string) (*tls.Conn, error) {
	roots, err := pki.ParseBundle(w.ca.CertificatePEM)
	if err != nil {
		w.t.Fatal(err)
	}
	conn, err := tls.DialWithDialer(
		&net.Dialer{Timeout: patience}, "tcp", w.address, &tls.Config{ServerName: serverName, RootCAs: pki.Pool(roots)},
	)
	if err == nil {
		w.t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(patience))
	}
	return conn, err
}

// The whole way: a run is admitted, its data are passed through, and end with its Delivery.
func TestDataOfAnAdmittedRun(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, nil, peerOf("east", east), grantOf("vault", "east", "bank", "ledger-copy"))
	s := open(t, w.dial(issue(t, east, sender("east"), time.Now())), ledger("7f3ca", 1))
	s.pending()
	var name string
	address := w.receiver(func() string { return name })
	delivery := w.deliveries()[0]
	name = pki.ReceiveServerName(string(delivery.UID))
	if _, err := w.connect(name); err == nil {
		t.Fatal("data were passed before the agent is there")
	}
	w.ready(ledgerKey("7f3ca", 1), address)
	conn, err := w.connect(name)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.next().GetReady().GetServerName(); got != name {
		t.Errorf("server name %q", got)
	}
	const words = "through the gateway"
	if _, err := io.WriteString(conn, words); err != nil {
		t.Fatal(err)
	}
	echoed := make([]byte, len(words))
	if _, err := io.ReadFull(conn, echoed); err != nil || string(echoed) != words {
		t.Fatalf("%q came back: %v", echoed, err)
	}

	if err := w.api.Delete(context.Background(), &delivery); err != nil {
		t.Fatal(err)
	}
	delivery = w.deliveries()[0]
	w.gateway.DeliveryChanged(&delivery, false)
	if _, err := conn.Read(echoed); err == nil {
		t.Error("the connection outlived its Delivery")
	}
	if _, err := w.connect(name); err == nil {
		t.Error("data were passed to a Delivery that is being deleted")
	}
	if _, err := w.connect("example.com"); err == nil {
		t.Error("somebody answered for another name")
	}
}

// Another gateway may have told the sender of the agent before this one hears of it.
func TestAgentThatIsNotKnownYet(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, func(o *gateway.Options) {
		o.LookupGrace = patience
	}, peerOf("east", east), grantOf("vault", "east", "bank", "ledger-copy"))
	open(t, w.dial(issue(t, east, sender("east"), time.Now())), ledger("7f3ca", 1)).pending()
	delivery := w.deliveries()[0]
	name := pki.ReceiveServerName(string(delivery.UID))
	address := w.receiver(func() string { return name })
	connected := make(chan error, 1)
	go func() {
		_, err := w.connect(name)
		connected <- err
	}()
	eventually(t, func() bool { return w.Lookups.Load() > 0 })
	w.ready(ledgerKey("7f3ca", 1), address)
	if err := <-connected; err != nil {
		t.Error(err)
	}
}

func TestStoppingSendsRunsElsewhere(t *testing.T) {
	east := newCA(t, "east")
	w := newWest(t, nil, peerOf("east", east), grantOf("vault", "east", "bank", "ledger-copy"))
	s := open(t, w.dial(issue(t, east, sender("east"), time.Now())), ledger("7f3ca", 1))
	s.pending()
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop() }()
	if _, err := s.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ended with %v", err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// The agents of Transfers within the cluster are reached straight, and by nobody else.
func TestOnlyAgentsForPeersAreLookedUp(t *testing.T) {
	delivery := &v1alpha1.Delivery{
		Spec: v1alpha1.DeliverySpec{Peer: "east"}, Status: v1alpha1.DeliveryStatus{ServerName: "name"},
	}
	if got := gateway.IndexServerName(delivery); len(got) != 1 || got[0] != "name" {
		t.Error(got)
	}
	delivery.Spec.Peer = ""
	if got := gateway.IndexServerName(delivery); len(got) != 0 {
		t.Error(got)
	}
}

func TestDeliveryName(t *testing.T) {
	for name, transfer := range map[string]v1alpha1.TransferReference{
		"short":                  {Namespace: "bank", Name: "ledger", Run: "7f3ca", Attempt: 1},
		"long":                   {Namespace: "bank", Name: strings.Repeat("a", 253), Run: "7f3ca8", Attempt: 999_999},
		"dots":                   {Namespace: "bank", Name: "a.b.c", Run: "7f3ca", Attempt: 1},
		"cut at a dot":           {Namespace: "bank", Name: strings.Repeat("a", 39) + ".b", Run: "7f3ca", Attempt: 1},
		"cut at several hyphens": {Namespace: "bank", Name: strings.Repeat("a", 37) + "---b", Run: "7f3ca", Attempt: 1},
	} {
		got := plan.DeliveryName("east", transfer)
		if len(got) > 63 || strings.Contains(got, ".") || strings.Contains(strings.TrimPrefix(got, "a"), "a--") {
			t.Errorf("%s: %s", name, got)
		}
		if got == plan.DeliveryName("west", transfer) {
			t.Errorf("%s: two peers share the name %s", name, got)
		}
	}
	a := plan.DeliveryName("east", v1alpha1.TransferReference{Namespace: "bank", Name: "a.b", Run: "7f3ca", Attempt: 1})
	if b := plan.DeliveryName(
		"east", v1alpha1.TransferReference{Namespace: "bank", Name: "a-b", Run: "7f3ca", Attempt: 1},
	); a == b {
		t.Errorf("two Transfers share the name %s", a)
	}
}
