// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

type inode struct{ device, number uint64 }

const (
	// maxLinks is how many files with several names are remembered at once, and maxLinkBytes how many bytes of their
	// names. Together with the map that is less than 100 MiB. A file is forgotten when all of its names have come.
	maxLinks     = 1 << 20
	maxLinkBytes = 48 << 20
)

// linkTable remembers the first name of each file that has more. It is bounded; what does not fit is moved as a file of
// its own.
type linkTable struct {
	first map[inode]firstName
	// text holds directories and names. A directory: its length (uvarint), its path; written once for all names that
	// come from it in a row. A name: offset of its directory, its length (both uvarint), the name.
	text    []byte
	dead    int // bytes of text that belong to forgotten names
	dir     string
	dirAt   int
	haveDir bool
	limit   int // files
	bytes   int // of text
}

type firstName struct {
	at   uint32
	left uint32 // names to come
}

func newLinkTable() *linkTable {
	return &linkTable{first: make(map[inode]firstName), limit: maxLinks, bytes: maxLinkBytes}
}

// name takes a name of a file with several. It returns the first one, which is empty if this is it. kept is false for a
// first name that could not be remembered.
func (t *linkTable) name(dir, name string, st *unix.Stat_t) (first string, kept bool) {
	id := inode{uint64(st.Dev), st.Ino}
	f, ok := t.first[id]
	if !ok {
		return "", t.add(id, dir, name, uint32(min(uint64(st.Nlink)-1, 1<<32-1)))
	}
	first = t.path(f)
	if f.left--; f.left > 0 {
		t.first[id] = f
		return first, true
	}
	delete(t.first, id)
	t.dead += nameSize(first)
	if len(t.first) == 0 {
		t.text, t.dead, t.haveDir = t.text[:0], 0, false
	}
	return first, true
}

// nameSize is about what a name takes in the text.
func nameSize(path string) int {
	_, name := Split(path)
	return len(name) + 4
}

func (t *linkTable) add(id inode, dir, name string, left uint32) bool {
	need := len(dir) + len(name) + 4*binary.MaxVarintLen64
	if len(t.text)+need > t.bytes && t.dead > len(t.text)/2 {
		t.compact()
	}
	if len(t.first) >= t.limit || len(t.text)+need > t.bytes {
		return false
	}
	t.first[id] = firstName{at: t.write(dir, name), left: left}
	return true
}

func (t *linkTable) write(dir, name string) uint32 {
	if !t.haveDir || t.dir != dir {
		t.haveDir, t.dir, t.dirAt = true, dir, len(t.text)
		t.text = binary.AppendUvarint(t.text, uint64(len(dir)))
		t.text = append(t.text, dir...)
	}
	at := len(t.text)
	t.text = binary.AppendUvarint(t.text, uint64(t.dirAt))
	t.text = binary.AppendUvarint(t.text, uint64(len(name)))
	t.text = append(t.text, name...)
	return uint32(at)
}

func (t *linkTable) path(f firstName) string {
	b := t.text[f.at:]
	dirAt, n := binary.Uvarint(b)
	b = b[n:]
	size, n := binary.Uvarint(b)
	name := string(b[n : n+int(size)])
	d := t.text[dirAt:]
	size, n = binary.Uvarint(d)
	return join(string(d[n:n+int(size)]), name)
}

// compact drops what belongs to forgotten names.
func (t *linkTable) compact() {
	old := *t
	t.text, t.dead, t.haveDir = nil, 0, false
	for id, f := range old.first {
		dir, name := Split(old.path(f))
		t.first[id] = firstName{at: t.write(dir, name), left: f.left}
	}
}
