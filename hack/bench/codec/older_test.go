// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"testing"

	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/test/corpus"

	agentcodec "github.com/lighterage/lighterage/agent/codec"
)

// BenchmarkOlder compares the older methods with the engines in Go at level Fast. The ratio, compressed by original
// size, is the same on every machine.
func BenchmarkOlder(b *testing.B) {
	for _, c := range corpus.All() {
		plain := c.Generate(full.bytes)
		contenders := older(plain, mainBlock)
		for _, engine := range []agentcodec.Engine{goflate.New(), gozstd.New()} {
			contender, err := compressing(setting{engine, agentcodec.Fast}, plain, mainBlock)
			if err != nil {
				b.Fatal(err)
			}
			contenders = append(contenders, contender)
		}
		for _, contender := range contenders {
			b.Run(c.Name+"/"+contender.name, func(b *testing.B) {
				b.SetBytes(int64(len(plain)))
				for b.Loop() {
					s, err := contender.pass(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(float64(s.out)/float64(s.in), "ratio")
				}
			})
			if err := contender.close(); err != nil {
				b.Error(err)
			}
		}
	}
}
