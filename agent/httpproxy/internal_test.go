// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

func TestCPUWatch(t *testing.T) {
	w := cpuWatch{percent: 50, procs: 2}
	now := time.Unix(1000, 0)
	for i, test := range []struct {
		elapsed, used time.Duration
		over          bool
	}{
		{0, time.Hour, false}, // nothing to compare with
		{time.Second, 900 * time.Millisecond, false},
		{time.Second, 1100 * time.Millisecond, true},
		{0, 0, true}, // no time has passed
		{time.Second, 0, false},
	} {
		now = now.Add(test.elapsed)
		if got := w.over(now, w.used+test.used); got != test.over {
			t.Errorf("step %d: %v", i, got)
		}
	}
	var g governor
	g.overCPU.Store(true)
	if got := g.admit(); got != CPUBudget {
		t.Errorf("%q", got)
	}
}

// TestRecent: recent figures are those of the last window with compressed bodies, and not of all since the start.
func TestRecent(t *testing.T) {
	start := time.Now()
	var s statistics
	s.reset(start)
	compressed := func(plain, packed int, cpu time.Duration) outcome {
		return outcome{coding: negotiate.Gzip, body: true, meter: meter.Outcome{
			Path: meter.Software, PlainBytes: plain, WireBytes: packed, CPU: cpu,
		}}
	}
	s.add(compressed(5000, 1000, 100))
	s.tick(start.Add(window - time.Millisecond))
	if s.recent != (Recent{}) {
		t.Errorf("a window ended early: %+v", s.recent)
	}
	s.tick(start.Add(window))
	s.windowBegun = start // so that add does not end the window
	s.add(compressed(300, 100, 7))
	s.add(stored(40, policy.Incompressible))
	s.tick(start.Add(2 * window))
	want := Recent{Bodies: 1, PlainBytes: 300, Bytes: 100, CPU: 7}
	if s.recent != want {
		t.Errorf("recently %+v, want %+v", s.recent, want)
	}
	s.tick(start.Add(4 * window))
	if s.recent != want {
		t.Errorf("after a window without bodies: %+v", s.recent)
	}
	s.reset(start)
	if s.recent != (Recent{}) {
		t.Errorf("after a reset: %+v", s.recent)
	}
}

func TestHealthNotes(t *testing.T) {
	h := newHealthCheck("x:1", nil, Health{Failures: 3}, nil)
	broken := errors.New("broken")
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for i, test := range []struct {
		err     error
		healthy bool
		since   int
	}{
		{nil, true, 0}, {broken, true, 0}, {broken, true, 0}, {nil, true, 0}, {broken, true, 0}, {broken, true, 0},
		{broken, false, 6}, {broken, false, 6}, {nil, true, 8},
	} {
		h.note(test.err, at(i))
		if got := h.get(); got.Healthy != test.healthy || !got.Since.Equal(at(test.since)) ||
			(got.Failure == FailureNone) != test.healthy {
			t.Errorf("step %d: %+v", i, got)
		}
	}
	first := newHealthCheck("x:1", nil, Health{Failures: 3}, nil)
	for i, checked := range []bool{false, false, true, true} {
		first.note(broken, at(i))
		if got := first.get(); got.Checked != checked || got.Healthy {
			t.Errorf("a backend that never answered, after %d checks: %+v", i+1, got)
		}
	}
}

func TestPeer(t *testing.T) {
	trusted := []netip.Prefix{
		netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32"), netip.MustParsePrefix("fe80::/10"),
	}
	for _, test := range []struct {
		remote        net.Addr
		address, node string
		trusted       bool
	}{
		{&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 5}, "192.0.2.1", "192.0.2.1", true},
		{&net.TCPAddr{IP: net.ParseIP("::ffff:192.0.2.255")}, "192.0.2.255", "192.0.2.255", true},
		{&net.TCPAddr{IP: net.IPv4(192, 0, 3, 1)}, "192.0.3.1", "192.0.3.1", false},
		{&net.TCPAddr{IP: net.ParseIP("2001:db8::1")}, "2001:db8::1", `"[2001:db8::1]"`, true},
		{&net.TCPAddr{IP: net.ParseIP("2001:db9::1")}, "2001:db9::1", `"[2001:db9::1]"`, false},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}, "fe80::1", `"[fe80::1]"`, true},
		{&net.TCPAddr{}, "", "unknown", false},
		{&net.UnixAddr{Name: "192.0.2.1"}, "", "unknown", false},
	} {
		if got := newPeer(test.remote, trusted); got != (peer{test.address, test.node, test.trusted}) {
			t.Errorf("%v: %+v", test.remote, got)
		}
	}
	for _, test := range []struct{ node, host, want string }{
		{"192.0.2.1", "x:80", `for=192.0.2.1;host="x:80";proto=https`},
		{`"[2001:db8::1]"`, "", `for="[2001:db8::1]";proto=https`},
		{"unknown", `x"y`, `for=unknown;proto=https`},
	} {
		if got := (peer{node: test.node}).element(test.host, "https"); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

func TestBufferClass(t *testing.T) {
	for n, want := range map[int][2]int{
		0: {0, 4096}, 1: {0, 4096}, 4096: {0, 4096}, 4097: {1, 5120}, 5120: {1, 5120}, 5121: {2, 6144}, 8192: {4, 8192},
		8193:  {5, 10240},
		20000: {9, 20480}, maxWhole: {24, maxWhole}, largestBuffer - 1: {28, largestBuffer},
		largestBuffer: {28, largestBuffer},
	} {
		if class, length := bufferClass(n); class != want[0] || length != want[1] {
			t.Errorf("%d bytes: class %d of %d bytes", n, class, length)
		}
	}
	var p buffers
	for before, n := -1, 1; n <= largestBuffer; n += 1021 {
		class, length := bufferClass(n)
		if class < before || length < n || length > max(n+n/bufferSteps+1, smallestBuffer) || class >= len(p.pools) {
			t.Fatalf("%d bytes: class %d of %d bytes after %d", n, class, length, before)
		}
		before = class
	}
}

func TestBuffersAreBounded(t *testing.T) {
	var p buffers
	if p.get(largestBuffer+1) != nil {
		t.Error("a buffer larger than the largest")
	}
	var all []*buffer
	for {
		b := p.get(maxWhole)
		if b == nil {
			break
		}
		if len(b.b) < maxWhole {
			t.Fatal("too short")
		}
		all = append(all, b)
	}
	if len(all) != maxBuffered/maxWhole || p.get(1) != nil {
		t.Errorf("%d buffers", len(all))
	}
	for _, b := range all {
		p.put(b)
	}
	p.put(nil)
	if used := p.used.Load(); used != 0 {
		t.Errorf("%d bytes are in use", used)
	}
}

// TestPump reads through all sizes of pieces and buffers.
func TestPump(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789"), 1000)
	for _, size := range []int{1, 7, 100, 20000} {
		p := newPump(io.NopCloser(bytes.NewReader(want)), make([]byte, 64), make([]byte, 0, size))
		var got []byte
		empty := make([]byte, 0, size)
		for {
			part, err := p.take(empty, max(1, size/2), time.Minute)
			got = append(got, part...)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			empty = part[:0:size]
		}
		p.stop()
		if !bytes.Equal(got, want) {
			t.Errorf("by %d: got %d bytes", size, len(got))
		}
	}
	// One that is stopped while it waits for space, and while it waits for its body.
	r, w := io.Pipe()
	p := newPump(r, make([]byte, 64), make([]byte, 0, 4))
	go func() { _, _ = w.Write([]byte("more than fits")) }()
	if part, err := p.take(make([]byte, 0, 4), 4, time.Minute); err != nil || len(part) != 4 {
		t.Fatalf("%q, %v", part, err)
	}
	p.stop()
}

// FuzzHeaders: whatever a header says, what is about the connection does not pass, and what is passed on is a header
// still.
func FuzzHeaders(f *testing.F) {
	f.Add("close, X-Private", "Cache-Control", "no-transform", "a=b; SameSite=None")
	f.Add("Upgrade,,", "Vary", `"`, ";;=;")
	f.Fuzz(func(t *testing.T, connection, name, value, cookie string) {
		h := http.Header{"Connection": {connection}, "X-Private": {"x"}, "Set-Cookie": {cookie}, "Transfer-Encoding": {value}}
		h.Add(name, value)
		before := len(h)
		_ = untouchable(h, 200, h)
		_ = setsCrossSiteCookie(h, h)
		removeHopByHop(h)
		if len(h) > before || h["Connection"] != nil || h["Transfer-Encoding"] != nil {
			t.Errorf("%q leaves %v", connection, h)
		}
		vary(h)
		if !strings.Contains(strings.ToLower(strings.Join(h["Vary"], ",")), "accept-encoding") &&
			!strings.Contains(strings.Join(h["Vary"], ","), "*") {
			t.Errorf("Vary is %q", h["Vary"])
		}
		element := peer{node: "unknown"}.element(value, "https")
		if strings.Count(element, `"`)%2 != 0 {
			t.Errorf("quotes are open: %s", element)
		}
	})
}

// TestPlan: one decision by the header of an answer, and for a body of unknown length by its first block.
func TestPlan(t *testing.T) {
	gzip := preference{coding: negotiate.Gzip}
	forced := preference{coding: negotiate.Gzip, forced: true}
	cookie, image := http.Header{"Set-Cookie": {"a=b; SameSite=None"}}, http.Header{"Content-Type": {"image/png"}}
	head := plan{way: noBody, coding: negotiate.Gzip}
	whole, parts := plan{way: inOnePiece, coding: negotiate.Gzip}, plan{way: inParts, coding: negotiate.Gzip}
	types, err := negotiate.NewTypes([]string{"text/*"})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		method string // GET
		status int    // 200
		header http.Header
		wants  preference
		size   int64
		first  int // what is seen of a body of unknown size, as a negative number if that is all
		want   plan
		reason policy.Reason
	}{
		"no body":      {status: 204, wants: gzip, want: plan{way: noBody}},
		"not modified": {status: 304, wants: gzip, size: -1, want: plan{way: noBody}},
		"short":        {wants: gzip, size: 99, want: plan{way: asItIs}, reason: policy.BelowMinimum},
		"empty":        {wants: gzip, want: plan{way: asItIs}, reason: policy.BelowMinimum},
		"in one piece": {wants: gzip, size: maxWhole, want: whole, reason: policy.SoftwareUsed},
		"in parts":     {wants: gzip, size: maxWhole + 1, want: parts, reason: policy.SoftwareUsed},
		"no coding":    {size: 5000, want: plan{way: asItIs}, reason: policy.PeerRefused},
		"other type":   {header: image, wants: gzip, size: 5000, want: plan{way: asItIs}, reason: OtherContentType},
		"a range":      {status: 206, wants: gzip, size: 5000, want: plan{way: asItIs}, reason: PartialContent},
		"a cookie":     {header: cookie, wants: gzip, size: 5000, want: plan{way: asItIs}, reason: CrossSiteCookie},

		"HEAD":          {method: http.MethodHead, wants: gzip, size: 5000, want: head, reason: policy.SoftwareUsed},
		"HEAD, short":   {method: http.MethodHead, wants: gzip, size: 99, reason: policy.BelowMinimum},
		"HEAD, unknown": {method: http.MethodHead, wants: gzip, size: -1, want: head, reason: policy.SoftwareUsed},

		"unknown":          {wants: gzip, size: -1, want: plan{way: byFirstBlock, coding: negotiate.Gzip}},
		"unknown, goes on": {wants: gzip, size: -1, first: 1, want: parts, reason: policy.SoftwareUsed},
		"unknown, ends":    {wants: gzip, size: -1, first: -5000, want: whole, reason: policy.SoftwareUsed},
		"unknown, short":   {wants: gzip, size: -1, first: -99, want: plan{way: asItIs}, reason: policy.BelowMinimum},

		"forced, short": {
			wants: forced, size: 1, want: plan{way: inOnePiece, coding: negotiate.Gzip, forced: true, refusable: true},
			reason: policy.SoftwareUsed,
		},
		"forced, a cookie": {
			header: cookie, wants: forced, size: 5000, want: plan{way: notAcceptable, forced: true, refusable: true},
			reason: CrossSiteCookie,
		},
		"forced, a cookie, POST": {
			method: http.MethodPost, header: cookie, wants: forced, size: 5000, want: plan{way: asItIs, forced: true},
			reason: CrossSiteCookie,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := &generation{
				offered: []negotiate.Coding{negotiate.Gzip}, types: types,
				settings: Settings{
					SparesCrossSiteCookies: true,
					Policy:                 policy.Settings{Mode: policy.Always, Level: codec.Fast, SoftwareMinSize: 100},
				},
			}
			header := http.Header{"Content-Type": {"text/plain"}}
			maps.Copy(header, test.header)
			r := &http.Request{Method: cmp.Or(test.method, http.MethodGet)}
			res := &http.Response{StatusCode: cmp.Or(test.status, http.StatusOK), Header: header, ContentLength: test.size}
			p := g.plan(r, test.wants, res)
			if test.first != 0 {
				p = g.resolve(p, max(test.first, -test.first), test.first < 0)
			}
			if p.decision.Reason != test.reason || (p.decision.Class != codec.NoClass) != (p.coding != negotiate.Identity) &&
				p.way != byFirstBlock {
				t.Errorf("decision %+v", p.decision)
			}
			if p.decision = (policy.Decision{}); p != test.want {
				t.Errorf("%+v, want %+v", p, test.want)
			}
		})
	}
}
