// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/test/vectors"
)

// TestMessageVectors: data messages are the same bytes on every architecture, and
// are read from what another one wrote.
func TestMessageVectors(t *testing.T) {
	header, payload := bytes.Repeat([]byte{0x4c}, 40), []byte("cargo of some bytes")
	for name, m := range map[string]DataMessage{
		"plain": {Session: []byte("0123456789abcdef")},
		"segments": {
			Session: []byte("session"),
			Segments: []Segment{
				{Index: 0, Offset: 0, Length: 5, Digest: [DigestSize]byte{1, 2, 3}},
				{Index: 1<<40 + 3, Offset: 1<<50 + 1, Length: 1 << 20, Digest: [DigestSize]byte{15: 0xff}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := "message/data-" + name + ".bin"
			var wire bytes.Buffer
			if err := m.Write(&wire, header, payload); err != nil {
				t.Fatal(err)
			}
			vectors.Hold(t, file, wire.Bytes())
			if vectors.Updating() {
				return
			}
			var got DataMessage
			if err := got.Read(bytes.NewReader(vectors.Read(t, file))); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Session, m.Session) || !slices.Equal(got.Segments, m.Segments) ||
				!bytes.Equal(got.Received, append(slices.Clone(header), payload...)) {
				t.Errorf("read %+v, want %+v", got, m)
			}
		})
	}
}

// TestManifestVector: what is announced of files is the same on every architecture.
func TestManifestVector(t *testing.T) {
	want := &wirev1.Manifest{Entries: []*wirev1.Entry{
		{
			Path: []byte("."), Type: wirev1.EntryType_ENTRY_TYPE_DIRECTORY, Mode: 0o755, Modified: 1_700_000_000_123_456_789,
			Uid: 1000, Gid: 100,
		},
		{
			Path: []byte("caf\xe9"), Type: wirev1.EntryType_ENTRY_TYPE_FILE, Mode: 0o4640, Size: 1<<40 + 5, Modified: -1,
			Changed: 1 << 60, Sparse: true,
			Xattrs: []*wirev1.Xattr{{Name: []byte("user.origin"), Value: []byte{0, 1, 0xff}}},
		},
		{Path: []byte("link"), Type: wirev1.EntryType_ENTRY_TYPE_SYMLINK, LinkTarget: []byte("../elsewhere")},
	}}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	vectors.Hold(t, "message/manifest.bin", b)
	if vectors.Updating() {
		return
	}
	var got wirev1.Manifest
	if err := proto.Unmarshal(vectors.Read(t, "message/manifest.bin"), &got); err != nil || !proto.Equal(&got, want) {
		t.Errorf("read %v, %v", &got, err)
	}
}
