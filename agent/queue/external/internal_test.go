// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package external

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/external/externaltest"
)

func TestRecent(t *testing.T) {
	for version, want := range map[string]bool{
		"2.12.0": true, "2.12.0-RC.1": true, "v2.15.2": true, "3.0.0": true, "2.11.9": false, "1.99.0": false, "": false,
		"2": false, "x.12": false, "2.x": false,
	} {
		if got := recent(version); got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
}

func TestParseServers(t *testing.T) {
	for text, want := range map[string]string{
		"nats://a": "a:4222", "tls://a.b:1": "a.b:1", "tls://[::1]": "[::1]:4222", "http://a": "", "a:4222": "",
		"nats://u:p@a": "", "nats://": "", "": "",
	} {
		servers, err := parseServers([]string{text})
		if want == "" != (err != nil) || err == nil && servers[0].Host != want {
			t.Errorf("%q: %v, %v", text, servers, err)
		}
	}
	if _, err := parseServers([]string{"nats://a", "tls://b"}); err == nil {
		t.Error("servers with and without TLS")
	}
	if _, err := parseServers(nil); err == nil {
		t.Error("no servers")
	}
}

// FuzzReadInfo: what listens at an address may say anything.
func FuzzReadInfo(f *testing.F) {
	f.Add([]byte("INFO {\"tls_required\":true}\r\n"))
	f.Add([]byte("INFO {}\nPING\r\n"))
	f.Add([]byte("HTTP/1.1 400 " + http.StatusText(http.StatusBadRequest) + "\r\n"))
	f.Add([]byte("INFO " + strings.Repeat("x", maxInfo)))
	f.Fuzz(func(t *testing.T, said []byte) {
		info, rest, err := readInfo(bytes.NewReader(said))
		slow, slowRest, slowErr := readInfo(iotest.OneByteReader(bytes.NewReader(said)))
		if (err == nil) != (slowErr == nil) || !bytes.Equal(info, slow) || len(slowRest) != 0 {
			t.Fatalf("at once %q, %v; byte by byte %q, %q, %v", info, err, slow, slowRest, slowErr)
		}
		if err != nil {
			return
		}
		if !bytes.HasSuffix(info, []byte("\n")) || !bytes.HasPrefix(said, append(info, rest...)) ||
			len(info) > maxInfo+4<<10 {
			t.Fatalf("%q and %q of %q", info, rest, said)
		}
	})
}

func FuzzParseClaim(f *testing.F) {
	f.Add([]byte(`{"member":"orders-0","nonce":7,"released":true}`))
	f.Add([]byte(`{`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseClaim(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := parseClaim(again); len(again) <= maxLease && (err != nil || back != c) {
			t.Fatalf("%+v became %+v, %v", c, back, err)
		}
	})
}

// party is a member that would lead.
type party struct {
	*lease
	conn *nats.Conn
	stop func()
}

func join(t *testing.T, s *externaltest.Server, member string, term time.Duration) *party {
	t.Helper()
	conn, err := nats.Connect(s.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateOrUpdateStream(
		t.Context(), jetstream.StreamConfig{Name: "leases", Subjects: []string{"leases.*"}, AllowRollup: true},
	); err != nil {
		t.Fatal(err)
	}
	l := newLease(js, "leases", "leases.lead", member, term, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.run(ctx)
	}()
	p := &party{l, conn, func() { cancel(); <-ended }}
	t.Cleanup(p.stop)
	return p
}

// leads waits until a party leads.
func (p *party) leads(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !p.held() {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come to lead", p.member)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestLease: one leads, another when that is told to end or is not heard, and none without the server.
func TestLease(t *testing.T) {
	t.Parallel()
	s := externaltest.Start(t, nil)
	first := join(t, s, "orders-0", time.Hour)
	first.leads(t)
	second := newLease(first.js, "leases", "leases.lead", "orders-1", time.Hour, slog.New(slog.DiscardHandler))
	if err := second.turn(t.Context()); err != nil || second.held() {
		t.Errorf("both lead, or %v", err)
	}
	if got := second.holder(); got != "orders-0" {
		t.Errorf("%q leads", got)
	}
	first.stop()
	if first.held() {
		t.Error("who has ended leads")
	}
	if err := second.turn(t.Context()); err != nil || !second.held() || second.holder() != "orders-1" {
		t.Errorf("after the first was released: %v, %q leads", err, second.holder())
	}
	// The second is not heard any more, for what the third takes as long.
	third := join(t, s, "orders-2", 500*time.Millisecond)
	third.leads(t)
	if err := second.turn(t.Context()); err == nil || second.held() {
		t.Errorf("the second leads still, or %v", err)
	}
	// Without a server nobody leads for longer than a term.
	s.Stop()
	deadline := time.Now().Add(2 * time.Minute)
	for third.held() && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	if third.held() {
		t.Error("it leads without a server")
	}
	s.Restart(nil)
	third.leads(t)
}

// TestFence: of two that say something after the same message one is refused and does not lead.
func TestFence(t *testing.T) {
	s := externaltest.Start(t, nil)
	first := join(t, s, "orders-0", time.Hour)
	first.leads(t)
	_, sequence, err := first.look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second := newLease(first.js, "leases", "leases.lead", "orders-1", time.Hour, slog.New(slog.DiscardHandler))
	if err := second.say(t.Context(), sequence, false); err != nil || !second.held() {
		t.Fatalf("%v", err)
	}
	first.stop() // it says that it leads no more, and is not heard
	if first.held() {
		t.Error("two lead")
	}
	if last, _, err := second.look(t.Context()); err != nil || last.Member != "orders-1" || last.Released {
		t.Errorf("%+v, %v", last, err)
	}
	third := newLease(first.js, "leases", "leases.lead", "orders-2", time.Hour, slog.New(slog.DiscardHandler))
	if err := third.say(t.Context(), sequence, false); err == nil || third.held() {
		t.Errorf("who comes late leads: %v", err)
	}
}

// TestSameName: a member that is started again does not wait for itself, and one of the same name that is there still
// does not get it back.
func TestSameName(t *testing.T) {
	s := externaltest.Start(t, nil)
	const term = time.Hour
	first := join(t, s, "orders-0", term)
	first.leads(t)
	again := newLease(first.js, "leases", "leases.lead", "orders-0", term, slog.New(slog.DiscardHandler))
	if err := again.turn(t.Context()); err != nil || !again.held() {
		t.Fatalf("%v", err)
	}
	first.stop()
	other := newLease(first.js, "leases", "leases.lead", "orders-1", term, slog.New(slog.DiscardHandler))
	if err := other.turn(t.Context()); err != nil || other.held() || other.holder() != "orders-0" {
		t.Errorf("%v, %q", err, other.holder())
	}
	again.release(t.Context())
	if err := other.turn(t.Context()); err != nil || !other.held() {
		t.Errorf("after it was released: %v", err)
	}
}
