// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"testing"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
)

// fewBytes is an origin of one file, which has a byte at some offsets and else zeros.
type fewBytes struct {
	Origin
	at map[int64]byte
}

func (f fewBytes) ReadAt(_ *tree.Entry, p []byte, offset int64) error {
	clear(p)
	for at, b := range f.at {
		if at >= offset && at < offset+int64(len(p)) {
			p[at-offset] = b
		}
	}
	return nil
}

// A whole block of zeros is compressed once. One that is not all zeros, or shorter, is no other's.
func TestZerosAreCompressedOnce(t *testing.T) {
	for _, form := range []cargo.Form{cargo.Gzip, cargo.Zstd} {
		t.Run(form.String(), func(t *testing.T) { zerosAreCompressedOnce(t, form) })
	}
}

func zerosAreCompressedOnce(t *testing.T, form cargo.Form) {
	t.Helper()
	const size = 4*frame.DefaultBlock - 7
	o := &WriteOptions{
		Origin: fewBytes{at: map[int64]byte{3*frame.DefaultBlock - 1: 1}}, Report: send.NewReport(),
		Resting: &RestingOptions{
			Form: form, Engines: engines.Default(), Policy: policy.Settings{Mode: policy.Always, Level: codec.Fast},
		},
	}
	all := newCompressors(o.Resting, 2)
	defer all.close()
	rests := make([][]byte, 4)
	for n := range rests {
		c, err := all.take(t.Context()) // The free ones take turns.
		if err != nil {
			t.Fatal(err)
		}
		of := blocksOf{entry: &tree.Entry{Path: "a", Type: tree.File, Size: size}}
		rest, b, _, err := c.block(t.Context(), o, of, n, int64(n)*frame.DefaultBlock)
		if err != nil || !b.Holds(rest) {
			t.Fatalf("%v: block %d: %v", form, n, err)
		}
		rests[n] = rest
		all.give(c)
	}
	known := all.zeros.known.Load()
	if known == nil || &rests[1][0] != &known.rest[0] {
		t.Errorf("%v: another block of zeros was compressed", form)
	}
	if &rests[2][0] == &known.rest[0] || &rests[3][0] == &known.rest[0] {
		t.Errorf("%v: a block that is not whole or not all zeros was taken for one", form)
	}
	if b := o.Report.Report().GetCompression(); b.GetUncompressedBytes() != size {
		t.Errorf("%v: %d bytes are counted of %d", form, b.GetUncompressedBytes(), size)
	}
}
