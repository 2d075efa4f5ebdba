// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package meter counts what compression did and what it cost.
package meter

import (
	"maps"
	"sync"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
)

// Path is the way a block took through an encoder or a decoder.
type Path uint8

const (
	// Stored means: the block travels as it is.
	Stored Path = iota
	// Software means: an engine on the processor worked on it.
	Software
	// Hardware means: the accelerator worked on it.
	Hardware
	// Fallback means: software inflated what hardware elsewhere had deflated. Only
	// decoders report it.
	Fallback

	paths
)

// String returns the path in lower case, as metrics label it.
func (p Path) String() string {
	switch p {
	case Stored:
		return "stored"
	case Software:
		return "software"
	case Hardware:
		return "hardware"
	case Fallback:
		return "fallback"
	default:
		return "unknown"
	}
}

// Outcome is what became of one block.
type Outcome struct {
	Path Path
	// Reason is why an encoder took the path. Decoders leave it empty.
	Reason policy.Reason
	// Use is the engine that an encoder used; none, when the block travels as it is.
	// Decoders leave it empty.
	Use Use
	// PlainBytes is the length of the block before compression, WireBytes all that
	// travels of it, header included.
	PlainBytes int
	WireBytes  int
	// CPU is the time the thread spent on deciding and compressing, or on expanding.
	CPU time.Duration
	// Estimate is this block's part in judging samples. Decoders leave it empty.
	Estimate Estimate
}

// Use is an engine at a level.
type Use struct {
	Codec  codec.ID
	Engine string
	Level  codec.Level
}

// Estimate counts how well samples of blocks predicted what compressing them would
// give.
type Estimate struct {
	// Blocks were predicted to shrink and then compressed, Bytes is their plain length.
	Blocks, Bytes int64
	// ErrorBytes is the sum of the differences between predicted and true compressed
	// lengths of those blocks.
	ErrorBytes int64
	// Wasted of those blocks did not shrink.
	Wasted int64
	// Probes were compressed although predicted not to shrink enough to be worth it;
	// Missed of them did.
	Probes, Missed int64
	// CPU is the time that taking samples took, of all blocks. It is part of the CPU of
	// the outcomes.
	CPU time.Duration
}

// Found notes to what size a block was compressed that was predicted to have another; length is that of the block, and
// the size where it did not shrink.
func (e *Estimate) Found(length, predicted, size int) {
	e.Blocks, e.Bytes, e.ErrorBytes = 1, int64(length), int64(max(predicted-size, size-predicted))
	if size == length {
		e.Wasted = 1
	}
}

func (e *Estimate) add(o Estimate) {
	e.Blocks += o.Blocks
	e.Bytes += o.Bytes
	e.ErrorBytes += o.ErrorBytes
	e.Wasted += o.Wasted
	e.Probes += o.Probes
	e.Missed += o.Missed
	e.CPU += o.CPU
}

// Count is a number of blocks and of the plain bytes in them.
type Count struct {
	Operations int64
	Bytes      int64
}

// Meter sums outcomes. The zero value is ready; it is safe for concurrent use and
// Add allocates nothing once it has met a reason. Encoding and decoding need a
// meter each.
type Meter struct {
	mu  sync.Mutex
	sum Snapshot
	by  [paths]Count
}

// Snapshot is the state of a meter at one moment: its fields belong together.
type Snapshot struct {
	Hardware Count
	Software Count
	Stored   Count
	// Fallback blocks are counted under Software as well.
	Fallback Count
	// Compressed counts the operations that compressed, Skipped those that left
	// the block as it was, both by reason. Neither is nil.
	Compressed map[policy.Reason]int64
	Skipped    map[policy.Reason]int64
	// Uses counts what was compressed, by engine and level. It is never nil.
	Uses map[Use]Count
	// UncompressedBytes is the sum of the plain bytes, CompressedBytes of all that
	// travelled, headers and stored blocks included.
	UncompressedBytes int64
	CompressedBytes   int64
	CPU               time.Duration
	Estimate          Estimate
}

// Add counts one block.
func (m *Meter) Add(o Outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if o.Path < paths {
		m.by[o.Path].Operations++
		m.by[o.Path].Bytes += int64(o.PlainBytes)
	}
	m.sum.UncompressedBytes += int64(o.PlainBytes)
	m.sum.CompressedBytes += int64(o.WireBytes)
	m.sum.CPU += o.CPU
	m.sum.Estimate.add(o.Estimate)
	if o.Use != (Use{}) {
		if m.sum.Uses == nil {
			m.sum.Uses = make(map[Use]Count)
		}
		c := m.sum.Uses[o.Use]
		m.sum.Uses[o.Use] = Count{c.Operations + 1, c.Bytes + int64(o.PlainBytes)}
	}
	if o.Reason == "" {
		return
	}
	reasons := &m.sum.Compressed
	if o.Path == Stored {
		reasons = &m.sum.Skipped
	}
	if *reasons == nil {
		*reasons = make(map[policy.Reason]int64)
	}
	(*reasons)[o.Reason]++
}

// Snapshot returns what was counted so far. It is the caller's to keep.
func (m *Meter) Snapshot() Snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sum
	s.Hardware = m.by[Hardware]
	s.Stored = m.by[Stored]
	s.Fallback = m.by[Fallback]
	s.Software = Count{
		Operations: m.by[Software].Operations + m.by[Fallback].Operations,
		Bytes:      m.by[Software].Bytes + m.by[Fallback].Bytes,
	}
	s.Compressed = copyOf(m.sum.Compressed)
	s.Skipped = copyOf(m.sum.Skipped)
	s.Uses = copyOf(m.sum.Uses)
	return s
}

func copyOf[K comparable, V any](counts map[K]V) map[K]V {
	if counts == nil {
		return map[K]V{}
	}
	return maps.Clone(counts)
}
