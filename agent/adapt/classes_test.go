// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package adapt_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/policy"
)

// spent is a clock whose CPU time a test sets.
type spent struct{ cpu atomic.Int64 }

func (*spent) Now() time.Time       { return time.Time{} }
func (s *spent) CPU() time.Duration { return time.Duration(s.cpu.Load()) }

const bodySize = 64 << 10

// compressing takes 200 µs of CPU time for a body, and leaves a fifth of it.
var compressing = policy.Attempt{Plain: bodySize, Wire: bodySize / 5, CPU: 200e-6, Elapsed: 200e-6}

// carry has a network seen that takes so long for a byte.
func carry(c *adapt.Classes, perByte float64) {
	for range 200 {
		c.Carried(perByte)
	}
}

// send has a body of a class decided about, and says what became of it.
func send(c *adapt.Classes, clock *spent, class int) adapt.Decision {
	d := c.Choose(class)
	clock.cpu.Add(int64(100 * time.Microsecond)) // for all else
	c.Passed(class, bodySize)
	if d.Reason == "" {
		clock.cpu.Add(int64(200 * time.Microsecond))
		c.Attempted(class, d.Trial, compressing)
	}
	return d
}

func whole(int) bool { return false }

// TestClassesFollowTheNetwork: on a fast one bodies are not compressed, but for trials that take their share of the CPU
// time; on a slow one they are again. Other classes are not touched.
func TestClassesFollowTheNetwork(t *testing.T) {
	clock := new(spent)
	c := adapt.NewClasses(2, whole, clock)
	for range 64 {
		if d := send(c, clock, 1); d.Reason != "" || d.Trial {
			t.Fatalf("before the network is known: %+v", d)
		}
	}
	carry(c, 1e-10)
	for range 64 {
		send(c, clock, 1)
	}
	before, trials, bodies := clock.CPU(), 0, 200000
	for range bodies {
		d := send(c, clock, 1)
		if d.Trial {
			trials++
		} else if d.Reason != policy.NetworkFaster {
			t.Fatalf("on a fast network: %+v", d)
		}
	}
	share := float64(trials) * 200e-6 / (clock.CPU() - before).Seconds()
	if trials == 0 || share > 0.011 || trials > bodies/64 {
		t.Errorf("%d trials of %d bodies take a share of %.4f of the CPU time", trials, bodies, share)
	}
	if got := c.Peek(1); got != policy.NetworkFaster {
		t.Errorf("foreseen: %q", got)
	}
	if got := c.Peek(0); got != "" {
		t.Errorf("the other class: %q", got)
	}
	carry(c, 1e-6)
	for range 64 {
		send(c, clock, 1)
	}
	if d := send(c, clock, 1); d.Reason != "" {
		t.Errorf("on a slow network: %+v", d)
	}
	seen := c.Seen(8)
	if len(seen) != 1 || seen[0].Class != 1 || seen[0].Trials < int64(trials) ||
		seen[0].Bytes != seen[0].Bodies*bodySize || seen[0].Weighed.Compressed >= seen[0].Weighed.AsIs {
		t.Errorf("%+v", seen)
	}
	c.Reset()
	if got := c.Seen(8); len(got) != 0 {
		t.Errorf("after a reset: %+v", got)
	}
}

// TestColdTrials: the first trials of each run take longer than they would if all bodies were compressed, and change
// nothing.
func TestColdTrials(t *testing.T) {
	clock := new(spent)
	c := adapt.NewClasses(1, whole, clock)
	carry(c, 1e-10)
	trials := 0
	for range 100_000 {
		clock.cpu.Add(int64(time.Millisecond))
		d := c.Choose(0)
		if d.Reason != "" {
			continue
		}
		attempt := compressing
		if d.Trial {
			if trials++; trials%4 == 1 || trials%4 == 2 {
				attempt.CPU *= 10
			}
		}
		c.Attempted(0, d.Trial, attempt)
	}
	seen := c.Seen(1)[0]
	if cpu := seen.Recent.CPU / seen.Recent.Plain; trials == 0 || cpu > 1.01*compressing.CPU/compressing.Plain {
		t.Errorf("%d trials: %.2g s of CPU time a byte, want %.2g", trials, cpu, compressing.CPU/compressing.Plain)
	}
}

// TestClassesFollowSettings: another objective counts at once, other engines make all begin again.
func TestClassesFollowSettings(t *testing.T) {
	clock := new(spent)
	c := adapt.NewClasses(1, whole, clock)
	carry(c, 1e-10)
	for range 128 {
		send(c, clock, 0)
	}
	if c.Peek(0) != policy.NetworkFaster {
		t.Fatal("compressed on a fast network")
	}
	c.Set(policy.Serving{Objective: policy.Bytes}, false)
	for range 32 {
		send(c, clock, 0)
	}
	if got := c.Peek(0); got != "" {
		t.Errorf("for bytes: %q", got)
	}
	c.Set(policy.Serving{Objective: policy.CPU}, false)
	for range 32 {
		send(c, clock, 0)
	}
	if got := c.Peek(0); got != policy.CPUDearer {
		t.Errorf("for CPU time: %q", got)
	}
	c.Set(policy.Serving{Objective: policy.CPU}, true)
	if d := send(c, clock, 0); d.Reason != "" || d.Trial {
		t.Errorf("with other engines: %+v", d)
	}
}

// TestWay: of what is stored nothing is decided until all that carries it is known; then what is slowest says why.
func TestWay(t *testing.T) {
	for name, c := range map[string]struct {
		way        adapt.Way
		link, disk float64
		want       policy.Reason
	}{
		"one member, fast disk":       {adapt.Way{Local: true, Stored: true}, 0, 1e-10, policy.DiskFaster},
		"one member, slow disk":       {adapt.Way{Local: true, Stored: true}, 0, 1e-6, ""},
		"one member, disk not known":  {adapt.Way{Local: true, Stored: true}, 1e-10, 0, ""},
		"members, network not known":  {adapt.Way{Sends: 4, Stored: true}, 0, 1e-10, ""},
		"members, disk not known":     {adapt.Way{Sends: 4, Stored: true}, 1e-10, 0, ""},
		"members, all fast":           {adapt.Way{Sends: 1, Stored: true}, 2e-10, 1e-10, policy.NetworkFaster},
		"members, slow network":       {adapt.Way{Sends: 4, Stored: true}, 1e-6, 1e-10, ""},
		"members, slow disk":          {adapt.Way{Sends: 4, Stored: true}, 1e-10, 1e-6, ""},
		"servers of others":           {adapt.Way{Sends: 1}, 1e-10, 0, policy.NetworkFaster},
		"storing takes much CPU time": {adapt.Way{Sends: 1, Rest: 1e-7, Stored: true}, 1e-10, 1e-10, ""},
	} {
		clock := new(spent)
		classes := adapt.NewClasses(1, whole, clock)
		classes.SetWay(c.way)
		for range 100 {
			if c.link > 0 {
				classes.Carried(c.link)
			}
			if c.disk > 0 {
				classes.Rested(c.disk)
			}
		}
		for range 128 {
			send(classes, clock, 0)
		}
		if got := classes.Peek(0); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestFewAttemptsHaveToBeMeasured: all until enough is known, then one in several, and all trials.
func TestFewAttemptsHaveToBeMeasured(t *testing.T) {
	clock := new(spent)
	c := adapt.NewClasses(1, whole, clock)
	measured := func(bodies int) (n int) {
		for range bodies {
			if d := send(c, clock, 0); d.Measured {
				n++
			} else if d.Trial {
				t.Fatal("a trial is not measured")
			}
		}
		return n
	}
	if n := measured(16); n != 16 {
		t.Errorf("%d of the first 16 bodies are measured", n)
	}
	if n := measured(1600); n != 100 {
		t.Errorf("%d of 1600 bodies are measured", n)
	}
	c.Forget(0)
	if n := measured(16); n != 16 {
		t.Errorf("%d of 16 bodies of another kind are measured", n)
	}
}

// TestClassesAtOnce is for the race detector.
func TestClassesAtOnce(t *testing.T) {
	clock := new(spent)
	c := adapt.NewClasses(3, whole, clock)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 2000 {
				send(c, clock, (i+n)%3)
				if c.Measures() {
					c.Sent(1000*n, time.Duration(n)*time.Microsecond)
				}
				c.Carried(1e-10)
				if n%100 == 0 {
					c.Seen(2)
					c.Set(policy.Serving{Objective: policy.Elapsed}, n%200 == 0)
				}
			}
		})
	}
	all.Wait()
	bodies := int64(0)
	for _, s := range c.Seen(3) {
		bodies += s.Bodies
	}
	if bodies != 8*2000 {
		t.Errorf("%d bodies counted", bodies)
	}
}

// TestFewWritesAreMeasuredAtOnce: a write that waits for its reader holds a thread.
func TestFewWritesAreMeasuredAtOnce(t *testing.T) {
	c := adapt.NewClasses(1, whole, new(spent))
	measured := 0
	for range 10000 {
		if c.Measures() {
			measured++
		}
	}
	if measured == 0 || measured > 8 {
		t.Errorf("%d writes are measured at once", measured)
	}
	c.Sent(1000, time.Microsecond)
	again := false
	for range 100 {
		again = again || c.Measures()
	}
	if !again {
		t.Error("none is measured any more")
	}
}

// BenchmarkChoose is what deciding about a body takes.
func BenchmarkChoose(b *testing.B) {
	c := adapt.NewClasses(1, whole, nil)
	for b.Loop() {
		c.Choose(0)
	}
}
