// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec/codectest"
)

// memory is a file in memory.
type memory []byte

func (m *memory) WriteAt(p []byte, offset int64) (int, error) {
	if need := int(offset) + len(p); need > len(*m) {
		*m = append(*m, make([]byte, need-len(*m))...)
	}
	return copy((*m)[offset:], p), nil
}

// TestTally: what is written block by block with a Tally is what a Writer writes, and so is the index, however long.
func TestTally(t *testing.T) {
	for form := range forms {
		for _, lengths := range [][]int{nil, {100}, {100_000, 1, 4000}} {
			all := travel(t, form, pieces(lengths...)...)
			want, index := rest(t, form, all)
			got, entries := tallied(t, form, all, 1)
			if !bytes.Equal(got, want) {
				t.Errorf("%v of %v: the files differ", form, lengths)
			}
			if !bytes.Equal(entries, index.Append(nil)) {
				t.Errorf("%v of %v: the indexes differ", form, lengths)
			}
		}
		// An index of several reads.
		all := travel(t, form, codectest.Corpora()[0].Generate(100))
		_, b := tallied(t, form, all, 6000)
		index, err := cargo.ParseIndex(b)
		if err != nil || index.Blocks() != 6000 {
			t.Errorf("%v: %v, %v", form, index, err)
		}
		plain, stored, records, err := cargo.Sizes(form, bytes.NewReader(b), int64(len(b)))
		if err != nil || records != (cargo.Records{}) || plain != index.Size() || stored != index.StoredSize() {
			t.Errorf("%v: sizes %d and %d, %v; want %d and %d", form, plain, stored, err, index.Size(), index.StoredSize())
		}
	}
}

// tallied writes a file, each of its blocks so many times, and its index.
func tallied(t *testing.T, form cargo.Form, blocks []wireBlock, times int) (file, index memory) {
	t.Helper()
	tally, packer := cargo.NewTally(form), cargo.NewPacker(form)
	var entries []byte
	if _, err := file.WriteAt(tally.Begin(), 0); err != nil {
		t.Fatal(err)
	}
	for range times {
		for _, b := range blocks {
			rests, block, err := packer.Pack(b.header, b.payload)
			if err != nil {
				t.Fatal(err)
			}
			if !block.Holds(rests) || block.Holds(rests[1:]) || block.Stored() != int64(len(rests)) ||
				block.Plain() != int64(len(b.plain)) {
				t.Errorf("%v: %+v of %d bytes", form, block, len(rests))
			}
			if _, err := file.WriteAt(rests, tally.Next()); err != nil {
				t.Fatal(err)
			}
			entries = block.Append(entries)
			tally.Add(block)
		}
	}
	if _, err := file.WriteAt(tally.End(), tally.Next()); err != nil {
		t.Fatal(err)
	}
	n, err := tally.WriteIndex(&index, bytes.NewReader(entries))
	if err != nil || n != int64(len(index)) {
		t.Fatalf("an index of %d bytes has %d, %v", len(index), n, err)
	}
	if tally.Size() != int64(len(file)) || tally.Blocks() != times*len(blocks) {
		t.Errorf("%v: a file of %d bytes and %d blocks; %d and %d are tallied", form, len(file), times*len(blocks),
			tally.Size(), tally.Blocks())
	}
	return file, index
}

func TestWriteIndexWithoutItsBlocks(t *testing.T) {
	all := travel(t, cargo.Gzip, pieces(1000)...)
	tally := cargo.NewTally(cargo.Gzip)
	_, b, err := cargo.NewPacker(cargo.Gzip).Pack(all[0].header, all[0].payload)
	if err != nil {
		t.Fatal(err)
	}
	tally.Add(b)
	var to memory
	if _, err := tally.WriteIndex(&to, bytes.NewReader(nil)); err == nil {
		t.Error("an index was written of blocks that are not there")
	}
}

func TestSizesOfWhatIsNoIndex(t *testing.T) {
	_, index := rest(t, cargo.Gzip, travel(t, cargo.Gzip, pieces(1000, 2000)...))
	good := index.Append(nil)
	_, long := tallied(t, cargo.Zstd, travel(t, cargo.Zstd, codectest.Corpora()[0].Generate(100)), 2000)
	damaged := bytes.Clone(good)
	damaged[40] ^= 1
	for name, b := range map[string][]byte{
		"Empty": nil, "Short": good[:20], "Cut": good[:len(good)-1], "Damaged": damaged, "OtherForm": long,
		"LongAndCut": long[:len(long)-24], "Text": bytes.Repeat([]byte("text "), 10_000),
	} {
		plain, stored, _, err := cargo.Sizes(cargo.Gzip, bytes.NewReader(b), int64(len(b)))
		if !errors.Is(err, cargo.ErrIndex) {
			t.Errorf("%s: sizes %d and %d, %v", name, plain, stored, err)
		}
	}
	if _, _, _, err := cargo.Sizes(cargo.Gzip, bytes.NewReader(nil), int64(len(good))); err == nil {
		t.Error("an index that is not there has sizes")
	}
}

// FuzzSizes: whatever is in the place of an index, Sizes does not contradict ParseIndex.
func FuzzSizes(f *testing.F) {
	for form := range forms {
		_, index := rest(f, form, travel(f, form, pieces(1000, 100)...))
		f.Add(index.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for form := range forms {
			plain, stored, records, err := cargo.Sizes(form, bytes.NewReader(b), int64(len(b)))
			index, bad := cargo.ParseIndex(b)
			if bad == nil && index.Form() == form && (err != nil || plain != index.Size() || stored != index.StoredSize() ||
				records != index.Records()) {
				t.Errorf("sizes %d and %d, %v", plain, stored, err)
			}
			if err == nil && (plain < 0 || stored < 0 || !records.Valid()) {
				t.Errorf("sizes %d and %d", plain, stored)
			}
		}
	})
}

// FuzzParseBlock: a block that is read is one that is written alike.
func FuzzParseBlock(f *testing.F) {
	_, index := rest(f, cargo.Gzip, travel(f, cargo.Gzip, pieces(1000)...))
	f.Add(index.Append(nil)[32:56])
	f.Fuzz(func(t *testing.T, e []byte) {
		for form := range forms {
			b, err := cargo.ParseBlock(form, e)
			if err != nil {
				if !errors.Is(err, cargo.ErrIndex) {
					t.Error(err)
				}
				continue
			}
			if !bytes.Equal(b.Append(nil), e) || b.Plain() <= 0 || b.Stored() <= 0 || b.Stored() > 5<<20 {
				t.Errorf("%x is %+v", e, b)
			}
		}
	})
}

// FuzzNames: names of files and of indexes are told apart and lead back to the file.
func FuzzNames(f *testing.F) {
	f.Add("a.csv")
	f.Add("a.gz")
	f.Add(".a.gz.lgci")
	f.Add(".gz")
	f.Fuzz(func(t *testing.T, name string) {
		for form := range forms {
			if name == "" {
				continue
			}
			for _, rests := range []string{form.Name(name), form.IndexName(name)} {
				if plain, ok := form.PlainName(rests); !ok || plain != name {
					t.Errorf("%q is of %q, %v; want %q", rests, plain, ok, name)
				}
			}
			if form.Name(name) == form.IndexName(name) {
				t.Errorf("%q and its index have one name", name)
			}
			plain, ok := form.PlainName(name)
			if ok && name != form.Name(plain) && name != form.IndexName(plain) {
				t.Errorf("%q is of %q", name, plain)
			}
		}
	})
}
