// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && dfltcc

package dfltcc_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/zlibng"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/test/dfltcc"
)

// fate is what becomes of a faulty call.
type fate int

const (
	right   fate = iota // the fault is not in what it does
	refused             // the library or its checks notice
	// silent: nothing in the library notices, because the check value too comes from
	// the instruction. The checksums of blocks are there for this.
	silent
)

func fateOf(got, want []byte, err error) fate {
	switch {
	case err != nil:
		return refused
	case bytes.Equal(got, want):
		return right
	default:
		return silent
	}
}

// TestStreamFaults: what a stream with a check value tells of each fault.
func TestStreamFaults(t *testing.T) {
	src := plain(40000)
	model(t, dfltcc.DefaultStep, "")
	good, err := pack(t, dfltcc.Zlib, 1, true, src, whole)
	if err != nil {
		t.Fatal(err)
	}
	for fault, want := range map[string]struct{ compress, expand fate }{
		"":                  {right, right},
		"compressed-byte":   {refused, right},
		"expanded-byte":     {right, silent},
		"check-value":       {refused, refused},
		"lost-continuation": {refused, refused},
		"lost-history":      {right, refused},
		"new-task":          {refused, refused},
		"end-of-block":      {refused, right},
		"short-count":       {refused, silent},
	} {
		t.Run("fault "+fault, func(t *testing.T) {
			model(t, 3000, fault)
			packed, err := pack(t, dfltcc.Zlib, 1, false, src, whole)
			var out []byte
			if err == nil {
				out, err = goUnpack(dfltcc.Zlib, packed)
			}
			if got := fateOf(out, src, err); got != want.compress {
				t.Errorf("compressing: %v, %v; want %v", got, err, want.compress)
			}
			out, err = unpack(t, dfltcc.Zlib, good, len(src), whole)
			if got := fateOf(out, src, err); got != want.expand {
				t.Errorf("expanding: %v, %v; want %v", got, err, want.expand)
			}
		})
	}
}

// TestOverrun: the suites of the engines look behind their buffers; here is proof
// that they would see it.
func TestOverrun(t *testing.T) {
	model(t, dfltcc.DefaultStep, "overrun")
	space := bytes.Repeat([]byte{0xa5}, 5000)
	s, err := dfltcc.NewDeflate(dfltcc.Raw, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.Call(space[:4000], plain(3000), dfltcc.Finish)
	if space[4000] != 0xee {
		t.Error("the fault has no effect")
	}
}

// TestUnknownFault holds the controls to what README.md lists.
func TestUnknownFault(t *testing.T) {
	if err := dfltcc.SetFault("gremlins", 0); err == nil {
		t.Error("the model takes a fault that it does not know")
	}
}

// z15 is what such a machine says of itself.
var z15 = hardware.System{
	Architecture: "s390x",
	Auxv:         [][2]uintptr{{16, 1<<18 | 1<<11}},
	CPUInfo:      []byte("vendor_id       : IBM/S390\nfeatures\t: esan3 zarch stfle msa vx vxd vxe dflt sort \n"),
}

// TestVerdicts: the proof of hardware believes the model, and no faulty one.
func TestVerdicts(t *testing.T) {
	// The check value is no part of the streams that are proved.
	for fault, want := range map[string]hardware.State{
		"":                  hardware.Verified,
		"check-value":       hardware.Verified,
		"compressed-byte":   hardware.NotUsed,
		"expanded-byte":     hardware.NotUsed,
		"lost-continuation": hardware.NotUsed,
		"lost-history":      hardware.NotUsed,
		"new-task":          hardware.NotUsed,
		"end-of-block":      hardware.NotUsed,
		"short-count":       hardware.NotUsed,
		"no-functions":      hardware.NotUsed,
	} {
		t.Run("fault "+fault, func(t *testing.T) {
			model(t, 10000, fault)
			engine, verdict := hardware.FindOn(context.Background(), z15)
			t.Log(verdict.Message)
			if verdict.State != want || (engine != nil) != (want == hardware.Verified) {
				t.Errorf("%v, %v, engine %v; want %v", verdict.State, verdict.Reason, engine != nil, want)
			}
			if want == hardware.NotUsed && verdict.Reason != hardware.SelfTestFailed {
				t.Errorf("reason %v, want SelfTestFailed", verdict.Reason)
			}
			if want == hardware.Verified && len(verdict.Levels) != 3 {
				t.Errorf("levels %v, want all", verdict.Levels)
			}
		})
	}
	t.Run("machine without", func(t *testing.T) {
		system := z15
		system.Auxv = nil
		system.CPUInfo = nil
		if engine, verdict := hardware.FindOn(context.Background(), system); engine != nil ||
			verdict.State != hardware.Absent {
			t.Errorf("%v, engine %v", verdict.State, engine != nil)
		}
	})
}

func always() policy.Settings {
	return policy.Settings{Mode: policy.Always, Level: codec.Balanced, PreferHardware: true}
}

// onModel returns an encoder with the engine that was proved.
func onModel(t *testing.T) *frame.Encoder {
	t.Helper()
	engine, verdict := hardware.FindOn(context.Background(), z15)
	if engine == nil {
		t.Fatal(verdict.Message)
	}
	e, err := frame.NewEncoder(frame.EncoderOptions{
		Engines: codec.NewRegistry(engine, goflate.New()), Codec: codec.Deflate, Policy: always(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func decoder(t *testing.T, engines ...codec.Engine) *frame.Decoder {
	t.Helper()
	d, err := frame.NewDecoder(codec.NewRegistry(engines...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func dfltccEngine(t *testing.T) codec.Engine {
	t.Helper()
	engine, err := zlibng.New(zlibng.Options{Hardware: true})
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// dynamicCodes is DEFLATE's type of a block that brings its own codes.
const dynamicCodes = 2

// deflateType returns the type of the first block of DEFLATE in a block.
func deflateType(block []byte) byte { return block[frame.HeaderSize] >> 1 & 3 }

// TestBlocks: blocks that the model compressed are of class Hardware, with codes made
// for their data; software that expands them says Fallback.
func TestBlocks(t *testing.T) {
	model(t, 10000, "")
	e, software, accelerated := onModel(t), decoder(t, goflate.New()), decoder(t, dfltccEngine(t))
	sizes := []int{1000, 40000, 256 << 10, frame.DefaultBlock, 70001}
	for i, size := range sizes {
		src := plain(size)
		before := dfltcc.Calls(dfltcc.Generate)
		block, outcome, err := e.Append(nil, src, i == len(sizes)-1)
		if err != nil {
			t.Fatal(err)
		}
		h, err := frame.ParseHeader(block)
		if err != nil || h.Class != codec.Hardware || outcome.Path != meter.Hardware ||
			outcome.Reason != policy.HardwareUsed {
			t.Fatalf("block of %d: class %v, %+v, %v", size, h.Class, outcome, err)
		}
		if generated := dfltcc.Calls(dfltcc.Generate) - before; generated != 1 || deflateType(block) != dynamicCodes {
			t.Errorf(
				"block of %d: %d tables were made, and DEFLATE's type is %d; want one table, which the block has", size, generated,
				deflateType(block),
			)
		}
		for d, want := range map[*frame.Decoder]meter.Path{software: meter.Fallback, accelerated: meter.Hardware} {
			out, outcome, err := d.Decode(nil, block)
			if err != nil || !bytes.Equal(out, src) || outcome.Path != want {
				t.Errorf("block of %d: %d bytes, %v, %v; want %v", size, len(out), outcome.Path, err, want)
			}
		}
	}
}

// TestLateFaults: an accelerator that breaks after its proof does damage that the
// receiver's checks find.
func TestLateFaults(t *testing.T) {
	src := plain(200000)
	for _, fault := range []string{"compressed-byte", "lost-continuation", "end-of-block", "short-count", "new-task"} {
		t.Run(fault, func(t *testing.T) {
			model(t, 10000, "")
			e := onModel(t)
			model(t, 10000, fault)
			block, outcome, err := e.Append(nil, src, true)
			if err != nil {
				return // the engine itself noticed
			}
			// With the new-task bit left set the witness says that it was not the instruction.
			if outcome.Path != meter.Hardware && fault != "new-task" {
				t.Fatalf("%v: the fault was not tried", outcome.Path)
			}
			if out, _, err := decoder(t, goflate.New()).Decode(nil, block); !errors.Is(err, frame.ErrCorrupt) {
				t.Errorf("%d bytes, %v; want ErrCorrupt", len(out), err)
			}
		})
	}
	for _, fault := range []string{"expanded-byte", "lost-continuation", "lost-history", "short-count"} {
		t.Run("expanding "+fault, func(t *testing.T) {
			model(t, 10000, "")
			block, _, err := onModel(t).Append(nil, src, true)
			if err != nil {
				t.Fatal(err)
			}
			model(t, 10000, fault)
			if out, _, err := decoder(t, dfltccEngine(t)).Decode(nil, block); !errors.Is(err, frame.ErrCorrupt) {
				t.Errorf("%d bytes, %v; want ErrCorrupt", len(out), err)
			}
		})
	}
}
