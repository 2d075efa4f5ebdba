// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec/engines"
)

// chained is a plain file whose blocks have a length, at rest.
type chained struct {
	plain   []byte
	size    int // of a block
	records cargo.Records
	blocks  []cargo.Block
	file    bytes.Buffer
	index   *cargo.Index // that knows no records
}

func newChained(t testing.TB, plain []byte, size int, records cargo.Records) *chained {
	t.Helper()
	c := &chained{plain: plain, size: size, records: records}
	var err error
	c.index, err = cargo.Pack(t.Context(), &c.file, bytes.NewReader(plain), cargo.PackOptions{
		Form: cargo.Gzip, BlockSize: size, Engines: engines.Default(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := range c.index.Blocks() {
		c.blocks = append(c.blocks, c.index.Block(n))
	}
	return c
}

// marks has workers find the records of the blocks from one on. A record begins at latest, before which nothing is
// read.
func (c *chained) marks(t testing.TB, from int, latest int64, workers int) []cargo.Mark {
	t.Helper()
	first := int64(from) * int64(c.size)
	chain := cargo.NewRecordChain(c.records, int64(len(c.plain)), first, latest)
	read := func(p []byte, offset int64) error {
		if offset < latest || offset+int64(len(p)) > first {
			t.Errorf("read %d bytes at %d, for a block at %d behind a record at %d", len(p), offset, first, latest)
		}
		copy(p, c.plain[offset:])
		return nil
	}
	marks, dealt := make([]cargo.Mark, len(c.blocks)-from), make(chan int)
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for n := range dealt {
				offset := n * c.size
				m, err := chain.Mark(
					t.Context(), int64(offset), c.plain[offset:min(offset+c.size, len(c.plain))], read,
				)
				if err != nil {
					t.Error(err)
				}
				marks[n-from] = m
			}
		})
	}
	for n := from; n < len(c.blocks); n++ {
		dealt <- n
	}
	close(dealt)
	working.Wait()
	return marks
}

// tally adds the first blocks up, and returns what the index is made of.
func (c *chained) tally(t testing.TB, marks []cargo.Mark) (tally *cargo.Tally, entries []byte) {
	t.Helper()
	tally = cargo.NewRecordTally(cargo.Gzip, c.records)
	for n, m := range marks {
		if err := tally.AddMarked(c.blocks[n], m); err != nil {
			t.Fatal(err)
		}
		e := tally.Append(nil, c.blocks[n], m)
		if b, mark, err := tally.ParseEntry(e); err != nil || b != c.blocks[n] || mark != m {
			t.Errorf("block %d: %+v and %+v became %+v and %+v, %v", n, c.blocks[n], m, b, mark, err)
		}
		entries = append(entries, e...)
	}
	return tally, entries
}

// indexed is the index of the file with what is known of its records.
func (c *chained) indexed(t testing.TB, marks []cargo.Mark) (index memory, knows bool) {
	t.Helper()
	tally, entries := c.tally(t, marks)
	n, err := tally.WriteIndex(&index, bytes.NewReader(entries))
	if err != nil || n != int64(len(index)) {
		t.Fatalf("an index of %d bytes has %d: %v", n, len(index), err)
	}
	return index, tally.KnowsRecords()
}

// TestRecordChain: workers that read blocks which end anywhere make the index that a scan of the file makes, and so do
// those that go on behind any block.
func TestRecordChain(t *testing.T) {
	for name, test := range recorded() {
		plain := bytes.Join(test.all, nil)
		for _, size := range []int{333, 5000, 1 << 20} {
			c := newChained(t, plain, size, test.records)
			want, err := cargo.RebuildRecords(t.Context(), bytes.NewReader(c.file.Bytes()), engines.Default(), test.records)
			if err != nil {
				t.Fatal(err)
			}
			marks := c.marks(t, 0, 0, 3)
			if index, knows := c.indexed(t, marks); !knows || !bytes.Equal(index, want.Append(nil)) {
				t.Errorf("%s in blocks of %d: the index is another than that of a scan", name, size)
			}
			for from := 1; from < len(c.blocks); from += 1 + len(c.blocks)/7 {
				tally, _ := c.tally(t, marks[:from])
				latest, ok := tally.LatestRecord()
				if !ok {
					t.Fatalf("%s: no record is known of", name)
				}
				if again := c.marks(t, from, latest, 2); !slices.Equal(again, marks[from:]) {
					t.Errorf("%s in blocks of %d: from block %d on the records are others", name, size, from)
				}
			}
			for n, m := range marks {
				offset := int64(n) * int64(size)
				if got := want.MarkAt(test.records, offset, int(c.blocks[n].Plain())); got != m {
					t.Errorf("%s: block %d has %+v instead of %+v", name, n, got, m)
				}
			}
			b := want.Append(nil)
			_, _, known, err := cargo.Sizes(cargo.Gzip, bytes.NewReader(b), int64(len(b)))
			if err != nil || known != test.records {
				t.Errorf("%s in blocks of %d: an index of records %v, %v", name, size, known, err)
			}
			if !want.CutAt(int64(size)) || len(c.blocks) > 1 && want.CutAt(int64(size+1)) {
				t.Errorf("%s: blocks of %d bytes are not cut there", name, size)
			}
		}
	}
}

// TestRecordChainOfOtherFiles: of a file that does not consist of such records no block is known behind where that
// shows, also by who goes on there, and its index is one that knows no records.
func TestRecordChainOfOtherFiles(t *testing.T) {
	good := described(bytes.Repeat([]byte("x"), 996))
	for name, test := range map[string]struct {
		records cargo.Records
		plain   []byte
		known   int // blocks
	}{
		"a false word":     {rdw, slices.Concat(bytes.Repeat(good, 5), []byte("none"), bytes.Repeat(good, 5)), 5},
		"a cut record":     {rdw, bytes.Repeat(good, 10)[:9900], 9},
		"text":             {rdw, bytes.Repeat([]byte("text\n"), 2000), 0},
		"a false length":   {fixed(80), make([]byte, 9999), 0},
		"a cut last block": {rdw, append(bytes.Repeat(good, 9), 0, 9), 9},
	} {
		c := newChained(t, test.plain, 1000, test.records)
		marks := c.marks(t, 0, 0, 3)
		for n, m := range marks {
			if known := m != (cargo.Mark{}); known != (n < test.known) {
				t.Errorf("%s: block %d: %+v", name, n, m)
			}
		}
		index, knows := c.indexed(t, marks)
		if knows || !bytes.Equal(index, c.index.Append(nil)) {
			t.Errorf("%s: the index knows records, or is another one: %v", name, knows)
		}
		if tally, _ := c.tally(t, marks); test.records == rdw {
			if _, ok := tally.LatestRecord(); ok {
				t.Errorf("%s: a record is known of", name)
			}
		}
		again := c.marks(t, test.known, int64(max(test.known-1, 0))*1000, 1)
		if slices.ContainsFunc(again, func(m cargo.Mark) bool { return m != cargo.Mark{} }) {
			t.Errorf("%s: from block %d on there are %+v", name, test.known, again)
		}
	}
}

// TestRecordChainEnds: nobody waits for a chain that was stopped, that cannot read, or whose context ended.
func TestRecordChainEnds(t *testing.T) {
	block := []byte("a\nb\n")
	wait := func(chain *cargo.RecordChain, ctx context.Context) (<-chan cargo.Mark, <-chan error) {
		marks, errs := make(chan cargo.Mark, 1), make(chan error, 1)
		go func() {
			m, err := chain.Mark(ctx, 4, block, nil)
			marks <- m
			errs <- err
		}()
		return marks, errs
	}
	chain := cargo.NewRecordChain(lines, 8, 0, 0)
	marks, errs := wait(chain, t.Context())
	chain.Stop()
	if m, err := <-marks, <-errs; m != (cargo.Mark{}) || err != nil {
		t.Errorf("stopped: %+v, %v", m, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, errs = wait(cargo.NewRecordChain(lines, 8, 0, 0), ctx)
	cancel()
	if err := <-errs; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	chain = cargo.NewRecordChain(lines, 12, 4, 1)
	m, err := chain.Mark(t.Context(), 4, block, func([]byte, int64) error { return io.ErrUnexpectedEOF })
	if !errors.Is(err, io.ErrUnexpectedEOF) || m != (cargo.Mark{}) {
		t.Errorf("unreadable: %+v, %v", m, err)
	}
	if m, err := chain.Mark(t.Context(), 8, block, nil); err != nil || m != (cargo.Mark{}) {
		t.Errorf("behind what is unreadable: %+v, %v", m, err)
	}
	(*cargo.RecordChain)(nil).Stop()
}

// TestRecordChainUnread: of records of one length no byte is read, nor is anything of a file none of whose records is
// known of. Of a record that began too long ago nothing is read either.
func TestRecordChainUnread(t *testing.T) {
	const size, from = 4 << 40, 2 << 40
	for name, test := range map[string]struct {
		chain *cargo.RecordChain
		want  cargo.Mark
		known bool
	}{
		"fixed":     {cargo.NewRecordChain(fixed(1<<20), size, from, 0), cargo.Mark{Count: 1}, true},
		"continued": {cargo.NewRecordChain(fixed(1<<30), size, from-4, 0), cargo.Mark{Before: 4}, true},
		"false":     {cargo.NewRecordChain(fixed(77), size, from, from), cargo.Mark{}, true},
		"long":      {cargo.NewRecordChain(lines, size, from, from-1<<30-1), cargo.Mark{}, true},
		"lines":     {cargo.NewRecordChain(lines, size, from, from), cargo.Mark{Count: 1}, false},
		"none":      {nil, cargo.Mark{}, true},
	} {
		block, offset := []byte("text"), int64(from)
		if name == "continued" {
			offset -= 4
		}
		if m, known := test.chain.MarkUnread(offset, 4); known != test.known || known && m != test.want {
			t.Errorf("%s: unread, %+v, %v", name, m, known)
		}
		m, err := test.chain.Mark(t.Context(), offset, block, func([]byte, int64) error { return io.ErrUnexpectedEOF })
		if m != test.want || err != nil {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
	}
}

// FuzzRecordChain: any bytes in any blocks are a file of records or are not, and what is has them.
func FuzzRecordChain(f *testing.F) {
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
		c := newChained(t, plain, int(size)%4096+1, records)
		marks := c.marks(t, 0, 0, 2)
		b, knows := c.indexed(t, marks)
		index, err := cargo.ParseIndex(b)
		if err != nil {
			t.Fatal(err)
		}
		want, ok := splitNaively(plain, records)
		if knows != ok || !ok && index.Records() != (cargo.Records{}) {
			t.Fatalf("records %v are known: %v, of what has them: %v", index.Records(), knows, ok)
		}
		if !ok {
			return
		}
		if index.RecordCount() != int64(len(want)) {
			t.Fatalf("%d records instead of %d", index.RecordCount(), len(want))
		}
		if err := reader(t, c.file.Bytes(), index).Scrub(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		if from := len(c.blocks) / 2; from > 0 {
			tally, _ := c.tally(t, marks[:from])
			if latest, ok := tally.LatestRecord(); !ok || !slices.Equal(c.marks(t, from, latest, 1), marks[from:]) {
				t.Fatalf("from block %d on the records are others", from)
			}
		}
	})
}

// FuzzMarks: what a Tally takes of others makes an index that can be read.
func FuzzMarks(f *testing.F) {
	c := newChained(f, bytes.Repeat([]byte("text\n"), 1000), 1000, lines)
	_, entries := c.tally(f, c.marks(f, 0, 0, 1))
	for _, r := range []cargo.Records{lines, rdw, fixed(5), fixed(7), fixed(1 << 30)} {
		f.Add(entries, byte(r.Layout), uint32(r.Length))
	}
	f.Add(append(entries[:32:32], make([]byte, 32)...), byte(cargo.Lines), uint32(0))
	f.Fuzz(func(t *testing.T, b []byte, layout byte, length uint32) {
		records := cargo.Records{Layout: cargo.Layout(layout), Length: int(length)}
		if !records.Valid() {
			return
		}
		tally := cargo.NewRecordTally(cargo.Gzip, records)
		var entries []byte
		for e := range slices.Chunk(b, tally.EntrySize()) {
			block, m, err := tally.ParseEntry(e)
			if err != nil || tally.AddMarked(block, m) != nil {
				break
			}
			entries = append(entries, e...)
			if latest, ok := tally.LatestRecord(); ok && latest < 0 {
				t.Fatalf("a record begins at %d", latest)
			}
		}
		var index memory
		if _, err := tally.WriteIndex(&index, bytes.NewReader(entries)); err != nil {
			t.Fatal(err)
		}
		i, err := cargo.ParseIndex(index)
		if err != nil {
			t.Fatal(err)
		}
		if knows := i.Records().Layout != cargo.NoRecords; knows != tally.KnowsRecords() || i.Blocks() != tally.Blocks() {
			t.Fatalf("%d blocks, known: %v; the tally: %d, %v", i.Blocks(), knows, tally.Blocks(), tally.KnowsRecords())
		}
	})
}
