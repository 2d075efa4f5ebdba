// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && zlibng

package zlibng_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/zlibng"
	"github.com/lighterage/lighterage/test/corpus"
)

func newEngine(t testing.TB, o zlibng.Options) codec.Engine {
	t.Helper()
	engine, err := zlibng.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func TestConformance(t *testing.T) {
	codectest.Run(t, newEngine(t, zlibng.Options{}), goflate.New())
}

// TestHardwareConformance holds on every machine: without the instruction the
// library falls back to software.
func TestHardwareConformance(t *testing.T) {
	codectest.Run(t, newEngine(t, zlibng.Options{Hardware: true}), newEngine(t, zlibng.Options{}), goflate.New())
}

func TestIdentity(t *testing.T) {
	if !zlibng.Available() || zlibng.Version() == "" {
		t.Errorf("available: %v, version %q", zlibng.Available(), zlibng.Version())
	}
	software, hardware := newEngine(t, zlibng.Options{}), newEngine(t, zlibng.Options{Hardware: true})
	if software.Name() != "zlib-ng" || software.Class() != codec.Software {
		t.Errorf("software is %s, %v", software.Name(), software.Class())
	}
	if hardware.Name() != "dfltcc" || hardware.Class() != codec.Hardware {
		t.Errorf("hardware is %s, %v", hardware.Name(), hardware.Class())
	}
}

// TestWitness holds on every machine and with every library: a hardware engine bears
// witness, and says neither more nor less than what happened. A software engine has
// none to bear.
func TestWitness(t *testing.T) {
	xml, ok := corpus.ByName("xml")
	if !ok {
		t.Fatal("no corpus is called xml")
	}
	plain := xml.Generate(70000)
	packed, out := make([]byte, 80000), make([]byte, len(plain))

	software := newEngine(t, zlibng.Options{})
	if encoder, err := software.NewEncoder(codec.Fast); err != nil {
		t.Error(err)
	} else if _, ok := encoder.(codec.Witness); ok {
		t.Error("a software encoder bears witness of hardware")
	} else if err := encoder.Close(); err != nil {
		t.Error(err)
	}

	hardware := newEngine(t, zlibng.Options{Hardware: true, InflateMinSize: 1000})
	for _, level := range codec.Levels() {
		encoder, err := hardware.NewEncoder(level)
		if err != nil {
			t.Fatal(err)
		}
		decoder, err := hardware.NewDecoder()
		if err != nil {
			t.Fatal(err)
		}
		checkWitness(t, encoder, false)
		checkWitness(t, decoder, false)
		if _, err := encoder.Encode(packed, plain); err != nil {
			t.Fatal(err)
		}
		present := accelerated(encoder)
		checkWitness(t, encoder, present)
		if _, err := encoder.Encode(packed[:2], plain); err == nil {
			t.Error("70000 bytes in 2")
		}
		checkWitness(t, encoder, present) // of the last call without an error
		n, err := encoder.Encode(packed, plain)
		if err != nil || n < 1000 {
			t.Fatal(n, err)
		}
		if _, err := decoder.Decode(out, packed[:n]); err != nil {
			t.Fatal(err)
		}
		checkWitness(t, decoder, present)

		if n, err = encoder.Encode(packed, plain[:300]); err != nil || n >= 1000 {
			t.Fatal(n, err)
		}
		checkWitness(t, encoder, present)
		if _, err := decoder.Decode(out, packed[:n]); err != nil {
			t.Fatal(err)
		}
		checkWitness(t, decoder, false) // shorter than what hardware inflates

		if _, err = encoder.Encode(packed, nil); err != nil {
			t.Fatal(err)
		}
		checkWitness(t, encoder, false) // software writes the empty stream
		if err := errors.Join(encoder.Close(), decoder.Close()); err != nil {
			t.Error(err)
		}
	}
}

// accelerated reports whether the machine has the instruction, as far as the library
// says what kept it from its use.
func accelerated(encoder codec.Encoder) bool {
	obstacle := encoder.(zlibng.Explained).Obstacle()
	return obstacle != zlibng.NotBuilt && obstacle != zlibng.NoInstruction
}

func checkWitness(t *testing.T, coder any, want bool) {
	t.Helper()
	if got := coder.(codec.Witness).UsedHardware(); got != want {
		t.Errorf("used hardware: %v, want %v", got, want)
	}
	if obstacle := coder.(zlibng.Explained).Obstacle(); (obstacle == zlibng.NoObstacle) != want {
		t.Errorf("obstacle %d, want hardware used: %v", obstacle, want)
	}
}

// TestNoInstruction: nothing but s390x has the instruction, whatever the library is
// told.
func TestNoInstruction(t *testing.T) {
	if runtime.GOARCH == "s390x" {
		t.Skip("this machine may have it")
	}
	encoder, err := newEngine(t, zlibng.Options{Hardware: true}).NewEncoder(codec.Fast)
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Close()
	if _, err := encoder.Encode(make([]byte, 100), []byte("cargo")); err != nil {
		t.Fatal(err)
	}
	if got := encoder.(zlibng.Explained).Obstacle(); got != zlibng.NotBuilt {
		t.Errorf("obstacle %d, want NotBuilt", got)
	}
}

func TestDictionary(t *testing.T) {
	codectest.RunDictionary(t, newEngine(t, zlibng.Options{}), goflate.New())
}

// TestHardwareDictionary holds on every machine, as TestHardwareConformance does.
func TestHardwareDictionary(t *testing.T) {
	codectest.RunDictionary(
		t, newEngine(t, zlibng.Options{Hardware: true}), newEngine(t, zlibng.Options{}), goflate.New(),
	)
}

func FuzzDictionary(f *testing.F) {
	codectest.FuzzDictionary(f, newEngine(f, zlibng.Options{}), goflate.New())
}

func BenchmarkDictionary(b *testing.B) {
	codectest.BenchmarkDictionary(b, newEngine(b, zlibng.Options{}))
}

func FuzzDecode(f *testing.F) {
	codectest.Fuzz(f, newEngine(f, zlibng.Options{}), goflate.New())
}

func BenchmarkEngine(b *testing.B) {
	codectest.Benchmark(b, newEngine(b, zlibng.Options{}))
}
