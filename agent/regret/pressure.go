// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package regret

import (
	"bytes"
	"io"
	"os"
	"runtime/metrics"
	"strconv"
	"time"

	"github.com/lighterage/lighterage/agent/meter"
)

// Machine is what a sampler asks of the machine. The methods are called by one goroutine at a time, but for CPU.
type Machine interface {
	// CPU is the CPU time that this process has spent.
	CPU() time.Duration
	// Spend is what of it the calling goroutine spends in a call.
	Spend(f func()) time.Duration
	// Pressed reports whether the process got too little CPU time for its work since the last call.
	Pressed() bool
}

// system is this machine.
type system struct{ pressure }

// System is this machine.
func System() Machine {
	s := &system{pressure{files: statFiles, sample: []metrics.Sample{{Name: latencies}}}}
	s.Pressed()
	return s
}

func (*system) CPU() time.Duration {
	user, kernel, err := meter.ProcessCPU()
	if err != nil {
		return 0 // nothing is affordable then
	}
	return user + kernel
}

func (*system) Spend(f func()) time.Duration { return meter.ThreadCPU(f) }

const (
	// An agent is under pressure while more than lateShare of what is ready to run waits longer than late for a processor.
	late, lateShare = 10e-3, 0.05
	// latencies is the histogram of such waits of all goroutines, in seconds.
	latencies = "/sched/latencies:seconds"
	maxStat   = 4 << 10
)

// statFiles have the counters of the control group of this process, of version 2 and of version 1.
var statFiles = []string{"/sys/fs/cgroup/cpu.stat", "/sys/fs/cgroup/cpu/cpu.stat"}

// pressure says whether the CPU time that the agent has is too little for its work.
type pressure struct {
	files     []string
	sample    []metrics.Sample
	throttled uint64
	all, late uint64 // waits until the last look
}

// Pressed reports whether, since it was asked before, the kernel throttled the control group, or work waited for
// processors.
func (p *pressure) Pressed() bool {
	throttled := p.throttled
	for _, name := range p.files {
		if n, ok := readThrottled(name); ok {
			throttled = n
			break
		}
	}
	metrics.Read(p.sample)
	var all, waited uint64
	if p.sample[0].Value.Kind() == metrics.KindFloat64Histogram {
		all, waited = waits(p.sample[0].Value.Float64Histogram())
	}
	pressed := throttled > p.throttled || float64(waited-p.late) > lateShare*float64(all-p.all)
	p.throttled, p.all, p.late = throttled, all, waited
	return pressed
}

// waits counts all and those that are late.
func waits(h *metrics.Float64Histogram) (all, waited uint64) {
	for i, n := range h.Counts {
		all += n
		if h.Buckets[i] >= late {
			waited += n
		}
	}
	return all, waited
}

// readThrottled returns how often a control group was throttled.
func readThrottled(name string) (uint64, bool) {
	f, err := os.Open(name)
	if err != nil {
		return 0, false // there is no such version, or the root is not limited
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxStat))
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(content) {
		if value, ok := bytes.CutPrefix(line, []byte("nr_throttled ")); ok {
			n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
