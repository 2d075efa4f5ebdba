// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec/engines"
)

var (
	lines = cargo.Records{Layout: cargo.Lines}
	rdw   = cargo.Records{Layout: cargo.RDW}
)

func fixed(n int) cargo.Records { return cargo.Records{Layout: cargo.Fixed, Length: n} }

// word is a record descriptor word.
func word(length int, segment byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(length)), segment, 0)
}

// described makes a record with its words, of so many segments.
func described(segments ...[]byte) []byte {
	var record []byte
	for i, s := range segments {
		segment := byte(0)
		switch {
		case len(segments) == 1:
		case i == 0:
			segment = 1
		case i == len(segments)-1:
			segment = 2
		default:
			segment = 3
		}
		record = append(append(record, word(len(s)+4, segment)...), s...)
	}
	return record
}

// text is a compressible one of a length without newlines.
func text(random *rand.Rand, n int) []byte {
	words := []string{"debit", "credit", "account", "4711", ";", " ", "2026-11-25"}
	var b []byte
	for len(b) < n {
		b = append(b, words[random.IntN(len(words))]...)
	}
	return b[:n]
}

// recorded are files as lists of their records.
func recorded() map[string]struct {
	records cargo.Records
	all     [][]byte
} {
	random := rand.New(rand.NewPCG(7, 7))
	many := func(n int, one func(i int) []byte) (all [][]byte) {
		for i := range n {
			all = append(all, one(i))
		}
		return all
	}
	line := func(n int) []byte { return append(text(random, n), '\n') }
	return map[string]struct {
		records cargo.Records
		all     [][]byte
	}{
		"lines":         {lines, many(900, func(int) []byte { return line(random.IntN(60)) })},
		"empty lines":   {lines, many(5000, func(int) []byte { return []byte("\n") })},
		"no newline":    {lines, append(many(50, func(int) []byte { return line(50) }), []byte("the last one"))},
		"one line":      {lines, [][]byte{text(random, 20_000)}},
		"long lines":    {lines, many(9, func(i int) []byte { return line([]int{3, 9000, 0}[i%3]) })},
		"no lines":      {lines, nil},
		"fixed":         {fixed(80), many(500, func(int) []byte { return text(random, 80) })},
		"bytes":         {fixed(1), many(3000, func(i int) []byte { return []byte{byte(i)} })},
		"long fixed":    {fixed(5000), many(7, func(int) []byte { return text(random, 5000) })},
		"no fixed":      {fixed(80), nil},
		"one fixed":     {fixed(9000), [][]byte{text(random, 9000)}},
		"rdw":           {rdw, many(300, func(int) []byte { return described(text(random, random.IntN(200))) })},
		"nothing in it": {rdw, many(800, func(int) []byte { return described(nil) })},
		"longest":       {rdw, many(3, func(int) []byte { return described(text(random, 32756)) })},
		"no rdw":        {rdw, nil},
		"spanned": {rdw, many(40, func(i int) []byte {
			return described(many(i%4+1, func(int) []byte { return text(random, random.IntN(900)) })...)
		})},
		"long spanned": {rdw, many(3, func(int) []byte {
			return described(many(5, func(int) []byte { return text(random, 20_000) })...)
		})},
	}
}

func pack(t testing.TB, plain []byte, o cargo.PackOptions) ([]byte, *cargo.Index) {
	t.Helper()
	var file bytes.Buffer
	o.Engines = engines.Default()
	index, err := cargo.Pack(t.Context(), &file, bytes.NewReader(plain), o)
	if err != nil {
		t.Fatal(err)
	}
	return file.Bytes(), index
}

// counting is a file that counts how often it is asked.
type counting struct {
	*bytes.Reader
	ranges, reads int
}

func (c *counting) OpenRange(_ context.Context, offset, length int64) (io.ReadCloser, error) {
	c.ranges++
	return io.NopCloser(io.NewSectionReader(c.Reader, offset, length)), nil
}

func (c *counting) ReadAt(p []byte, offset int64) (int, error) {
	c.reads++
	return c.Reader.ReadAt(p, offset)
}

// TestRecords: what is packed is read by others, blocks end at borders, and every record and range is one ranged read.
func TestRecords(t *testing.T) {
	for name, test := range recorded() {
		for form := range forms {
			for _, workers := range []int{1, 3} {
				t.Run(fmt.Sprintf("%v/%s/%d", form, name, workers), func(t *testing.T) {
					plain := bytes.Join(test.all, nil)
					file, index := pack(t, plain,
						cargo.PackOptions{Form: form, Records: test.records, BlockSize: 4096, Workers: workers})
					if got, err := standard(form, file); err != nil || !bytes.Equal(got, plain) {
						t.Fatalf("%d bytes instead of %d: %v", len(got), len(plain), err)
					}
					parsed, err := cargo.ParseIndex(index.Append(nil))
					if err != nil {
						t.Fatal(err)
					}
					if parsed.RecordCount() != int64(len(test.all)) || parsed.Records() != test.records {
						t.Fatalf("%d records %v instead of %d %v", parsed.RecordCount(), parsed.Records(), len(test.all),
							test.records)
					}
					borders(t, index, test.all)
					readRecords(t, file, parsed, test.all, workers)
					rebuilt, err := cargo.RebuildRecords(t.Context(), bytes.NewReader(file), engines.Default(), test.records)
					if err != nil || !bytes.Equal(rebuilt.Append(nil), index.Append(nil)) {
						t.Errorf("the index that was made again is another one: %v", err)
					}
				})
			}
		}
	}
}

// borders checks that each block ends where a record does, unless no record ends in it.
func borders(t *testing.T, index *cargo.Index, all [][]byte) {
	t.Helper()
	ends, at := map[int]bool{}, 0
	for _, record := range all {
		at += len(record)
		ends[at] = true
	}
	at = 0
	for n, length := range blockLengths(index) {
		begin := at
		at += length
		for end := range ends {
			if end > begin && end < at && !ends[at] {
				t.Fatalf("block %d ends at %d, within a record, although one ends at %d", n, at, end)
			}
		}
	}
}

// blockLengths reads them from the bytes of an index.
func blockLengths(index *cargo.Index) (all []int) {
	b := index.Append(nil)
	header, entry := 32, 24
	if b[4] == 2 {
		header, entry = 48, 32
	}
	for at := header; at+entry < len(b); at += entry {
		all = append(all, int(binary.BigEndian.Uint32(b[at:])))
	}
	return all
}

// readRecords reads them one by one, by ranges and all at once.
func readRecords(t *testing.T, file []byte, index *cargo.Index, all [][]byte, workers int) {
	t.Helper()
	counted := &counting{Reader: bytes.NewReader(file)}
	r, err := cargo.NewReader(counted, int64(len(file)), index, engines.Default())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Scrub(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(uint64(len(all)), 1))
	for i := range 60 {
		first := random.IntN(len(all) + 1)
		count := min(random.IntN(40), len(all)-first)
		switch {
		case i == 0:
			first, count = 0, len(all)
		case i%2 == 0:
			count = min(1, len(all)-first)
		}
		want := bytes.Join(all[first:first+count], nil)
		var got bytes.Buffer
		*counted = counting{Reader: counted.Reader}
		err := r.WriteRecords(t.Context(), &got, int64(first), int64(count), workers)
		if err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Fatalf("records %d to %d: %d bytes instead of %d: %v", first, first+count, got.Len(), len(want), err)
		}
		if most := min(count, 1); counted.ranges != most || counted.reads != 0 {
			t.Fatalf("%d records: %d ranged reads and %d others", count, counted.ranges, counted.reads)
		}
		var one [][]byte
		for record, err := range r.Records(t.Context(), int64(first), int64(count)) {
			if err != nil {
				t.Fatal(err)
			}
			one = append(one, bytes.Clone(record))
		}
		if !slices.EqualFunc(one, all[first:first+count], bytes.Equal) {
			t.Fatalf("records %d to %d: %d others", first, first+count, len(one))
		}
	}
	n := int64(len(all))
	for _, asked := range [][2]int64{{-1, 1}, {0, n + 1}, {n + 1, 0}, {1, 1<<63 - 1}, {0, -1}} {
		if err := r.WriteRecords(t.Context(), io.Discard, asked[0], asked[1], 1); !errors.Is(err, cargo.ErrNoRecord) {
			t.Errorf("%d records from %d on: %v", asked[1], asked[0], err)
		}
	}
	for record, err := range r.Records(t.Context(), 0, int64(len(all))) { // that is left
		if err != nil || !bytes.Equal(record, all[0]) {
			t.Errorf("the first record: %q, %v", record, err)
		}
		break
	}
}

// TestRecordsOfOthersBlocks: the blocks of a file that travelled end anywhere, and its records are found all the same.
func TestRecordsOfOthersBlocks(t *testing.T) {
	for name, test := range recorded() {
		for form := range forms {
			t.Run(fmt.Sprintf("%v/%s", form, name), func(t *testing.T) {
				file, without := pack(t, bytes.Join(test.all, nil), cargo.PackOptions{Form: form, BlockSize: 777})
				if without.RecordCount() != 0 || without.Append(nil)[4] != 1 {
					t.Fatalf("an index without records has %d", without.RecordCount())
				}
				err := reader(t, file, without).WriteRecords(t.Context(), io.Discard, 0, 0, 1)
				if !errors.Is(err, cargo.ErrNoRecord) {
					t.Errorf("records of a file without: %v", err)
				}
				index, err := cargo.RebuildRecords(t.Context(), bytes.NewReader(file), engines.Default(), test.records)
				if err != nil {
					t.Fatal(err)
				}
				if index, err = cargo.ParseIndex(index.Append(nil)); err != nil {
					t.Fatal(err)
				}
				readRecords(t, file, index, test.all, 2)
			})
		}
	}
}

// TestFalseRecords: what is no file of the records is found at its place, when it is packed and when it is indexed.
func TestFalseRecords(t *testing.T) {
	good := described([]byte("good"))
	for name, test := range map[string]struct {
		records cargo.Records
		plain   []byte
		offset  int64
	}{
		"LRECL does not divide": {fixed(80), make([]byte, 161), 161},
		"shorter than LRECL":    {fixed(80), make([]byte, 79), 79},
		"longer than a block":   {fixed(9000), make([]byte, 9001), 9001},
		"word of 3 bytes":       {rdw, slices.Concat(good, good, word(3, 0)), 16},
		"word of 0 bytes":       {rdw, slices.Concat(good, make([]byte, 9)), 8},
		"word of 32,761 bytes":  {rdw, slices.Concat(good, word(32761, 0), make([]byte, 40_000)), 8},
		"unknown segment":       {rdw, slices.Concat(good, word(8, 4), good), 8},
		"fourth byte":           {rdw, slices.Concat(good, []byte{0, 4, 0, 1}, good), 8},
		"cut in the word":       {rdw, slices.Concat(good, word(8, 0)[:3]), 11},
		"cut in the record":     {rdw, slices.Concat(good, good[:7]), 15},
		"cut after a segment":   {rdw, slices.Concat(good, word(4, 1)), 12},
		"last without first":    {rdw, slices.Concat(good, word(4, 2)), 8},
		"middle without first":  {rdw, slices.Concat(good, word(4, 3)), 8},
		"whole within spanned":  {rdw, slices.Concat(word(4, 1), good), 4},
		"first within spanned":  {rdw, slices.Concat(word(4, 1), word(4, 1)), 4},
		"a line":                {rdw, []byte("a line of text that is no record\n"), 0},
		// Behind the first block.
		"false later": {rdw, slices.Concat(bytes.Repeat(good, 2000), word(2, 0)), 16_000},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(err error) {
				t.Helper()
				var at *cargo.RecordError
				if !errors.Is(err, cargo.ErrRecords) || !errors.As(err, &at) || at.Offset != test.offset {
					t.Errorf("got %v, want an error at %d", err, test.offset)
				}
			}
			_, err := cargo.Pack(t.Context(), io.Discard, bytes.NewReader(test.plain), cargo.PackOptions{
				Form: cargo.Gzip, Records: test.records, BlockSize: 4096, Engines: engines.Default(),
			})
			check(err)
			file, _ := pack(t, test.plain, cargo.PackOptions{Form: cargo.Zstd})
			_, err = cargo.RebuildRecords(t.Context(), bytes.NewReader(file), engines.Default(), test.records)
			check(err)
		})
	}
	for _, o := range []cargo.PackOptions{
		{Form: 7}, {Form: cargo.Gzip, BlockSize: 4<<20 + 1}, {Form: cargo.Gzip, BlockSize: -1},
		{Form: cargo.Gzip, Records: fixed(0)}, {Form: cargo.Gzip, Records: fixed(1<<30 + 1)},
		{Form: cargo.Gzip, Records: cargo.Records{Layout: cargo.Lines, Length: 1}},
		{Form: cargo.Gzip, Records: cargo.Records{Layout: 4}},
	} {
		o.Engines = engines.Default()
		if _, err := cargo.Pack(t.Context(), io.Discard, bytes.NewReader(nil), o); err == nil {
			t.Errorf("packed with %+v", o)
		}
	}
}

// TestLyingRecords: an index that says other things of records than the file has is found out when it is parsed, when
// the records are read, or by a scrub that inflates; and none of them does harm.
func TestLyingRecords(t *testing.T) {
	const header, entry, before, count = 48, 32, 24, 28
	for name, test := range recorded() {
		file, index := pack(t, bytes.Join(test.all, nil), cargo.PackOptions{
			Form: cargo.Gzip, Records: test.records, BlockSize: 4096,
		})
		if index.Blocks() < 3 {
			continue
		}
		put := func(b []byte, at int, v uint32) { binary.BigEndian.PutUint32(b[at:], v) }
		add := func(b []byte, at, n int) { put(b, at, binary.BigEndian.Uint32(b[at:])+uint32(n)) }
		last := header + (index.Blocks()-1)*entry
		for lie, change := range map[string]func([]byte){
			"a record more":        func(b []byte) { add(b, 44, 1); add(b, last+count, 1) },
			"a record less":        func(b []byte) { add(b, 44, -1); add(b, last+count, -1) },
			"another sum":          func(b []byte) { add(b, 44, 1) },
			"moved between blocks": func(b []byte) { add(b, header+count, -1); add(b, last+count, 1) },
			"begins later":         func(b []byte) { add(b, last+before, 1) },
			"before everything":    func(b []byte) { put(b, header+before, 1) },
			"2^32-1":               func(b []byte) { put(b, last+count, 1<<32-1) },
			"2^32-1 before":        func(b []byte) { put(b, last+before, 1<<32-1) },
			"none":                 func(b []byte) { put(b, header+count, 0) },
			"another layout":       func(b []byte) { b[32] ^= 1 },
			"no layout":            func(b []byte) { b[32] = 0 },
			"a length":             func(b []byte) { add(b, 36, 1) },
			"what is kept free":    func(b []byte) { b[33] = 1 },
		} {
			t.Run(name+"/"+lie, func(t *testing.T) {
				parsed, err := cargo.ParseIndex(reindexed(index, change))
				if err != nil {
					if !errors.Is(err, cargo.ErrIndex) {
						t.Fatal(err)
					}
					return
				}
				r := reader(t, file, parsed)
				for n := range parsed.RecordCount() {
					// One that cannot be found is an error; another one is no harm, since it is what the file has.
					if err := r.WriteRecords(t.Context(), io.Discard, n, 1, 1); err != nil && !errors.Is(
						err, cargo.ErrCorrupt) {
						t.Fatalf("record %d: %v", n, err)
					}
				}
				if err := r.Scrub(t.Context(), false); err != nil {
					t.Error(err) // it does not inflate
				}
				if err := r.Scrub(t.Context(), true); !errors.Is(err, cargo.ErrCorrupt) && !errors.Is(err, cargo.ErrRecords) {
					t.Errorf("a scrub that inflates: %v", err)
				}
			})
		}
	}
}

// TestWriteRange and copies: parts of files and what rests, on several workers, from files that end early or break.
func TestWriteRange(t *testing.T) {
	plain := bytes.Join(pieces(70_000, 1<<20, 5000, 300_000, 900), nil)
	for form := range forms {
		file, index := pack(t, plain, cargo.PackOptions{Form: form, BlockSize: 60_000, Workers: 2})
		r := reader(t, file, index)
		random := rand.New(rand.NewPCG(3, 3))
		for range 50 {
			at, n := random.IntN(len(plain)+10), random.IntN(200_000)
			var got bytes.Buffer
			want := plain[min(at, len(plain)):min(at+n, len(plain))]
			err := r.WriteRange(t.Context(), &got, int64(at), int64(n), 1+n%3)
			if err != nil || !bytes.Equal(got.Bytes(), want) {
				t.Fatalf("%v: %d bytes at %d: %d, %v", form, n, at, got.Len(), err)
			}
		}
		var all bytes.Buffer
		if err := r.WriteRange(t.Context(), &all, 0, 1<<63-1, 4); err != nil || !bytes.Equal(all.Bytes(), plain) {
			t.Errorf("%v: all: %d bytes, %v", form, all.Len(), err)
		}
		if r.WriteRange(t.Context(), io.Discard, -1, 1, 1) == nil || r.WriteRange(t.Context(), io.Discard, 0, -1, 1) == nil {
			t.Error("negative numbers")
		}
		for workers := 1; workers < 4; workers++ {
			if err := r.WriteRange(t.Context(), &failing{100_000}, 0, 1<<63-1, workers); !errors.Is(err, errFull) {
				t.Errorf("%d workers, a full disk: %v", workers, err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(errFull)
			if err := r.WriteRange(ctx, io.Discard, 0, 1<<63-1, workers); !errors.Is(err, errFull) {
				t.Errorf("%d workers, canceled: %v", workers, err)
			}
			_, err := cargo.Pack(ctx, io.Discard, bytes.NewReader(plain),
				cargo.PackOptions{Form: form, Engines: engines.Default(), Workers: workers})
			if !errors.Is(err, errFull) {
				t.Errorf("%d workers, pack canceled: %v", workers, err)
			}
			_, err = cargo.Pack(t.Context(), &failing{10_000}, bytes.NewReader(plain),
				cargo.PackOptions{Form: form, Engines: engines.Default(), Workers: workers, BlockSize: 5000})
			if !errors.Is(err, errFull) {
				t.Errorf("%d workers, pack to a full disk: %v", workers, err)
			}
		}
		for _, check := range []bool{false, true} {
			var copied bytes.Buffer
			if err := r.CopyStored(t.Context(), &copied, check); err != nil || !bytes.Equal(copied.Bytes(), file) {
				t.Errorf("%v: copied %d bytes of %d: %v", form, copied.Len(), len(file), err)
			}
			if err := r.CopyStored(t.Context(), &failing{100}, check); !errors.Is(err, errFull) {
				t.Errorf("copied to a full disk: %v", err)
			}
			short, err := cargo.NewReader(bytes.NewReader(file[:len(file)-1]), int64(len(file)), index, engines.Default())
			if err != nil {
				t.Fatal(err)
			}
			if err := short.CopyStored(t.Context(), io.Discard, check); !errors.Is(err, cargo.ErrCorrupt) {
				t.Errorf("copied a file that ends early: %v", err)
			}
			short.Close()
		}
		for bit := 0; bit < 8*len(file); bit += 8*len(file)/40 + 1 {
			flipped := bytes.Clone(file)
			flipped[bit/8] ^= 1 << (bit % 8)
			if err := reader(t, flipped, index).CopyStored(t.Context(), io.Discard, true); !errors.Is(err, cargo.ErrCorrupt) {
				t.Errorf("%v, bit %d: copied: %v", form, bit, err)
			}
		}
	}
}

// TestParseRecords: what String writes is what ParseRecords reads.
func TestParseRecords(t *testing.T) {
	for _, r := range []cargo.Records{{}, lines, rdw, fixed(1), fixed(1 << 30)} {
		if got, err := cargo.ParseRecords(r.String()); err != nil || got != r {
			t.Errorf("%v: %v, %v", r, got, err)
		}
	}
	for _, s := range []string{
		"", "Lines", "fixed", "fixed=", "fixed=0", "fixed=-1", "fixed=1073741825", "fixed=8x", "layout 4",
	} {
		if r, err := cargo.ParseRecords(s); err == nil {
			t.Errorf("%q is %v", s, r)
		}
	}
}

// splitNaively tells records apart in another way than the package; nil: it is no file of them.
func splitNaively(plain []byte, r cargo.Records) (all [][]byte, ok bool) {
	switch r.Layout {
	case cargo.Lines:
		all = bytes.SplitAfter(plain, []byte("\n"))
		if len(all[len(all)-1]) == 0 {
			all = all[:len(all)-1]
		}
		return all, true
	case cargo.Fixed:
		return slices.Collect(slices.Chunk(plain, r.Length)), len(plain)%r.Length == 0
	}
	var record []byte
	for len(plain) > 0 {
		if len(plain) < 4 || plain[3] != 0 {
			return nil, false
		}
		n, segment := int(binary.BigEndian.Uint16(plain)), plain[2]
		if n < 4 || n > 32760 || n > len(plain) || segment > 3 || (record == nil) != (segment < 2) {
			return nil, false
		}
		record = append(record, plain[:n]...)
		plain = plain[n:]
		if segment == 0 || segment == 2 {
			all, record = append(all, record), nil
		}
	}
	return all, record == nil
}

// FuzzRecords: any bytes are a file of records or are not, and what is has them.
func FuzzRecords(f *testing.F) {
	for _, test := range recorded() {
		plain := bytes.Join(test.all, nil)
		f.Add(plain[:min(len(plain), 9000)], byte(test.records.Layout), uint16(test.records.Length), uint16(100))
	}
	f.Add(slices.Concat(described([]byte("a"), nil, []byte("b")), word(4, 2)), byte(3), uint16(0), uint16(5))
	f.Fuzz(func(t *testing.T, plain []byte, layout byte, length, size uint16) {
		records := cargo.Records{Layout: cargo.Layout(layout%3 + 1)}
		if records.Layout == cargo.Fixed {
			records.Length = int(length) + 1
		}
		want, ok := splitNaively(plain, records)
		var file bytes.Buffer
		index, err := cargo.Pack(t.Context(), &file, bytes.NewReader(plain), cargo.PackOptions{
			Form: cargo.Gzip, Records: records, BlockSize: int(size)%4096 + 1, Engines: engines.Default(),
		})
		if !ok {
			if !errors.Is(err, cargo.ErrRecords) {
				t.Fatalf("no file of %v: %v", records, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if index.RecordCount() != int64(len(want)) {
			t.Fatalf("%d records instead of %d", index.RecordCount(), len(want))
		}
		r := reader(t, file.Bytes(), index)
		if err := r.Scrub(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		n := 0
		for record, err := range r.Records(t.Context(), 0, index.RecordCount()) {
			if err != nil || !bytes.Equal(record, want[n]) {
				t.Fatalf("record %d: %x instead of %x: %v", n, record, want[n], err)
			}
			n++
		}
		if len(want) == 0 {
			return
		}
		var one bytes.Buffer
		n = int(size) % len(want)
		if err := r.WriteRecords(t.Context(), &one, int64(n), 1, 1); err != nil || !bytes.Equal(one.Bytes(), want[n]) {
			t.Fatalf("record %d: %x instead of %x: %v", n, one.Bytes(), want[n], err)
		}
	})
}
