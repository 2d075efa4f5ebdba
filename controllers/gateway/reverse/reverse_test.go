// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	testclock "k8s.io/utils/clock/testing"

	"github.com/lighterage/lighterage/agent/wire/tunnel"
	"github.com/lighterage/lighterage/controllers/gateway/reverse"
)

var key = func() ([]byte, error) { return []byte("a key of 32 bytes for the tests ."), nil }

func TestNames(t *testing.T) {
	for _, own := range []netip.AddrPort{
		{}, netip.MustParseAddrPort("10.0.0.7:8443"), netip.MustParseAddrPort("[fd00::17]:8443"),
	} {
		names := reverse.Names{Key: key, Own: own}
		name, err := names.New()
		if err != nil {
			t.Fatal(err)
		}
		if label, _, _ := strings.Cut(name, "."); len(label) > 63 {
			t.Errorf("label of %d characters", len(label))
		}
		if owner, ok := names.Owner(name); !ok || owner != own {
			t.Errorf("%s is of %v, %t", name, owner, ok)
		}
		if again, _ := names.New(); again == name {
			t.Error("a name was made twice")
		}
		other := reverse.Names{Key: func() ([]byte, error) { return []byte("another key"), nil }}
		if _, ok := other.Owner(name); ok {
			t.Error("a name counts with another key")
		}
		// Another owner with the same MAC.
		if _, ok := names.Owner("b" + name[1:]); ok && name[0] != 'b' {
			t.Error("a changed name counts")
		}
	}
}

// A name leads nowhere once nobody can wait for it any more.
func TestNamesExpire(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Unix(1900000000, 0))
	names := reverse.Names{Key: key, Own: netip.MustParseAddrPort("10.0.0.7:8443"), Clock: clock}
	name, err := names.New()
	if err != nil {
		t.Fatal(err)
	}
	for seconds, want := range map[int]bool{-31: false, -20: true, 20: true, 31: false} {
		clock.SetTime(time.Unix(1900000000+int64(seconds), 0))
		if _, ok := names.Owner(name); ok != want {
			t.Errorf("after %d s: %t", seconds, ok)
		}
	}
}

func FuzzOwner(f *testing.F) {
	names := reverse.Names{Key: key, Own: netip.MustParseAddrPort("10.0.0.7:8443")}
	name, err := names.New()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(name)
	f.Add(strings.Repeat("a", 34) + ".data.lighterage.internal")
	f.Fuzz(func(t *testing.T, candidate string) {
		if owner, ok := names.Owner(candidate); ok && candidate != name {
			t.Errorf("%q is of %v", candidate, owner)
		}
	})
}

// pair are the ends of a connection.
func pair(t testing.TB) (near, far *net.TCPConn) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialled, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		dialled.Close()
		accepted.Close()
	})
	return dialled.(*net.TCPConn), accepted.(*net.TCPConn)
}

// connecting is a call of Connect that runs.
type connecting struct {
	conn *net.TCPConn
	err  error
}

func connect(ctx context.Context, r *reverse.Registry, patient bool) <-chan connecting {
	done := make(chan connecting, 1)
	go func() {
		conn, err := r.Connect(ctx, reverse.Asked{Peer: "east", Owner: "bank"}, patient)
		done <- connecting{conn, err}
	}()
	return done
}

// A request that one control connection does not fulfil goes to the next, and its name counts once.
func TestRegistryAsksTheNext(t *testing.T) {
	names := reverse.Names{Key: key}
	r := reverse.NewRegistry(names)
	first, leaveFirst := r.Add("east", time.Now())
	done := connect(t.Context(), r, false)
	name := <-first.Ask
	r.Failed("north", name) // not its own
	second, leaveSecond := r.Add("east", time.Now().Add(time.Second))
	defer leaveSecond()
	if n, since := r.Connections("east"); n != 2 || time.Since(since) < 0 {
		t.Errorf("%d since %s", n, since)
	}
	leaveFirst() // it is cut
	if again := <-second.Ask; again != name {
		t.Errorf("asked for %q, then %q", name, again)
	}
	r.Failed("east", name)
	third, leaveThird := r.Add("east", time.Now())
	defer leaveThird()
	<-third.Ask
	if !r.Mine(name) || r.Mine("x"+name) {
		t.Error("its own name is not known")
	}
	near, late := pair(t)
	if !r.Take(name, near) || r.Take(name, late) {
		t.Error("a name does not count once")
	}
	if got := <-done; got.conn != near || got.err != nil {
		t.Errorf("%+v", got)
	}
	if r.Take(name, late) {
		t.Error("a name counts after its request")
	}
}

func TestRegistryFails(t *testing.T) {
	r := reverse.NewRegistry(reverse.Names{Key: key})
	if got := <-connect(t.Context(), r, false); reasonOf(got.err) != tunnel.NotConnected {
		t.Errorf("without a control connection: %v", got.err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c, leave := r.Add("east", time.Now())
	defer leave()
	done := connect(ctx, r, false)
	name := <-c.Ask
	cancel()
	if got := <-done; reasonOf(got.err) != tunnel.NoAnswer {
		t.Errorf("without an answer: %v", got.err)
	}
	if conn, _ := pair(t); r.Take(name, conn) {
		t.Error("somebody takes what came too late")
	}
	for range reverse.MaxControls - 1 {
		if c, _ := r.Add("east", time.Now()); c == nil {
			t.Fatal("too few are allowed")
		}
	}
	if c, _ := r.Add("east", time.Now()); c != nil {
		t.Error("too many are allowed")
	}
	broken := reverse.NewRegistry(reverse.Names{Key: func() ([]byte, error) { return nil, errors.New("no key") }})
	if _, err := broken.Connect(t.Context(), reverse.Asked{Peer: "east"}, false); err == nil {
		t.Error("a name was made without a key")
	}
}

// Where the only control connection is lost, another replica can be asked at once.
func TestRegistryLosesTheLast(t *testing.T) {
	r := reverse.NewRegistry(reverse.Names{Key: key})
	c, leave := r.Add("east", time.Now())
	begun, done := time.Now(), connect(t.Context(), r, false)
	<-c.Ask
	leave()
	if got := <-done; reasonOf(got.err) != tunnel.NotConnected {
		t.Errorf("%v after %s", got.err, time.Since(begun))
	}
	// Who has no other replica waits for the next.
	c, leave = r.Add("east", time.Now())
	done = connect(t.Context(), r, true)
	name := <-c.Ask
	leave()
	c, leave = r.Add("east", time.Now())
	defer leave()
	if again := <-c.Ask; again != name {
		t.Errorf("asked for %q, then %q", name, again)
	}
	near, _ := pair(t)
	if !r.Take(name, near) {
		t.Error("nobody waits")
	}
	if got := <-done; got.err != nil {
		t.Error(got.err)
	}
}

// One owner leaves half of what a peer may be asked for to the others.
func TestRegistrySharesAPeer(t *testing.T) {
	r := reverse.NewRegistry(reverse.Names{Key: key})
	c, leave := r.Add("east", time.Now())
	defer leave()
	ctx, cancel := context.WithCancel(t.Context())
	var waiting []<-chan connecting
	for range 64 {
		waiting = append(waiting, connect(ctx, r, false))
	}
	for range waiting {
		<-c.Ask
	}
	if got := <-connect(ctx, r, false); reasonOf(got.err) != tunnel.Busy {
		t.Errorf("one more: %v", got.err)
	}
	other := make(chan error, 1)
	go func() {
		conn, err := r.Connect(ctx, reverse.Asked{Peer: "east", Owner: "vault"}, false)
		if err == nil {
			err = conn.Close()
		}
		other <- err
	}()
	near, _ := pair(t)
	if name := <-c.Ask; !r.Take(name, near) {
		t.Error("nobody waits for what another owner asked for")
	}
	if err := <-other; err != nil {
		t.Errorf("of another owner: %v", err)
	}
	cancel()
	for _, one := range waiting {
		<-one
	}
	ctx, cancel = context.WithCancel(t.Context())
	again := connect(ctx, r, false)
	<-c.Ask // there is place again
	cancel()
	<-again
}

// What a replica says is passed on.
func TestSiblings(t *testing.T) {
	var answer atomic.Pointer[tunnel.Error]
	address, _ := served(t, reverse.Limits{}, func(asked reverse.Asked) (*net.TCPConn, error) {
		if !asked.Passed || asked.Owner != "bank" || asked.Peer != "east" {
			t.Errorf("%+v", asked)
		}
		return nil, answer.Load()
	})
	at := netip.MustParseAddrPort(address)
	siblings := reverse.Siblings{
		Lookup: func(context.Context) ([]netip.Addr, error) {
			return []netip.Addr{at.Addr(), netip.MustParseAddr("127.0.0.9")}, nil // nobody listens at the second
		},
		Own: netip.MustParseAddr("127.0.0.2"), Port: at.Port(),
	}
	by := reverse.Asked{Peer: "east", Owner: "bank", Proof: "bank"}
	for _, reason := range []tunnel.Reason{tunnel.NoAnswer, tunnel.Busy, tunnel.NotAllowed, tunnel.NotConnected} {
		answer.Store(&tunnel.Error{Reason: reason})
		if _, err := siblings.Connect(t.Context(), by, time.Now().Add(time.Minute)); reasonOf(err) != reason {
			t.Errorf("%s: %v", reason, err)
		}
	}
	answer.Store(&tunnel.Error{Reason: tunnel.Busy})
	if _, err := siblings.Connect(t.Context(), by, time.Now().Add(-time.Second)); reasonOf(err) != tunnel.NotConnected {
		t.Errorf("asked after its time: %v", err)
	}
}

func reasonOf(err error) tunnel.Reason {
	reason, _ := tunnel.ReasonOf(err)
	return reason
}

// proxy is an HTTP proxy with one user.
func proxy(t testing.TB, respond func(net.Conn, *http.Request)) string {
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
			go func() {
				defer conn.Close()
				if request, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					respond(conn, request)
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func TestThroughProxy(t *testing.T) {
	const endpoint = "gateway.west.example:8443"
	given := func(credentials string) func() (string, error) {
		return func() (string, error) { return credentials, nil }
	}
	asked := proxy(t, func(conn net.Conn, r *http.Request) {
		if r.Host != endpoint {
			t.Errorf("asked for %s", r.Host)
		}
		if r.Header.Get("Proxy-Authorization") != "Basic dXNlcjpzZWNyZXQ=" {
			_, _ = io.WriteString(conn, "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n")
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\nhello")
	})
	conn, err := reverse.ThroughProxy(asked, given("user:secret"))(t.Context(), "tcp", endpoint)
	if err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(conn); err != nil || string(said) != "hello" {
		t.Errorf("%q, %v", said, err)
	}
	closed := proxy(t, func(net.Conn, *http.Request) {})
	wrong := func(status string) string {
		return proxy(t, func(conn net.Conn, _ *http.Request) { fmt.Fprintf(conn, "HTTP/1.1 %s\r\n\r\n", status) })
	}
	unread := func() (string, error) { return "", errors.New("no such file") }
	for name, test := range map[string]struct {
		proxy       string
		credentials func() (string, error)
		want        tunnel.Reason
	}{
		"no credentials":    {asked, given(""), tunnel.ProxyAuthentication},
		"wrong credentials": {asked, given("user:other"), tunnel.ProxyAuthentication},
		"unread":            {asked, unread, tunnel.ProxyAuthentication},
		"502":               {wrong("502 Bad Gateway"), given(""), tunnel.ProxyRefused},
		"403":               {wrong("403 Forbidden"), given(""), tunnel.ProxyRefused},
		"ends":              {closed, given(""), tunnel.ProxyUnreachable},
		"nobody":            {"127.0.0.1:1", given(""), tunnel.ProxyUnreachable},
	} {
		_, err := reverse.ThroughProxy(test.proxy, test.credentials)(t.Context(), "tcp", endpoint)
		if reasonOf(err) != test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A proxy that stalls is given up in time.
	silent := make(chan struct{})
	defer close(silent)
	stalls := proxy(t, func(net.Conn, *http.Request) { <-silent })
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := reverse.ThroughProxy(stalls, given(""))(ctx, "tcp", endpoint); reasonOf(err) != tunnel.ProxyUnreachable {
		t.Errorf("stalls: %v", err)
	}
}

// served is a Server whose connections come from connect.
func served(
	t testing.TB, limits reverse.Limits, connect func(reverse.Asked) (*net.TCPConn, error),
) (address string, counted chan string) {
	t.Helper()
	counted = make(chan string, 1000)
	server := reverse.NewServer(reverse.ServerOptions{
		Authenticate: func(proof, _ string) (string, error) {
			if proof == "" {
				return "", tunnel.ErrProof
			}
			return proof, nil
		},
		Connect: func(_ context.Context, asked reverse.Asked) (*net.TCPConn, error) { return connect(asked) },
		Join: func(_ string, remote, local *net.TCPConn, first []byte) error {
			defer remote.Close()
			defer local.Close()
			_, _ = remote.Write(first)
			_, err := io.Copy(remote, local)
			return err
		},
		Manager: "/manager",
		State:   func(string) reverse.State { return reverse.State{Connections: 3} },
		Count:   func(_, result string) { counted <- result },
		Limits:  limits, Log: logr.Discard(),
	})
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener.(*net.TCPListener)) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String(), counted
}

func ask(t testing.TB, address, owner, target string) (*net.TCPConn, error) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn), tunnel.Ask(t.Context(), conn, tunnel.Request{Target: target, Authorization: owner})
}

// One owner leaves half of the tunnels to the others.
func TestServerLimits(t *testing.T) {
	address, counted := served(t, reverse.Limits{Tunnels: 4}, func(reverse.Asked) (*net.TCPConn, error) {
		near, _ := pair(t)
		return near, nil
	})
	var open []*net.TCPConn
	for range 2 {
		conn, err := ask(t, address, "bank", tunnel.Target("east"))
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	if _, err := ask(t, address, "bank", tunnel.Target("east")); reasonOf(err) != tunnel.Busy {
		t.Errorf("one more: %v", err)
	}
	if _, err := ask(t, address, "vault", tunnel.Target("east")); err != nil {
		t.Errorf("of another: %v", err)
	}
	_ = open[0].Close() // makes place
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := ask(t, address, "bank", tunnel.Target("east")); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if first := <-counted; first != reverse.ResultConnected {
		t.Errorf("counted %q", first)
	}
}

// Who connects and says nothing keeps nobody out, neither of its own address nor of others.
func TestServerEvictsTheSilent(t *testing.T) {
	address, _ := served(t, reverse.Limits{Unknown: 4, UnknownPerSource: 2}, func(reverse.Asked) (*net.TCPConn, error) {
		near, _ := pair(t)
		return near, nil
	})
	silent := make([]net.Conn, 8)
	for i := range silent {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		silent[i] = conn
	}
	if _, err := ask(t, address, "bank", tunnel.Target("east")); err != nil {
		t.Error(err)
	}
	_ = silent[0].SetReadDeadline(time.Now().Add(time.Minute))
	// Others are told that they sent no request in time.
	if n, err := silent[0].Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the oldest was not evicted: %d bytes, %v", n, err)
	}
}

func TestServerRefuses(t *testing.T) {
	address, _ := served(t, reverse.Limits{}, func(asked reverse.Asked) (*net.TCPConn, error) {
		if asked.Peer == "own" {
			return nil, errors.New("the API server does not answer")
		}
		return nil, &tunnel.Error{Reason: tunnel.NotConnected}
	})
	for name, test := range map[string]struct {
		owner, target string
		want          tunnel.Reason
	}{
		"a stranger":     {"", tunnel.Target("east"), tunnel.NotAllowed},
		"not connected":  {"bank", tunnel.Target("east"), tunnel.NotConnected},
		"own trouble":    {"bank", tunnel.Target("own"), tunnel.Busy},
		"another target": {"bank", "example.com:443", tunnel.ProxyRefused},
	} {
		if _, err := ask(t, address, test.owner, test.target); reasonOf(err) != test.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Only the manager is told what the state of a peer is.
func TestServerTellsStates(t *testing.T) {
	address, _ := served(t, reverse.Limits{}, func(reverse.Asked) (*net.TCPConn, error) {
		return nil, &tunnel.Error{Reason: tunnel.NotConnected}
	})
	for path, test := range map[string]struct {
		owner string
		want  int
	}{
		"/state/east": {"/manager", http.StatusOK}, "/state/East": {"/manager", http.StatusBadRequest},
		"/state/west": {"bank", http.StatusForbidden}, "/state/north": {"", http.StatusForbidden},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Proxy-Authorization", test.owner)
		answer, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != test.want {
			t.Errorf("%s asks for %s: %d", test.owner, path, answer.StatusCode)
		}
	}
}

// FuzzServer: whatever comes, the server answers or ends the connection, and goes on.
func FuzzServer(f *testing.F) {
	address, counted := served(f, reverse.Limits{}, func(reverse.Asked) (*net.TCPConn, error) {
		return nil, &tunnel.Error{Reason: tunnel.NotConnected}
	})
	go func() {
		for range counted { //nolint:revive // nobody looks at them
		}
	}()
	f.Add([]byte("CONNECT east.peer.lighterage.internal:443 HTTP/1.1\r\nHost: east\r\nProxy-Authorization: a\r\n\r\n"))
	f.Add([]byte("GET /state/east HTTP/1.1\r\nHost: a\r\nProxy-Authorization: a\r\n\r\n"))
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n"))
	f.Add([]byte("\x16\x03\x01"))
	f.Fuzz(func(t *testing.T, said []byte) {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, _ = conn.Write(said)
		_ = conn.(*net.TCPConn).CloseWrite()
		answer, err := io.ReadAll(conn)
		if err == nil && len(answer) > 0 && !strings.HasPrefix(string(answer), "HTTP/1.1 ") {
			t.Errorf("%q in answer to %q", answer, said)
		}
	})
}

func TestSum(t *testing.T) {
	early, late := time.Unix(1900000000, 0), time.Unix(1900000100, 0)
	sum := reverse.Sum([]reverse.State{
		{Connections: 2, Since: late, Error: "first", Reason: tunnel.ProxyRefused, ErrorTime: early},
		{Connections: 1, Since: early}, {Error: "last", ErrorTime: late},
	})
	want := reverse.State{Connections: 3, Since: early, Error: "last", ErrorTime: late}
	if sum != want {
		t.Errorf("%+v", sum)
	}
}
