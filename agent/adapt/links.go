// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package adapt

import (
	"time"

	"github.com/lighterage/lighterage/agent/transport"
)

const (
	// LinkLeast is how many bytes have to be carried between two looks at a connection to say something.
	LinkLeast = 4 << 10
	// queueingLeast is how long bytes of a stream have to wait on the way before it counts for how long some were not
	// acknowledged: who writes them piece by piece keeps them so as well, and processes wait for processors.
	queueingLeast = 5 * time.Millisecond
)

// Links finds out what connections carry on which messages follow each other, from one look at them to the next. It is
// not safe for concurrent use. The zero value has seen nothing.
type Links struct{ before map[any]transport.Carried }

// Look takes in what connections have carried since the look before, in messages that have so many bytes on average.
func (l *Links) Look(c *Classes, now map[any]transport.Carried, each float64) {
	next := make(map[any]transport.Carried, len(now))
	for key, carried := range now {
		before := l.before[key]
		if carried.Rate == 0 || carried.Acknowledged < before.Acknowledged+LinkLeast {
			next[key] = before // until there was enough
			continue
		}
		next[key] = carried
		delta, busy := float64(carried.Acknowledged-before.Acknowledged), carried.Busy-before.Busy
		if carried.Queueing < queueingLeast {
			busy = 0
		}
		c.Carried(PerByte(carried, delta, busy, max(1, int64(delta/max(each, 1)))))
	}
	l.before = next
}

// PerByte is how long one byte more or less takes on the network, of those that were acknowledged of so many answers.
//
// The kernel's rate says how long an answer took. A round trip of that it takes whatever its length, but another one
// for each window that is full. The rate is the greatest there was where answers are shorter than a window, so that it
// does not show that the network has become slower. What shows it is that bytes wait long to be acknowledged, if round
// trips have grown as well: an acknowledgement that the other end delays comes alone.
func PerByte(c transport.Carried, acknowledged float64, busy time.Duration, answers int64) float64 {
	trip, each := c.RoundTrip.Seconds(), busy/time.Duration(answers)
	seconds := max(1/float64(c.Rate)-trip*float64(answers)/acknowledged, trip/float64(max(c.Window, 1)))
	if c.Queueing > each/4 && each > c.RoundTrip {
		seconds = max(seconds, float64(answers)*(each-c.RoundTrip).Seconds()/acknowledged)
	}
	return seconds
}
