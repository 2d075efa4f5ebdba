// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo_test

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/frame"
)

// BenchmarkFile is what a file costs per plain byte: to write, to check, and to read.
func BenchmarkFile(b *testing.B) {
	for form := range forms {
		var plain [][]byte
		for range 16 {
			plain = append(plain, codectest.Corpora()[1].Generate(frame.DefaultBlock))
		}
		blocks := travel(b, form, plain...)
		file, index := rest(b, form, blocks)
		r := reader(b, file, index)
		for name, do := range map[string]func() error{
			"Write": func() error {
				w := cargo.NewWriter(io.Discard, form)
				for _, block := range blocks {
					if err := w.Append(block.header, block.payload); err != nil {
						return err
					}
				}
				_, err := w.Close()
				return err
			},
			"Scrub":   func() error { return r.Scrub(b.Context(), false) },
			"Inflate": func() error { return r.Scrub(b.Context(), true) },
			"Rebuild": func() error {
				_, err := cargo.Rebuild(b.Context(), bytes.NewReader(file), engines.Default())
				return err
			},
		} {
			b.Run(fmt.Sprintf("%v/%s", form, name), func(b *testing.B) {
				b.SetBytes(index.Size())
				b.ReportAllocs()
				for b.Loop() {
					if err := do(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(index.Size())/float64(index.StoredSize()), "ratio")
			})
		}
	}
}
