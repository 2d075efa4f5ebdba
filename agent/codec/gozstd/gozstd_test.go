// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gozstd_test

import (
	"testing"

	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
)

func TestConformance(t *testing.T) {
	codectest.Run(t, gozstd.New())
}

func TestForeignFrames(t *testing.T) {
	codectest.ZstdFrames(t, gozstd.New())
}

func FuzzDecode(f *testing.F) {
	codectest.Fuzz(f, gozstd.New())
}

func BenchmarkEngine(b *testing.B) {
	codectest.Benchmark(b, gozstd.New())
}

func TestDictionary(t *testing.T) {
	codectest.RunDictionary(t, gozstd.New())
}

func FuzzDictionary(f *testing.F) {
	codectest.FuzzDictionary(f, gozstd.New())
}

func BenchmarkDictionary(b *testing.B) {
	codectest.BenchmarkDictionary(b, gozstd.New())
}
