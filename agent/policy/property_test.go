// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/policy/policytest"
)

// worlds are over which the properties are held: fewer of them where time is short.
func worlds(numbers ...int) []int {
	if testing.Short() {
		return numbers[len(numbers)-1:]
	}
	return numbers
}

var links = []float64{10 * mbit, 100 * mbit, 1000 * mbit, 4000 * mbit, 0}

// most returns what was done with most of the last half of the blocks, and with how many of them something else.
func most(r policytest.Result) (policy.Option, int) {
	half := r.Sequence[len(r.Sequence)/2:]
	count := map[policy.Option]int{}
	for _, o := range half {
		count[o]++
	}
	var best policy.Option
	for o, n := range count {
		if n > count[best] {
			best = o
		}
	}
	return best, len(half) - count[best]
}

// effort is the CPU time that an option takes for a byte.
func effort(d policytest.Data, o policy.Option) float64 { return d.Effects[o].Compress }

// switches counts how often the last half of the blocks changed from one option to another and back.
func switches(r policytest.Result) int {
	n, half := 0, r.Sequence[len(r.Sequence)/2:]
	for i := range half[1:] {
		if half[i] != half[i+1] {
			n++
		}
	}
	return n / 2
}

// TestSettles: on constant data over a constant network nothing goes back and forth, but for tries: at most a block in
// a hundred.
func TestSettles(t *testing.T) {
	for _, link := range links {
		for _, cores := range worlds(1, 4, 2) {
			for _, data := range policytest.Kinds() {
				for _, objective := range objectives {
					r := policytest.Run(
						policytest.Here(cores, link), controller(objective, prices, cores), []policytest.Data{data}, 2000,
					)
					if n := switches(r); n > 10 {
						t.Errorf(
							"%s at %.0f Mbit/s, %d cores, %s: back and forth %d times in 1000 blocks: %v", data.Name, link/mbit, cores,
							objective, n, r.Blocks,
						)
					}
				}
			}
		}
	}
}

// TestMonotone: a dearer network never makes more bytes, dearer cores never more work, a faster network never more
// effort.
func TestMonotone(t *testing.T) {
	const tolerance = 1.035 // by which one option has to beat another
	for _, data := range policytest.Kinds() {
		run := func(o policy.Objective, p policy.Prices, link float64) policytest.Result {
			return policytest.Run(policytest.Here(2, link), controller(o, p, 2), []policytest.Data{data}, 1500)
		}
		bytes := math.Inf(1)
		for _, price := range []float64{0.0001, 0.0005, 0.001, 0.003, 0.01, 0.1, 1, 100} {
			r := run(policy.Cost, policy.Prices{CPUHour: 0.05, NetworkGiB: price}, 0)
			if r.Bytes > bytes*tolerance {
				t.Errorf("%s: at %v for a GiB %.0f bytes are sent, and %.0f where it is less", data.Name, price, r.Bytes, bytes)
			}
			bytes = r.Bytes
		}
		cpu := math.Inf(1)
		for _, price := range []float64{0.001, 0.01, 0.1, 1, 10, 100} {
			r := run(policy.Cost, policy.Prices{CPUHour: price, NetworkGiB: 0.01}, 0)
			if r.CPU > cpu*tolerance {
				t.Errorf("%s: at %v for an hour it takes %.2f s, and %.2f s where it is less", data.Name, price, r.CPU, cpu)
			}
			cpu = r.CPU
		}
		spent := math.Inf(1)
		for _, link := range links {
			o, _ := most(run(policy.Elapsed, policy.Prices{}, link))
			if e := effort(data, o); e > spent*tolerance {
				t.Errorf("%s: %v at %.0f Mbit/s is more effort than over a slower network", data.Name, o, link/mbit)
			} else {
				spent = e
			}
		}
	}
}

// TestPressure: the fewer cores others leave, the less effort is made, unless more of it is faster there too, which a
// controller may find out in one of two like places only. When it gets crowded on the way it never makes more. On one
// core a slow network gets its compressed data all the same.
func TestPressure(t *testing.T) {
	for _, link := range links {
		for _, data := range policytest.Kinds() {
			least, lazy := math.Inf(1), policy.Option{}
			for _, crowding := range []float64{1, 2, 4, 8, 32} {
				world := policytest.Here(1, link)
				world.Crowding = crowding
				r := policytest.Run(world, controller(policy.Elapsed, prices, 1), []policytest.Data{data}, 1500)
				o, _ := most(r)
				switch e := effort(data, o); {
				case e <= least*1.035:
					least, lazy = e, o
				case r.Elapsed > policytest.Run(world, policytest.Fixed{Option: lazy}, []policytest.Data{data}, 1500).Elapsed:
					t.Errorf("%s at %.0f Mbit/s: %v when %v times as crowded as it could be", data.Name, link/mbit, o, crowding)
				}

				c := controller(policy.Elapsed, prices, 1)
				before, _ := most(policytest.Run(policytest.Here(1, link), c, []policytest.Data{data}, 600))
				after, _ := most(policytest.Run(world, c, []policytest.Data{data}, 600))
				if effort(data, after) > effort(data, before)*1.035 {
					t.Errorf("%s at %.0f Mbit/s: from %v to %v when it gets crowded", data.Name, link/mbit, before, after)
				}
			}
		}
	}
	world := policytest.Here(1, 10*mbit)
	world.Crowding = 8
	for _, data := range policytest.Kinds()[:4] {
		if o, _ := most(
			policytest.Run(world, controller(policy.Elapsed, prices, 1), []policytest.Data{data}, 600),
		); o.Stored() {
			t.Errorf("%s goes uncompressed over 10 Mbit/s", data.Name)
		}
	}
}

// TestBytes: no other objective sends fewer bytes than Bytes does.
func TestBytes(t *testing.T) {
	for _, link := range links {
		for _, data := range policytest.Kinds() {
			sent := map[policy.Objective]float64{}
			for _, objective := range objectives {
				sent[objective] = policytest.Run(
					policytest.Here(2, link), controller(objective, prices, 2), []policytest.Data{data}, 1000,
				).Bytes
			}
			for _, objective := range objectives {
				if sent[policy.Bytes] > sent[objective]*1.002+0.002*1000*(1<<20) {
					t.Errorf(
						"%s at %.0f Mbit/s: %.0f bytes for Bytes, %.0f for %s", data.Name, link/mbit, sent[policy.Bytes], sent[objective],
						objective,
					)
				}
			}
		}
	}
}

// TestExtremes: over a slow network what shrinks is compressed; noise over a fast one is not.
func TestExtremes(t *testing.T) {
	kinds := policytest.Kinds()
	noise := kinds[len(kinds)-1]
	for _, cores := range []int{1, 2, 16} {
		for _, data := range kinds[:4] {
			// CPU time as well: waking up for every packet takes more than compressing.
			for _, objective := range []policy.Objective{policy.Elapsed, policy.CPU} {
				r := policytest.Run(
					policytest.Here(cores, 10*mbit), controller(objective, prices, cores), []policytest.Data{data}, 200,
				)
				if r.Blocks[policy.Option{}] > 2 {
					t.Errorf("%s over 10 Mbit/s, %d cores, %s: %v", data.Name, cores, objective, r.Blocks)
				}
			}
		}
		for _, objective := range []policy.Objective{policy.Elapsed, policy.CPU, policy.Cost} {
			r := policytest.Run(policytest.Here(cores, 0), controller(objective, prices, cores), []policytest.Data{noise}, 1000)
			if n := r.Blocks[policy.Option{}]; n < 960 {
				t.Errorf("noise over an unlimited network, %d cores, %s: %v", cores, objective, r.Blocks)
			}
		}
	}
}

// TestReasons: what is left alone says why.
func TestReasons(t *testing.T) {
	records := policytest.Kinds()[2:3]
	for _, test := range []struct {
		name      string
		objective policy.Objective
		prices    policy.Prices
		crowding  float64
		link      float64
		want      policy.Reason
	}{
		{"a network that is faster", policy.Elapsed, policy.Prices{}, 1, 0, policy.NetworkFaster},
		{"cores that others have", policy.Elapsed, policy.Prices{}, 16, 1000 * mbit, policy.CPUBudget},
		{"dear cores", policy.Cost, policy.Prices{CPUHour: 10, NetworkGiB: 0.001}, 1, 4000 * mbit, policy.CPUBudget},
		{"CPU time alone", policy.CPU, policy.Prices{}, 1, 4000 * mbit, policy.CPUBudget},
	} {
		world := policytest.Here(2, test.link)
		world.Crowding = test.crowding
		r := policytest.Run(world, controller(test.objective, test.prices, 2), records, 600)
		if o, _ := most(r); !o.Stored() || r.Reasons[test.want] < 400 {
			t.Errorf("%s: %v, %v", test.name, r.Blocks, r.Reasons)
		}
	}
}

// TestNetworkChanges: a network that gets slower is noticed at once, one that gets faster some time later.
func TestNetworkChanges(t *testing.T) {
	data := policytest.Kinds()[2:3]
	c := controller(policy.Elapsed, prices, 2)
	if o, _ := most(policytest.Run(policytest.Here(2, 0), c, data, 600)); !o.Stored() {
		t.Errorf("%v over an unlimited network", o)
	}
	if o, _ := most(policytest.Run(policytest.Here(2, 100*mbit), c, data, 600)); o.Stored() {
		t.Error("compresses nothing when the network gets slow")
	}
	if o, _ := most(policytest.Run(policytest.Here(2, 0), c, data, 5000)); !o.Stored() {
		t.Errorf("still %v when the network is fast again", o)
	}
}

// TestSlowPeer: a peer with a slow disk is no reason to compress harder and harder.
func TestSlowPeer(t *testing.T) {
	for _, data := range policytest.Kinds()[:3] {
		world := policytest.Here(2, 0)
		world.PeerRate = 50e6
		r := policytest.Run(world, controller(policy.Elapsed, prices, 2), []policytest.Data{data}, 1000)
		if o, _ := most(r); o.Level > codec.Balanced {
			t.Errorf("%s: %v to a peer that writes 50 MB/s: %v", data.Name, o, r.Blocks)
		}
	}
}

func hardware(rate float64) (policy.Option, policytest.Effect) {
	return policy.Option{Codec: codec.Deflate, Class: codec.Hardware, Level: codec.Fast},
		policytest.Effect{Compress: 1 / rate, Wire: 0.26, Inflate: 1 / 500e6}
}

// TestSharedAccelerator: it is used where the policy prefers it, until it is busy.
func TestSharedAccelerator(t *testing.T) {
	data := policytest.Kinds()[0]
	option, effect := hardware(3e9)
	data.Effects[option] = effect
	world := policytest.Here(2, 100*mbit)
	world.Hardware = true
	ways := append(policytest.Measured(), policy.Way{Option: option})
	c := policy.NewController(
		policy.ControllerOptions{Objective: policy.Elapsed, Ways: ways, PreferHardware: true, Cores: 2},
	)
	r := policytest.Run(world, c, []policytest.Data{data}, 400)
	if r.Blocks[option] != 400 {
		t.Errorf("an idle accelerator: %v", r.Blocks)
	}
	_, data.Effects[option] = hardware(20e6)
	r = policytest.Run(world, c, []policytest.Data{data}, 400)
	if r.Reasons[policy.AcceleratorBusy] < 300 || r.Blocks[option] > 60 {
		t.Errorf("a busy accelerator: %v, %v", r.Blocks, r.Reasons)
	}
	// It is used again when it is free, and one slow block does not keep it from being used.
	_, data.Effects[option] = hardware(3e9)
	r = policytest.Run(world, c, []policytest.Data{data}, 3000)
	if r.Blocks[option] < 2400 {
		t.Errorf("an accelerator that is free again: %v, %v", r.Blocks, r.Reasons)
	}
	_, data.Effects[option] = hardware(20e6)
	policytest.Run(world, c, []policytest.Data{data}, 1)
	_, data.Effects[option] = hardware(3e9)
	r = policytest.Run(world, c, []policytest.Data{data}, 400)
	if r.Blocks[option] < 380 {
		t.Errorf("an accelerator that was busy once: %v, %v", r.Blocks, r.Reasons)
	}
	// Without a preference the objective alone decides, here for fewer bytes.
	c = policy.NewController(policy.ControllerOptions{Objective: policy.Bytes, Ways: ways, Cores: 2})
	if o, _ := most(policytest.Run(world, c, []policytest.Data{data}, 400)); o.Class != codec.Software {
		t.Errorf("%v for Bytes", o)
	}
}

// TestLimit: a sender that may send little compresses as over a slow network, however fast it is.
func TestLimit(t *testing.T) {
	c := policy.NewController(
		policy.ControllerOptions{Objective: policy.Elapsed, Ways: policytest.Measured(), Cores: 2, Limit: 10 * mbit},
	)
	if o, _ := most(policytest.Run(policytest.Here(2, 0), c, policytest.Kinds()[:1], 400)); o.Level != codec.High {
		t.Errorf("%v", o)
	}
}

func TestNothingToChooseFrom(t *testing.T) {
	c := policy.NewController(policy.ControllerOptions{Objective: "Luck", Ways: []policy.Way{{}}})
	if choice := c.Choose(policy.Block{Size: 1 << 20, Predicted: 1 << 18, Software: true}); !choice.Stored() ||
		choice.Reason != policy.NetworkFaster {
		t.Errorf("%+v", choice)
	}
	c = controller(policy.Bytes, prices, 1)
	if choice := c.Choose(policy.Block{Size: 1 << 20, Predicted: 1 << 18}); !choice.Stored() {
		t.Errorf("neither hardware nor software may, and it is %+v", choice)
	}
}

// FuzzController: whatever figures it is given, it chooses one of its options and goes on.
func FuzzController(f *testing.F) {
	f.Add([]byte("the quick brown fox jumps over the lazy dog, again and again and again"), uint8(0))
	for i, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1e308, 5e-324} {
		f.Add(slices.Repeat(binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)), 40), uint8(i))
	}
	f.Fuzz(func(t *testing.T, b []byte, kind uint8) {
		number := func() float64 {
			if len(b) < 8 {
				return 1
			}
			v := math.Float64frombits(binary.LittleEndian.Uint64(b))
			b = b[8:]
			return v
		}
		ways := policytest.Measured()
		for i := range ways {
			ways[i].CompressRate, ways[i].InflateRate, ways[i].Ratio = number(), number(), number()
		}
		c := policy.NewController(policy.ControllerOptions{
			Objective: append(objectives, "")[kind%5], Prices: policy.Prices{CPUHour: number(), NetworkGiB: number()},
			Ways:  ways,
			Cores: int(int8(kind)), PeerCores: -int(kind),
		})
		for len(b) >= 8 {
			block := policy.Block{Size: int(int32(number())), Predicted: int(int32(number())), Software: true}
			choice := c.Choose(block)
			if choice.Stored() != (choice.Reason != "") {
				t.Fatalf("%+v", choice)
			}
			if !choice.Stored() {
				if !slices.Contains(policytest.Options(), choice.Option) {
					t.Fatalf("%+v", choice)
				}
				c.Observe(
					policy.Outcome{
						Option: choice.Option, Size: block.Size, Predicted: block.Predicted, Wire: int(int32(number())), CPU: number(),
					},
				)
			}
			c.Window(policy.Window{
				Elapsed: number(), Streams: int(kind) - 1, Plain: number(), Wire: number(), CPU: number(), Compress: number(),
				Worked:    number(),
				WorkedCPU: number(), Writing: number(), Carried: kind&1 == 0, Delivered: number(), Busy: number(),
				PeerFull: number(),
			})
			c.Peer(
				policy.Peer{
					Elapsed: number(), Streams: int(kind), Plain: number(), Wire: number(), CPU: number(), Inflate: number(),
					Inflated: number(), Busy: number(),
				},
			)
		}
		// And it still decides well once the figures are sound again.
		c.Choose(policy.Block{Size: 1 << 20, Predicted: 1 << 18, Software: true})
	})
}
