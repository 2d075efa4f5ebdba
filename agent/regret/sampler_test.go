// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package regret_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/regret"
)

// clock has CPU time that engines of the test and the test itself spend.
type clock struct {
	cpu     time.Duration
	pressed bool
}

func (c *clock) Pressed() bool { return c.pressed }

func (c *clock) CPU() time.Duration { return c.cpu }

func (c *clock) Spend(f func()) time.Duration {
	before := c.cpu
	f()
	return c.cpu - before
}

// engine compresses to a share at a price for each byte.
type engine struct {
	codec.Engine
	id     codec.ID
	class  codec.Class
	clock  *clock
	share  float64
	nanos  float64
	fails  bool
	opened *int
}

func (e *engine) Name() string              { return fmt.Sprint(e.id, e.class) }
func (e *engine) Codec() codec.ID           { return e.id }
func (e *engine) Class() codec.Class        { return e.class }
func (e *engine) HasLevel(codec.Level) bool { return true }
func (e *engine) Close() error              { *e.opened--; return nil }

func (e *engine) NewEncoder(codec.Level) (codec.Encoder, error) {
	*e.opened++
	return e, nil
}

func (e *engine) Encode(dst, src []byte) (int, error) {
	e.clock.cpu += time.Duration(e.nanos * float64(len(src)))
	if e.fails {
		return 0, errors.New("broken")
	}
	if n := int(e.share * float64(len(src))); n <= len(dst) {
		return n, nil
	}
	return 0, codec.ErrDoesNotFit
}

var (
	deflate = policy.Option{Codec: codec.Deflate, Class: codec.Software, Level: codec.Fast}
	zstd    = policy.Option{Codec: codec.Zstd, Class: codec.Software, Level: codec.Fast}
	dfltcc  = policy.Option{Codec: codec.Deflate, Class: codec.Hardware, Level: codec.Fast}
)

type bench struct {
	*regret.Sampler
	clock  *clock
	opened int
	ways   regret.Ways
}

func newBench() *bench {
	b := &bench{clock: &clock{}}
	b.Sampler = regret.New(b.clock, nil)
	b.ways = regret.Ways{
		Settings: policy.Settings{Mode: policy.Auto, Level: codec.Fast},
		Engines: map[policy.Option]codec.Engine{
			deflate: &engine{id: codec.Deflate, class: codec.Software, clock: b.clock, share: 0.5, nanos: 10, opened: &b.opened},
			zstd:    &engine{id: codec.Zstd, class: codec.Software, clock: b.clock, share: 0.4, nanos: 5, opened: &b.opened},
		},
		Inflate: func(policy.Option) float64 { return 0 },
	}
	b.Set(b.ways)
	return b
}

// afresh has what was measured forgotten.
func (b *bench) afresh() {
	b.Set(regret.Ways{})
	b.Set(b.ways)
}

var block = bytes.Repeat([]byte("block"), 1<<16/5)

func wire(s policy.Spent) float64 { return s.Wire / s.Plain }

// measure has so many units measured that were chosen so.
func (b *bench) measure(t *testing.T, n int, length int, chosen policy.Option) {
	t.Helper()
	for range n {
		u := b.Draw(block, 0)
		b.Keep(u, length, chosen)
		if u == nil {
			t.Fatal("nothing is drawn")
		}
		b.clock.cpu += 10 * time.Second
		if b.Step() {
			t.Fatal("it is not measured")
		}
	}
}

func TestFindsTheBestAlternative(t *testing.T) {
	b := newBench()
	b.measure(t, 47, 1<<20, deflate)
	if _, _, ok := b.Lost(wire); ok {
		t.Error("something is known of 47 units")
	}
	b.measure(t, 1, 1<<20, deflate)
	lost, best, ok := b.Lost(wire)
	if !ok || best != zstd || math.Abs(lost.Share-0.25) > 0.001 || lost.Margin > 0.001 {
		t.Errorf("%+v by %+v, %v", lost, best, ok)
	}
	// By the CPU time nothing beats not to compress.
	_, best, ok = b.Lost(func(s policy.Spent) float64 { return s.CPU + 1e-9 })
	if !ok || !best.Stored() {
		t.Errorf("%+v, %v", best, ok)
	}
	b.ways.Overhead = 1
	b.Set(b.ways)
	if _, _, ok := b.Lost(wire); ok {
		t.Error("what was measured before Set counts")
	}
}

// TestSameWays: a configuration that changes nothing about compression keeps the sample; one that does begins another.
func TestSameWays(t *testing.T) {
	b := newBench()
	b.measure(t, 48, len(block), zstd)
	same := b.ways
	same.Engines = maps.Clone(same.Engines)
	b.Set(same)
	if lost, _, ok := b.Lost(wire); !ok || lost.Units != 48 {
		t.Errorf("the same ways again: %+v, %v", lost, ok)
	}
	b.measure(t, 1, len(block), zstd)
	for name, change := range map[string]func(*regret.Ways){
		"price":    func(w *regret.Ways) { w.Settings.Prices.NetworkGiB = 1 },
		"least":    func(w *regret.Ways) { w.Settings.SoftwareMinSize = 1 },
		"overhead": func(w *regret.Ways) { w.Overhead = 1 },
		"engine":   func(w *regret.Ways) { delete(w.Engines, zstd) },
		"other":    func(w *regret.Ways) { w.Engines[zstd] = w.Engines[deflate] },
	} {
		b := newBench()
		b.measure(t, 48, len(block), deflate)
		other := b.ways
		other.Engines = maps.Clone(other.Engines)
		change(&other)
		b.Set(other)
		if lost, _, ok := b.Lost(wire); ok {
			t.Errorf("%s: %+v", name, lost)
		}
	}
}

// TestShareOfCPU: sampling takes its share of the CPU time at most, whatever is offered, and does use it.
func TestShareOfCPU(t *testing.T) {
	b := newBench()
	measured := 0
	for range 20000 {
		b.clock.cpu += 10 * time.Millisecond
		b.Offer(block, deflate)
		waited := b.Waiting()
		b.Step()
		if waited && !b.Waiting() {
			measured++
		}
		if spent, most := float64(b.Spent()), regret.Share*float64(b.clock.cpu); spent > most {
			t.Fatalf("after %v sampling took %v ns, more than %v", b.clock.cpu, spent, most)
		}
	}
	if used := float64(b.Spent()) / float64(b.clock.cpu); measured < 1000 || used < 0.008 {
		t.Errorf("%d units were measured, in %.4f of the CPU time", measured, used)
	}
}

// TestDearerThanExpected: a unit that costs far more than those before ends as soon as that is seen, and nothing is
// measured until the CPU time was earned.
func TestDearerThanExpected(t *testing.T) {
	b := newBench()
	b.measure(t, 60, len(block), deflate)
	b.clock.cpu = time.Duration(float64(b.Spent())/regret.Share) + time.Second
	for _, e := range b.ways.Engines {
		e.(*engine).nanos = 10000
	}
	b.Offer(block, deflate)
	b.Step()
	over := float64(b.Spent())/regret.Share - float64(b.clock.cpu)
	if one := 10000 * float64(len(block)); over <= 0 || over*regret.Share > one {
		t.Fatalf("more than one alternative was measured: %v ns over", over)
	}
	before := b.Spent()
	for range 100 {
		b.clock.cpu += time.Duration(over / 200)
		b.Offer(block, deflate)
		b.Step()
	}
	// Copies of what is drawn are accounted for, and nothing else was done.
	if b.Spent()-before > int64(over*regret.Share) || !b.Waiting() {
		t.Errorf("%d ns were spent that were not earned", b.Spent()-before)
	}
}

func TestNothingUnderPressure(t *testing.T) {
	b := newBench()
	b.measure(t, 1, len(block), deflate)
	b.clock.cpu += time.Hour
	b.Offer(block, deflate)
	b.clock.pressed = true
	before := b.Spent()
	for range 100 {
		if !b.Step() {
			t.Fatal("nobody looks whether it has ended")
		}
		if b.Draw(block, 0) != nil || b.Waiting() {
			t.Fatal("a unit was drawn")
		}
	}
	if b.Spent() != before {
		t.Errorf("%d ns were spent", b.Spent()-before)
	}
	b.clock.pressed = false
	if b.Step() {
		t.Error("it does not end")
	}
	b.measure(t, 1, len(block), deflate)
}

// TestDrawsFairly: of the units that come between two measurements each is measured equally often. So far off is it
// once in 10^9 runs.
func TestDrawsFairly(t *testing.T) {
	const units, rounds = 10, 5000
	var counts [units]int
	for range rounds {
		b := newBench()
		last := 0
		for i := range units {
			if u := b.Draw(block, 0); u != nil {
				last = i
				b.Keep(u, len(block), deflate)
			}
		}
		counts[last]++
	}
	off := 6.2 * math.Sqrt(rounds/units*0.9)
	for i, n := range counts {
		if math.Abs(float64(n)-rounds/units) > off {
			t.Errorf("unit %d was kept %d times of %d, want about %d", i, n, rounds, rounds/units)
		}
	}
}

// TestOpenAlternatives: what a unit may not be compressed by is as was chosen.
func TestOpenAlternatives(t *testing.T) {
	b := newBench()
	b.ways.Engines[dfltcc] = &engine{
		id: codec.Deflate, class: codec.Hardware, clock: b.clock, share: 0.3, nanos: 1, opened: &b.opened,
	}
	b.ways.Settings.HardwareMinSize, b.ways.Prefer = 1<<20, true
	b.Set(b.ways)
	b.measure(t, 48, 1<<19, zstd) // too small for hardware
	if lost, best, ok := b.Lost(wire); !ok || best != zstd || lost.Share != 0 {
		t.Errorf("%+v by %+v, %v", lost, best, ok)
	}
	b.afresh()
	b.measure(t, 48, 1<<20, policy.Option{Codec: codec.Deflate, Level: codec.Fast}) // hardware, and no software
	if lost, best, ok := b.Lost(wire); !ok || best != dfltcc || lost.Share != 0 {
		t.Errorf("%+v by %+v, %v", lost, best, ok)
	}
	b.afresh()
	for range 48 {
		b.Keep(b.Draw(block, codec.Deflate), 1<<19, deflate) // the client does not accept zstd
		b.clock.cpu += time.Minute
		b.Step()
	}
	if lost, best, ok := b.Lost(wire); !ok || best != deflate || lost.Share != 0 {
		t.Errorf("%+v by %+v, %v", lost, best, ok)
	}
}

// TestBrokenEngine: one that fails is no alternative any more.
func TestBrokenEngine(t *testing.T) {
	b := newBench()
	b.ways.Engines[zstd].(*engine).fails = true
	b.measure(t, 60, len(block), deflate)
	if lost, best, ok := b.Lost(wire); !ok || best != deflate || lost.Share != 0 {
		t.Errorf("%+v by %+v, %v", lost, best, ok)
	}
}

func TestWhatDoesNotShrink(t *testing.T) {
	b := newBench()
	for _, e := range b.ways.Engines {
		e.(*engine).share = 1
	}
	b.measure(t, 48, len(block), zstd)
	lost, best, ok := b.Lost(func(s policy.Spent) float64 { return s.CPU + s.Wire*1e-9 })
	if want := 5.0; !ok || !best.Stored() || math.Abs(lost.Share-want) > 0.01 {
		t.Errorf("%+v by %+v, %v", lost, best, ok)
	}
}

// TestRun: encoders are closed at the end, and a nil sampler draws nothing.
func TestRun(t *testing.T) {
	var none *regret.Sampler
	none.Set(regret.Ways{})
	none.Offer(block, deflate)
	none.Run(t.Context())
	if _, _, ok := none.Lost(wire); ok {
		t.Error("a nil sampler knows something")
	}

	b := newBench()
	b.clock.cpu = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { b.Run(ctx) })
	for range 48 {
		for u := b.Draw(block, 0); ; u = b.Draw(block, 0) {
			if u != nil {
				b.Keep(u, len(block), deflate)
				break
			}
		}
		for b.Waiting() {
			time.Sleep(time.Millisecond)
		}
	}
	for {
		if _, _, ok := b.Lost(wire); ok {
			break
		}
		time.Sleep(time.Millisecond)
		b.Offer(block, deflate)
	}
	cancel()
	ended.Wait()
	if b.opened != 0 {
		t.Errorf("%d encoders are open", b.opened)
	}
	if b.Draw(block, 0) != nil {
		t.Error("a unit was drawn after the end")
	}
}

func TestThrottling(t *testing.T) {
	name := filepath.Join(t.TempDir(), "cpu.stat")
	write := func(n int) {
		content := fmt.Sprintf("usage_usec 77\nnr_periods 5\nnr_throttled %d\nthrottled_usec 9\n", n)
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(3)
	if n, ok := regret.Throttled(name); n != 3 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	if regret.PressureOf(name, func() {}) {
		t.Error("pressure without a change")
	}
	if !regret.PressureOf(name, func() { write(4) }) {
		t.Error("no pressure while the group is throttled")
	}
	if err := os.WriteFile(name, []byte("usage_usec 77\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := regret.Throttled(name); ok {
		t.Error("a counter that is not there was read")
	}
	if late := regret.LateOf([]uint64{60, 30, 10}, []float64{0, 1e-3, 1e-2, math.Inf(1)}); late != 0.1 {
		t.Errorf("%v of the waits are late", late)
	}
}

// TestThisMachine: there is CPU time to have a share of.
func TestThisMachine(t *testing.T) {
	m := regret.System()
	spent := m.Spend(func() {
		for before := m.CPU(); m.CPU() == before; {
		}
	})
	if spent <= 0 {
		t.Errorf("%v were spent", spent)
	}
	m.Pressed()
}
