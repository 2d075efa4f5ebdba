// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/policy/policytest"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// The published figures of a 9,136,732,800-byte data set between two systems (IBM Connect:Direct for z/OS): CPU seconds
// to send and to receive, bytes transmitted. The bytes of the accelerator are those of the z15's; its CPU time is that
// of the card before it (z13), since none is published for the z15 that could be compared.
const (
	published                   = 9_136_732_800.0
	noneSend, noneReceive       = 2.9, 3.5
	softSend, softReceive       = 87.7, 29.0
	softBytes                   = 1_586_560_704.0
	acceleratorSend             = 6.6
	acceleratorReceive          = 5.6
	acceleratorBytes            = 1_751_082_751.0
	simulatedBlocks             = 30000
	accelerated, simulatedCores = "accelerator", 4
)

// mainframe is the world of those figures: what moving bytes costs is what it took without compression, half of it for
// each byte of data and half for each byte on the wire, and what is left of the others is compressing and inflating.
func mainframe(link float64) (policytest.World, policytest.Data, map[string]policy.Option) {
	w := policytest.World{
		Cores: simulatedCores, PeerCores: simulatedCores, Crowding: 1, Link: link, Buffer: 8 << 20, Hardware: true,
		SendPlain: noneSend / 2 / published, SendWire: noneSend / 2 / published,
		ReceivePlain: noneReceive / 2 / published, ReceiveWire: noneReceive / 2 / published,
	}
	effect := func(send, receive, bytes float64) policytest.Effect {
		share := bytes / published
		return policytest.Effect{
			Wire:     share,
			Compress: send/published - w.SendPlain - share*w.SendWire,
			Inflate:  receive/published - w.ReceivePlain - share*w.ReceiveWire,
		}
	}
	options := map[string]policy.Option{
		"none": {}, "software": {Codec: codec.Deflate, Class: codec.Software, Level: codec.Balanced},
		accelerated: {Codec: codec.Deflate, Class: codec.Hardware, Level: codec.Fast},
	}
	return w, policytest.Data{Name: "published", Predicted: acceleratorBytes / published,
		Effects: map[policy.Option]policytest.Effect{
			options["software"]:  effect(softSend, softReceive, softBytes),
			options[accelerated]: effect(acceleratorSend, acceleratorReceive, acceleratorBytes),
		}}, options
}

// simulate returns a table of what Auto chooses there.
func simulate() string {
	var lines [][]string
	for _, gigabits := range []float64{10, 25, 100} {
		world, data, options := mainframe(gigabits * 1e9 / 8)
		for _, o := range objectives {
			var ways []policy.Way
			for _, name := range []string{"software", accelerated} {
				e := data.Effects[options[name]]
				ways = append(
					ways,
					policy.Way{Option: options[name], CompressRate: 1 / e.Compress, InflateRate: 1 / e.Inflate, Ratio: 1 / e.Wire},
				)
			}
			c := policy.NewController(
				policy.ControllerOptions{
					Objective: o, Prices: prices, Ways: ways, Cores: simulatedCores, PeerCores: simulatedCores,
				},
			)
			auto := policytest.Run(world, c, []policytest.Data{data}, simulatedBlocks)
			chosen, most := "", 0
			for name, option := range options {
				if n := auto.Blocks[option]; n > most {
					chosen, most = name, n
				}
			}
			line := []string{fmt.Sprintf("%g Gbit/s", gigabits), string(o),
				fmt.Sprintf("%s, %d %% of the blocks", chosen, 100*most/simulatedBlocks)}
			for _, name := range []string{"none", "software", accelerated} {
				fixed := policytest.Run(world, policytest.Fixed{Option: options[name]}, []policytest.Data{data}, simulatedBlocks)
				line = append(line, shown(o, fixed.Value(o, prices)))
			}
			lines = append(lines, append(line, shown(o, auto.Value(o, prices))))
		}
	}
	return harness.Table(
		[]string{"network", "objective", "Auto chooses", "none", "software", accelerated, "Auto"}, lines,
	)
}

// shown is a value with its unit.
func shown(o policy.Objective, v float64) string {
	switch o {
	case policy.Cost:
		return fmt.Sprintf("%.4f USD", v)
	case policy.Bytes:
		return fmt.Sprintf("%.1f MB", v/1e6)
	default:
		return fmt.Sprintf("%.2f s", v)
	}
}
