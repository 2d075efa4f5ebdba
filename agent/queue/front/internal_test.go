// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/queue/classes"
	"github.com/lighterage/lighterage/agent/queue/store"
)

func TestCovers(t *testing.T) {
	for _, test := range []struct {
		pattern, subject string
		want             bool
	}{
		{"a", "a", true}, {"a", "b", false}, {"a.b", "a.b", true}, {"a", "a.b", false}, {"a.b", "a", false},
		{"a.*", "a.b", true}, {"a.*", "a.b.c", false}, {"*.b", "a.b", true}, {"a.>", "a.b", true}, {"a.>", "a.b.c", true},
		{"a.>", "a", false}, {">", "a.b", true}, {"", "a", false}, {"a", "", false}, {"", "", true},
	} {
		if got := covers([]byte(test.pattern), []byte(test.subject)); got != test.want {
			t.Errorf("%q covers %q: %v", test.pattern, test.subject, got)
		}
	}
}

func TestSubscriptions(t *testing.T) {
	var s subscriptions
	if !s.add([]byte("1"), []byte("_INBOX.a.*")) || !s.add([]byte("2"), []byte("_INBOX.b")) {
		t.Error("there are too many")
	}
	s.storedFor([]byte("_INBOX.a.7"))
	if !s.wantsStored([]byte("1")) || s.wantsStored([]byte("2")) || s.wantsStored([]byte("3")) {
		t.Error("the wrong subscription wants messages as they are stored")
	}
	s.remove([]byte("1"), 2)
	s.delivered([]byte("1"))
	if !s.wantsStored([]byte("1")) {
		t.Error("removed too early")
	}
	s.delivered([]byte("1"))
	s.remove([]byte("2"), 0)
	s.delivered([]byte("2"))
	if len(s.bySID) != 0 {
		t.Errorf("%d are left", len(s.bySID))
	}
}

// upper makes operations upper case in batches that are worked on, and leaves others.
type upper struct{ limit int }

func (u upper) judge(buf []byte, _ *generation, s *step) (need int, err error) {
	if need, err = s.read(buf, fromClient, u.limit); err == nil && len(s.payload) > 0 {
		s.becomes(compress, len(s.payload))
	}
	return need, err
}

func (upper) commit() error { return nil }

func (upper) execute(out []byte, _ *generation, steps []step) ([]byte, error) {
	for _, s := range steps {
		if s.verdict == compress {
			s.raw = bytes.ToUpper(s.raw)
		}
		out = append(out, s.raw...)
	}
	return out, nil
}

// working is a front with so many turns.
func working(turns int) *Front { return &Front{turns: make(chan struct{}, turns)} }

// slow gives some bytes at a time.
type slow struct {
	from []byte
	n    int
}

func (s *slow) Read(b []byte) (int, error) {
	if len(s.from) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.from[:min(s.n, len(s.from))])
	s.from = s.from[n:]
	return n, nil
}

// TestPump: what is worked on at once and what is not arrives in order, however it was cut.
func TestPump(t *testing.T) {
	var in bytes.Buffer
	for i := range 80 {
		size := i * i * 537 % 60000
		in.WriteString("pub orders ")
		in.WriteString(strings.TrimSpace(string(put0(size))))
		in.WriteString("\r\n" + strings.Repeat(string(rune('a'+i%26)), size) + "\r\nping\r\n")
	}
	want := bytes.ReplaceAll(bytes.ToUpper(in.Bytes()), []byte("PING"), []byte("ping"))
	want = bytes.ReplaceAll(want, []byte("PUB ORDERS 0\r\n"), []byte("pub orders 0\r\n"))
	for _, cut := range []int{1 << 20, 100_000, 4096, 1000, 7} {
		data := in.Bytes()
		if cut == 7 {
			data = data[:100_000]
		}
		var out bytes.Buffer
		err := newPump(working(3), &slow{data, cut}, &out, upper{1 << 20}).run(data[:0])
		if !errors.Is(err, io.EOF) || !bytes.HasPrefix(want, out.Bytes()) || cut != 7 && out.Len() != len(want) ||
			out.Len() < len(data)-60000 {
			t.Errorf("cut at %d: %d bytes of %d, %v", cut, out.Len(), len(want), err)
		}
	}
}

// waiting looks at the steps that its pump keeps whenever that reads.
type waiting struct {
	slow
	pump *pump
	kept int // steps that refer to something
	most int // steps of which there is space
}

func (w *waiting) Read(b []byte) (int, error) {
	steps := w.pump.steps[:cap(w.pump.steps)]
	for i := range steps {
		if !reflect.ValueOf(steps[i]).IsZero() {
			w.kept++
		}
	}
	w.most = max(w.most, len(steps))
	return w.slow.Read(b)
}

// TestPumpKeepsNothing: a pump that waits refers to no buffer that it has released, and has space for few steps.
func TestPumpKeepsNothing(t *testing.T) {
	for what, in := range map[string]string{
		"passed on as it is": "ping\r\n",
		"worked on at once":  strings.Repeat("pub a 1\r\nx\r\n", 200),
		"worked on beside":   strings.Repeat("pub a 30000\r\n"+strings.Repeat("x", 30000)+"\r\n", 5),
		"not there in full":  "ping\r\npub a 30000\r\n" + strings.Repeat("x", 1000),
	} {
		from := &waiting{slow: slow{[]byte(in), 1 << 20}}
		from.pump = newPump(working(3), from, io.Discard, upper{1 << 20})
		if err := from.pump.run(nil); !errors.Is(err, io.EOF) || from.kept > 0 || from.most > keptSteps {
			t.Errorf("%s: %d steps refer to something, there is space for %d, %v", what, from.kept, from.most, err)
		}
	}
}

func put0(n int) []byte {
	if n == 0 {
		return []byte("0")
	}
	digits := make([]byte, 6)
	put(digits, n)
	return bytes.TrimLeft(digits, "0")
}

// broken fails after some bytes.
type broken struct{ left int }

var errBroken = errors.New("broken")

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errBroken
	}
	return len(p), nil
}

func TestPumpFails(t *testing.T) {
	message := []byte("PUB a 30000\r\n" + strings.Repeat("x", 30000) + "\r\n")
	if err := newPump(
		working(3), &slow{bytes.Repeat(message, 50), 1 << 20}, &broken{100_000}, upper{1 << 20},
	).run(nil); !errors.Is(err, errBroken) {
		t.Errorf("a writer that breaks: %v", err)
	}
	if err := newPump(
		working(3), &slow{message, 1 << 20}, io.Discard, upper{100},
	).run(nil); !errors.Is(err, errPayload) {
		t.Errorf("a message too long: %v", err)
	}
}

func TestRates(t *testing.T) {
	var h history
	start := time.Unix(1000, 0)
	h.reset(start, totals{}, 3)
	at := func(puts, plain, compressed int64) (t totals) {
		t.counts[Puts] = puts
		t.compression.Software.Bytes, t.compression.CompressedBytes = plain, compressed
		t.compression.Software.Operations, t.compression.CPU = plain/100, time.Duration(plain)
		return t
	}
	h.tick(start.Add(9*time.Second), at(5, 0, 0))
	if h.rates[putRate] != 0 {
		t.Error("a window ended early")
	}
	h.tick(start.Add(10*time.Second), at(50, 1000, 100))
	h.tick(start.Add(30*time.Second), at(70, 1000, 100))
	if h.rates[putRate] != 1 || h.highest[putRate] != 5 || h.highWater != 3 {
		t.Errorf("%v, %v, %d", h.rates, h.highest, h.highWater)
	}
	if plain, compressed := h.recent.bytes(); plain != 1000 || compressed != 100 || h.recent.rated()[encodeRate] != 10 ||
		h.recentTried.compression.CPU != 1000 {
		t.Errorf("recently %d to %d bytes, %+v", plain, compressed, h.recentTried.compression)
	}
	h.reset(start.Add(time.Minute), totals{}, 3)
	if plain, _ := h.recent.bytes(); plain != 0 || h.recentTried.compression.CPU != 0 {
		t.Error("recent figures survived a reset")
	}
}

// FuzzRead: an operation is found whole or not at all, wherever what was read ends.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"PUB orders 5\r\nhello\r\nPING\r\n", "HPUB orders _INBOX.1 12 17\r\nNATS/1.0\r\n\r\nhello\r\n", "SUB a q 1\r\n",
		"UNSUB 1 5\r\n",
		"MSG a 1 5\r\nhello\r\n", "HMSG a 1 b 12 17\r\nNATS/1.0\r\n\r\nhello\r\n", "INFO {}\r\n", "+OK\r\n-ERR 'x'\r\n",
		"CONNECT {}\n", "pub  a\t0\n\r\n",
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	const limit = 1000
	f.Fuzz(func(t *testing.T, data []byte, client bool) {
		from := fromServer
		if client {
			from = fromClient
		}
		var op operation
		need, err := op.read(data, from, limit)
		if err != nil {
			if op.raw != nil || !errors.Is(err, errProtocol) && !errors.Is(err, errPayload) {
				t.Fatal(err)
			}
			return
		}
		if op.raw == nil {
			if need != 0 && need <= len(data) || need > maxConnect+maxHeader+limit+2 {
				t.Fatalf("needs %d of %d", need, len(data))
			}
			return
		}
		if len(op.raw) != need || len(op.payload) > limit || len(op.header) > maxHeader {
			t.Fatalf("%+v, needs %d", op, need)
		}
		for n := range op.raw {
			var part operation
			if _, err := part.read(data[:n], from, limit); part.raw != nil || err != nil {
				t.Fatalf("%d of %d bytes: %q, %v", n, need, part.raw, err)
			}
		}
	})
}

// filtered is a request to make a consumer as it is passed on.
func filtered(f *Front, body []byte) ([]byte, error) {
	r, err := f.confine(body)
	if err != nil {
		return nil, err
	}
	return json.Marshal(r.fields)
}

// TestFiltered: no way of writing a request hides what it asks for.
func TestFiltered(t *testing.T) {
	front := &Front{
		options: Options{Queue: "orders"}, access: access{queue: "orders"}, classes: classes.New("orders", false, nil),
	}
	for body, want := range map[string]string{
		`{"config":{}}`: `{"config":{"filter_subjects":["orders","orders.\u003e"]}}`,
		`{"config":{"filter_subject":"orders.a"},"stream_name":"orders"}`:                                    `{"config":{"filter_subject":"orders.a"},"stream_name":"orders"}`,
		`{"config":{"deliver_subject":"$JS.API.STREAM.DELETE.orders"},"config":{"filter_subject":"orders"}}`: `{"config":{"filter_subject":"orders"}}`,
		`{"config":{"filter_subject":">","filter_subject":"orders"}}`:                                        `{"config":{"filter_subject":"orders"}}`,
		`{"config":{"filter_subject":"orders2"}}`:                                                            "",
		`{"config":{"Filter_Subject":">"}}`:                                                                  "",
		`{"config":{"filter_ſubject":">"}}`:                                                                  "",
		`{"Config":{"filter_subject":">"},"config":{}}`:                                                      "",
		`{"config":{"deliver_ſubject":"$JS.API.STREAM.DELETE.orders"}}`:                                      "",
		`{"config":{"sourcing":true}}`:                                                                       "",
		`{"config":{"Direct":true}}`:                                                                         "",
		`{"Action":"update","config":{}}`:                                                                    "",
		`{"config":null}`:                                                                                    "",
		`{}`:                                                                                                 "",
		`[]`:                                                                                                 "",
		``:                                                                                                   "",
	} {
		got, err := filtered(front, []byte(body))
		if string(got) != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v", body, got, err)
		}
	}
}

// noting is a server that is told what consumers read.
type noting struct {
	Server
	told  []string
	fresh bool
	err   error
}

func (n *noting) Configure(_ context.Context, consumer string, filters []string) (bool, error) {
	n.told = append(n.told, consumer+" reads "+strings.Join(filters, " "))
	return n.fresh, n.err
}

// TestConfigure: the server is told before it is asked what a consumer is to read, whichever way it is named, and is
// not asked if it could not note that.
func TestConfigure(t *testing.T) {
	server := &noting{}
	front := &Front{options: Options{Queue: "orders", Server: server}, access: access{queue: "orders"}}
	ask := func(subject, body string) string {
		return string(
			front.consumer(
				nil, &operation{kind: opPub, subject: []byte(subject), reply: []byte("_INBOX.x"), payload: []byte(body)},
			),
		)
	}
	for _, c := range []struct{ subject, body, want string }{
		{createPrefix + "orders", `{"config":{}}`, " reads orders orders.>"},
		{createPrefix + "orders", `{"config":{"name":"a","filter_subject":"orders.x"}}`, "a reads orders.x"},
		{createPrefix + "orders.a", `{"config":{"filter_subjects":["orders.x","orders.y"]}}`, "a reads orders.x orders.y"},
		{
			createPrefix + "orders.a.orders.x", `{"config":{"durable_name":"a","filter_subject":"orders.x"}}`,
			"a reads orders.x",
		},
		{durablePrefix + "orders.a", `{"config":{"durable_name":"a","filter_subject":"orders.x"}}`, "a reads orders.x"},
	} {
		server.told = nil
		if out := ask(c.subject, c.body); !strings.HasPrefix(out, "PUB "+c.subject+" ") || strings.Contains(out, "action") ||
			len(server.told) != 1 || server.told[0] != c.want {
			t.Errorf("%s %s: told %q, then %q", c.subject, c.body, server.told, out)
		}
	}
	// One that is made by another member in the meantime is not changed.
	server.fresh = true
	if out := ask(createPrefix+"orders.a", `{"config":{}}`); !strings.HasPrefix(out, "PUB "+createPrefix) ||
		!strings.Contains(out, `"action":"create"`) {
		t.Errorf("where there is none of that name: %q", out)
	}
	if out := ask(
		createPrefix+"orders.a", `{"action":"update","config":{}}`,
	); !strings.Contains(out, `"action":"update"`) {
		t.Errorf("a change of what is not there: %q", out)
	}
	server.err = errors.New("no space")
	if out := ask(createPrefix+"orders.a", `{"config":{}}`); !strings.HasPrefix(out, "PUB _INBOX.x ") ||
		!strings.Contains(out, "no space") || !strings.Contains(out, `"code":503`) {
		t.Errorf("when that could not be noted: %q", out)
	}
	server.err = fmt.Errorf("wrapped: %w", &store.FiltersError{Consumer: "a", Before: "orders.x"})
	if out := ask(createPrefix+"orders.a", `{"config":{}}`); !strings.HasPrefix(out, "PUB _INBOX.x ") ||
		!strings.Contains(out, "orders.x") || !strings.Contains(out, `"code":400`) {
		t.Errorf("when that may not be: %q", out)
	}
}

// FuzzFiltered: a request that is let through has filters, and is let through again as it is.
func FuzzFiltered(f *testing.F) {
	front := &Front{
		options: Options{Queue: "orders"}, access: access{queue: "orders"}, classes: classes.New("orders", false, nil),
	}
	f.Add([]byte(`{"stream_name":"orders","config":{"durable_name":"x"}}`))
	f.Add([]byte(`{"config":{"filter_subject":"orders.a","Filter_Subject":">"}}`))
	f.Add([]byte(`{"config":{"filter_subjects":["orders.>"],"deliver_subject":"_DELIVER.1"}}`))
	f.Add([]byte(`{"config":{"description":"` + strings.Repeat("<", 3000) + `"}}`)) // longer as Go writes it
	f.Fuzz(func(t *testing.T, body []byte) {
		out, err := filtered(front, body)
		if err != nil {
			return
		}
		if again, err := filtered(front, out); err != nil || !bytes.Equal(again, out) {
			t.Fatalf("%q became %q, which becomes %q, %v", body, out, again, err)
		}
		if !bytes.Contains(out, []byte(`filter_subject`)) {
			t.Fatalf("%q has no filter", out)
		}
	})
}
