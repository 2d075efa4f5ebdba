// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"bytes"
	"cmp"
	"errors"
	"hash/crc32"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// FuzzArchiveJournal goes on with an archive by a journal that somebody wrote: what is taken of it is consistent.
func FuzzArchiveJournal(f *testing.F) {
	block := make([]byte, cargo.BlockSize)
	block[1], block[5] = 16, 16 // of 1 MiB
	file := tree.Entry{Path: "a", Type: tree.File, Size: 4 << 20, Mode: 0o644}
	note := func(change func(*wirev1.StoreArchivePart)) []byte {
		n := &wirev1.StoreArchivePart{
			Number: 1, Size: 1<<20 + 10, Blocks: block, Open: file.ToWire(),
			OpenAt: &wirev1.StoreArchived{Offset: 512}, OpenDone: 1<<20 - 512,
		}
		change(n)
		b, err := proto.Marshal(n)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	f.Add(note(func(*wirev1.StoreArchivePart) {}), []byte{}, byte(1))
	f.Add(note(func(n *wirev1.StoreArchivePart) { n.OpenAt.Offset, n.OpenDone = 1<<63, 1<<63+1<<20 }), []byte{}, byte(1))
	f.Add(note(func(n *wirev1.StoreArchivePart) {
		n.OpenAt.Offset, n.OpenDone = -2<<20&(1<<64-1), 3<<20
	}), []byte{}, byte(1))
	f.Add(note(func(n *wirev1.StoreArchivePart) { n.Size = 1 << 30 }), note(func(*wirev1.StoreArchivePart) {}), byte(2))
	f.Fuzz(func(t *testing.T, first, second []byte, form byte) {
		j := &journalled{name: goodName}
		for _, b := range [][]byte{first, second} {
			n := &wirev1.StoreArchivePart{}
			// A part has as many bytes as the store says.
			if proto.Unmarshal(b, n) == nil && n.GetSize() <= objectstore.MaxPut {
				n.Before = proto.Uint64(j.blocks.Sum64())
				j.add(n)
			}
		}
		if len(j.notes) == 0 {
			return
		}
		var parts []objectstore.Part
		var stored int64
		for i, n := range j.notes {
			parts = append(parts, objectstore.Part{Number: i + 1, Size: int64(n.GetSize())})
			stored += int64(n.GetSize())
		}
		a := j.archive(cargo.Form(form%3+1), parts)
		if a == nil {
			return
		}
		if a.stored != stored || a.plain < 0 || len(a.parts) != len(parts) || a.noted != len(a.blocks) ||
			a.tally.Blocks() != len(a.blocks)/cargo.BlockSize || a.tally.Next() != stored {
			t.Errorf("%d bytes in %d parts, of %d plain ones, are taken as %d", stored, len(parts), a.plain, a.stored)
		}
		last := j.notes[len(j.notes)-1]
		if last.GetOpen() == nil {
			return
		}
		p := openFile(last, a.plain)
		if p != nil && (p.offset < 0 || p.done < 0 || p.done >= p.entry.Size || p.offset+p.done != a.plain ||
			p.entry.Type != tree.File) {
			t.Errorf("%+v is in the midst of a tar of %d bytes", p, a.plain)
		}
	})
}

// FuzzNote reads what is no note on an upload, and of no writer.
func FuzzNote(f *testing.F) {
	f.Add([]byte(`{"name":"a","id":"1","token":"t","partSize":"8388608"}`))
	f.Add([]byte(`{"transfer":"bank/ledger","runId":"abcde","attempt":1}`))
	f.Add([]byte(`{"partSize":"-1"}`))
	f.Add([]byte(strings.Repeat("[", maxNote)))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []proto.Message{&wirev1.StoreUpload{}, &wirev1.StoreWriter{}} {
			if err := parseNote(b, m); err != nil && !errors.Is(err, errNote) {
				t.Error(err)
			}
		}
	})
}

// FuzzVersion: metadata of others never make an object one that was cut, unless they say that it has another length.
func FuzzVersion(f *testing.F) {
	f.Add("10-5-6", int64(10), int64(5), int64(6))
	f.Add("-1--2--3", int64(-1), int64(-2), int64(-3))
	f.Add("99999999999999999999-1", int64(0), int64(1), int64(1))
	f.Fuzz(func(t *testing.T, text string, size, modified, changed int64) {
		if cut(map[string]string{versionKey: text}, size) && !strings.Contains(text, "-") {
			t.Errorf("%q says that %d bytes are not whole", text, size)
		}
		e := tree.Entry{Size: max(size, 0), Modified: modified, Changed: changed}
		if cut(map[string]string{versionKey: versionOf(&e)}, e.Size) ||
			!cut(map[string]string{versionKey: versionOf(&e)}, e.Size-1) {
			t.Errorf("version %s", versionOf(&e))
		}
	})
}

// FuzzPlainNames: whatever a directory has, each name comes once and in order, and a file rests only if both its
// objects are there.
func FuzzPlainNames(f *testing.F) {
	for _, names := range []string{
		"a.gz\n.a.gz.lgci\na", "a.gz.gz\n.a.gz.gz.lgci\n.a.gz.lgci\na.gz", ".gz\n..gz.lgci", ".lgci\n..gz.lgci.gz.lgci",
		"a.gz/\n.a.gz.lgci\na.gz", "/\n.lighterage.gz\n..lighterage.gz.lgci",
	} {
		f.Add(names, true, true)
		f.Add(strings.ReplaceAll(names, ".gz", ".zst"), false, false)
	}
	f.Fuzz(func(t *testing.T, text string, gzip, strict bool) {
		children := map[string]objectstore.Child{}
		for line := range strings.SplitSeq(text, "\n") {
			name, directory := strings.CutSuffix(line, "/")
			c := children[name]
			c.Name, c.Directory = name, c.Directory || directory
			if !directory {
				c.Object = &objectstore.Object{Name: name}
			}
			children[name] = c
		}
		var all []objectstore.Child
		for _, c := range children {
			all = append(all, c)
		}
		slices.SortFunc(all, func(a, b objectstore.Child) int { return cmp.Compare(a.Name, b.Name) })
		form := cargo.Zstd
		if gzip {
			form = cargo.Gzip
		}
		l := &lister{form: form, strict: strict}
		last := ""
		for i, n := range l.plainNames(all) {
			if i > 0 && n.Name <= last {
				t.Errorf("%q comes after %q", n.Name, last)
			}
			last = n.Name
			if n.sidecar != nil && (children[form.Name(n.Name)].Object == nil ||
				children[form.IndexName(n.Name)].Object == nil || n.Name == Reserved || tree.CheckPath(n.Name) != nil) {
				t.Errorf("%q rests", n.Name)
			}
			if n.sidecar == nil && n.Object != nil && children[n.Name].Object == nil {
				t.Errorf("%q is nobody's", n.Name)
			}
		}
	})
}

// FuzzExtents compares what a scrub finds of files in a tar with what looking at each of them finds.
func FuzzExtents(f *testing.F) {
	f.Add([]byte("0123456789"), []byte{0, 3, 1, 5, 2, 1}, byte(3))
	f.Add([]byte("0123456789"), []byte{0, 3, 1, 2, 2, 1}, byte(1))
	f.Add([]byte(""), []byte{0, 0, 1}, byte(0))
	f.Add([]byte("01"), []byte{0, 2, 1, 2, 0, 1}, byte(2))
	f.Fuzz(func(t *testing.T, content, places []byte, chunk byte) {
		var all []extent
		for p := range slices.Chunk(places, 3) {
			if len(p) < 3 {
				break
			}
			x := extent{offset: int64(p[0]), size: int64(p[1]), crc: uint32(p[2])}
			if end := x.offset + x.size; p[2]%2 == 1 && end <= int64(len(content)) {
				x.crc = crc32.ChecksumIEEE(content[x.offset:end])
			}
			all = append(all, x)
		}
		slices.SortStableFunc(all, func(a, b extent) int { return cmp.Compare(a.offset, b.offset) })
		want, end := true, int64(0)
		for _, x := range all {
			want = want && x.offset >= end && x.offset+x.size <= int64(len(content)) &&
				crc32.ChecksumIEEE(content[x.offset:x.offset+x.size]) == x.crc
			end = max(end, x.offset+x.size)
		}
		x := &extents{all: slices.Clone(all)}
		for p := range bytes.SplitAfterSeq(content, []byte{chunk}) {
			if n, err := x.Write(p); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
		}
		if got := x.whole(); got != want {
			t.Errorf("%v of %d bytes: whole %v, want %v", all, len(content), got, want)
		}
	})
}
