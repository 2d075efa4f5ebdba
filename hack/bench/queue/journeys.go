// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"slices"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

// leastGain is how many times as many messages a channel has to move as one that does not
// compress, where the link is the limit.
const leastGain = 2.5

// journeysOf are those of a load and a codec.
func (r results) journeysOf(s stretch, codec string) []journey {
	return slices.DeleteFunc(slices.Clone(r.journeys), func(j journey) bool { return j.stretch != s || j.codec != codec })
}

func rateOf(j journey) float64    { return j.rate }
func wireOf(j journey) float64    { return j.wire }
func payloadOf(j journey) float64 { return j.payload }
func cpuOf(j journey) float64     { return j.cpu }

// journeyTargets are those of channels over the limited link.
func (r results) journeyTargets() []harness.Target {
	var out []harness.Target
	for _, s := range stretches {
		none := r.journeysOf(s, channelCodecs[0])
		for _, name := range channelCodecs[1:] {
			if own := r.journeysOf(s, name); len(own) > 0 && s.mbits > 0 {
				out = append(out, harness.Target{
					Name: fmt.Sprintf("channel-%s-%d", name, s.size), Bound: leastGain, AtLeast: true, Digits: 2,
					What: fmt.Sprintf("messages a second by a channel over %d Mbit/s by those of one without compression",
						s.mbits),
					Measured: harness.RatioOf(own, none, rateOf),
				})
			}
		}
	}
	return out
}

// journeyTable shows the loads over the limited link, as row 4 has them, or those over the
// other.
func (r results) journeyTable(limited bool) string {
	var lines [][]string
	for _, s := range stretches {
		none := r.journeysOf(s, channelCodecs[0])
		for _, name := range channelCodecs {
			own := r.journeysOf(s, name)
			if len(own) == 0 || s.mbits > 0 != limited {
				continue
			}
			mid := func(of func(journey) float64) float64 { return harness.MedianOf(own, of) }
			lines = append(lines, []string{
				harness.Grouped(s.size), harness.Grouped(s.batch), name, percent(1 - mid(payloadOf)/float64(s.size)),
				percent(1 - mid(wireOf)/harness.MedianOf(none, wireOf)), fmt.Sprintf("%.0f", mid(wireOf)),
				fmt.Sprintf("%.0f", mid(rateOf)), fmt.Sprintf("%.2f", mid(rateOf)/harness.MedianOf(none, rateOf)),
				fmt.Sprintf("%.1f", 1e6*mid(cpuOf)),
			})
		}
	}
	if len(lines) == 0 {
		return ""
	}
	return harness.Table([]string{
		"message bytes", "batch", "codec", "ratio of messages", "saved on the wire", "bytes on the wire a message",
		"messages/s", "by none", "CPU us a message",
	}, lines)
}
