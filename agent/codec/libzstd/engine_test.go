// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && libzstd

package libzstd_test

import (
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/codec/libzstd"
)

func newEngine(t testing.TB) codec.Engine {
	t.Helper()
	engine, err := libzstd.New()
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func TestConformance(t *testing.T) {
	codectest.Run(t, newEngine(t), gozstd.New())
}

func TestForeignFrames(t *testing.T) {
	codectest.ZstdFrames(t, newEngine(t))
}

func TestIdentity(t *testing.T) {
	if !libzstd.Available() || libzstd.Version() == "" {
		t.Errorf("available: %v, version %q", libzstd.Available(), libzstd.Version())
	}
	if e := newEngine(t); e.Name() != "libzstd" || e.Codec() != codec.Zstd || e.Class() != codec.Software {
		t.Errorf("it is %s, %v, %v", e.Name(), e.Codec(), e.Class())
	}
}

func FuzzDecode(f *testing.F) {
	codectest.Fuzz(f, newEngine(f), gozstd.New())
}

func BenchmarkEngine(b *testing.B) {
	codectest.Benchmark(b, newEngine(b))
}

func TestDictionary(t *testing.T) {
	codectest.RunDictionary(t, newEngine(t), gozstd.New())
}

func FuzzDictionary(f *testing.F) {
	codectest.FuzzDictionary(f, newEngine(f), gozstd.New())
}

func BenchmarkDictionary(b *testing.B) {
	codectest.BenchmarkDictionary(b, newEngine(b))
}
