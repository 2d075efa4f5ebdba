// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && isal

package isal_test

import (
	"fmt"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/isal"
	"github.com/lighterage/lighterage/agent/codec/zlibng"
)

func newEngine(t testing.TB) codec.Engine {
	t.Helper()
	engine, err := isal.New()
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// others are the deflate engines of this build besides.
func others() []codec.Engine {
	engines := []codec.Engine{goflate.New()}
	if e, err := zlibng.New(zlibng.Options{}); err == nil {
		engines = append(engines, e)
	}
	return engines
}

func TestConformance(t *testing.T) {
	codectest.Run(t, newEngine(t), others()...)
}

func TestIdentity(t *testing.T) {
	e := newEngine(t)
	var major, minor, patch int
	if n, err := fmt.Sscanf(isal.Version(), "%d.%d.%d", &major, &minor, &patch); n != 3 || err != nil {
		t.Errorf("version %q: %v", isal.Version(), err)
	}
	if !isal.Available() || major < 2 || major == 2 && minor < 31 {
		t.Errorf("available: %v, version %q", isal.Available(), isal.Version())
	}
	if e.Name() != "isa-l" || e.Class() != codec.Software || e.Codec() != codec.Deflate {
		t.Errorf("it is %s, %v, %v", e.Name(), e.Class(), e.Codec())
	}
	if !e.HasLevel(codec.Fast) || e.HasLevel(codec.Balanced) || e.HasLevel(codec.High) {
		t.Error("it has other levels than Fast")
	}
}

func TestDictionary(t *testing.T) {
	codectest.RunDictionary(t, newEngine(t), others()...)
}

func FuzzDictionary(f *testing.F) {
	codectest.FuzzDictionary(f, newEngine(f), others()...)
}

func BenchmarkDictionary(b *testing.B) {
	codectest.BenchmarkDictionary(b, newEngine(b))
}

func FuzzDecode(f *testing.F) {
	codectest.Fuzz(f, newEngine(f), others()...)
}

func BenchmarkEngine(b *testing.B) {
	codectest.Benchmark(b, newEngine(b))
}
