// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
)

// leastGain is how many times as many messages a channel has to move as one that does not
// compress, where the link is the limit.
const leastGain = 2.5

// medianJourneys has one for each load and codec.
func medianJourneys(all []journey) []journey {
	var out []journey
	for _, s := range stretches {
		for _, name := range channelCodecs {
			mid := func(figure func(journey) float64) float64 {
				var values []float64
				for _, j := range all {
					if j.stretch == s && j.codec == name {
						values = append(values, figure(j))
					}
				}
				return median(values)
			}
			j := journey{
				stretch: s, codec: name, rate: mid(func(j journey) float64 { return j.rate }),
				cpu:     mid(func(j journey) float64 { return j.cpu }),
				payload: mid(func(j journey) float64 { return j.payload }), wire: mid(func(j journey) float64 { return j.wire }),
			}
			if j.rate > 0 {
				out = append(out, j)
			}
		}
	}
	return out
}

// journeyOf finds one.
func journeyOf(all []journey, s stretch, name string) (journey, bool) {
	i := slices.IndexFunc(all, func(j journey) bool { return j.stretch == s && j.codec == name })
	if i < 0 {
		return journey{}, false
	}
	return all[i], true
}

// journeyTargets are those of channels over the limited link.
func journeyTargets(all []journey) []target {
	var out []target
	for _, s := range stretches {
		none, ok := journeyOf(all, s, channelCodecs[0])
		if !ok || s.mbits == 0 {
			continue
		}
		for _, name := range channelCodecs[1:] {
			if own, ok := journeyOf(all, s, name); ok {
				what := fmt.Sprintf("messages a second by a channel over %d Mbit/s by those of one without compression", s.mbits)
				out = append(out, target{fmt.Sprintf("channel-%s-%d", name, s.size), what, own.rate / none.rate, leastGain, true})
			}
		}
	}
	return out
}

// journeyTable shows the loads over the limited link, as row 4 has them, or those over the
// other.
func journeyTable(all []journey, limited bool) string {
	var lines [][]string
	for _, j := range all {
		if j.mbits > 0 != limited {
			continue
		}
		none, _ := journeyOf(all, j.stretch, channelCodecs[0])
		lines = append(lines, []string{
			grouped(j.size), grouped(j.batch), j.codec, percent(1 - j.payload/float64(j.size)), percent(1 - j.wire/none.wire),
			fmt.Sprintf("%.0f", j.wire), fmt.Sprintf("%.0f", j.rate), fmt.Sprintf("%.2f", j.rate/none.rate),
			fmt.Sprintf("%.1f", 1e6*j.cpu),
		})
	}
	if len(lines) == 0 {
		return ""
	}
	return markdown([]string{
		"message bytes", "batch", "codec", "ratio of messages", "saved on the wire", "bytes on the wire a message",
		"messages/s", "by none", "CPU us a message",
	}, lines)
}
