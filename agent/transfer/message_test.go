// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// What dataMessage writes and reads is a DataRequest.
func TestDataMessageIsDataRequest(t *testing.T) {
	digest := [digestSize]byte{0: 1, 15: 2}
	want := &wirev1.DataRequest{
		Session: []byte("session"),
		Segments: []*wirev1.Segment{
			{Index: 1, Offset: 1 << 40, Length: 4 << 20, Digest: digest[:], Reused: 1 << 15, Holes: 5},
			{Digest: digest[:]},
		},
		Block: bytes.Repeat([]byte{7}, 100_000),
	}
	m := &dataMessage{session: want.Session}
	for _, s := range want.Segments {
		m.segments = append(
			m.segments,
			segment{
				index: s.Index, offset: s.Offset, length: s.Length, digest: digest, reused: parts(s.Reused), holes: parts(s.Holes),
			},
		)
	}
	var sent bytes.Buffer
	if err := m.write(&sent, want.Block[:40], want.Block[40:]); err != nil {
		t.Fatal(err)
	}
	b := sent.Bytes()
	if n := binary.BigEndian.Uint32(b); int(n) != len(b)-4 {
		t.Errorf("%d bytes follow a length of %d", len(b)-4, n)
	}
	var got wirev1.DataRequest
	if err := proto.Unmarshal(b[4:], &got); err != nil || !proto.Equal(&got, want) {
		t.Errorf("it was written as %v, %v", &got, err)
	}

	var back dataMessage
	if err := back.read(&sent); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(back.session, want.Session) || !bytes.Equal(back.received, want.Block) || len(back.segments) != 2 ||
		back.segments[0] != (segment{1, 1 << 40, 4 << 20, digest, 1 << 15, 5}) {
		t.Errorf("it was read as %+v", back.segments)
	}
	if err := back.read(&sent); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	for _, cut := range []int{1, 4, 5, len(b) - 1} {
		if err := back.read(bytes.NewReader(b[:cut])); err == nil {
			t.Errorf("a message cut after %d bytes was read", cut)
		}
	}
	if err := back.read(bytes.NewReader([]byte{0xff, 0, 0, 0})); !errors.Is(err, errMessage) {
		t.Errorf("a message of 4 GiB: %v", err)
	}
}

func FuzzDataMessage(f *testing.F) {
	for _, m := range []*wirev1.DataRequest{
		{
			Session: []byte("s"), Segments: []*wirev1.Segment{{Index: 1, Length: 5, Digest: make([]byte, digestSize)}},
			Block: []byte("block"),
		},
		{Segments: []*wirev1.Segment{{Digest: []byte{1}}}},
		{
			Segments: []*wirev1.Segment{
				{Reused: 1, Digest: make([]byte, digestSize)},
				{Length: 4196, Digest: make([]byte, digestSize)},
			},
		},
		{},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m dataMessage
		if m.parse(b) != nil {
			return
		}
		if len(m.segments) > maxSegments {
			t.Fatalf("%d segments", len(m.segments))
		}
		// Whatever the files, those that pass lie in the block one after the other.
		for i := range m.segments {
			for _, chunk := range []int64{minChunkSize, hostileChunk, maxChunkSize} {
				s := &m.segments[i]
				if s.check(chunk) == nil && (s.carried(chunk) < 0 || s.carried(chunk) > min(chunk, int64(s.length))) {
					t.Fatalf("%+v carries %d bytes", *s, s.carried(chunk))
				}
			}
		}
		// Where both can read it, they read the same.
		var want wirev1.DataRequest
		if proto.Unmarshal(b, &want) != nil {
			return
		}
		if !bytes.Equal(m.session, want.Session) || !bytes.Equal(m.received, want.Block) ||
			len(m.segments) != len(want.Segments) {
			t.Fatalf("read as %+v instead of %v", m, &want)
		}
		for i, s := range want.Segments {
			got := m.segments[i]
			if got.index != s.Index || got.offset != s.Offset || got.length != s.Length ||
				!bytes.Equal(got.digest[:], s.Digest) {
				t.Fatalf("segment %d read as %+v instead of %v", i, got, s)
			}
		}
	})
}

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
		a := segment{offset: offset1, length: length1}
		b := segment{offset: offset2, length: length2}
		for i, s := range []*segment{&a, &b, &a, &b} {
			r, err := file.claim(s, true)
			if err != nil {
				continue
			}
			if i >= 2 || i == 1 && a.offset == b.offset && a.length == b.length {
				t.Fatalf("%+v was taken twice", s)
			}
			if s.offset%chunk != 0 || s.offset+uint64(s.length) > uint64(size) || s.length == 0 || r == nil {
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
