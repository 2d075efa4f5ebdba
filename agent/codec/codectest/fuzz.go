// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codectest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
)

// Fuzz fuzzes an engine: any bytes survive encoding and decoding, any bytes may be
// decoded without harm, and what others decode as well they decode to the same.
// The other way round is not asked for: engines differ in how strictly they take
// streams that no encoder writes.
func Fuzz(f *testing.F, engine codec.Engine, others ...codec.Engine) {
	var encoders []codec.Encoder
	for _, level := range levelsOf(engine) {
		encoders = append(encoders, encoderOf(f, engine, level))
	}
	decoder := decoderOf(f, engine)
	var otherDecoders []codec.Decoder
	for _, other := range others {
		otherDecoders = append(otherDecoders, decoderOf(f, other))
	}

	for _, corpus := range Corpora() {
		for _, size := range []int{0, 1, 100, 3000} {
			plain := corpus.Generate(size)
			f.Add(plain)
			for _, encoder := range encoders {
				packed := bytes.Clone(encode(f, encoder, plain))
				f.Add(packed)
				f.Add(packed[:len(packed)/2])
			}
		}
	}

	const space = 1 << 16
	in, out := fence(f, 1<<20), fence(f, space)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, encoder := range encoders {
			mustDecode(t, decoder, encode(t, encoder, data), data)
		}

		if len(data) <= len(in) {
			data = in.place(data)
		}
		dst := out.last(space)
		n, err := decoder.Decode(dst, data)
		if err != nil {
			if !errors.Is(err, codec.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		for i, other := range otherDecoders {
			out := guard(space)
			m, err := other.Decode(out.bytes, data)
			out.check(t)
			if err == nil && !bytes.Equal(out.bytes[:m], dst[:n]) {
				t.Fatalf("%s and %s expand the same bytes differently", engine.Name(), others[i].Name())
			}
		}
	})
}
