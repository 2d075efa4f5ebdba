// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package adapt_test

import (
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/transport"
)

// TestLinks: what little a connection carries between looks counts when it is enough together; a connection that is gone
// is forgotten.
func TestLinks(t *testing.T) {
	c := adapt.NewClasses(1, whole, new(spent))
	var links adapt.Links
	now := transport.Carried{Rate: 1e6, RoundTrip: time.Millisecond, Window: 100 << 10}
	look := func(bytes uint64) {
		now.Acknowledged += bytes
		links.Look(c, map[any]transport.Carried{"a": now, "silent": {Rate: 1e9}}, 1e6)
	}
	for range 4 * 7 {
		look(1 << 10)
	}
	if got := c.Carrier().Link; got != 0 {
		t.Errorf("known after 7 times enough: %g", got)
	}
	for range 4 {
		look(1 << 10)
	}
	if got := 1e9 * c.Carrier().Link; got < 700 || got > 1000 {
		t.Errorf("%g ns for a byte", got)
	}
	// A stream that is written piece by piece is busy all the time; one that waits on the way is slow.
	stream := func(queueing time.Duration) float64 {
		c, links := adapt.NewClasses(1, whole, new(spent)), adapt.Links{}
		for n := range uint64(20) {
			links.Look(c, map[any]transport.Carried{"a": {
				Rate: 5e9, RoundTrip: 4 * time.Microsecond, Window: 400 << 10, Queueing: queueing,
				Acknowledged: n * 300e3, Busy: time.Duration(n) * 60 * time.Millisecond,
			}}, 60e3)
		}
		return 1e9 * c.Carrier().Link
	}
	if got := stream(2 * time.Millisecond); got > 1 {
		t.Errorf("of a stream on loopback: %g ns for a byte", got)
	}
	if got := stream(25 * time.Millisecond); got < 150 || got > 250 {
		t.Errorf("of a stream over 40 Mbit/s: %g ns for a byte", got)
	}
	links.Look(c, nil, 1e6)
	for range 3 {
		look(0) // all that it ever carried is new only once
	}
	if got := 1e9 * c.Carrier().Link; got < 700 || got > 1000 {
		t.Errorf("after a connection of that name: %g ns for a byte", got)
	}
}

// TestPerByte: what connections carry, by figures such as the kernel shows of them.
func TestPerByte(t *testing.T) {
	const kib = 1 << 10
	for name, c := range map[string]struct {
		carried     transport.Carried
		answer      float64
		busy        time.Duration // of an answer
		least, most float64       // ns for a byte
	}{
		"loopback, whole": {
			transport.Carried{Rate: 1e9, RoundTrip: 20 * time.Microsecond, Window: 640 * kib}, 64 * kib, 0, 0.1, 1,
		},
		"loopback, compressed": {
			transport.Carried{Rate: 400e6, RoundTrip: 25 * time.Microsecond, Window: 640 * kib}, 13 * kib, 0, 0.01, 1,
		},
		"10 Mbit/s, whole": {
			transport.Carried{Rate: 1.25e6, RoundTrip: time.Millisecond, Window: 100 * kib},
			64 * kib, 52 * time.Millisecond, 700, 850,
		},
		"10 Mbit/s, compressed": {
			transport.Carried{Rate: 1.25e6, RoundTrip: time.Millisecond, Window: 14 * kib},
			13 * kib, 11 * time.Millisecond, 600, 850,
		},
		"10 Mbit/s, was loopback": {
			transport.Carried{
				Rate: 1e9, RoundTrip: 20 * time.Microsecond, Queueing: 25 * time.Millisecond, Window: 640 * kib,
			}, 64 * kib, 52 * time.Millisecond, 700, 850,
		},
		"acknowledgements are delayed": {
			transport.Carried{
				Rate: 400e6, RoundTrip: 20 * time.Microsecond, Queueing: 5 * time.Millisecond, Window: 640 * kib,
			}, 64 * kib, 40 * time.Millisecond, 0.1, 3,
		},
		"far away, within the first window": {
			transport.Carried{Rate: 650e3, RoundTrip: 20 * time.Millisecond, Window: 14 * kib},
			13 * kib, 20 * time.Millisecond, 300, 2000,
		},
		"far away, several windows": {
			transport.Carried{Rate: 1.4e6, RoundTrip: 20 * time.Millisecond, Window: 56 * kib},
			64 * kib, 50 * time.Millisecond, 300, 2000,
		},
	} {
		const answers = 4
		got := 1e9 * adapt.PerByte(c.carried, answers*c.answer, answers*c.busy, answers)
		if got < c.least || got > c.most {
			t.Errorf("%s: %.3f ns for a byte, want %g to %g", name, got, c.least, c.most)
		}
	}
}
