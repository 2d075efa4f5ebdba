// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/frame"
)

func BenchmarkEncodeBlock(b *testing.B) {
	for _, c := range codectest.Corpora() {
		b.Run(c.Name, func(b *testing.B) {
			e := newEncoder(b, frame.EncoderOptions{Engines: plainMachine, Codec: codec.Deflate, Policy: auto()})
			plain := c.Generate(frame.DefaultBlock)
			buf := make([]byte, 0, frame.HeaderSize+len(plain))
			b.SetBytes(int64(len(plain)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := e.Append(buf, plain, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecodeBlock(b *testing.B) {
	for _, c := range codectest.Corpora() {
		b.Run(c.Name, func(b *testing.B) {
			e := newEncoder(b, frame.EncoderOptions{Engines: plainMachine, Codec: codec.Deflate, Policy: auto()})
			d := newDecoder(b, plainMachine)
			plain := c.Generate(frame.DefaultBlock)
			block, _, err := e.Append(nil, plain, false)
			if err != nil {
				b.Fatal(err)
			}
			h, err := frame.ParseHeader(block)
			if err != nil {
				b.Fatal(err)
			}
			out := make([]byte, 0, len(plain))
			b.SetBytes(int64(len(plain)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := d.DecodeBlock(out, h, block[frame.HeaderSize:]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
