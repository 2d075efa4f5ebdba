// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/agent/wire/tunnel"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/gateway/gatewaytest"
	"github.com/lighterage/lighterage/controllers/gateway/reverse"
	"github.com/lighterage/lighterage/controllers/pki"
)

// behindNAT are two clusters: nobody dials the gateway of east.
type behindNAT struct {
	t *testing.T
	// west listens to east. tunnels is where its pods ask for connections.
	west    *west
	tunnels string
	eastCA  *pki.CA
	east    *gatewaytest.Cluster
	// manager of west.
	manager agentclient.PeerGateway
}

// held is the manager's certificate.
type held struct{ certificate tls.Certificate }

func (h held) Certificate(context.Context) (*tls.Certificate, *pki.CA, error) {
	return &h.certificate, nil, nil
}

func listeningTo(name string, ca *pki.CA) *v1alpha1.Peer {
	p := peerOf(name, ca)
	p.Spec.Connection = v1alpha1.PeerListen
	return p
}

// many requests come from one manager in these tests.
func unlimited(o *gateway.Options) { o.RequestsPerSecond, o.RequestBurst = 1e6, 1e6 }

// serveTunnels has a gateway serve pods of its cluster.
func serveTunnels(t *testing.T, g *gateway.Gateway) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveTunnelsAt(t, g, listener)
}

func serveTunnelsAt(t *testing.T, g *gateway.Gateway, listener net.Listener) string {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- g.ServeTunnels(ctx, listener.(*net.TCPListener)) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// newBehindNAT starts both. east dials what endpoint makes of west's address.
func newBehindNAT(t *testing.T, endpoint func(address string) string, inEast ...client.Object) *behindNAT {
	t.Helper()
	n := &behindNAT{t: t, eastCA: newCA(t, "east")}
	n.west = newWest(t, unlimited, listeningTo("east", n.eastCA))
	n.tunnels = serveTunnels(t, n.west.gateway)
	dialled := peerOf("west", n.west.ca)
	dialled.Spec.Connection, dialled.Spec.Endpoint = v1alpha1.PeerDial, endpoint(n.west.address)
	n.east = n.cluster(append(inEast, dialled)...)
	n.manager = agentclient.NewPeerGateway(agentclient.Options{
		Credentials: held{issue(t, n.west.ca, manager("west"), time.Now())}, Timeout: patience,
	})
	return n
}

// cluster starts a gateway of east's.
func (n *behindNAT) cluster(objects ...client.Object) *gatewaytest.Cluster {
	return n.clusterWith(unlimited, objects...)
}

func (n *behindNAT) clusterWith(adjust func(*gateway.Options), objects ...client.Object) *gatewaytest.Cluster {
	n.t.Helper()
	serving := issue(
		n.t, n.eastCA, pki.Identity{Cluster: "east", Path: pki.GatewayPath}, time.Now(), pki.GatewayServerName,
	)
	return gatewaytest.New(n.t, func(o *gateway.Options) {
		unlimited(o)
		adjust(o)
		o.Issuer = func() (*x509.Certificate, error) { return n.eastCA.Certificate, nil }
		o.Certificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &serving, nil }
	}, objects...)
}

func (n *behindNAT) gateway() agentclient.Gateway {
	return agentclient.Gateway{
		Endpoint: n.tunnels, Tunnel: tunnel.Target("east"), CABundle: n.eastCA.CertificatePEM,
	}
}

func (n *behindNAT) hello() (*wirev1.HelloResponse, error) {
	return n.manager.Hello(context.Background(), n.gateway())
}

func itself(address string) string { return address }

// granted is a Delivery of west in east, and the grant that it needs.
func granted() (*v1alpha1.Delivery, *v1alpha1.PeerGrant) {
	return &v1alpha1.Delivery{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "d", UID: deliveryUID},
		Spec: v1alpha1.DeliverySpec{
			Peer: "west", Transfer: v1alpha1.TransferReference{Namespace: "bank", Name: "ledger", Run: "7f3ca", Attempt: 1},
			Destination: v1alpha1.DeliveryDestination{
				PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger-copy", Path: "/"},
			},
		},
	}, grantOf("vault", "west", "bank", "ledger-copy")
}

const deliveryUID = "b8a3"

// receive starts a receiving agent of a Delivery in east, which sends back what it gets.
func (n *behindNAT) receive(delivery *v1alpha1.Delivery) {
	n.t.Helper()
	name := pki.ReceiveServerName(deliveryUID)
	east := &west{Cluster: n.east, t: n.t, ca: n.eastCA, api: n.east.API}
	if err := n.east.API.Get(n.t.Context(), client.ObjectKeyFromObject(delivery), delivery); err != nil {
		n.t.Fatal(err)
	}
	delivery.Status.ServerName, delivery.Status.Endpoint = name, east.receiver(func() string { return name })
	if err := n.east.API.Status().Update(n.t.Context(), delivery); err != nil {
		n.t.Fatal(err)
	}
}

// data makes a data connection to it, as a sending agent of west does.
func (n *behindNAT) data(ctx context.Context) (*tls.Conn, error) {
	agent := issue(n.t, n.west.ca, sender("west"), time.Now())
	raw, err := tunnel.Through(
		new(net.Dialer).DialContext, tunnel.Target("east"), func() (*tls.Certificate, error) { return &agent, nil },
	)(ctx, "tcp", n.tunnels)
	if err != nil {
		return nil, err
	}
	roots, err := pki.ParseBundle(n.eastCA.CertificatePEM)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	return tls.Client(raw, &tls.Config{ServerName: pki.ReceiveServerName(deliveryUID), RootCAs: pki.Pool(roots)}), nil
}

// Requests and data of west reach east, which nobody dials. TLS is from end to end.
func TestReverseConnections(t *testing.T) {
	delivery, grant := granted()
	n := newBehindNAT(t, itself, delivery, grant)
	hello, err := n.hello()
	if err != nil || hello.GetKnownAs() != "west" {
		t.Fatalf("%v, %v", hello, err)
	}
	state, err := reverse.Ask(
		t.Context(), n.tunnels, "east", ptrTo(issue(t, n.west.ca, manager("west"), time.Now())),
	)
	if err != nil || state.Connections == 0 || state.Since.IsZero() {
		t.Errorf("%+v, %v", state, err)
	}

	n.receive(delivery)
	conn, err := n.data(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sent := bytes.Repeat([]byte("through both gateways "), 20000)
	go func() { _, _ = conn.Write(sent) }()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(sent, got) {
		t.Fatalf("%d bytes came back changed: %v", len(got), err)
	}

	// Without its Peer the connection ends, and there is no other.
	if err := n.west.api.Delete(t.Context(), &v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: "east"}}); err != nil {
		t.Fatal(err)
	}
	n.west.gateway.PeersChanged()
	if _, err := conn.Read(got); err == nil {
		t.Error("the connection outlived its Peer")
	}
	if _, err := n.hello(); !noTunnel(err, tunnel.NotAllowed) {
		t.Errorf("without a Peer: %v", err)
	}
}

func ptrTo[T any](v T) *T { return &v }

func noTunnel(err error, want tunnel.Reason) bool {
	reason, _ := tunnel.ReasonOf(err)
	return reason == want && errors.Is(err, agentclient.ErrUnreachable)
}

// cutter passes connections on to an address, and cuts those on which a gateway is called.
type cutter struct {
	to string
	// after what time each connection on which a gateway is called is cut; 0: never.
	after time.Duration
	// data is where data connections go; nil: to the same.
	data func() string

	// passing is how many connections are being passed on.
	passing atomic.Int32
	// controls were made, of which cuts were cut.
	controls, cuts atomic.Int32
}

func newCutter(t *testing.T, to string, after time.Duration) (c *cutter, address string) {
	t.Helper()
	c = &cutter{to: to, after: after}
	return c, acceptAll(t, c.pass)
}

// acceptAll handles each connection to an address, which it returns, until the test ends.
func acceptAll(t *testing.T, handle func(net.Conn)) (address string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go handle(conn)
		}
	}()
	return listener.Addr().String()
}

func (c *cutter) pass(conn net.Conn) {
	c.passing.Add(1)
	defer c.passing.Add(-1)
	defer conn.Close()
	first := make([]byte, 16<<10)
	n, err := conn.Read(first)
	if err != nil {
		return
	}
	address := c.to
	if bytes.Contains(first[:n], []byte(pki.GatewayServerName)) {
		c.controls.Add(1)
		if c.after > 0 {
			cut := time.AfterFunc(c.after, func() {
				c.cuts.Add(1)
				_ = conn.Close()
			})
			defer cut.Stop()
		}
	} else if c.data != nil {
		address = c.data()
	}
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	if _, err := to.Write(first[:n]); err != nil {
		return
	}
	go func() {
		defer conn.Close()
		_, _ = io.Copy(conn, to)
	}()
	_, _ = io.Copy(to, conn)
}

// control keeps a control connection as who has a certificate, and returns the error that ends it. asked is called with
// the names of data connections.
func (w *west) control(ctx context.Context, certificate tls.Certificate, asked func(string)) error {
	stream, err := w.dial(certificate).Control(ctx)
	if err != nil {
		return err
	}
	err = stream.Send(&wirev1.ControlRequest{Message: &wirev1.ControlRequest_Hello{
		Hello: &wirev1.ControlHello{ProtocolVersion: wirev1.ProtocolVersion, Version: "test"},
	}})
	if err != nil && !errors.Is(err, io.EOF) { // Recv has the cause
		return err
	}
	for {
		said, err := stream.Recv()
		if err != nil {
			return err
		}
		asked(said.GetConnect().GetServerName())
	}
}

// Only the gateway of a Peer that is listened to gets requests, and only those for its own cluster.
func TestImpostors(t *testing.T) {
	eastCA, northCA, southCA := newCA(t, "east"), newCA(t, "north"), newCA(t, "south")
	w := newWest(t, unlimited, listeningTo("east", eastCA), listeningTo("north", northCA), peerOf("south", southCA))
	tunnels := serveTunnels(t, w.gateway)
	gatewayOf := func(ca *pki.CA, cluster string) tls.Certificate {
		return issue(t, ca, pki.Identity{Cluster: cluster, Path: pki.GatewayPath}, time.Now(), pki.GatewayServerName)
	}
	for name, test := range map[string]struct {
		certificate tls.Certificate
		words       string
	}{
		"a Transfer of the peer":            {issue(t, eastCA, sender("east"), time.Now()), "only a gateway"},
		"a manager of the peer":             {issue(t, eastCA, manager("east"), time.Now()), "only a gateway"},
		"a cluster that is not listened to": {gatewayOf(southCA, "south"), "connection: Listen"},
		// It says that it is east's, and the CA says otherwise.
		"another CA": {gatewayOf(newCA(t, "east"), "east"), "no Peer"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := w.control(ctx, test.certificate, func(string) { t.Errorf("%s was accepted", name) })
		if cancel(); err == nil || !strings.Contains(err.Error(), test.words) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The certificate of east without its key is of no use: TLS wants a signature.
	stolen := gatewayOf(northCA, "north")
	stolen.Certificate = gatewayOf(eastCA, "east").Certificate
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.control(ctx, stolen, func(string) { t.Error("a stolen certificate was accepted") }); err == nil {
		t.Error("a stolen certificate was accepted")
	}
	// north says that it is east's, with its own CA, and hears nothing of what is asked of east.
	accepted := make(chan string, 100)
	go func() { _ = w.control(ctx, gatewayOf(northCA, "east"), func(name string) { accepted <- name }) }()
	if first := <-accepted; first != "" {
		t.Fatalf("%q in place of what is said first", first)
	}
	pods := agentclient.NewPeerGateway(agentclient.Options{
		Credentials: held{issue(t, w.ca, manager("west"), time.Now())}, Timeout: patience,
	})
	_, err := pods.Hello(ctx, agentclient.Gateway{
		Endpoint: tunnels, Tunnel: tunnel.Target("east"), CABundle: eastCA.CertificatePEM,
	})
	if !noTunnel(err, tunnel.NotConnected) {
		t.Errorf("nobody of east is there: %v", err)
	}
	if len(accepted) > 0 {
		t.Errorf("north was asked for %q", <-accepted)
	}
	// Pods of other clusters get no tunnel.
	strangers := agentclient.NewPeerGateway(agentclient.Options{
		Credentials: held{issue(t, eastCA, manager("east"), time.Now())}, Timeout: patience,
	})
	_, err = strangers.Hello(ctx, agentclient.Gateway{
		Endpoint: tunnels, Tunnel: tunnel.Target("north"), CABundle: northCA.CertificatePEM,
	})
	if !noTunnel(err, tunnel.NotAllowed) {
		t.Errorf("a stranger: %v", err)
	}
	// Names of data connections that were not asked for lead nowhere.
	if _, err := w.connect(fmt.Sprintf("%s.data.lighterage.internal", strings.Repeat("a", 40))); err == nil {
		t.Error("a guessed name was taken")
	}
}
