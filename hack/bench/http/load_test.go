// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package http

import (
	"math"
	"slices"
	"strings"
	"testing"
)

const wrkSays = `Running 2s test @ https://127.0.0.1:1/xml/20000
  2 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     5.28ms    6.55ms  89.36ms   91.09%
    Req/Sec     4.34k     1.02k    7.13k    67.50%
  Latency Distribution
     50%    3.13ms
     75%    6.70ms
     90%   12.04ms
     99%   31.50ms
  17244 requests in 2.00s, 84.60MB read
Requests/sec:   8600.50
Transfer/sec:     42.21MB
`

func TestParseWrk(t *testing.T) {
	got, count, err := parseWrk(wrkSays)
	if err != nil || count != 17244 || got.requests != 8600.50 || got.p99 != 31.5 ||
		math.Abs(got.wire-84.6*(1<<20)/17244) > 1e-6 {
		t.Errorf("%+v, %v, %v", got, count, err)
	}
	for _, bad := range []string{
		"", strings.Replace(wrkSays, "Requests/sec", "Errors/sec", 1),
		strings.Replace(wrkSays, "17244 requests", "0 requests", 1),
		wrkSays + "  Non-2xx or 3xx responses: 5\n", wrkSays + "  Socket errors: connect 0, read 1, write 0, timeout 0\n",
	} {
		if got, _, err := parseWrk(bad); err == nil {
			t.Errorf("%q gives %+v", bad, got)
		}
	}
}

const h2loadSays = `
finished in 2.01s, 5005.00 req/s, 25.44MB/s
requests: 10010 total, 10010 started, 10010 done, 10010 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 10010 2xx, 0 3xx, 0 4xx, 0 5xx
`

func TestParseH2load(t *testing.T) {
	got, count, err := parseH2load(h2loadSays)
	if err != nil || count != 10010 || got.requests != 5005 {
		t.Errorf("%+v, %v, %v", got, count, err)
	}
	for _, bad := range []string{
		"", strings.Replace(h2loadSays, "0 failed", "3 failed", 1),
		strings.Replace(h2loadSays, "10010 succeeded", "0 succeeded", 1),
	} {
		if got, _, err := parseH2load(bad); err == nil {
			t.Errorf("%q gives %+v", bad, got)
		}
	}
}

func TestTargets(t *testing.T) {
	b := &bench{
		extent: quick, turns: map[key][]turn{},
		memory: map[string][]int64{ourName: {1 << 20, 100 << 20, 100 << 20, 129 << 20, 129 << 20}},
	}
	for _, name := range []string{"nginx", "HAProxy", ourName} {
		b.all = append(b.all, &contender{name: name})
	}
	b.engines = []*contender{{name: "isa-l"}}
	for i, size := range b.sizes {
		for _, compressed := range []bool{true, false} {
			b.turns[key{"nginx", "xml", size, "1.1", compressed}] = slices.Repeat([]turn{{requests: 100, p99: 10, cpu: 1}}, 3)
			b.turns[key{"HAProxy", "xml", size, "1.1", compressed}] = slices.Repeat([]turn{{requests: 201, p99: 1, cpu: 1}}, 3)
			b.turns[key{ourName, "xml", size, "1.1", compressed}] = []turn{
				{requests: 299, p99: 9.9, cpu: 1},
				{requests: 301, p99: 10.1, cpu: 1},
				{requests: 300, p99: 10, cpu: 1},
			}
		}
		b.turns[key{"isa-l", "xml", size, "1.1", true}] = []turn{{cpu: 1.3 - 0.2*float64(i)}}
	}
	verdicts := map[string]string{}
	for _, target := range b.targets() {
		verdicts[target.Name] = target.Line()
	}
	for name, want := range map[string]string{
		"compressed-rate-20000":   "target compressed-rate-20000 1.49 >=1.00 ok",
		"compressed-rate-240000":  "target compressed-rate-240000 1.49 >=2.00 miss",
		"compressed-rate-64000":   "target compressed-rate-64000 1.49 >=1.50 miss",
		"plain-rate-5000":         "target plain-rate-5000 3.00 >=0.75 ok",
		"p99-5000":                "target p99-5000 1.00 <=1.10 ok",
		"p99-20000":               "target p99-20000 1.00 <=1.00 miss",
		"memory-1000-connections": "target memory-1000-connections 129 <=128 miss",
	} {
		if verdicts[name] != want {
			t.Errorf("%s: %q", name, verdicts[name])
		}
	}
	if _, ok := verdicts["compressed-rate-5000"]; ok {
		t.Error("a target where none is set")
	}
	if got := b.breakEven("isa-l"); got != 64000 {
		t.Errorf("it breaks even at %d", got)
	}
	if svg := b.draw(); !strings.HasPrefix(svg, "<svg") || strings.Count(svg, "<polyline") != 6 ||
		strings.Contains(svg, "NaN") {
		t.Errorf("the plot is %s", svg)
	}
	if cost := b.costTable(cpuOf); !strings.Contains(cost, "| nginx, gzip | 1.000 |") {
		t.Errorf("%s", cost)
	}
}

// TestLongTargets: what is held at the beginning is not compared with what is held later.
func TestLongTargets(t *testing.T) {
	for name, test := range map[string]struct {
		grows int64
		ok    bool
	}{"flat": {0, true}, "growing by a MiB each time": {1, false}} {
		l := &long{bench: &bench{}, loaded: []int64{10 << 20, 20 << 20, 30 << 20}}
		for i := range int64(27) {
			l.loaded = append(l.loaded, (90+i*test.grows)<<20)
		}
		targets := l.longTargets()
		if memory, flat := targets[0], targets[1]; memory.Measured.Value != float64(90+26*test.grows) ||
			flat.OK() != test.ok {
			t.Errorf("%s: %v", name, targets)
		}
	}
}

func TestPart(t *testing.T) {
	e := full
	p := part{sizes: "3000,12000", only: "nginx," + ourName, rounds: 7}
	if err := p.narrow(&e); err != nil || !slices.Equal(e.sizes, []int{3000, 12000}) || e.json != nil || e.rounds != 7 {
		t.Errorf("%+v, %v", e, err)
	}
	if !p.partial() || !p.names("nginx") || p.names("HAProxy") {
		t.Errorf("%+v", p)
	}
	if err := (&part{sizes: "3k"}).narrow(&e); err == nil {
		t.Error("3k is taken for a size")
	}
	if all := (part{}); all.partial() || !all.names("Caddy") {
		t.Error("everything is taken for a part")
	}
}
