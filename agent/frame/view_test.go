// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"errors"
	"testing"
	"unsafe"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/frame"
)

// What Next returns is what Append writes, View reads it, and a stored block is copied by neither.
func TestNextAndView(t *testing.T) {
	corpora := codectest.Corpora()
	for _, space := range []int{0, frame.HeaderSize + 60_000} {
		options := frame.EncoderOptions{Engines: plainMachine, Codec: codec.Deflate, Policy: auto()}
		apart, whole := newEncoder(t, options), newEncoder(t, options)
		d := newDecoder(t, plainMachine)
		stored := 0
		for i, c := range corpora {
			plain, last := c.Generate(60_000), i == len(corpora)-1
			header, payload, outcome, err := apart.Next(make([]byte, 0, space), plain, last)
			if err != nil {
				t.Fatal(err)
			}
			block, same, err := whole.Append(nil, plain, last)
			if err != nil || !bytes.Equal(append(bytes.Clone(header), payload...), block) || outcome.Path != same.Path {
				t.Fatalf("%s: Append gives another block: %v", c.Name, err)
			}
			h, err := frame.ParseHeader(header)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := d.View(make([]byte, 0, space), h, payload)
			if err != nil || !bytes.Equal(got, plain) {
				t.Fatalf("%s: View gives %d bytes, %v", c.Name, len(got), err)
			}
			if h.Codec == codec.None {
				stored++
				if unsafe.SliceData(payload) != unsafe.SliceData(plain) || unsafe.SliceData(got) != unsafe.SliceData(payload) {
					t.Errorf("%s: a stored block was copied", c.Name)
				}
			}
		}
		if stored == 0 || stored == len(corpora) {
			t.Errorf("%d blocks of %d were stored", stored, len(corpora))
		}
		if _, _, _, err := apart.Next(nil, nil, true); !errors.Is(err, frame.ErrEnded) {
			t.Errorf("after the last block: %v", err)
		}
	}
}
