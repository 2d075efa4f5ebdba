// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/cargo"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// What DataMessage writes and reads is a DataRequest.
func TestDataMessageIsDataRequest(t *testing.T) {
	digest := [DigestSize]byte{0: 1, 15: 2}
	want := &wirev1.DataRequest{
		Session: []byte("session"),
		Segments: []*wirev1.Segment{
			{Index: 1, Offset: 1 << 40, Length: 4 << 20, Digest: digest[:], Reused: 1 << 15, Holes: 5,
				RecordsBefore: 3, Records: 1 << 22},
			{Digest: digest[:]},
		},
		Block: bytes.Repeat([]byte{7}, 100_000),
	}
	m := &DataMessage{Session: want.Session}
	for _, s := range want.Segments {
		m.Segments = append(
			m.Segments,
			Segment{
				Index: s.Index, Offset: s.Offset, Length: s.Length, Digest: digest, Reused: Parts(s.Reused), Holes: Parts(s.Holes),
				Mark: cargo.Mark{Before: s.RecordsBefore, Count: s.Records},
			},
		)
	}
	var sent bytes.Buffer
	if err := m.Write(&sent, want.Block[:40], want.Block[40:]); err != nil {
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

	var back DataMessage
	if err := back.Read(&sent); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(back.Session, want.Session) || !bytes.Equal(back.Received, want.Block) || len(back.Segments) != 2 ||
		back.Segments[0] != (Segment{1, 1 << 40, 4 << 20, digest, false, 1 << 15, 5, cargo.Mark{Before: 3, Count: 1 << 22}}) {
		t.Errorf("it was read as %+v", back.Segments)
	}
	if err := back.Read(&sent); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	for _, cut := range []int{1, 4, 5, len(b) - 1} {
		if err := back.Read(bytes.NewReader(b[:cut])); err == nil {
			t.Errorf("a message cut after %d bytes was read", cut)
		}
	}
	if err := back.Read(bytes.NewReader([]byte{0xff, 0, 0, 0})); !errors.Is(err, ErrMalformed) {
		t.Errorf("a message of 4 GiB: %v", err)
	}
}

func FuzzDataMessage(f *testing.F) {
	for _, m := range []*wirev1.DataRequest{
		{
			Session: []byte("s"), Segments: []*wirev1.Segment{{Index: 1, Length: 5, Digest: make([]byte, DigestSize)}},
			Block: []byte("block"),
		},
		{Segments: []*wirev1.Segment{{Digest: []byte{1}}}},
		{Segments: []*wirev1.Segment{{Index: 1, Length: 5}}, Block: []byte("block")},
		{Segments: []*wirev1.Segment{{Index: 1, Length: 500, RecordsBefore: 80, Records: 4}}},
		{Segments: []*wirev1.Segment{{RecordsBefore: 1 << 31, Records: 1 << 31}}},
		{
			Segments: []*wirev1.Segment{
				{Reused: 1, Digest: make([]byte, DigestSize)},
				{Length: 4196, Digest: make([]byte, DigestSize)},
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
		var m DataMessage
		if m.parse(b) != nil {
			return
		}
		if len(m.Segments) > MaxSegments {
			t.Fatalf("%d segments", len(m.Segments))
		}
		// Whatever the files, those that pass lie in the block one after the other.
		for i := range m.Segments {
			for _, chunk := range []int64{MinChunkSize, ChunkSize, MaxChunkSize} {
				s := &m.Segments[i]
				if n, err := s.Carried(chunk); err == nil && (n < 0 || n > min(chunk, int64(s.Length))) {
					t.Fatalf("%+v carries %d bytes", *s, n)
				}
			}
		}
		// Where both can read it, they read the same.
		var want wirev1.DataRequest
		if proto.Unmarshal(b, &want) != nil {
			return
		}
		if !bytes.Equal(m.Session, want.Session) || !bytes.Equal(m.Received, want.Block) ||
			len(m.Segments) != len(want.Segments) {
			t.Fatalf("read as %+v instead of %v", m, &want)
		}
		for i, s := range want.Segments {
			got := m.Segments[i]
			if got.Mark.Before > MaxChunkSize || got.Mark != (cargo.Mark{Before: s.RecordsBefore, Count: s.Records}) {
				t.Fatalf("segment %d has records %+v instead of %d and %d", i, got.Mark, s.RecordsBefore, s.Records)
			}
			if got.Index != s.Index || got.Offset != s.Offset || got.Length != s.Length ||
				got.Undigested && len(s.Digest) > 0 || !got.Undigested && !bytes.Equal(got.Digest[:], s.Digest) {
				t.Fatalf("segment %d read as %+v instead of %v", i, got, s)
			}
		}
	})
}
