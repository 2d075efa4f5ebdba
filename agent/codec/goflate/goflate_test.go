// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package goflate_test

import (
	"testing"

	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/goflate"
)

func TestConformance(t *testing.T) {
	codectest.Run(t, goflate.New())
}

func TestDictionary(t *testing.T) {
	codectest.RunDictionary(t, goflate.New())
}

func FuzzDictionary(f *testing.F) {
	codectest.FuzzDictionary(f, goflate.New())
}

func BenchmarkDictionary(b *testing.B) {
	codectest.BenchmarkDictionary(b, goflate.New())
}

func FuzzDecode(f *testing.F) {
	codectest.Fuzz(f, goflate.New())
}

func BenchmarkEngine(b *testing.B) {
	codectest.Benchmark(b, goflate.New())
}
