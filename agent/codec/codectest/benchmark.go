// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codectest

import (
	"fmt"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
)

// Benchmark measures an engine on blocks of each corpus at each level. Beside the
// usual figures, which other work on the machine spoils, it reports plain bytes by
// the CPU time of the thread, and for encoding the ratio of plain to compressed
// bytes.
func Benchmark(b *testing.B, engine codec.Engine) {
	const size = frame.DefaultBlock
	for _, corpus := range Corpora() {
		plain := corpus.Generate(size)
		packed, out := make([]byte, bound(size)), make([]byte, size)
		for _, level := range levelsOf(engine) {
			encoder, decoder := encoderOf(b, engine, level), decoderOf(b, engine)
			n, err := encoder.Encode(packed, plain)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("Encode/%s/%v", corpus.Name, level), func(b *testing.B) {
				perCPU(b, size, func() {
					if _, err := encoder.Encode(packed, plain); err != nil {
						b.Fatal(err)
					}
				})
				b.ReportMetric(float64(size)/float64(n), "ratio")
			})
			b.Run(fmt.Sprintf("Decode/%s/%v", corpus.Name, level), func(b *testing.B) {
				perCPU(b, size, func() {
					if _, err := decoder.Decode(out, packed[:n]); err != nil {
						b.Fatal(err)
					}
				})
			})
		}
	}
}

func perCPU(b *testing.B, size int, f func()) {
	b.SetBytes(int64(size))
	var cpu time.Duration
	for b.Loop() {
		cpu += meter.ThreadCPU(f)
	}
	b.ReportMetric(float64(size)*float64(b.N)/cpu.Seconds()/1e6, "MB/cpu-s")
}
