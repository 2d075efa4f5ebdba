// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package meter_test

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

func TestMeter(t *testing.T) {
	hardware := meter.Use{Codec: codec.Deflate, Engine: "dfltcc", Level: codec.Fast}
	software := meter.Use{Codec: codec.Zstd, Engine: "libzstd", Level: codec.High}
	outcomes := []meter.Outcome{
		{Path: meter.Hardware, Reason: policy.HardwareUsed, PlainBytes: 1000, WireBytes: 200, CPU: 1,
			Estimate: meter.Estimate{Blocks: 1, Bytes: 1000, ErrorBytes: 20, CPU: 1}},
		{Path: meter.Hardware, Reason: policy.HardwareUsed, Use: hardware, PlainBytes: 2000, WireBytes: 300, CPU: 2},
		{Path: meter.Hardware, Reason: policy.HardwareUsed, Use: hardware, PlainBytes: 0, WireBytes: 0},
		{Path: meter.Software, Reason: policy.NoAccelerator, Use: software, PlainBytes: 10, WireBytes: 5, CPU: 4},
		{Path: meter.Stored, Reason: policy.Incompressible, PlainBytes: 7, WireBytes: 47, CPU: 8},
		{Path: meter.Stored, Reason: policy.DidNotShrink, PlainBytes: 8, WireBytes: 48, CPU: 16,
			Estimate: meter.Estimate{Blocks: 1, Bytes: 8, ErrorBytes: 5, Wasted: 1, Probes: 2, Missed: 1, CPU: 3}},
		{Path: meter.Stored, Reason: policy.BelowMinimum, PlainBytes: 1, WireBytes: 41},
		{Path: meter.Fallback, PlainBytes: 100, WireBytes: 50, CPU: 32},
	}
	want := meter.Snapshot{
		Hardware:   meter.Count{Operations: 3, Bytes: 3000},
		Software:   meter.Count{Operations: 2, Bytes: 110},
		Stored:     meter.Count{Operations: 3, Bytes: 16},
		Fallback:   meter.Count{Operations: 1, Bytes: 100},
		Compressed: map[policy.Reason]int64{policy.HardwareUsed: 3, policy.NoAccelerator: 1},
		Skipped:    map[policy.Reason]int64{policy.Incompressible: 1, policy.DidNotShrink: 1, policy.BelowMinimum: 1},
		Uses: map[meter.Use]meter.Count{
			hardware: {Operations: 2, Bytes: 2000}, software: {Operations: 1, Bytes: 10},
		},
		UncompressedBytes: 3126,
		CompressedBytes:   691,
		CPU:               63,
		Estimate:          meter.Estimate{Blocks: 2, Bytes: 1008, ErrorBytes: 25, Wasted: 1, Probes: 2, Missed: 1, CPU: 4},
	}
	var m meter.Meter
	for _, o := range outcomes {
		m.Add(o)
	}
	got := m.Snapshot()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	// A snapshot stays as it was.
	m.Add(outcomes[0])
	m.Add(outcomes[3])
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a snapshot changed (-want +got)\n%s", diff)
	}
}

func TestZero(t *testing.T) {
	var m meter.Meter
	want := meter.Snapshot{
		Compressed: map[policy.Reason]int64{}, Skipped: map[policy.Reason]int64{}, Uses: map[meter.Use]meter.Count{},
	}
	if diff := cmp.Diff(want, m.Snapshot()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestConcurrency(t *testing.T) {
	const workers, each = 8, 1000
	var m meter.Meter
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range each {
				m.Add(meter.Outcome{Path: meter.Software, Reason: policy.SoftwareUsed, PlainBytes: 10, WireBytes: 4})
				if s := m.Snapshot(); s.UncompressedBytes*4 != s.CompressedBytes*10 {
					t.Errorf("the fields of a snapshot do not belong together: %+v", s)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := m.Snapshot().Software; got.Operations != workers*each || got.Bytes != 10*workers*each {
		t.Errorf("got %+v", got)
	}
}

func TestPathNames(t *testing.T) {
	for path, name := range map[meter.Path]string{
		meter.Stored: "stored", meter.Software: "software", meter.Hardware: "hardware", meter.Fallback: "fallback",
		99: "unknown",
	} {
		if path.String() != name {
			t.Errorf("path %d is %q", uint8(path), path)
		}
	}
}

var sink float64

// work keeps the processor busy for some milliseconds.
func work() {
	x := 1.0
	for range 2_000_000 {
		x = math.Sqrt(x + 1)
	}
	sink += x
}

func TestThreadCPU(t *testing.T) {
	if got := meter.ThreadCPU(func() { time.Sleep(200 * time.Millisecond) }); got > 100*time.Millisecond {
		t.Errorf("sleeping cost %v", got)
	}
	user, system, err := meter.ProcessCPU()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	worked := meter.ThreadCPU(work)
	elapsed := time.Since(start)
	// The clock of elapsed may be slewed, that of the thread is not.
	if worked <= 0 || worked > elapsed+elapsed/100 {
		t.Errorf("work cost %v in %v", worked, elapsed)
	}
	userAfter, systemAfter, err := meter.ProcessCPU()
	if err != nil {
		t.Fatal(err)
	}
	// The kernel may round the process's time down to a tick.
	if process := userAfter + systemAfter - user - system; process < worked-10*time.Millisecond {
		t.Errorf("the process spent %v, one thread of it %v", process, worked)
	}
}

func TestStopwatch(t *testing.T) {
	meter.OnThread(func() {
		var w meter.Stopwatch
		if w.Stop(); w.Total() != 0 {
			t.Errorf("it stood still for %v", w.Total())
		}
		w.Start()
		work()
		w.Start() // it goes on
		w.Stop()
		first := w.Total()
		if first <= 0 {
			t.Errorf("work cost %v", first)
		}
		work()
		if w.Stop(); w.Total() != first {
			t.Errorf("what came after it was stopped counts: %v, before %v", w.Total(), first)
		}
		w.Start()
		work()
		if w.Stop(); w.Total() <= first {
			t.Errorf("a second stretch does not count: %v, before %v", w.Total(), first)
		}
	})
}

func BenchmarkThreadCPU(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		meter.ThreadCPU(func() {})
	}
}

func BenchmarkAdd(b *testing.B) {
	b.ReportAllocs()
	var m meter.Meter
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Add(meter.Outcome{Path: meter.Software, Reason: policy.SoftwareUsed, PlainBytes: 10, WireBytes: 4})
		}
	})
}
