// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/identity"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

// encodeAll sends a block n times and returns what was counted.
func encodeAll(t *testing.T, e *frame.Encoder, plain []byte, n int) meter.Snapshot {
	t.Helper()
	var m meter.Meter
	buf := make([]byte, 0, frame.HeaderSize+len(plain))
	for range n {
		_, outcome, err := e.Append(buf, plain, false)
		if err != nil {
			t.Fatal(err)
		}
		m.Add(outcome)
	}
	return m.Snapshot()
}

// TestProbes: of blocks that do not shrink, one in 64 is compressed all the same at first, and fewer later.
func TestProbes(t *testing.T) {
	const size, blocks = 16 << 10, 1000
	e := newEncoder(t, frame.EncoderOptions{Engines: plainMachine, Codec: codec.Deflate, Policy: auto()})
	s := encodeAll(t, e, corpus("random", size), blocks)
	if s.Estimate.Probes != 4 || s.Estimate.Missed != 0 || s.Estimate.Blocks != 0 || s.Estimate.CPU <= 0 {
		t.Errorf("estimates: %+v", s.Estimate)
	}
	if s.Skipped[policy.DidNotShrink] != 4 || s.Skipped[policy.Incompressible] != blocks-4 {
		t.Errorf("skipped: %v", s.Skipped)
	}
}

// TestProbeFindsWhatTheSampleDoesNot: what repeats out of the sample's reach is compressed once a probe has shown that
// it shrinks.
func TestProbeFindsWhatTheSampleDoesNot(t *testing.T) {
	// Not every engine finds what repeats amid noise.
	engines := codec.NewRegistry(goflate.New(), identity.New())
	e := newEncoder(t, frame.EncoderOptions{Engines: engines, Codec: codec.Deflate, Policy: auto()})
	s := encodeAll(t, e, bytes.Repeat(corpus("random", 30_000), 2), 100)
	if s.Estimate.Probes != 37 || s.Estimate.Missed != 37 || s.Software.Operations != 37 ||
		s.Skipped[policy.Incompressible] != 63 {
		t.Errorf("%+v", s)
	}
}

// counting counts what is given to an engine's encoders.
type counting struct {
	codec.Engine
	calls *int
}

func (e counting) NewEncoder(level codec.Level) (codec.Encoder, error) {
	encoder, err := e.Engine.NewEncoder(level)
	return countingEncoder{encoder, e.calls}, err
}

type countingEncoder struct {
	codec.Encoder
	calls *int
}

func (e countingEncoder) Encode(dst, src []byte) (int, error) {
	*e.calls++
	return e.Encoder.Encode(dst, src)
}

// oneByOne is what an application leaves that compresses its records one by one.
func oneByOne(t *testing.T, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	for plain := corpus("json", 4*n); b.Len() < n; plain = plain[150:] {
		w.Reset(&b)
		if _, err := w.Write(plain[:150]); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()[:n:n]
}

// TestHopelessBlocks: of blocks of noise a sixteenth has a trial in the end, and probes go on. What does not look like
// noise is compressed at once, and what does and shrinks after fifteen others.
func TestHopelessBlocks(t *testing.T) {
	const size = 64 << 10
	calls := 0
	e := newEncoder(t, frame.EncoderOptions{
		Engines: codec.NewRegistry(counting{goflate.New(), &calls}, identity.New()), Codec: codec.Deflate, Policy: auto(),
	})
	noise, packed := corpus("random", size), oneByOne(t, size)
	encodeAll(t, e, noise, 80)
	calls = 0
	s := encodeAll(t, e, noise, 160)
	if tried := calls - int(s.Estimate.Probes); tried != 10 || s.Estimate.Probes != 1 {
		t.Errorf("of 160 blocks of noise %d had a trial, and %d were probes", tried, s.Estimate.Probes)
	}
	if s := encodeAll(t, e, corpus("xml", size), 3); s.Software.Operations != 3 {
		t.Errorf("%d of 3 blocks of text were compressed after noise", s.Software.Operations)
	}
	encodeAll(t, e, noise, 100)
	if s := encodeAll(t, e, packed, 20); s.Software.Operations < 5 {
		t.Errorf("%d of 20 blocks that look like noise and shrink were compressed", s.Software.Operations)
	}
	// Small blocks say nothing of others.
	calls = 0
	if encodeAll(t, e, corpus("random", 16<<10-1), 50); calls < 50 {
		t.Errorf("%d of 50 small blocks had a trial", calls)
	}
}

func TestEstimateIsCounted(t *testing.T) {
	const size, blocks = 128 << 10, 20
	e := newEncoder(t, frame.EncoderOptions{Engines: plainMachine, Codec: codec.Deflate, Policy: auto()})
	s := encodeAll(t, e, corpus("xml", size), blocks)
	if s.Estimate.Blocks != blocks || s.Estimate.Bytes != blocks*size || s.Estimate.Wasted != 0 || s.Estimate.Probes != 0 {
		t.Errorf("estimates: %+v", s.Estimate)
	}
	// Of equal blocks only the first is predicted badly.
	if s.Estimate.ErrorBytes == 0 || s.Estimate.ErrorBytes > blocks*size/100 {
		t.Errorf("%d bytes of %d are wrong", s.Estimate.ErrorBytes, s.Estimate.Bytes)
	}
	if s.Estimate.CPU <= 0 || s.Estimate.CPU >= s.CPU {
		t.Errorf("samples took %v of %v", s.Estimate.CPU, s.CPU)
	}

	// Nothing is predicted of what is small, or of what is compressed in any case.
	if s := encodeAll(t, e, corpus("xml", 1024), 3); s.Estimate != (meter.Estimate{}) || s.Software.Operations != 3 {
		t.Errorf("small blocks: %+v", s)
	}
	always := auto()
	always.Mode = policy.Always
	e = newEncoder(t, frame.EncoderOptions{Engines: plainMachine, Codec: codec.Deflate, Policy: always})
	if s := encodeAll(t, e, corpus("random", size), 3); s.Estimate != (meter.Estimate{}) ||
		s.Skipped[policy.DidNotShrink] != 3 {
		t.Errorf("mode Always: %+v", s)
	}
}
