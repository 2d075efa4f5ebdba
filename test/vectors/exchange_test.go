// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

// exchange.sh has programs of two architectures write and read the same directory.
var (
	out = flag.String("exchange-out", "", "directory to write streams to")
	in  = flag.String("exchange-in", "", "directory to read streams from")
)

// hardware is the engine on the software model of DFLTCC, in programs that have it.
var hardware []codec.Engine

const blockSize = 200000

// plainBlocks are the plain blocks of every stream.
func plainBlocks() [][]byte {
	return [][]byte{text(1), text(300), text(blockSize), text(65537), nil}
}

// TestExchangeWrite writes a stream with each engine at each level.
func TestExchangeWrite(t *testing.T) {
	if *out == "" {
		t.Skip("runs in exchange.sh")
	}
	for _, engine := range append(engines.All(), hardware...) {
		for _, level := range []codec.Level{codec.Fast, codec.Balanced, codec.High} {
			if !engine.HasLevel(level) {
				continue
			}
			e, err := frame.NewEncoder(frame.EncoderOptions{
				Engines: codec.NewRegistry(engine), Codec: engine.Codec(),
				Policy: policy.Settings{Mode: policy.Always, Level: level, SoftwareDisabled: engine.Class() == codec.Hardware},
			})
			if err != nil {
				t.Fatal(err)
			}
			var stream []byte
			blocks := plainBlocks()
			for i, plain := range blocks {
				if stream, _, err = e.Append(stream, plain, i == len(blocks)-1); err != nil {
					t.Fatal(err)
				}
			}
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%s-%v.stream", engine.Name(), level)
			if err := os.WriteFile(filepath.Join(*out, name), stream, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestExchangeRead reads all streams in the directory with each engine that can, and
// holds it to the path that follows from what wrote the blocks and what reads them.
func TestExchangeRead(t *testing.T) {
	if *in == "" {
		t.Skip("runs in exchange.sh")
	}
	names, err := filepath.Glob(filepath.Join(*in, "*.stream"))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) < 3 {
		t.Fatalf("%d streams in %s: the other program wrote none", len(names), *in)
	}
	for _, name := range names {
		stream, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, engine := range append(engines.All(), hardware...) {
			class := codec.Software
			switch writer, _, _ := strings.Cut(filepath.Base(name), "-"); writer {
			case "dfltcc":
				class = codec.Hardware
			case "none":
				class = codec.NoClass
			}
			if err := read(stream, engine, class); err != nil {
				t.Errorf("%s with %s: %v", filepath.Base(name), engine.Name(), err)
			}
		}
	}
}

// expandPath is the way of a block of one class that an engine of another expands.
func expandPath(compressed codec.Class, engine codec.Engine) meter.Path {
	switch {
	case compressed == codec.NoClass:
		return meter.Stored
	case engine.Class() == codec.Hardware:
		return meter.Hardware
	case compressed == codec.Hardware:
		return meter.Fallback
	default:
		return meter.Software
	}
}

// read expands a stream, which engines of a class wrote, if the engine is of its codec.
func read(stream []byte, engine codec.Engine, written codec.Class) (err error) {
	d, err := frame.NewDecoder(codec.NewRegistry(engine))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	compressed := 0
	for i, want := range plainBlocks() {
		h, err := frame.ParseHeader(stream)
		if err != nil {
			return fmt.Errorf("block %d: %w", i, err)
		}
		if h.Codec != codec.None && h.Codec != engine.Codec() {
			return nil
		}
		plain, outcome, err := d.Decode(nil, stream[:h.BlockLen()])
		if err != nil {
			return err
		}
		if !bytes.Equal(plain, want) {
			return fmt.Errorf("block %d: other bytes", i)
		}
		if want := expandPath(h.Class, engine); outcome.Path != want {
			return fmt.Errorf("block %d: %v, want %v", i, outcome.Path, want)
		}
		if h.Class == written {
			compressed++
		} else if h.Class != codec.NoClass {
			return fmt.Errorf("block %d: of class %v, want %v", i, h.Class, written)
		}
		stream = stream[h.BlockLen():]
	}
	if compressed == 0 {
		return fmt.Errorf("no block is of class %v", written)
	}
	if len(stream) > 0 {
		return fmt.Errorf("%d bytes are left", len(stream))
	}
	return d.Finish()
}
