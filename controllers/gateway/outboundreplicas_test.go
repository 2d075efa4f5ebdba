// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/lighterage/lighterage/agent/wire/tunnel"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/gateway"
	"github.com/lighterage/lighterage/controllers/gateway/gatewaytest"
	"github.com/lighterage/lighterage/controllers/gateway/reverse"
	"github.com/lighterage/lighterage/controllers/pki"
)

// listenAtBoth listens at the addresses of two replicas, at the same port.
func listenAtBoth(t *testing.T, own [2]netip.Addr) (listeners [2]net.Listener, port uint16) {
	t.Helper()
	var err error
	for range 100 {
		if listeners[0], err = net.Listen("tcp", netip.AddrPortFrom(own[0], 0).String()); err != nil {
			t.Fatal(err)
		}
		port = netip.MustParseAddrPort(listeners[0].Addr().String()).Port()
		if listeners[1], err = net.Listen("tcp", netip.AddrPortFrom(own[1], port).String()); err == nil {
			return listeners, port
		}
		_ = listeners[0].Close() // somebody else has it there
	}
	t.Fatal(err)
	return listeners, 0
}

// A replica without a control connection asks the one that has it, and one at which a data connection arrives that
// another waits for passes it on.
func TestReplicas(t *testing.T) {
	n := &behindNAT{t: t, eastCA: newCA(t, "east")}
	own := [2]netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")}
	ports, port := listenAtBoth(t, own)
	tunnelPorts, tunnels := listenAtBoth(t, own)
	listenAt := func(i int) *gatewaytest.Cluster {
		return gatewaytest.New(t, func(o *gateway.Options) {
			unlimited(o)
			o.Outbound = gateway.Outbound{
				Own: netip.AddrPortFrom(own[i], port), Port: tunnels,
				Replicas: func(context.Context) ([]netip.Addr, error) { return own[:], nil },
			}
		}, listeningTo("east", n.eastCA))
	}
	holds, other := listenAt(0), listenAt(1)
	for i, replica := range []*gatewaytest.Cluster{holds, other} {
		serveTunnelsAt(t, replica.Gateway, tunnelPorts[i])
		// Where other replicas reach it.
		forward(t, ports[i], func() string { return replica.Address })
	}
	// Data connections of east arrive at the replica that has its control connections, or at the other one.
	var data atomic.Pointer[string]
	data.Store(&other.Address)
	c, between := newCutter(t, holds.Address, 0)
	c.data = func() string { return *data.Load() }
	dialled := peerOf("west", holds.CA)
	dialled.Spec.Connection, dialled.Spec.Endpoint = v1alpha1.PeerDial, between
	n.cluster(dialled)
	manager := agentclient.NewPeerGateway(agentclient.Options{
		Credentials: held{issue(t, holds.CA, manager("west"), time.Now())}, Timeout: patience,
	})
	for _, arrives := range []*gatewaytest.Cluster{holds, other} {
		data.Store(&arrives.Address)
		for _, at := range own {
			hello, err := manager.Hello(t.Context(), agentclient.Gateway{
				Endpoint: netip.AddrPortFrom(at, tunnels).String(), Tunnel: tunnel.Target("east"),
				CABundle: n.eastCA.CertificatePEM,
			})
			if err != nil || hello.GetKnownAs() != "west" {
				t.Errorf("asked %s, data at the holder %t: %v", at, arrives == holds, err)
			}
		}
	}
}

// forward passes connections on.
func forward(t *testing.T, listener net.Listener, to func() string) {
	t.Helper()
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go join(conn, to())
		}
	}()
}

func join(conn net.Conn, address string) {
	defer conn.Close()
	to, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		defer conn.Close()
		_, _ = io.Copy(conn, to)
	}()
	_, _ = io.Copy(to, conn)
}

// oldGateway is of a release that knows no control connections.
type oldGateway struct {
	wirev1.UnimplementedGatewayServer
}

// A gateway of an earlier release rejects a control connection, and the state says what to do.
func TestControlConnectionToAnEarlierRelease(t *testing.T) {
	ca := westCA()
	serving := issue(t, ca, pki.Identity{Cluster: "west", Path: pki.GatewayPath}, time.Now(), pki.GatewayServerName)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{serving}, ClientAuth: tls.RequireAnyClientCert,
	})))
	wirev1.RegisterGatewayServer(server, oldGateway{})
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	own := issue(t, newCA(t, "east"), pki.Identity{Cluster: "east", Path: pki.GatewayPath}, time.Now())
	dialler := reverse.NewDialler(reverse.DiallerOptions{
		Gateway:     agentclient.Gateway{Endpoint: listener.Addr().String(), CABundle: ca.CertificatePEM},
		Certificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &own, nil },
		Accept:      func(*net.TCPConn) bool { return false }, Count: func(string) {}, Log: logr.Discard(),
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		dialler.Run(ctx)
	}()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		state := dialler.State()
		if state.Error != "" {
			if state.Connections != 0 || !strings.Contains(state.Error, "upgrade the older cluster") {
				t.Errorf("%+v", state)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing was said")
		}
	}
	stop()
	<-ended
}

// connectProxy is an HTTP proxy that wants user and password, and counts what it makes.
func connectProxy(t *testing.T, authorization string, made *atomic.Int32) string {
	t.Helper()
	return acceptAll(t, func(conn net.Conn) {
		request, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil || request.Header.Get("Proxy-Authorization") != authorization {
			_, _ = io.WriteString(conn, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
			_ = conn.Close()
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n")
		made.Add(1)
		join(conn, request.Host)
	})
}

// Pods reach a peer through the proxy of its Peer, whose password only the gateway has. The gateway makes its control
// and data connections through it as well.
func TestPeerBehindAProxy(t *testing.T) {
	const basic = "Basic dXNlcjpzZWNyZXQ="
	var made atomic.Int32
	proxy := connectProxy(t, basic, &made)
	directory := t.TempDir()
	write := func(content string) {
		if err := os.WriteFile(filepath.Join(directory, "corporate"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("user:other@" + proxy + "\n")
	n := &behindNAT{t: t, eastCA: newCA(t, "east")}
	n.west = newWest(t, unlimited, listeningTo("east", n.eastCA))
	n.tunnels = serveTunnels(t, n.west.gateway)
	dialled := peerOf("west", n.west.ca)
	dialled.Spec.Connection, dialled.Spec.Endpoint = v1alpha1.PeerDial, n.west.address
	dialled.Spec.Proxy = &v1alpha1.PeerProxy{URL: "http://" + proxy, CredentialsKey: "corporate"}
	east := n.clusterWith(func(o *gateway.Options) { o.Outbound.Credentials = directory }, dialled)
	tunnels := serveTunnels(t, east.Gateway)
	pods := agentclient.NewPeerGateway(agentclient.Options{
		Credentials: held{issue(t, n.eastCA, manager("east"), time.Now())}, Timeout: patience,
	})
	west := agentclient.Gateway{Endpoint: tunnels, Tunnel: tunnel.Target("west"), CABundle: n.west.ca.CertificatePEM}
	if _, err := pods.Hello(t.Context(), west); !noTunnel(err, tunnel.ProxyAuthentication) ||
		!strings.Contains(err.Error(), "lighterage-proxies") {
		t.Errorf("with a wrong password: %v", err)
	}
	for _, content := range []string{"user:secret", "user:secret@proxy.example:3128", "user@" + proxy} {
		write(content)
		if _, err := pods.Hello(t.Context(), west); !noTunnel(err, tunnel.ProxyAuthentication) || made.Load() > 0 {
			t.Errorf("with %q: %v", content, err)
		}
	}
	write("user:secret@" + proxy + "\n")
	if hello, err := pods.Hello(t.Context(), west); err != nil || hello.GetKnownAs() != "east" {
		t.Errorf("%v, %v", hello, err)
	}
	n.manager = agentclient.NewPeerGateway(agentclient.Options{
		Credentials: held{issue(t, n.west.ca, manager("west"), time.Now())}, Timeout: patience,
	})
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		if _, err := n.hello(); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if made.Load() < 3 { // of the pod, of control, of data
		t.Errorf("the proxy made %d connections", made.Load())
	}
}
