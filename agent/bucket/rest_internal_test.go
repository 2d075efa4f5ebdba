// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/zeebo/xxh3"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// adopting is a file of a length in parts, of which none is there.
func adopting(size int64, records cargo.Records) *restingOut {
	o := &WriteOptions{Resting: &RestingOptions{Form: cargo.Gzip}, Report: send.NewReport()}
	e := tree.Entry{Path: "a.gz", Type: tree.File, Size: size}
	cut := blocksOf{entry: &e, records: records}
	return &restingOut{writing: &writing{options: o}, at: e, cut: cut, tally: cut.tally(cargo.Gzip)}
}

// FuzzRestingPart reads what somebody put into a journal: what is taken of it is within the file and the part.
func FuzzRestingPart(f *testing.F) {
	block := func(plain, stored byte) []byte {
		b := make([]byte, cargo.BlockSize)
		b[1], b[5] = plain, stored // of 64 KiB
		return b
	}
	good, err := proto.Marshal(&wirev1.StoreRestingPart{Number: 1, Blocks: append(block(16, 10), block(16, 16)...)})
	if err != nil {
		f.Fatal(err)
	}
	mark := []byte{0, 0, 0, 0, 0, 0, 0, 1} // one record begins with the block
	recorded, err := proto.Marshal(&wirev1.StoreRestingPart{
		Number: 1, Blocks: bytes.Repeat(append(block(16, 16), mark...), 6),
		Records: &wirev1.Records{Layout: wirev1.RecordLayout_RECORD_LAYOUT_LINES},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, int64(26<<16+10), int64(32<<16), false)
	f.Add(good, int64(26<<16), int64(40<<16), false)
	f.Add(recorded, int64(96<<16+10), int64(97<<16), true)
	f.Fuzz(func(t *testing.T, data []byte, part, size int64, lines bool) {
		note := parseRestingPart(binary.BigEndian.AppendUint64(data, xxh3.Hash(data)))
		if len(data) > journalSum {
			_ = parseRestingPart(data) // whose end is no checksum
		}
		if note == nil || size < 0 {
			return
		}
		var records cargo.Records
		if lines {
			records.Layout = cargo.Lines
		}
		o := adopting(size, records)
		taken := o.adopt(note, objectstore.Part{Number: 1, Size: part})
		switch {
		case !taken && (o.plain != 0 || o.tally.Blocks() != 0 || len(o.parts) != 0):
			t.Errorf("a part that was not taken left %d bytes", o.plain)
		case taken && (o.plain < 1 || o.plain > size || o.tally.Next() != part || o.begun != o.plain ||
			len(o.blocks) != o.tally.Blocks()*o.tally.EntrySize()):
			t.Errorf("a part of %d bytes was taken, of %d of %d plain ones", part, o.plain, size)
		}
	})
}

// A journal of an earlier attempt is taken as far as its blocks are those of the part.
func TestAdoptedParts(t *testing.T) {
	full := make([]byte, cargo.BlockSize)
	full[1], full[5] = frame.DefaultBlock>>16, frame.DefaultBlock>>16
	blocks := make([]byte, 0, 8*cargo.BlockSize)
	for range 8 {
		blocks = append(blocks, full...)
	}
	short := append([]byte(nil), full...)
	short[1], short[5] = 1, 1
	const begin = 10
	for what, c := range map[string]struct {
		blocks []byte
		part   int64
		taken  bool
	}{
		"whole":        {blocks, 8<<20 + begin, true},
		"other length": {blocks, 8 << 20, false},
		"half a block": {blocks[:len(blocks)-1], 8<<20 + begin, false},
		"none":         {nil, begin, false},
		"small":        {full, 1<<20 + begin, false},
		"short block":  {append(short, blocks...), 8<<20 + 1<<16 + begin, false},
		"too many":     {append(append([]byte(nil), blocks...), blocks...), 16<<20 + begin, false},
	} {
		o := adopting(9<<20, cargo.Records{})
		if taken := o.adopt(&wirev1.StoreRestingPart{Blocks: c.blocks}, objectstore.Part{Size: c.part}); taken != c.taken {
			t.Errorf("%s: taken: %v", what, taken)
		}
	}
}
