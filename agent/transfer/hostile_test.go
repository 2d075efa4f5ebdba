// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transport"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// peer is a sender that says what a test wants it to say.
type peer struct {
	t       *testing.T
	dialer  *transport.Dialer
	client  wirev1.ReceiverClient
	session wirev1.Receiver_SessionClient
	token   []byte
	encoder *frame.Encoder
}

func newPeer(t *testing.T, p *pair) *peer {
	t.Helper()
	conn, err := p.dialer.Dial(serverName)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	client := wirev1.NewReceiverClient(conn)
	session, err := client.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &peer{t: t, dialer: p.dialer, client: client, session: session, encoder: newEncoder(t)}
}

func newEncoder(t *testing.T) *frame.Encoder {
	t.Helper()
	encoder, err := frame.NewEncoder(frame.EncoderOptions{
		Engines: engines.Default(), Codec: codec.Deflate, Policy: policy.Settings{Mode: policy.Always, Level: codec.Fast},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { encoder.Close() })
	return encoder
}

func goodBegin() *wirev1.Begin {
	return &wirev1.Begin{
		ProtocolVersion: wirev1.ProtocolVersion, RunId: "run", Attempt: 1, Codecs: []uint32{2, 1}, ChunkSize: 64 << 10,
		Verify: true,
	}
}

func (p *peer) begin(b *wirev1.Begin) {
	p.t.Helper()
	p.say(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Begin{Begin: b}})
}

// say sends a message. A receiver that has ended already hears nothing more: its verdict can still be read.
func (p *peer) say(m *wirev1.SessionRequest) {
	p.t.Helper()
	if err := p.session.Send(m); err != nil && !errors.Is(err, io.EOF) {
		p.t.Fatal(err)
	}
}

// accepted begins a session.
func (p *peer) accepted() {
	p.t.Helper()
	p.begin(goodBegin())
	m, err := p.session.Recv()
	if err != nil {
		p.t.Fatal(err)
	}
	if p.token = m.GetAccepted().GetSession(); len(p.token) < 16 {
		p.t.Fatalf("the answer is %v", m)
	}
}

func (p *peer) announce(entries ...*wirev1.Entry) {
	p.t.Helper()
	p.say(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Manifest{Manifest: &wirev1.Manifest{Entries: entries}}})
}

// needs returns the receiver's next answer to an announcement. How far it is, which it says every second, may come
// before.
func (p *peer) needs() *wirev1.Need {
	p.t.Helper()
	for {
		m, err := p.session.Recv()
		if err != nil {
			p.t.Fatal(err)
		}
		if need := m.GetNeed(); need != nil {
			return need
		}
		if m.GetReceived() == nil {
			p.t.Fatalf("the answer is %v", m)
		}
	}
}

// verdict returns the failure that ends the session.
func (p *peer) verdict() *wirev1.Failure {
	p.t.Helper()
	for {
		m, err := p.session.Recv()
		if err != nil {
			p.t.Fatal("the session ended without a word: ", err)
		}
		if f := m.GetFailure(); f != nil {
			return f
		}
		if m.GetFinished() != nil {
			p.t.Fatal("the receiver has finished")
		}
	}
}

func root() *wirev1.Entry {
	return &wirev1.Entry{Path: []byte("."), Type: wirev1.EntryType_ENTRY_TYPE_DIRECTORY, Mode: 0o755}
}

func fileEntry(path string, size uint64) *wirev1.Entry {
	return &wirev1.Entry{Path: []byte(path), Type: wirev1.EntryType_ENTRY_TYPE_FILE, Mode: 0o644, Size: size}
}

func linkEntry(path, target string) *wirev1.Entry {
	return &wirev1.Entry{
		Path: []byte(path), Type: wirev1.EntryType_ENTRY_TYPE_SYMLINK, Mode: 0o777, LinkTarget: []byte(target),
	}
}

func dirEntry(path string) *wirev1.Entry {
	return &wirev1.Entry{Path: []byte(path), Type: wirev1.EntryType_ENTRY_TYPE_DIRECTORY, Mode: 0o755}
}

// outside is a file beside the destination that no test may change.
func outside(t *testing.T) (destination string, check func()) {
	t.Helper()
	directory := t.TempDir()
	destination = filepath.Join(directory, "destination")
	if err := os.Mkdir(destination, 0o755); err != nil {
		t.Fatal(err)
	}
	victim := filepath.Join(directory, "victim")
	if err := os.WriteFile(victim, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	return destination, func() {
		t.Helper()
		if b, err := os.ReadFile(victim); err != nil || string(b) != "untouched" {
			t.Errorf("the file outside is %q, %v", b, err)
		}
		names, err := os.ReadDir(directory)
		if err != nil || len(names) != 2 {
			t.Errorf("outside are %v, %v", names, err)
		}
		staging := filepath.Join(destination, ".lighterage-staging")
		if _, err := os.Lstat(staging); err == nil {
			// What is safe of a file stays for the next attempt, and nothing else.
			if journals, _ := filepath.Glob(staging + "/*/journal"); len(journals) != 1 {
				t.Error("the staging directory is still there, without a journal")
			}
		}
	}
}

func TestHostileManifests(t *testing.T) {
	tooMany := []*wirev1.Entry{root()}
	for i := range 4096 {
		tooMany = append(tooMany, fileEntry(fmt.Sprintf("%08d", i), 1))
	}
	tests := map[string][]*wirev1.Entry{
		"NoRoot":            {fileEntry("a", 1)},
		"RootIsFile":        {fileEntry(".", 1)},
		"DotDot":            {root(), fileEntry("../victim", 1)},
		"DotDotInside":      {root(), dirEntry("a"), fileEntry("a/../../victim", 1)},
		"Absolute":          {root(), fileEntry("/etc/victim", 1)},
		"EmptyPath":         {root(), fileEntry("", 1)},
		"EmptyElement":      {root(), dirEntry("a"), fileEntry("a//b", 1)},
		"TrailingSlash":     {root(), dirEntry("a/")},
		"Dot":               {root(), fileEntry("./a", 1)},
		"NUL":               {root(), fileEntry("a\x00b", 1)},
		"LongPath":          {root(), fileEntry(strings.Repeat("a/", 3000)+"b", 1)},
		"LongName":          {root(), fileEntry(strings.Repeat("a", 256), 1)},
		"StagingDirectory":  {root(), dirEntry(".lighterage-staging")},
		"ThroughLink":       {root(), linkEntry("a", ".."), fileEntry("a/victim", 1)},
		"UnannouncedParent": {root(), fileEntry("a/b", 1)},
		"FileAsParent":      {root(), fileEntry("a", 1), fileEntry("a/b", 1)},
		"ClosedParent":      {root(), dirEntry("a"), fileEntry("b", 1), fileEntry("a/b", 1)},
		"Duplicate":         {root(), fileEntry("a", 1), fileEntry("a", 1)},
		"RootTwice":         {root(), root()},
		"OutOfOrder":        {root(), fileEntry("b", 1), fileEntry("a", 1)},
		"TooManyEntries":    tooMany,
		"NoEntries":         {},
		"HugeSize":          {root(), fileEntry("a", math.MaxUint64)},
		"SizeBeyondChunks":  {root(), fileEntry("a", math.MaxInt64)},
		"SizedDirectory":    {root(), {Path: []byte("a"), Type: wirev1.EntryType_ENTRY_TYPE_DIRECTORY, Size: 1}},
		"UnknownType":       {root(), {Path: []byte("a"), Type: 9}},
		"UnknownMode":       {root(), {Path: []byte("a"), Type: wirev1.EntryType_ENTRY_TYPE_FILE, Mode: 1 << 20}},
		"LinkToNothing":     {root(), linkEntry("a", "")},
		"LinkWithNUL":       {root(), linkEntry("a", "b\x00")},
		"LongLink":          {root(), linkEntry("a", strings.Repeat("a", 5000))},
		"FileWithTarget":    {root(), {Path: []byte("a"), Type: wirev1.EntryType_ENTRY_TYPE_FILE, LinkTarget: []byte("b")}},
	}
	for name, entries := range tests {
		t.Run(name, func(t *testing.T) {
			destination, check := outside(t)
			p := startReceiver(t, destination)
			h := newPeer(t, p)
			h.accepted()
			h.announce(entries...)
			if f := h.verdict(); f.Reason != wirev1.FailureReason_FAILURE_REASON_INVALID_DATA {
				t.Errorf("the verdict is %v", f)
			}
			if err := p.wait(t); err == nil {
				t.Error("the receiver succeeded")
			}
			check()
		})
	}
}

// A link that is at the destination before is not followed either.
func TestExistingLinksAreNotFollowed(t *testing.T) {
	destination, check := outside(t)
	link(t, destination, "up", "..")
	link(t, destination, "victim", "../victim")
	source := t.TempDir()
	file(t, source, "up/victim", []byte("overwritten"), 0o600)
	file(t, source, "victim", []byte("overwritten"), 0o600)
	move(t, source, destination)
	same(t, source, destination)
	check()
}

func TestHostileBeginnings(t *testing.T) {
	tests := map[string]struct {
		change func(*wirev1.Begin)
		want   wirev1.FailureReason
	}{
		"OtherProtocol": {
			func(b *wirev1.Begin) { b.ProtocolVersion = 99 }, wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE,
		},
		"NoCodec": {
			func(b *wirev1.Begin) { b.Codecs = []uint32{77, 1 << 30} }, wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE,
		},
		"OtherRun":     {func(b *wirev1.Begin) { b.RunId = "other" }, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA},
		"OtherAttempt": {func(b *wirev1.Begin) { b.Attempt = 2 }, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA},
		"SmallChunks":  {func(b *wirev1.Begin) { b.ChunkSize = 1 }, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA},
		"HugeChunks":   {func(b *wirev1.Begin) { b.ChunkSize = 1 << 31 }, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA},
		"OddChunks":    {func(b *wirev1.Begin) { b.ChunkSize = 100_000 }, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := startReceiver(t, t.TempDir())
			h := newPeer(t, p)
			b := goodBegin()
			test.change(b)
			h.begin(b)
			if f := h.verdict(); f.Reason != test.want {
				t.Errorf("the verdict is %v", f)
			}
			if err := p.wait(t); err == nil {
				t.Error("the receiver succeeded")
			}
		})
	}
}

// blockConn is a connection for blocks of a hostile sender.
type blockConn struct{ net.Conn }

func (p *peer) blocks() blockConn {
	p.t.Helper()
	conn, err := p.dialer.DialBlocks(p.t.Context(), serverName)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	return blockConn{conn}
}

func (c blockConn) send(m *wirev1.DataRequest) error {
	message, err := proto.Marshal(m)
	if err != nil {
		return err
	}
	_, err = c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...))
	return err
}

// refused returns an error unless the receiver closes the connection without an answer.
func (c blockConn) refused(m *wirev1.DataRequest) error {
	_ = c.send(m)
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	n, err := c.Read(make([]byte, 1))
	if n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("the receiver did not close the connection: %d bytes, %w", n, err)
	}
	return nil
}

// block makes a message of pieces of entries; the bytes are as many as the segments say.
func (p *peer) block(seq uint64, segments ...*wirev1.Segment) *wirev1.DataRequest {
	p.t.Helper()
	var plain []byte
	for _, s := range segments {
		piece := bytes.Repeat([]byte{'x'}, int(s.Length))
		if s.Digest == nil {
			d := xxh3.Hash128(piece).Bytes()
			s.Digest = d[:]
		}
		plain = append(plain, piece...)
	}
	encoded, _, err := p.encoder.AppendAt(nil, seq, plain, false)
	if err != nil {
		p.t.Fatal(err)
	}
	return &wirev1.DataRequest{Session: p.token, Segments: segments, Block: encoded}
}

func TestHostileBlocks(t *testing.T) {
	const chunk = 64 << 10
	seg := func(index, offset uint64, length uint32) *wirev1.Segment {
		return &wirev1.Segment{Index: index, Offset: offset, Length: length}
	}
	// Entry 1 has two chunks and a byte, entry 2 has 10 bytes, entry 3 is empty.
	tests := map[string]func(p *peer) []*wirev1.DataRequest{
		"UnknownEntry": func(p *peer) []*wirev1.DataRequest { return []*wirev1.DataRequest{p.block(0, seg(9, 0, 10))} },
		"Directory":    func(p *peer) []*wirev1.DataRequest { return []*wirev1.DataRequest{p.block(0, seg(0, 0, 10))} },
		"EmptyFile":    func(p *peer) []*wirev1.DataRequest { return []*wirev1.DataRequest{p.block(0, seg(3, 0, 10))} },
		"BeyondTheEnd": func(p *peer) []*wirev1.DataRequest { return []*wirev1.DataRequest{p.block(0, seg(2, chunk, 10))} },
		"HugeOffset":   func(p *peer) []*wirev1.DataRequest { return []*wirev1.DataRequest{p.block(0, seg(1, 1<<63, 10))} },
		"Longer":       func(p *peer) []*wirev1.DataRequest { return []*wirev1.DataRequest{p.block(0, seg(2, 0, 11))} },
		"Shorter":      func(p *peer) []*wirev1.DataRequest { return []*wirev1.DataRequest{p.block(0, seg(2, 0, 9))} },
		"OffChunk": func(p *peer) []*wirev1.DataRequest {
			return []*wirev1.DataRequest{p.block(0, seg(1, 100, chunk-100))}
		},
		"LongerLast": func(p *peer) []*wirev1.DataRequest { return []*wirev1.DataRequest{p.block(0, seg(1, 2*chunk, 2))} },
		"TwiceInABlock": func(p *peer) []*wirev1.DataRequest {
			return []*wirev1.DataRequest{p.block(0, seg(1, 2*chunk, 1), seg(1, 2*chunk, 1))}
		},
		"NoSegments": func(p *peer) []*wirev1.DataRequest { return []*wirev1.DataRequest{p.block(0)} },
		"BlockTooLong": func(p *peer) []*wirev1.DataRequest {
			return []*wirev1.DataRequest{p.block(0, seg(1, 0, chunk), seg(2, 0, 10))}
		},
		"SequenceBroken": func(p *peer) []*wirev1.DataRequest { return []*wirev1.DataRequest{p.block(7, seg(2, 0, 10))} },
		"Repeated": func(p *peer) []*wirev1.DataRequest {
			return []*wirev1.DataRequest{p.block(0, seg(1, 0, chunk)), p.block(1, seg(1, 0, chunk))}
		},
		"AfterCompletion": func(p *peer) []*wirev1.DataRequest {
			return []*wirev1.DataRequest{p.block(0, seg(2, 0, 10)), p.block(1, seg(2, 0, 10))}
		},
		"LyingLength": func(p *peer) []*wirev1.DataRequest {
			m := p.block(0, seg(1, 2*chunk, 1))
			m.Segments = append(m.Segments, p.block(0, seg(2, 0, 10)).Segments...)
			return []*wirev1.DataRequest{m}
		},
		"ShortDigest": func(p *peer) []*wirev1.DataRequest {
			return []*wirev1.DataRequest{p.block(0, &wirev1.Segment{Index: 2, Length: 10, Digest: []byte{1}})}
		},
		"HugeSegment": func(p *peer) []*wirev1.DataRequest {
			m := p.block(0, seg(2, 0, 10))
			m.Segments[0].Length = math.MaxUint32
			return []*wirev1.DataRequest{m}
		},
		"TooManySegments": func(p *peer) []*wirev1.DataRequest {
			var all []*wirev1.Segment
			for range 4097 {
				all = append(all, seg(2, 0, 1))
			}
			return []*wirev1.DataRequest{p.block(0, all...)}
		},
		"Garbage": func(p *peer) []*wirev1.DataRequest {
			m := p.block(0, seg(2, 0, 10))
			m.Block = []byte("garbage")
			return []*wirev1.DataRequest{m}
		},
		"DamagedPayload": func(p *peer) []*wirev1.DataRequest {
			m := p.block(0, seg(1, 0, chunk))
			m.Block[len(m.Block)-1] ^= 0xff
			return []*wirev1.DataRequest{m}
		},
	}
	for name, messages := range tests {
		t.Run(name, func(t *testing.T) {
			destination, check := outside(t)
			p := startReceiver(t, destination)
			h := newPeer(t, p)
			h.accepted()
			h.announce(root(), fileEntry("a", 2*chunk+1), fileEntry("b", 10), fileEntry("c", 0))
			if need := h.needs(); need.Bitmap[0] != 0b110 {
				t.Fatalf("the answer is %v", need)
			}
			data := h.blocks()
			for _, m := range messages(h) {
				if data.send(m) != nil {
					break
				}
			}
			if f := h.verdict(); f.Reason != wirev1.FailureReason_FAILURE_REASON_INVALID_DATA {
				t.Errorf("the verdict is %v", f)
			}
			if err := p.wait(t); err == nil {
				t.Error("the receiver succeeded")
			}
			if _, err := os.Lstat(filepath.Join(destination, "a")); err == nil {
				t.Error("an incomplete file has its name")
			}
			check()
		})
	}
}

func TestHostileEndings(t *testing.T) {
	end := &wirev1.SessionRequest{
		Message: &wirev1.SessionRequest_ManifestEnd{ManifestEnd: &wirev1.ManifestEnd{Entries: 2, Files: 1, Bytes: 10}},
	}
	finish := func(files, bytes uint64) *wirev1.SessionRequest {
		return &wirev1.SessionRequest{
			Message: &wirev1.SessionRequest_Finish{Finish: &wirev1.Finish{Files: files, Bytes: bytes}},
		}
	}
	changed := func(index uint64) *wirev1.SessionRequest {
		return &wirev1.SessionRequest{
			Message: &wirev1.SessionRequest_FileChanged{FileChanged: &wirev1.FileChanged{Index: index}},
		}
	}
	tests := map[string][]*wirev1.SessionRequest{
		"FinishWithoutManifestEnd": {changed(1), finish(0, 0)},
		"FinishIncomplete":         {end, finish(1, 10)},
		"FinishLies":               {end, changed(1), finish(1, 10)},
		"ManifestEndLies": {
			{Message: &wirev1.SessionRequest_ManifestEnd{ManifestEnd: &wirev1.ManifestEnd{Entries: 1}}},
		},
		"ManifestEndsTwice": {end, end},
		"TakesBackUnknown":  {changed(7)},
		"TakesBackTwice":    {changed(1), changed(1)},
		"BeginsTwice":       {{Message: &wirev1.SessionRequest_Begin{Begin: goodBegin()}}},
		"SaysNothing":       {{}},
	}
	for name, messages := range tests {
		t.Run(name, func(t *testing.T) {
			p := startReceiver(t, t.TempDir())
			h := newPeer(t, p)
			h.accepted()
			h.announce(root(), fileEntry("a", 10))
			for _, m := range messages {
				h.say(m)
			}
			if f := h.verdict(); f.Reason != wirev1.FailureReason_FAILURE_REASON_INVALID_DATA {
				t.Errorf("the verdict is %v", f)
			}
			if err := p.wait(t); err == nil {
				t.Error("the receiver succeeded")
			}
		})
	}
}

// TestAnnouncingWithoutSendingIsBounded: the receiver looks no further, and when nothing comes the sender is a silent
// one.
func TestAnnouncingWithoutSendingIsBounded(t *testing.T) {
	t.Parallel() // It waits most of the time.
	p := startReceiver(t, t.TempDir(), func(o *receive.Options) { o.Idle = 6 * time.Second })
	h := newPeer(t, p)
	h.accepted()
	h.announce(root())
	go func() {
		// Heavy ones, so that fewer of them reach the bound.
		heavy := []*wirev1.Xattr{{Name: []byte("user.heavy"), Value: make([]byte, 60_000)}}
		for i := 0; ; i++ {
			m := &wirev1.Manifest{}
			for j := range 40 {
				e := fileEntry(fmt.Sprintf("%08d", i*40+j), 1)
				e.Xattrs = heavy
				m.Entries = append(m.Entries, e)
			}
			if h.session.Send(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Manifest{Manifest: m}}) != nil {
				return
			}
		}
	}()
	if f := h.verdict(); f.Reason != wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST {
		t.Errorf("the verdict is %v", f)
	}
	p.wait(t)
}

func TestWrongSession(t *testing.T) {
	p := startReceiver(t, t.TempDir())
	h := newPeer(t, p)
	data := func() {
		t.Helper()
		m := h.block(0, &wirev1.Segment{Index: 1, Length: 10})
		m.Session = []byte("wrong")
		if err := h.blocks().refused(m); err != nil {
			t.Error(err)
		}
	}
	data()
	h.accepted()
	data()
	second, err := h.client.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := second.Recv(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a second session: %v", err)
	}
	// None of this disturbs the session.
	h.announce(root(), fileEntry("a", 10))
	if need := h.needs(); need.Bitmap[0] != 0b10 {
		t.Errorf("the session says %v", need)
	}
}
