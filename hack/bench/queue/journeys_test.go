// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"strings"
	"testing"
)

func TestJourneys(t *testing.T) {
	var all []journey
	for round := range 3 {
		for _, s := range stretches {
			for _, name := range channelCodecs {
				j := journey{
					stretch: s, codec: name, messages: 100, rate: 100, cpu: 50e-6, payload: float64(s.size),
					wire: float64(s.size) + 100,
				}
				switch name {
				case "zstd":
					j.rate, j.payload, j.wire = 250, j.payload/4, j.wire/4
				case "deflate":
					j.rate, j.payload, j.wire = 249, j.payload/2, j.wire/2
				}
				if round == 1 {
					j.rate, j.cpu = j.rate/7, 7*j.cpu // a machine that is slower for everybody
				}
				all = append(all, j)
			}
		}
	}
	b, r := measured(t, results{journeys: all})
	lines := lines(r.Targets)
	for name, want := range map[string]string{
		"channel-zstd-5000":      "target channel-zstd-5000 2.50 >=2.50 ok",
		"channel-deflate-400000": "target channel-deflate-400000 2.49 >=2.50 miss",
	} {
		if lines[name] != want {
			t.Errorf("got %q, want %q", lines[name], want)
		}
	}
	// Where the link is not limited there is no target.
	if len(lines) != 2*(len(stretches)-1) {
		t.Errorf("%d targets", len(lines))
	}
	contains(t, b.Out, map[string][]string{
		"queue.md": {
			"| 16,000 | 625 | zstd | 75 % | 75 % | 4025 | 250 | 2.50 | 50.0 |", "| 32,000 | 500 | deflate | 50 % |",
			"held to 100 Mbit/s",
		},
		"queue.svg": {"by a channel over 100 Mbit/s", "400,000 bytes"},
	})
	if strings.Contains(b.journeyTable(true), "32,000") || strings.Contains(b.journeyTable(false), "400,000") {
		t.Errorf("loads are in the wrong tables:\n%s\n%s", b.journeyTable(true), b.journeyTable(false))
	}
}

// TestStretches: the drawing takes the loads of the limited link to be the first.
func TestStretches(t *testing.T) {
	limited := true
	for _, s := range stretches {
		if s.mbits > 0 && !limited {
			t.Errorf("%v comes after one that is not limited", s)
		}
		limited = s.mbits > 0
	}
}
