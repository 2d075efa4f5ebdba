// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package classes_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/classes"
	"github.com/lighterage/lighterage/agent/queue/message"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// spent is a clock whose CPU time a test sets.
type spent struct{ cpu atomic.Int64 }

func (*spent) Now() time.Time       { return time.Time{} }
func (s *spent) CPU() time.Duration { return time.Duration(s.cpu.Load()) }

func encoding(t testing.TB, mode policy.Mode, objective policy.Objective) *message.Encoding {
	t.Helper()
	return encodingBy(t, policy.Settings{Mode: mode, Level: codec.Fast, Objective: objective})
}

func encodingBy(t testing.TB, settings policy.Settings) *message.Encoding {
	t.Helper()
	e, err := message.NewEncoding(message.EncodingOptions{
		Policy: settings, Codecs: []codec.ID{codec.Zstd}, MinSize: 100, Engines: engines.Default(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

var plain = []byte(strings.Repeat("<order><id>4711</id><item>cargo</item></order>\n", 100))

// rig puts messages.
type rig struct {
	*classes.Classes
	clock    *spent
	encoding *message.Encoding
	encoder  *message.Encoder
}

func newRig(t testing.TB, e *message.Encoding) *rig {
	t.Helper()
	r := &rig{clock: new(spent), encoding: e}
	r.Classes = classes.New("orders", false, r.clock)
	r.Set(e, nil)
	r.SetWay(adapt.Way{Local: true, Stored: true})
	var err error
	if r.encoder, err = e.Encoder(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.encoder.Release)
	return r
}

// disk has a disk seen that takes so long for a byte.
func (r *rig) disk(perByte float64) {
	for range 200 {
		r.Rested(perByte)
	}
}

func (r *rig) put(t testing.TB, subject string) classes.Choice {
	t.Helper()
	r.clock.cpu.Add(int64(time.Millisecond))
	choice := r.Choose(r.encoding, []byte(subject), plain)
	if choice.Reason == "" {
		_, form, _, err := r.Encode(choice, r.encoder, nil, plain)
		if err != nil || form.Plain() {
			t.Fatalf("compress: %v, %+v", err, form)
		}
	}
	return choice
}

// asIs reports whether messages are stored as they are because the disk is fast: CPUDearer where others keep the cores
// busy.
func asIs(r policy.Reason) bool { return r == policy.DiskFaster || r == policy.CPUDearer }

// TestFollowsTheDisk: on a fast one messages are stored as they are, but for trials; on a slow one they are compressed
// again. It changes once in each direction.
func TestFollowsTheDisk(t *testing.T) {
	r := newRig(t, encoding(t, policy.Auto, policy.Elapsed))
	changes, last := 0, policy.Reason("")
	run := func(n int) {
		for range n {
			choice := r.put(t, "orders.new")
			if choice.Trial {
				continue
			}
			if (choice.Reason == "") != (last == "") {
				changes++
			}
			last = choice.Reason
		}
	}
	if run(100); last != "" {
		t.Fatalf("before anything is known: %q", last)
	}
	r.disk(1e-12)
	if run(1000); !asIs(last) || changes != 1 {
		t.Fatalf("on a fast disk: %q, %d changes", last, changes)
	}
	r.disk(1e-5)
	if run(1000); last != "" || changes != 2 {
		t.Fatalf("on a slow disk: %q, %d changes", last, changes)
	}
	d := r.Decisions(r.encoding)
	if d.GetObjective() != "Elapsed" || d.GetDiskBytesPerSecond() == 0 || d.GetLinkBytesPerSecond() != 0 ||
		len(d.GetClasses()) != 1 {
		t.Fatalf("%v", d)
	}
	c := d.GetClasses()[0]
	if c.GetContent() != "new" || c.GetSize() != "<16Ki" || c.GetCodec() != "zstd" || c.GetOperations() != 2100 ||
		c.GetBytes() != uint64(2100*len(plain)) || c.GetTrials() == 0 || !c.GetKnown() || c.GetOtherPermille() <= 0 {
		t.Errorf("%v", c)
	}
}

// TestPrice: prices precede those of the policy, also of one that is set later. Where CPU time alone costs something
// and sending takes none, nothing is compressed; where bytes alone do, all is.
func TestPrice(t *testing.T) {
	cpu, network := policy.Prices{CPUHour: 1}, policy.Prices{NetworkGiB: 1}
	settings := policy.Settings{Mode: policy.Auto, Level: codec.Fast, Objective: policy.Cost, Prices: cpu}
	r := newRig(t, encodingBy(t, settings))
	run := func() (last policy.Reason) {
		t.Helper()
		for range 100 {
			if choice := r.put(t, "orders.new"); !choice.Trial {
				last = choice.Reason
			}
		}
		return last
	}
	if got := run(); got != policy.CPUDearer {
		t.Errorf("by the policy's: %q", got)
	}
	r.Price(network)
	if got := run(); got != "" {
		t.Errorf("by others: %q", got)
	}
	r.Set(encodingBy(t, settings), nil)
	if got := run(); got != "" || r.Serving() != (policy.Serving{Objective: policy.Cost, Prices: network}) {
		t.Errorf("with another encoding: %q by %+v", got, r.Serving())
	}
	r.Price(cpu)
	if got := run(); got != policy.CPUDearer {
		t.Errorf("by others again: %q", got)
	}
}

// TestWorkers: what several compress at the same time takes each of them a share.
func TestWorkers(t *testing.T) {
	took := func(workers int) float64 {
		r := newRig(t, encoding(t, policy.Auto, policy.Bytes))
		for range 200 {
			choice := r.Choose(r.encoding, []byte("orders"), plain)
			choice.Workers = workers
			if _, _, _, err := r.Encode(choice, r.encoder, nil, plain); err != nil {
				t.Fatal(err)
			}
		}
		recent := r.Seen(1)[0].Recent
		return recent.Elapsed / recent.CPU
	}
	if alone, of := took(0), took(1000); alone < 1 || of > alone/2 {
		t.Errorf("by the clock %.3f of the CPU time alone, %.3f as one of 1000", alone, of)
	}
}

// TestModesAndObjectives: Always compresses, and so does Bytes, whatever the disk does.
func TestModesAndObjectives(t *testing.T) {
	for _, e := range []*message.Encoding{encoding(t, policy.Always, policy.Elapsed), encoding(t, policy.Auto, policy.Bytes)} {
		r := newRig(t, e)
		r.disk(1e-12)
		for range 1000 {
			if choice := r.put(t, "orders"); choice.Reason != "" {
				t.Fatalf("mode %v: %q", e.Policy().Mode, choice.Reason)
			}
		}
		if d := r.Decisions(e); (d == nil) != (e.Policy().Mode == policy.Always) {
			t.Errorf("mode %v: %v", e.Policy().Mode, d)
		}
	}
	if d := newRig(t, encoding(t, policy.Auto, policy.Bytes)).Decisions(nil); d != nil {
		t.Errorf("of nothing: %v", d)
	}
}

// TestCrowd: a queue that has little space compresses, and stops that when it has space again.
func TestCrowd(t *testing.T) {
	r := newRig(t, encoding(t, policy.Auto, policy.Elapsed))
	r.disk(1e-12)
	put := func(n int) (last policy.Reason) {
		for range n {
			if choice := r.put(t, "orders"); !choice.Trial {
				last = choice.Reason
			}
		}
		return last
	}
	if got := put(200); !asIs(got) {
		t.Fatalf("with space: %q", got)
	}
	r.Crowd(true)
	if got := put(64); got != "" || r.Decisions(r.encoding).GetObjective() != "Bytes" {
		t.Errorf("without space: %q", got)
	}
	r.Set(r.encoding, r.encoding) // other settings do not make space
	if got := put(64); got != "" {
		t.Errorf("without space, set again: %q", got)
	}
	r.Crowd(false)
	if got := put(200); !asIs(got) {
		t.Errorf("with space again: %q", got)
	}
}

func contents(d *wirev1.Decisions) map[string]uint64 {
	found := map[string]uint64{}
	for _, c := range d.GetClasses() {
		found[c.GetContent()] += c.GetOperations()
	}
	return found
}

// TestHostileSubjects: subjects without end take no memory, and not the classes of those that are in use; what is not
// used any more makes place.
func TestHostileSubjects(t *testing.T) {
	r := newRig(t, encoding(t, policy.Auto, policy.Elapsed))
	choose := func(subject string) { r.Choose(r.encoding, []byte(subject), plain[:1000]) }
	choose("orders")
	choose("orders.")
	choose("orders.paid.eu")
	choose("orders.paid.us")
	choose("orders." + strings.Repeat("x", 500))
	if got := contents(r.Decisions(r.encoding)); got["(queue)"] != 2 || got["paid"] != 2 || got["(others)"] != 1 {
		t.Errorf("%v", got)
	}
	for i := range 100_000 {
		choose(fmt.Sprintf("orders.made-up-%d", i))
		if i%10 == 0 {
			choose("orders.paid")
		}
	}
	got := contents(r.Decisions(r.encoding))
	if got["paid"] != 10_002 || len(got) > 16 {
		t.Errorf("%d subjects, %d of those in use", len(got), got["paid"])
	}
	for range 3 * 4096 { // those that made the others up are gone
		choose("orders.paid")
		choose("orders.new")
	}
	if got := contents(r.Decisions(r.encoding)); got["new"] == 0 {
		t.Errorf("no place for another subject: %v", got)
	}
	allocated := testing.AllocsPerRun(1000, func() { r.Choose(r.encoding, []byte("orders.paid.eu"), plain[:1000]) })
	if allocated > 0 {
		t.Errorf("%g allocations to decide", allocated)
	}
}

// TestEncodeMeasures: an engine's work is known, whatever the message is, and the result is the encoder's.
func TestEncodeMeasures(t *testing.T) {
	r := newRig(t, encoding(t, policy.Auto, policy.Elapsed))
	for range 20 {
		r.put(t, "orders")
	}
	c := r.Decisions(r.encoding).GetClasses()[0]
	if c.GetCompressedPermille() == 0 || c.GetCompressedPermille() > 200 || c.GetCompressNanosPerMib() == 0 {
		t.Errorf("%v", c)
	}
}

// idle is a machine with CPU time for everything.
type idle struct{}

func (idle) CPU() time.Duration           { return time.Duration(time.Now().UnixNano()) }
func (idle) Spend(f func()) time.Duration { return meter.ThreadCPU(f) }
func (idle) Pressed() bool                { return false }

// TestRegret: messages that are compressed and that are not are measured, and the best alternative is reported.
func TestRegret(t *testing.T) {
	e := encoding(t, policy.Auto, policy.CPU)
	r := newRig(t, e)
	r.SetWay(adapt.Way{Local: true, Stored: true, Rest: 1e-12})
	r.Sample(t.Context(), idle{})
	r.Set(e, nil)
	for r.Decisions(e).GetRegret() == nil {
		r.put(t, "orders")
	}
	// Without readers and members a byte takes next to nothing but compressing it.
	if got := r.Decisions(e).GetRegret(); got.GetCodec() != "none" || got.GetUnits() < 48 || got.GetLevel() != "" {
		t.Errorf("%v", got)
	}
}

// TestAtOnce is for the race detector.
func TestAtOnce(t *testing.T) {
	r := newRig(t, encoding(t, policy.Auto, policy.Elapsed))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 5000 {
				r.Choose(r.encoding, fmt.Appendf(nil, "orders.%d", i*n%40), plain[:n%len(plain)])
				if n%500 == 0 {
					r.Decisions(r.encoding)
					r.Crowd(n%1000 == 0)
					r.Reset()
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkChoose is what deciding about a message takes.
func BenchmarkChoose(b *testing.B) {
	r := newRig(b, encoding(b, policy.Auto, policy.Elapsed))
	subject := []byte("orders.new.eu")
	b.ReportAllocs()
	for b.Loop() {
		r.Choose(r.encoding, subject, plain[:4000])
	}
}
