// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package journal_test

import (
	"encoding/binary"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/journal"
)

// seal gives records their batches' fixed parts and a good header, so that what is behind the checksums is reached.
func seal(records []byte) []byte {
	id := binary.BigEndian.AppendUint32(nil, header.Attempt)
	id = binary.BigEndian.AppendUint32(id, header.ChunkSize)
	for _, s := range []string{header.Run, header.Sender} {
		id = append(binary.BigEndian.AppendUint16(id, uint16(len(s))), s...)
	}
	b := binary.BigEndian.AppendUint16([]byte("LTRGJRNL\x00\x01"), uint16(len(id)))
	b = append(b, id...)
	b = binary.BigEndian.AppendUint64(b, xxh3.Hash(b))
	fixed := binary.BigEndian.AppendUint32([]byte("LTRB"), uint32(len(records)))
	fixed = binary.BigEndian.AppendUint64(fixed, 1)
	sum := xxh3.Hash(append(slices.Clone(fixed), records...))
	b = append(b, binary.BigEndian.AppendUint64(fixed, sum)...)
	return append(b, records...)
}

// FuzzOpen reads arbitrary journals: they are refused, or what they tell is in bounds and the same when it is read
// again.
func FuzzOpen(f *testing.F) {
	vector, err := os.ReadFile("testdata/journal-v1.bin")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(vector, false)
	f.Add(vector[:len(vector)-7], false)
	const first = 8 + 2 + 2 + 4 + 4 + 2 + 4 + 2 + 11 + 8 + 24
	f.Add(vector[first:first+41+10+21+32], true)
	f.Fuzz(func(t *testing.T, b []byte, sealed bool) {
		if sealed {
			b = seal(b)
		}
		m := newMemory()
		m.names[journal.Name] = &content{written: b}
		j, err := journal.Open(m, header)
		if err != nil {
			if !journal.Untrusted(err) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		before := make(map[uint64][]journal.Range)
		j.Numbers(func(n uint64) { before[n] = j.Ranges(n) })
		j, err = journal.Open(m, header)
		if err != nil {
			t.Fatalf("what was written again is refused: %v", err)
		}
		after := make(map[uint64][]journal.Range)
		j.Numbers(func(n uint64) { after[n] = j.Ranges(n) })
		maps.DeleteFunc(before, func(_ uint64, r []journal.Range) bool { return len(r) == 0 })
		if !maps.EqualFunc(before, after, slices.Equal) {
			t.Fatalf("it told %v and then %v", before, after)
		}
		for n, ranges := range after {
			last := int64(0)
			for _, r := range ranges {
				if r.First < last || r.Count <= 0 {
					t.Fatalf("file %d has %v", n, ranges)
				}
				last = r.First + r.Count
			}
		}
	})
}
