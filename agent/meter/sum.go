// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"time"

	"github.com/lighterage/lighterage/agent/policy"
)

// AddStored counts n blocks of bytes plain bytes together that were left as they were
// for one reason, at no cost that was measured.
func (m *Meter) AddStored(reason policy.Reason, n, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.by[Stored].Operations += int64(n)
	m.by[Stored].Bytes += int64(bytes)
	m.sum.UncompressedBytes += int64(bytes)
	m.sum.CompressedBytes += int64(bytes)
	if m.sum.Skipped == nil {
		m.sum.Skipped = make(map[policy.Reason]int64)
	}
	m.sum.Skipped[reason] += int64(n)
}

// AddCPU counts time that several blocks took together, whose outcomes have none.
func (m *Meter) AddCPU(spent time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sum.CPU += spent
}

// Minus returns what was counted since an earlier snapshot of the same meter.
func (s Snapshot) Minus(base Snapshot) Snapshot {
	s.Hardware = s.Hardware.minus(base.Hardware)
	s.Software = s.Software.minus(base.Software)
	s.Stored = s.Stored.minus(base.Stored)
	s.Fallback = s.Fallback.minus(base.Fallback)
	s.Compressed = less(s.Compressed, base.Compressed)
	s.Skipped = less(s.Skipped, base.Skipped)
	uses := make(map[Use]Count, len(s.Uses))
	for use, n := range s.Uses {
		if n = n.minus(base.Uses[use]); n != (Count{}) {
			uses[use] = n
		}
	}
	s.Uses = uses
	s.UncompressedBytes -= base.UncompressedBytes
	s.CompressedBytes -= base.CompressedBytes
	s.CPU -= base.CPU
	s.Estimate = Estimate{
		Blocks: s.Estimate.Blocks - base.Estimate.Blocks, Bytes: s.Estimate.Bytes - base.Estimate.Bytes,
		ErrorBytes: s.Estimate.ErrorBytes - base.Estimate.ErrorBytes, Wasted: s.Estimate.Wasted - base.Estimate.Wasted,
		Probes: s.Estimate.Probes - base.Estimate.Probes, Missed: s.Estimate.Missed - base.Estimate.Missed,
		CPU: s.Estimate.CPU - base.Estimate.CPU,
	}
	return s
}

// Plus returns what two meters have counted.
func (s Snapshot) Plus(o Snapshot) Snapshot {
	s.Hardware = s.Hardware.plus(o.Hardware)
	s.Software = s.Software.plus(o.Software)
	s.Stored = s.Stored.plus(o.Stored)
	s.Fallback = s.Fallback.plus(o.Fallback)
	s.Compressed = both(s.Compressed, o.Compressed)
	s.Skipped = both(s.Skipped, o.Skipped)
	uses := copyOf(s.Uses)
	for use, n := range o.Uses {
		uses[use] = uses[use].plus(n)
	}
	s.Uses = uses
	s.UncompressedBytes += o.UncompressedBytes
	s.CompressedBytes += o.CompressedBytes
	s.CPU += o.CPU
	s.Estimate.add(o.Estimate)
	return s
}

func both(a, b map[policy.Reason]int64) map[policy.Reason]int64 {
	out := copyOf(a)
	for reason, n := range b {
		out[reason] += n
	}
	return out
}

func (c Count) plus(o Count) Count { return Count{c.Operations + o.Operations, c.Bytes + o.Bytes} }

func (c Count) minus(base Count) Count {
	return Count{c.Operations - base.Operations, c.Bytes - base.Bytes}
}

// less leaves out what did not grow.
func less(counts, base map[policy.Reason]int64) map[policy.Reason]int64 {
	out := make(map[policy.Reason]int64, len(counts))
	for reason, n := range counts {
		if n -= base[reason]; n != 0 {
			out[reason] = n
		}
	}
	return out
}
