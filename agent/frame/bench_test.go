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

// BenchmarkRandom is what blocks of noise cost in mode Auto, by what they cost in mode Always, which tries to compress
// them, and what part of that is not the decision's but any block's, above all its checksum (mode Never). The target
// for %-of-compressing is 10; where %-any-block is more than that no decision can reach it.
func BenchmarkRandom(b *testing.B) {
	const blocks = 64 // as many different ones as no cache holds
	all := corpus("random", blocks*frame.DefaultBlock)
	for _, id := range []codec.ID{codec.Deflate, codec.Zstd} {
		for _, level := range []codec.Level{codec.Fast, codec.Balanced} {
			engine, ok := plainMachine.Best(id, codec.Software, level)
			if !ok {
				continue
			}
			modes := []policy.Mode{policy.Never, policy.Auto, policy.Always}
			b.Run(fmt.Sprintf("%s/%v", engine.Name(), level), func(b *testing.B) {
				cpu, encoders := make([]time.Duration, len(modes)), make([]*frame.Encoder, len(modes))
				for i, mode := range modes {
					encoders[i] = newEncoder(b, frame.EncoderOptions{
						Engines: codec.NewRegistry(engine), Codec: id, Policy: policy.Settings{Mode: mode, Level: level},
					})
				}
				buf := make([]byte, 0, frame.HeaderSize+frame.DefaultBlock)
				for n := 0; b.Loop(); n++ {
					for i, e := range encoders {
						plain := all[(n+i*blocks/3)%blocks*frame.DefaultBlock:][:frame.DefaultBlock]
						cpu[i] += meter.ThreadCPU(func() {
							if _, _, _, err := e.Next(buf, plain, false); err != nil {
								b.Fatal(err)
							}
						})
					}
				}
				b.ReportMetric(100*cpu[1].Seconds()/cpu[2].Seconds(), "%-of-compressing")
				b.ReportMetric(100*cpu[0].Seconds()/cpu[2].Seconds(), "%-any-block")
				b.ReportMetric(cpu[1].Seconds()*1e6/float64(b.N), "cpu-us/op")
				b.ReportMetric(10, "target-%")
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
