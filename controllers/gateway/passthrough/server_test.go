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
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lighterage/lighterage/controllers/gateway/passthrough"
)

const (
	localName  = "gateway.lighterage.internal"
	targetName = "b8a3.receive.lighterage.internal"
	// patience is for a busy machine.
	patience = 2 * time.Minute
)

// front is a Server that listens on loopback, with one target.
type front struct {
	t        *testing.T
	address  string
	listener *net.TCPListener
	server   *passthrough.Server
	registry *prometheus.Registry
	metrics  *passthrough.Metrics
	stop     context.CancelFunc
	served   chan error

	// authenticate has the local server authenticate clients, as owner's; busy has it use the connection.
	authenticate, busy atomic.Bool
	owner              atomic.Pointer[passthrough.Owner]

	mu      sync.Mutex
	targets map[string]passthrough.Target
}

func newFront(t *testing.T, limits passthrough.Limits) *front {
	t.Helper()
	f := &front{
		t: t, registry: prometheus.NewRegistry(), served: make(chan error, 1), targets: map[string]passthrough.Target{},
	}
	f.owner.Store(&passthrough.Owner{Name: "east"})
	var err error
	if f.metrics, err = passthrough.NewMetrics(f.registry); err != nil {
		t.Fatal(err)
	}
	f.server, err = passthrough.New(passthrough.Options{
		LocalName: localName, Lookup: f.lookup, Limits: limits, Metrics: f.metrics, Log: logr.Discard(),
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	f.address, f.listener = listener.Addr().String(), listener
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
		go func() {
			if f.authenticate.Load() {
				local := conn.(*passthrough.LocalConn)
				local.Authenticated(*f.owner.Load())
				if f.busy.Load() {
					defer local.Use()()
				}
			}
			echoTLS(conn, localName)
		}()
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
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", f.address,
		&tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		f.t.Fatalf("connecting to %s: %v", name, err)
	}
	f.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	if got := conn.ConnectionState().PeerCertificates[0].DNSNames[0]; got != name {
		f.t.Fatalf("%q answered in place of %q", got, name)
	}
	return conn
}

// dial makes a connection that has sent nothing, from an address of its own.
func (f *front) dial(from string) *net.TCPConn {
	f.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: patience}
	conn, err := dialer.Dial("tcp", f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
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

// awaitCounted waits until so many connections are counted, which may be after the other side hears of the result.
func (f *front) awaitCounted(result string, want float64) {
	f.t.Helper()
	for deadline := time.Now().Add(patience); f.counted(result) != want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("%v connections counted as %s, want %v", f.counted(result), result, want)
		}
	}
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
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
	}
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

	f.authenticate.Store(true)
	roundTrip(t, f.dialTLS(localName), 1<<20)
	roundTrip(t, f.dialTLS(targetName), 32<<20)
	for _, name := range []string{
		"other.receive.lighterage.internal", "example.com", "", "gone.receive.lighterage.internal",
	} {
		raw := f.dial("127.0.0.1")
		if err := tls.Client(raw, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake(); err == nil {
			t.Errorf("somebody answered for %q", name)
		}
	}
	for result, want := range map[string]float64{"local": 1, "passed": 1, "unknown_name": 3, "target_unreachable": 1} {
		f.awaitCounted(result, want)
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
	// What was read together with the ClientHello is handed on with it.
	if n, all := f.metrics.Passed(), 10<<20+int64(len(answer)); n > all || n < all-16<<10 {
		t.Errorf("%d of %d bytes are counted", n, all)
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
	patient, hasty := newFront(t, passthrough.Limits{HelloTimeout: patience}), newFront(
		t, passthrough.Limits{HelloTimeout: 300 * time.Millisecond},
	)
	random := make([]byte, 64<<10)
	_, _ = rand.Read(random)
	oversized := append([]byte{22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff}, make([]byte, 64<<10)...)
	for name, test := range map[string]struct {
		front *front
		input []byte
	}{
		"random":    {patient, random},
		"HTTP":      {patient, []byte("GET / HTTP/1.1\r\n\r\n")},
		"oversized": {patient, oversized},
		"silence":   {hasty, nil},
		"half":      {hasty, helloFor(t, localName)[:100]},
	} {
		t.Run(name, func(t *testing.T) {
			conn := test.front.dial("127.0.0.1")
			go func() { _, _ = conn.Write(test.input) }()
			closed(t, conn)
		})
	}
	patient.awaitCounted("hello_too_large", 1)
	patient.awaitCounted("not_tls", 2)
	hasty.awaitCounted("hello_timeout", 2)
	roundTrip(t, patient.dialTLS(localName), 100)
}

// A byte now and then does not keep a connection alive past the limit for the whole ClientHello.
func TestSlowHello(t *testing.T) {
	f := newFront(t, passthrough.Limits{HelloTimeout: 300 * time.Millisecond})
	hello, conn := helloFor(t, localName), f.dial("127.0.0.1")
	go func() {
		for _, b := range hello {
			if _, err := conn.Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	closed(t, conn) // before the whole of it has come, which would be answered
}

func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	for name, from := range map[string]string{"from elsewhere": "127.0.0.2", "from the same address": "127.0.0.1"} {
		t.Run(name, func(t *testing.T) {
			f := newFront(
				t, passthrough.Limits{HelloTimeout: patience, Handshakes: 100, HandshakesPerSource: 50, Connections: 2},
			)
			for range 1000 {
				f.dial(from)
			}
			f.awaitCounted("evicted", 950)
			roundTrip(t, f.dialTLS(localName), 100)
			f.stop()
		})
	}
}

// What the server in this process, or a target, has authenticated is evicted by nobody.
func TestStrangersEvictEachOther(t *testing.T) {
	f := newFront(t, passthrough.Limits{ConnectionsPerTarget: 4, Handshakes: 2, LocalConnections: 2})
	f.setTarget(targetName, target(t, func(conn net.Conn) { echoTLS(conn, targetName) }))
	f.authenticate.Store(true)
	known, proven := f.dialTLS(localName), f.dialTLS(targetName)
	echo(t, known, 100)
	echo(t, proven, 16<<10)
	f.authenticate.Store(false)
	for _, name := range []string{localName, targetName} {
		for range 20 {
			conn := f.dial("127.0.0.1")
			if _, err := conn.Write(helloFor(t, name)); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				t.Fatalf("a connection to %s was not served: %v", name, err)
			}
		}
		if name == localName {
			f.awaitCounted("evicted", 18)
		}
	}
	echo(t, known, 100)
	echo(t, proven, 100)
	f.dialTLS(localName)
	f.dialTLS(targetName)
}

// An owner has its bounds, and in it a part has; who is idle is evicted first.
func TestOwnersEvictTheirOwn(t *testing.T) {
	f := newFront(t, passthrough.Limits{LocalConnectionsPerOwner: 4, LocalConnectionsPerPart: 2})
	f.authenticate.Store(true)
	f.owner.Store(&passthrough.Owner{Name: "west", Part: "bank"})
	other := f.dialTLS(localName)
	f.owner.Store(&passthrough.Owner{Name: "east", Part: "shop"})
	shop := f.dialTLS(localName)
	f.owner.Store(&passthrough.Owner{Name: "east", Part: "bank"})
	f.busy.Store(true)
	busy := f.dialTLS(localName)
	echo(t, busy, 1)
	f.busy.Store(false)
	var idle []*tls.Conn
	for range 10 {
		conn := f.dialTLS(localName)
		echo(t, conn, 1)
		idle = append(idle, conn)
	}
	for _, conn := range idle[:9] {
		closed(t, conn.NetConn())
	}
	for _, conn := range []*tls.Conn{other, shop, busy, idle[9]} {
		echo(t, conn, 100)
	}
}

// A client that is not authenticated cannot make the server read without end.
func TestBytesOfAnUnknownClient(t *testing.T) {
	f := newFront(t, passthrough.Limits{})
	conn := f.dialTLS(localName)
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	eventually(t, func() bool {
		_, err := conn.Write(make([]byte, 16<<10))
		return err != nil
	})
	f.authenticate.Store(true)
	roundTrip(t, f.dialTLS(localName), 1<<20)
}

// Connections to one target are bounded; those that it has authenticated are not evicted, and one more is still served.
func TestConnectionsPerTarget(t *testing.T) {
	f := newFront(t, passthrough.Limits{ConnectionsPerTarget: 2})
	f.setTarget(targetName, target(t, func(conn net.Conn) { echoTLS(conn, targetName) }))
	first := f.dialTLS(targetName)
	echo(t, first, 16<<10) // half of it passes when the connection is proven
	second := f.dialTLS(targetName)
	echo(t, second, 16<<10)
	for range 5 { // they are never proven, as two are
		roundTrip(t, f.dialTLS(targetName), 100<<10)
	}
	roundTrip(t, first, 100)
	roundTrip(t, second, 100)
}

// echo has bytes go to the other side and back.
func echo(t *testing.T, conn *tls.Conn, size int) {
	t.Helper()
	go func() { _, _ = conn.Write(make([]byte, size)) }()
	if _, err := io.ReadFull(conn, make([]byte, size)); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(25 * time.Millisecond) {
		if condition() {
			return
		}
	}
	t.Fatalf("it did not happen within %s", patience)
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
	for limit := 2 * time.Second; ; limit *= 2 {
		f := newFront(t, passthrough.Limits{IdleTimeout: limit})
		f.setTarget(targetName, target(t, func(conn net.Conn) { echoTLS(conn, targetName) }))
		if conn := f.dial("127.0.0.1"); staysOpen(t, conn, limit) {
			closed(t, conn)
			return
		}
		// The machine was so busy that it may have been idle. Another time with a longer limit says.
	}
}

// staysOpen has a byte go back and forth for longer than the limit. It returns false where there was a pause as long as
// the limit.
func staysOpen(t *testing.T, conn net.Conn, limit time.Duration) bool {
	t.Helper()
	secured := tls.Client(conn, &tls.Config{ServerName: targetName, InsecureSkipVerify: true})
	buffer, began, before := make([]byte, 1), time.Now(), time.Now()
	for time.Since(began) < limit+limit/2 {
		sent := time.Now()
		_, err := secured.Write(buffer) // after the handshake, the first time
		if err == nil {
			_, err = io.ReadFull(secured, buffer)
		}
		// The byte was passed on at some time after it was sent, and the one before at some time after that was.
		switch paused := time.Since(before) >= limit; {
		case paused:
			return false
		case err != nil:
			t.Fatalf("closed though it was in use: %v", err)
		}
		before = sent
		time.Sleep(limit / 10)
	}
	return true
}

func TestLifetime(t *testing.T) {
	t.Parallel()
	f := newFront(t, passthrough.Limits{Lifetime: time.Second})
	f.setTarget(targetName, target(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }))
	conn := f.dial("127.0.0.1")
	if _, err := conn.Write(helloFor(t, targetName)); err != nil {
		t.Fatal(err)
	}
	closed(t, conn)
	f.awaitCounted("passed", 1)
}

// Connections get time to end when the server stops.
func TestDrain(t *testing.T) {
	t.Parallel()
	f := newFront(t, passthrough.Limits{DrainTimeout: patience})
	f.setTarget(targetName, target(t, func(conn net.Conn) { echoTLS(conn, targetName) }))
	ending, silent := f.dialTLS(targetName), f.dial("127.0.0.1")
	f.stop()
	eventually(t, func() bool { return errors.Is(f.listener.SetDeadline(time.Time{}), net.ErrClosed) })
	closed(t, silent)
	roundTrip(t, ending, 1<<20)
}

// Those that do not take it are closed.
func TestDrainEnds(t *testing.T) {
	t.Parallel()
	f := newFront(t, passthrough.Limits{DrainTimeout: time.Second})
	f.setTarget(targetName, target(t, func(conn net.Conn) { echoTLS(conn, targetName) }))
	lasting := f.dialTLS(targetName)
	f.stop()
	closed(t, lasting.NetConn())
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
