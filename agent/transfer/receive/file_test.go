// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"bytes"
	"testing"

	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// However a sender cuts a file, each chunk is taken once and no other range is.
func FuzzClaim(f *testing.F) {
	f.Add(int64(200_000), uint64(65536), uint32(65536), uint64(0), uint32(65536))
	f.Add(int64(1), uint64(0), uint32(1), uint64(0), uint32(1))
	f.Add(int64(1<<44), uint64(1<<43), uint32(65536), uint64(1<<63), uint32(0))
	f.Fuzz(func(t *testing.T, size int64, offset1 uint64, length1 uint32, offset2 uint64, length2 uint32) {
		const chunk = 64 << 10
		if size <= 0 || size/chunk >= maxChunks {
			return
		}
		file := newInFile(1, tree.Entry{Path: "a", Type: tree.File, Size: size}, chunk)
		a := protocol.Segment{Offset: offset1, Length: length1}
		b := protocol.Segment{Offset: offset2, Length: length2}
		for i, s := range []*protocol.Segment{&a, &b, &a, &b} {
			r, err := file.claim(s, true)
			if err != nil {
				continue
			}
			if i >= 2 || i == 1 && a.Offset == b.Offset && a.Length == b.Length {
				t.Fatalf("%+v was taken twice", s)
			}
			if s.Offset%chunk != 0 || s.Offset+uint64(s.Length) > uint64(size) || s.Length == 0 || r == nil {
				t.Fatalf("%+v of a file of %d bytes was taken", s, size)
			}
		}
	})
}

// Whatever the entries are, those that are accepted are each new, and each is in a directory that was accepted.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(".\na/\na/b\nb"))
	f.Add([]byte(".\na\na/b"))
	f.Add([]byte(".\n../a\n/b\na//b\n\nb\na"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m manifest
		directories := map[string]bool{}
		seen := map[string]bool{}
		for line := range bytes.SplitSeq(b, []byte("\n")) {
			path, isDirectory := bytes.CutSuffix(line, []byte("/"))
			w := &wirev1.Entry{Path: path, Type: wirev1.EntryType_ENTRY_TYPE_FILE}
			if isDirectory || string(path) == tree.Root {
				w.Type = wirev1.EntryType_ENTRY_TYPE_DIRECTORY
			}
			e, err := m.add(w)
			if err != nil {
				return
			}
			if seen[e.Path] {
				t.Fatalf("%q is accepted twice", e.Path)
			}
			seen[e.Path] = true
			if parent, _ := tree.Split(e.Path); e.Path != tree.Root && !directories[parent] {
				t.Fatalf("%q is accepted without its directory", e.Path)
			}
			directories[e.Path] = e.Type == tree.Directory
		}
	})
}
