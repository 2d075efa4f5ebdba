// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codectest

import (
	"bytes"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/policy"
)

// wire checks through package frame that nothing grows on the wire and that what
// shrinks does.
func (s suite) wire(t *testing.T) {
	engines := codec.NewRegistry(s.engine)
	if s.engine.Class() == codec.Hardware {
		// On a machine without the accelerator the first block tells, and frame gives
		// the others to software: the same engine must go on being tested.
		engines = codec.NewRegistry(s.engine, asSoftware{s.engine})
	}
	decoder, err := frame.NewDecoder(engines)
	if err != nil {
		t.Fatal(err)
	}
	defer closeNow(t, decoder)
	for _, level := range levelsOf(s.engine) {
		for _, joinable := range []bool{false, true} {
			encoder, err := frame.NewEncoder(frame.EncoderOptions{
				Engines:  engines,
				Codec:    s.engine.Codec(),
				Policy:   policy.Settings{Mode: policy.Always, Level: level},
				Joinable: joinable,
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, corpus := range Corpora() {
				for _, size := range Sizes() {
					if !tooLong(corpus, level, size) {
						s.wireBlock(t, encoder, decoder, corpus, size, joinable)
					}
				}
			}
			closeNow(t, encoder)
		}
	}
}

// asSoftware is an engine that does not call itself hardware.
type asSoftware struct{ codec.Engine }

func (e asSoftware) Name() string     { return e.Engine.Name() + "-software" }
func (asSoftware) Class() codec.Class { return codec.Software }

func (s suite) wireBlock(
	t *testing.T, encoder *frame.Encoder, decoder *frame.Decoder, corpus Corpus, size int, joinable bool,
) {
	t.Helper()
	plain := corpus.Generate(size)
	block, outcome, err := encoder.Append(nil, plain, false)
	if err != nil {
		t.Fatal(err)
	}
	if len(block) > frame.HeaderSize+size {
		t.Errorf("%s: %d bytes travel as %d", corpus.Name, size, len(block))
	}
	if s.engine.Codec() != codec.None && corpus.Shrinks && size == 1<<16 && outcome.WireBytes >= size {
		t.Errorf("%s: %d bytes do not shrink: %+v", corpus.Name, size, outcome)
	}
	h, err := frame.ParseHeader(block)
	if err != nil {
		t.Fatal(err)
	}
	if h.Joinable != (joinable && h.Codec == codec.Deflate) {
		t.Errorf("%s: %d bytes: joinable is %v: %+v", corpus.Name, size, h.Joinable, h)
	}
	got, _, err := decoder.DecodeBlock(nil, h, block[frame.HeaderSize:])
	if err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("%s: %d bytes came as %d, %v", corpus.Name, size, len(got), err)
	}
}

func closeNow(t *testing.T, c interface{ Close() error }) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
