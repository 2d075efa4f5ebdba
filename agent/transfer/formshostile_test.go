// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// blocks writes blocks of one connection.
type blocks struct {
	t       *testing.T
	write   func(m *protocol.DataMessage, header, payload []byte)
	encoder *frame.Encoder
}

// connect opens a connection for blocks of the peer's session.
func (p *peer) connect(id codec.ID, joinable bool) *blocks {
	p.t.Helper()
	conn, err := p.dialer.DialBlocks(p.t.Context(), serverName)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	encoder, err := frame.NewEncoder(frame.EncoderOptions{
		Engines: engines.Default(), Codec: id, Joinable: joinable,
		Policy: policy.Settings{Mode: policy.Always, Level: codec.Fast},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { encoder.Close() })
	token := p.token
	return &blocks{t: p.t, encoder: encoder, write: func(m *protocol.DataMessage, header, payload []byte) {
		m.Session, token = token, nil
		_ = m.Write(conn, header, payload) // A receiver that has ended takes nothing more.
	}}
}

// piece sends bytes as one segment of an entry.
func (b *blocks) piece(index, offset uint64, plain []byte) {
	b.segments(plain, protocol.Segment{
		Index: index, Offset: offset, Length: uint32(len(plain)), Digest: protocol.DigestOf(plain),
	})
}

func (b *blocks) segments(plain []byte, segments ...protocol.Segment) {
	b.t.Helper()
	header, payload, _, err := b.encoder.Next(nil, plain, false)
	if err != nil {
		b.t.Fatal(err)
	}
	b.write(&protocol.DataMessage{Segments: segments}, header, bytes.Clone(payload))
}

// resting begins a session whose files rest as gzip, and announces a file of so many chunks.
func resting(t *testing.T, p *pair, chunks uint64, others ...*wirev1.Entry) *peer {
	t.Helper()
	s := newPeer(t, p)
	begin := goodBegin()
	begin.Form = wirev1.Form_FORM_GZIP
	s.begin(begin)
	m, err := s.session.Recv()
	if err != nil {
		t.Fatal(err)
	}
	s.token = m.GetAccepted().GetSession()
	if m.GetAccepted().GetForm() != wirev1.Form_FORM_GZIP {
		t.Fatalf("the answer is %v", m)
	}
	s.announce(append([]*wirev1.Entry{root(), fileEntry("a", chunks*chunkOfPeer)}, others...)...)
	return s
}

const chunkOfPeer = 64 << 10

// What a sender may not send of files that rest in a form ends the attempt, and no file gets a name.
func TestHostileBlocksOfForms(t *testing.T) {
	chunk := text(1, chunkOfPeer)
	tests := map[string]func(s *peer){
		"OtherCodec":  func(s *peer) { s.connect(codec.Zstd, false).piece(1, 0, chunk) },
		"NotJoinable": func(s *peer) { s.connect(codec.Deflate, false).piece(1, 0, chunk) },
		"HalfAChunk":  func(s *peer) { s.connect(codec.Deflate, true).piece(1, 0, chunk[:1000]) },
		"TwoSegments": func(s *peer) {
			half := chunk[:len(chunk)/2]
			a := protocol.Segment{Index: 1, Length: uint32(len(half)), Digest: protocol.DigestOf(half)}
			b := a
			b.Offset = uint64(len(half))
			s.connect(codec.Deflate, true).segments(chunk, a, b)
		},
		"TwoFiles": func(s *peer) {
			a := protocol.Segment{Index: 2, Length: 100, Digest: protocol.DigestOf(chunk[:100])}
			b := a
			b.Index = 3
			s.connect(codec.Deflate, true).segments(chunk[:200], a, b)
		},
		"Reused": func(s *peer) {
			s.connect(codec.Deflate, true).segments(chunk[:len(chunk)/2], protocol.Segment{
				Index: 1, Length: chunkOfPeer, Digest: protocol.DigestOf(chunk), Reused: protocol.AllParts &^ 0xff,
			})
		},
		"Hole": func(s *peer) {
			s.connect(codec.Deflate, true).segments(chunk[:len(chunk)/2], protocol.Segment{
				Index: 4, Length: chunkOfPeer, Digest: protocol.DigestOf(chunk), Holes: protocol.AllParts &^ 0xff,
			})
		},
		"Twice": func(s *peer) {
			b := s.connect(codec.Deflate, true)
			b.piece(1, 0, chunk)
			b.piece(1, 0, chunk)
		},
		"OutOfOrder": func(s *peer) {
			b := s.connect(codec.Deflate, true)
			b.piece(1, chunkOfPeer, chunk)
			b.piece(1, 0, chunk)
		},
		"NeverTheFirst": func(s *peer) { s.connect(codec.Deflate, true).piece(1, 2*chunkOfPeer, chunk) },
		"ADamagedStoredBlock": func(s *peer) {
			b := s.connect(codec.None, false)
			header, payload, _, err := b.encoder.Next(nil, chunk, false)
			if err != nil {
				s.t.Fatal(err)
			}
			payload = bytes.Clone(payload)
			payload[5] ^= 1
			b.write(&protocol.DataMessage{Segments: []protocol.Segment{{
				Index: 1, Length: chunkOfPeer, Digest: protocol.DigestOf(chunk),
			}}}, header, payload)
		},
	}
	for name, attack := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			destination, check := outside(t)
			sparse := fileEntry("d", chunkOfPeer)
			sparse.Sparse = true
			p := startReceiver(t, destination, func(o *receive.Options) { o.Idle = 2 * time.Second })
			s := resting(t, p, 3, fileEntry("b", 100), fileEntry("c", 100), sparse)
			s.needs()
			attack(s)
			if f := s.verdict(); f.GetReason() != wirev1.FailureReason_FAILURE_REASON_INVALID_DATA {
				t.Errorf("the verdict is %v", f)
			}
			if p.wait(t) == nil {
				t.Error("the receiver succeeded")
			}
			for path, what := range listing(t, destination) {
				if regular(what) && !strings.HasPrefix(path, tree.StagingName) {
					t.Errorf("at the destination is %q", path)
				}
			}
			check()
		})
	}
}

// A sender can make a file that does not expand. It is its own, and whoever reads it finds out.
func TestFormsOfAFileThatDoesNotExpand(t *testing.T) {
	destination := t.TempDir()
	p := startReceiver(t, destination)
	s := resting(t, p, 1)
	s.needs()
	b := s.connect(codec.Deflate, true)
	chunk := text(1, chunkOfPeer)
	header, payload, _, err := b.encoder.Next(nil, chunk, false)
	if err != nil {
		t.Fatal(err)
	}
	payload = bytes.Clone(payload)
	payload[len(payload)/2] ^= 0xff
	b.write(&protocol.DataMessage{Segments: []protocol.Segment{{
		Index: 1, Length: chunkOfPeer, Digest: protocol.DigestOf(chunk),
	}}}, header, payload)
	s.say(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_ManifestEnd{ManifestEnd: &wirev1.ManifestEnd{
		Entries: 2, Files: 1, Bytes: chunkOfPeer,
	}}})
	header, payload, _, err = b.encoder.Next(nil, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	b.write(&protocol.DataMessage{}, header, payload)
	deadline := time.Now().Add(patience)
	for p.report.Report().GetProgress().GetFiles() < 1 {
		if time.Now().After(deadline) {
			t.Fatal("the file does not get its name")
		}
		time.Sleep(time.Millisecond)
	}
	rests, err := os.ReadFile(filepath.Join(destination, "a.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := expand(cargo.Gzip, rests); err == nil {
		t.Errorf("it expands to %d bytes", len(plain))
	}
}

// A session that asks for what does not go together, or for a form that nobody knows, does not begin.
func TestHostileBeginsOfForms(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*wirev1.Begin)
		want   wirev1.FailureReason
	}{
		"Receipt": {
			func(b *wirev1.Begin) { b.Form, b.Contents = wirev1.Form_FORM_ZSTD, true },
			wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
		},
		"Unknown": {func(b *wirev1.Begin) { b.Form = 77 }, wirev1.FailureReason_FAILURE_REASON_FORM_UNSUPPORTED},
	} {
		t.Run(name, func(t *testing.T) {
			p := startReceiver(t, t.TempDir())
			s := newPeer(t, p)
			begin := goodBegin()
			test.change(begin)
			s.begin(begin)
			if f := s.verdict(); f.GetReason() != test.want {
				t.Errorf("the verdict is %v", f)
			}
		})
	}
}
