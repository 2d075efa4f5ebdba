// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package zstdframe_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/codec/zstdframe"
)

func TestEncodeRepeat(t *testing.T) {
	const block = 128 << 10 // the longest of a frame
	decoder, err := gozstd.New().NewDecoder()
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	packed := make([]byte, 1<<10)
	for _, size := range []int{4 << 10, 5000, block, block + 1, block + 2, 1 << 20, 1<<20 + 1, 4 << 20} {
		for _, content := range []byte{0, 'x', 0xff} {
			plain := bytes.Repeat([]byte{content}, size)
			n, ok, err := zstdframe.EncodeRepeat(packed, plain)
			if !ok || err != nil {
				t.Fatalf("%d bytes: %v, %v", size, ok, err)
			}
			if promised, err := zstdframe.ContentSize(packed[:n], size); promised != size || err != nil {
				t.Errorf("%d bytes: the frame promises %d: %v", size, promised, err)
			}
			got := make([]byte, size)
			if m, err := decoder.Decode(got, packed[:n]); m != size || err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%d bytes: %d came back: %v", size, m, err)
			}
			if m, ok, err := zstdframe.EncodeRepeat(packed[:n-1], plain); m != 0 || !ok || !errors.Is(err, codec.ErrDoesNotFit) {
				t.Errorf("%d bytes, of which one has no space: %d, %v, %v", size, m, ok, err)
			}
			for _, at := range []int{0, 1, size / 2, size - 2, size - 1} {
				plain[at]++
				if _, ok, _ := zstdframe.EncodeRepeat(packed, plain); ok {
					t.Errorf("%d bytes with another at %d count as a repeat", size, at)
				}
				plain[at]--
			}
		}
	}
	for _, size := range []int{0, 1, 100} {
		if _, ok, _ := zstdframe.EncodeRepeat(packed, make([]byte, size)); ok {
			t.Errorf("%d bytes were worth a frame", size)
		}
	}
}
