// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package online

import (
	"bufio"
	"crypto/tls"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestStates: windows say of each state what its name does.
func TestStates(t *testing.T) {
	for _, s := range states {
		if s.windows == nil {
			continue
		}
		open, limit, err := s.says()
		if err != nil {
			t.Fatal(err)
		}
		limited := s.name == byDay || s.name == byDaySized || s.name == byDayHigh
		if (s.name != paused) != open || limited != (limit == 5<<20) {
			t.Errorf("%s: open is %v, limit %d", s.name, open, limit)
		}
	}
}

// TestArrivals: they are as many as asked for, the same for a seed, in order and within the time.
func TestArrivals(t *testing.T) {
	l := load{Rate: 1000, Duration: 10 * time.Second, Seed: 3}
	all := arrivals(l)
	if n := len(all); n < 9500 || n > 10500 || !slices.IsSorted(all) || all[n-1] >= l.Duration {
		t.Errorf("%d arrivals", len(all))
	}
	if !slices.Equal(all, arrivals(l)) {
		t.Error("a seed has other times each time")
	}
	l.Seed++
	if slices.Equal(all, arrivals(l)) {
		t.Error("another seed has the same times")
	}
}

func TestSummary(t *testing.T) {
	var took []time.Duration
	for i := range 1000 {
		took = append(took, time.Duration(1000-i)*time.Millisecond)
	}
	if got := summary(took, 2*time.Second); got != (answered{Rate: 500, P50: 501, P99: 991}) {
		t.Errorf("got %+v", got)
	}
	if got := summary(nil, time.Second); got != (answered{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

// TestLoad: what waits behind a slow answer has waited since it was to be asked for, and an answer that is not
// compressed is an error.
func TestLoad(t *testing.T) {
	const slow = 200 * time.Millisecond
	coding := "gzip"
	asked := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			time.Sleep(slow)
		}
		w.Header().Set("Content-Encoding", coding)
		_, _ = w.Write([]byte(r.URL.Path))
	}))
	defer server.Close()
	dialer := &tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // a test's certificate
	conn, err := dialer.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := &client{idle: []*connection{{conn.(*tls.Conn), bufio.NewReader(conn)}}}
	defer c.close()
	order := load{Rate: 1000, Duration: 100 * time.Millisecond}
	got, err := c.load(order)
	if err != nil || asked != len(arrivals(order)) || got.P50 < 50 || got.P99 < got.P50 {
		t.Errorf("%d asked, %+v: %v", asked, got, err)
	}
	if got, err := c.load(load{Duration: 100 * time.Millisecond}); err != nil || got.Rate < 10 {
		t.Errorf("as many as are answered: %+v, %v", got, err)
	}
	coding = "identity"
	if _, err := c.load(order); err == nil {
		t.Error("no error of answers that are not compressed")
	}
}

// TestTargets: each state is judged by what it is named after.
func TestTargets(t *testing.T) {
	of := func(p50, p99, rate float64) []turn {
		one := turn{answered: answered{Rate: rate, P50: p50, P99: p99}, cores: 0.5}
		return []turn{one, one, one}
	}
	b := &bench{turns: map[string][]turn{
		alone: of(1, 4, 1000), atNight: of(4, 90, 700), atNightSized: of(2, 20, 900), byDay: of(1.1, 5, 1000),
		byDaySized: of(1, 4, 1000), byDayHigh: of(1.1, 5, 1000), paused: of(1, 4, 1000),
	}}
	if verdicts := judged(b); verdicts != "ok ok ok ok ok" {
		t.Errorf("what protects: %s", verdicts)
	}
	b.turns[byDay] = of(1.3, 7, 900)
	if verdicts := judged(b); verdicts != "miss miss miss ok ok" {
		t.Errorf("what protects an endpoint of more weight alone: %s", verdicts)
	}
	b.turns[byDaySized], b.turns[paused] = of(1, 7, 1000), of(1, 5, 1000)
	if verdicts := judged(b); verdicts != "miss miss miss miss miss" {
		t.Errorf("what does not: %s", verdicts)
	}
	report := b.report()
	for _, s := range states {
		if table := report.Data.(map[string]any)["Table"].(string); !strings.Contains(table, s.text) ||
			!strings.Contains(report.Drawing, s.text) {
			t.Errorf("no %q in the report", s.text)
		}
	}
	if math.IsNaN(report.Targets[0].Measured.Value) {
		t.Error("nothing was measured")
	}
}

func judged(b *bench) string {
	var verdicts []string
	for _, target := range b.targets() {
		verdicts = append(verdicts, target.Verdict())
	}
	return strings.Join(verdicts, " ")
}
