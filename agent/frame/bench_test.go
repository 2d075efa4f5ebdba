// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
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

// BenchmarkJoinable is what joinable blocks cost beside others. "Always" compresses: Auto may store.
func BenchmarkJoinable(b *testing.B) {
	for _, name := range []string{"records", "source"} {
		for _, joinable := range []bool{false, true} {
			settings := policy.Settings{Mode: policy.Always, Level: codec.Fast}
			e := newEncoder(b, frame.EncoderOptions{
				Engines: plainMachine, Codec: codec.Deflate, Policy: settings, Joinable: joinable,
			})
			d := newDecoder(b, plainMachine)
			plain := corpus(name, frame.DefaultBlock)
			buf := make([]byte, 0, frame.HeaderSize+len(plain))
			out := make([]byte, 0, len(plain))
			block, _, err := e.Append(nil, plain, false)
			if err != nil {
				b.Fatal(err)
			}
			h, err := frame.ParseHeader(block)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("Encode/%s/%v", name, joinable), func(b *testing.B) {
				perCPU(b, func() {
					if _, _, err := e.Append(buf, plain, false); err != nil {
						b.Fatal(err)
					}
				})
				b.ReportMetric(float64(len(block)), "bytes/block")
			})
			b.Run(fmt.Sprintf("Decode/%s/%v", name, joinable), func(b *testing.B) {
				perCPU(b, func() {
					if _, _, err := d.DecodeBlock(out, h, block[frame.HeaderSize:]); err != nil {
						b.Fatal(err)
					}
				})
			})
		}
	}
}

// perCPU reports the CPU time of a call, which other work on the machine spoils less.
func perCPU(b *testing.B, f func()) {
	var cpu time.Duration
	for b.Loop() {
		cpu += meter.ThreadCPU(f)
	}
	b.ReportMetric(cpu.Seconds()*1e6/float64(b.N), "cpu-us/op")
}

// BenchmarkChecksum compares what a block's checksum may be, over a block that is in the cache.
func BenchmarkChecksum(b *testing.B) {
	plain := corpus("records", frame.DefaultBlock)
	for _, test := range []struct {
		name string
		sum  func()
	}{
		{"XXH3-128", func() { xxh3.Hash128(plain) }},
		{"CRC-32", func() { crc32.ChecksumIEEE(plain) }},
	} {
		b.Run(test.name, func(b *testing.B) {
			b.SetBytes(int64(len(plain)))
			for b.Loop() {
				test.sum()
			}
		})
	}
}
