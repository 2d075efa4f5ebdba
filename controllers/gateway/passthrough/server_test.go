// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lighterage/lighterage/controllers/gateway/passthrough"
)

const (
	localName  = "gateway.lighterage.internal"
	targetName = "b8a3.receive.lighterage.internal"
)

// front is a Server that listens on loopback, with one target.
type front struct {
	t        *testing.T
	address  string
	server   *passthrough.Server
	registry *prometheus.Registry
	stop     context.CancelFunc
	served   chan error

	mu      sync.Mutex
	targets map[string]passthrough.Target
}

func newFront(t *testing.T, limits passthrough.Limits) *front {
	t.Helper()
	f := &front{t: t, registry: prometheus.NewRegistry(), served: make(chan error, 1), targets: map[string]passthrough.Target{}}
	metrics, err := passthrough.NewMetrics(f.registry)
	if err != nil {
		t.Fatal(err)
	}
	f.server, err = passthrough.New(passthrough.Options{
		LocalName: localName, Lookup: f.lookup, Limits: limits, Metrics: metrics, Log: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	f.address = listener.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	go func() { f.served <- f.server.Serve(ctx, listener) }()
	go f.echoLocally()
	t.Cleanup(func() {
		stop()
		if err := <-f.served; err != nil {
			t.Errorf("serving ended with %v", err)
		}
	})
	return f
}

func (f *front) lookup(_ context.Context, name string) (passthrough.Target, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	target, ok := f.targets[name]
	return target, ok
}

func (f *front) setTarget(name, address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.targets[name] = passthrough.Target{Address: address, Key: name}
}

// echoLocally is the server in this process: TLS, and echo.
func (f *front) echoLocally() {
	for {
		conn, err := f.server.Local().Accept()
		if err != nil {
			return
		}
		go echoTLS(conn, localName)
	}
}

func echoTLS(conn net.Conn, name string) {
	defer conn.Close()
	secured := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate(name)}})
	_, _ = io.Copy(secured, secured)
	_ = secured.CloseWrite()
}

// dialTLS makes a connection on which the handshake is over.
func (f *front) dialTLS(name string) *tls.Conn {
	f.t.Helper()
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 30 * time.Second}, "tcp", f.address,
		&tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		f.t.Fatalf("connecting to %s: %v", name, err)
	}
	f.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if got := conn.ConnectionState().PeerCertificates[0].DNSNames[0]; got != name {
		f.t.Fatalf("%q answered in place of %q", got, name)
	}
	return conn
}

// dial makes a connection that has sent nothing, from an address of its own.
func (f *front) dial(from string) *net.TCPConn {
	f.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 5 * time.Second}
	conn, err := dialer.Dial("tcp", f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn.(*net.TCPConn)
}

func (f *front) counted(result string) float64 {
	f.t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "lighterage_gateway_connections_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if metric.GetLabel()[0].GetValue() == result {
				return metric.GetCounter().GetValue()
			}
		}
	}
	return 0
}

// closed waits for the other side to close.
func closed(t *testing.T, conn net.Conn) {
	t.Helper()
	_, err := conn.Read(make([]byte, 1))
	var timeout net.Error
	if err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatalf("the connection was not closed: %v", err)
	}
}

func target(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
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
			go serve(conn)
		}
	}()
	return listener.Addr().String()
}

var certificates sync.Map

func certificate(name string) tls.Certificate {
	if known, ok := certificates.Load(name); ok {
		return known.(tls.Certificate)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	made := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	certificates.Store(name, made)
	return made
}

func roundTrip(t *testing.T, conn *tls.Conn, size int) {
	t.Helper()
	data := make([]byte, size)
	_, _ = rand.Read(data)
	go func() {
		_, _ = conn.Write(data)
		_ = conn.CloseWrite()
	}()
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, data) {
		t.Fatalf("%d bytes came back that are not the %d sent", len(got), len(data))
	}
}

func TestRouting(t *testing.T) {
	f := newFront(t, passthrough.Limits{})
	f.setTarget(targetName, target(t, func(conn net.Conn) { echoTLS(conn, targetName) }))
	f.setTarget("gone.receive.lighterage.internal", "127.0.0.1:1")

	roundTrip(t, f.dialTLS(localName), 1<<20)
	roundTrip(t, f.dialTLS(targetName), 32<<20)
	for _, name := range []string{"other.receive.lighterage.internal", "example.com", "", "gone.receive.lighterage.internal"} {
		raw := f.dial("127.0.0.1")
		if err := tls.Client(raw, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake(); err == nil {
			t.Errorf("somebody answered for %q", name)
		}
	}
	for result, want := range map[string]float64{"local": 1, "passed": 1, "unknown_name": 3, "target_unreachable": 1} {
		if got := f.counted(result); got != want {
			t.Errorf("%v connections counted as %s, want %v", got, result, want)
		}
	}
}

// A direction that ends must not end the other one: a target may answer after it has heard everything.
func TestHalfClose(t *testing.T) {
	f := newFront(t, passthrough.Limits{})
	heard := make(chan int64, 1)
	f.setTarget(targetName, target(t, func(conn net.Conn) {
		defer conn.Close()
		n, _ := io.Copy(io.Discard, conn) // ends when the client has ended its direction
		heard <- n
		_, _ = conn.Write([]byte("answer after the end"))
	}))
	hello := helloFor(t, targetName)
	conn := f.dial("127.0.0.1")
	if _, err := conn.Write(append(hello, make([]byte, 10<<20)...)); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || string(answer) != "answer after the end" {
		t.Fatalf("answer %q, error %v", answer, err)
	}
	if n := <-heard; n != int64(len(hello)+10<<20) {
		t.Errorf("the target heard %d bytes", n)
	}
}

func helloFor(t *testing.T, name string) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		defer client.Close()
		_ = tls.Client(client, &tls.Config{ServerName: name}).Handshake()
	}()
	buffer := make([]byte, 16<<10)
	n, err := server.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	return buffer[:n]
}

func TestGarbage(t *testing.T) {
	f := newFront(t, passthrough.Limits{HelloTimeout: 300 * time.Millisecond})
	random := make([]byte, 64<<10)
	_, _ = rand.Read(random)
	oversized := append([]byte{22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff}, make([]byte, 64<<10)...)
	for name, input := range map[string][]byte{
		"random":    random,
		"HTTP":      []byte("GET / HTTP/1.1\r\n\r\n"),
		"oversized": oversized,
		"silence":   nil,
		"half":      helloFor(t, localName)[:100],
	} {
		t.Run(name, func(t *testing.T) {
			conn := f.dial("127.0.0.1")
			go func() { _, _ = conn.Write(input) }()
			closed(t, conn)
		})
	}
	if f.counted("hello_timeout") != 2 || f.counted("hello_too_large") != 1 || f.counted("not_tls") != 2 {
		t.Errorf("timeouts %v, too large %v, no TLS %v", f.counted("hello_timeout"), f.counted("hello_too_large"), f.counted("not_tls"))
	}
	roundTrip(t, f.dialTLS(localName), 100)
}

// A byte now and then does not keep a connection alive past the limit for the whole ClientHello.
func TestSlowHello(t *testing.T) {
	f := newFront(t, passthrough.Limits{HelloTimeout: 300 * time.Millisecond})
	conn := f.dial("127.0.0.1")
	start := time.Now()
	go func() {
		for _, b := range helloFor(t, localName) {
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	closed(t, conn)
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("closed after %s", took)
	}
}

func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	for name, from := range map[string]string{"from elsewhere": "127.0.0.2", "from the same address": "127.0.0.1"} {
		t.Run(name, func(t *testing.T) {
			f := newFront(t, passthrough.Limits{HelloTimeout: time.Minute, Handshakes: 100, HandshakesPerSource: 50, Connections: 2})
			for range 1000 {
				f.dial(from)
			}
			roundTrip(t, f.dialTLS(localName), 100)
			if evicted := f.counted("evicted"); evicted < 900 {
				t.Errorf("%v silent connections were closed", evicted)
			}
			f.stop()
		})
	}
}

func TestConnectionLimits(t *testing.T) {
	f := newFront(t, passthrough.Limits{ConnectionsPerTarget: 2, LocalConnections: 1, Connections: 20})
	f.setTarget(targetName, target(t, func(conn net.Conn) { echoTLS(conn, targetName) }))
	refused := func(name string) {
		t.Helper()
		if err := tls.Client(f.dial("127.0.0.1"), &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake(); err == nil {
			t.Errorf("a connection above the limit to %s was taken", name)
		}
	}
	first := f.dialTLS(targetName)
	f.dialTLS(targetName)
	refused(targetName)
	local := f.dialTLS(localName)
	refused(localName)

	_ = local.Close()
	roundTrip(t, first, 100)
	_ = first.Close()
	eventually(t, func() bool {
		conn, err := tls.Dial("tcp", f.address, &tls.Config{ServerName: localName, InsecureSkipVerify: true})
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
	eventually(t, func() bool {
		conn, err := tls.Dial("tcp", f.address, &tls.Config{ServerName: targetName, InsecureSkipVerify: true})
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	for range 2400 {
		if condition() {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Fatal("it did not happen within a minute")
}

func TestCloseTarget(t *testing.T) {
	f := newFront(t, passthrough.Limits{})
	const otherName = "c9b4.receive.lighterage.internal"
	f.setTarget(targetName, target(t, func(conn net.Conn) { echoTLS(conn, targetName) }))
	f.setTarget(otherName, target(t, func(conn net.Conn) { echoTLS(conn, otherName) }))
	doomed, other := f.dialTLS(targetName), f.dialTLS(otherName)
	f.server.CloseTarget(targetName)
	closed(t, doomed.NetConn())
	roundTrip(t, other, 100)
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	f := newFront(t, passthrough.Limits{IdleTimeout: 3 * time.Second})
	f.setTarget(targetName, target(t, func(conn net.Conn) { echoTLS(conn, targetName) }))
	conn := f.dialTLS(targetName)
	buffer := make([]byte, 1)
	for range 14 { // longer than the limit, but never idle for as long
		if _, err := conn.Write(buffer); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, buffer); err != nil {
			t.Fatal(err)
		}
		time.Sleep(250 * time.Millisecond)
	}
	closed(t, conn.NetConn())
}

func TestLifetime(t *testing.T) {
	t.Parallel()
	f := newFront(t, passthrough.Limits{Lifetime: 3 * time.Second})
	f.setTarget(targetName, target(t, func(conn net.Conn) { echoTLS(conn, targetName) }))
	closed(t, f.dialTLS(targetName).NetConn())
}

// Connections get time to end when the server stops, and are closed after it.
func TestDrain(t *testing.T) {
	t.Parallel()
	f := newFront(t, passthrough.Limits{DrainTimeout: 3 * time.Second})
	f.setTarget(targetName, target(t, func(conn net.Conn) { echoTLS(conn, targetName) }))
	ending, lasting := f.dialTLS(targetName), f.dialTLS(targetName)
	silent := f.dial("127.0.0.1")
	f.stop()
	roundTrip(t, ending, 1<<20)
	closed(t, silent)
	closed(t, lasting.NetConn())
	if _, err := net.Dial("tcp", f.address); err == nil {
		t.Error("the listener is still open")
	}
}

func TestValidateLimits(t *testing.T) {
	for name, limits := range map[string]passthrough.Limits{
		"negative number":  {Connections: -1},
		"negative timeout": {IdleTimeout: -time.Second},
	} {
		if limits.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := (passthrough.Limits{}).Validate(); err != nil {
		t.Error(err)
	}
}
