// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// perStream is what a stream may hold in memory on either side, in bytes. With what 16 of them hold and the window of
// announced files an agent stays below 256 MiB (see the package's documentation).
const perStream = 4 << 20

// live returns how many bytes of the heap are in use.
func live() int64 {
	runtime.GC()
	runtime.GC() // What a sync.Pool holds outlives one collection.
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// needy is a destination that needs all files and looks for none.
type needy struct{ receive.Destination }

func (d needy) Look(e *tree.Entry) (bool, error) {
	if e.Type != tree.File {
		return d.Destination.Look(e)
	}
	return true, nil
}

// TestAnnouncedFilesWeighNoMoreThanTheyCost: the window counts 256 bytes for a file and what its entry weighs, so a
// receiver may not take more for it, whatever the sender announces.
func TestAnnouncedFilesWeighNoMoreThanTheyCost(t *testing.T) {
	receiver := startReceiver(t, t.TempDir(), func(o *receive.Options) { o.Destination = needy{o.Destination} })
	p := newPeer(t, receiver)
	p.accepted()
	announce := func(entries ...*wirev1.Entry) {
		p.announce(entries...)
		for {
			m, err := p.session.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if m.GetFailure() != nil {
				t.Fatal(m.GetFailure())
			}
			if m.GetNeed() != nil {
				return
			}
		}
	}
	announce(root())
	const batches, each = 20, 1000
	before, weight := live(), 0
	for i := range batches {
		entries := make([]*wirev1.Entry, each)
		for j := range entries {
			entries[j] = fileEntry(fmt.Sprintf("%06d", i*each+j), 1<<20)
			e, err := tree.FromWire(entries[j])
			if err != nil {
				t.Fatal(err)
			}
			weight += 256 + e.Weight()
		}
		announce(entries...)
	}
	took := live() - before
	if took > int64(weight) {
		t.Errorf(
			"%d files take %d bytes each; the window counts %d", batches*each, took/(batches*each), weight/(batches*each),
		)
	}
	t.Logf("%d of %d bytes for each file", took/(batches*each), weight/(batches*each))
	p.over(receiver)
}

// TestReceiverWaitsForWhatIsOnItsWay: of tiny files a sender has many more announced than it has not sent, because
// their content is in the buffers of connections. The receiver neither refuses them nor takes more memory than for
// twice the window.
func TestReceiverWaitsForWhatIsOnItsWay(t *testing.T) {
	const each, value, limit = 40, 60_000, 128 << 20
	receiver := startReceiver(t, t.TempDir(), func(o *receive.Options) { o.Destination = needy{o.Destination} })
	p := newPeer(t, receiver)
	p.accepted()
	entry := func(i int) *wirev1.Entry {
		e := fileEntry(fmt.Sprintf("%06d", i), 1)
		e.Xattrs = []*wirev1.Xattr{{Name: []byte("user.heavy"), Value: make([]byte, value)}}
		return e
	}
	e, err := tree.FromWire(entry(1))
	if err != nil {
		t.Fatal(err)
	}
	fit := limit / (256 + e.Weight()) / each // manifests that are answered before any file has come
	needs, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			m, err := p.session.Recv()
			switch {
			case err != nil:
				ended <- err
				return
			case m.GetFailure() != nil:
				ended <- fmt.Errorf("the receiver gave up: %v", m.GetFailure())
				return
			case m.GetNeed() != nil:
				needs <- struct{}{}
			}
		}
	}()
	go func() {
		p.announce(root())
		for i := range fit + 1 {
			entries := make([]*wirev1.Entry, each)
			for j := range entries {
				entries[j] = entry(i*each + j + 1)
			}
			p.announce(entries...)
		}
	}()
	need := func() {
		t.Helper()
		select {
		case <-needs:
		case err := <-ended:
			t.Fatal(err)
		}
	}
	for range 1 + fit {
		need()
	}
	select {
	case <-needs:
		t.Fatal("the receiver expects more than it may")
	case err := <-ended:
		t.Fatal(err)
	case <-time.After(300 * time.Millisecond):
	}
	segments := make([]*wirev1.Segment, 2*each)
	for i := range segments {
		segments[i] = &wirev1.Segment{Index: uint64(i + 1), Length: 1}
	}
	if err := p.blocks().send(p.block(0, segments...)); err != nil {
		t.Fatal(err)
	}
	need()
	if err := p.session.CloseSend(); err != nil {
		t.Fatal(err)
	}
	<-ended
	if receiver.wait(t) == nil {
		t.Error("the receiver has finished")
	}
}

// over ends the session and waits until the receiver writes no more.
func (p *peer) over(receiver *pair) {
	p.t.Helper()
	if err := p.session.CloseSend(); err != nil {
		p.t.Fatal(err)
	}
	if receiver.wait(p.t) == nil {
		p.t.Error("the receiver has finished")
	}
}

// stuck is a destination that takes no chunk before it may.
type stuck struct {
	receive.Destination
	arrived chan struct{}
	release chan struct{}
}

func (d *stuck) Stage(number uint64, e *tree.Entry) (receive.StagedFile, error) {
	f, err := d.Destination.Stage(number, e)
	return stuckFile{f, d}, err
}

type stuckFile struct {
	receive.StagedFile
	destination *stuck
}

func (f stuckFile) WriteAt(p []byte, offset int64) (int, error) {
	f.destination.arrived <- struct{}{}
	<-f.destination.release
	return f.StagedFile.WriteAt(p, offset)
}

// TestReceiverHoldsBoundedBlocks: all streams have a block at a destination that does not take it.
func TestReceiverHoldsBoundedBlocks(t *testing.T) {
	d := &stuck{arrived: make(chan struct{}, protocol.MaxStreams), release: make(chan struct{})}
	receiver := startReceiver(t, t.TempDir(), func(o *receive.Options) {
		d.Destination, o.Destination = o.Destination, d
	})
	p := newPeer(t, receiver)
	begin := goodBegin()
	begin.ChunkSize = protocol.ChunkSize
	p.begin(begin)
	m, err := p.session.Recv()
	if err != nil {
		t.Fatal(err)
	}
	p.token = m.GetAccepted().GetSession()
	p.announce(root())
	for i := range protocol.MaxStreams {
		p.announce(fileEntry(fmt.Sprintf("%02d", i), protocol.ChunkSize))
	}
	for needs := 0; needs <= protocol.MaxStreams; {
		m, err := p.session.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.GetNeed() != nil {
			needs++
		}
	}
	messages := make([]*wirev1.DataRequest, protocol.MaxStreams)
	for i := range messages {
		messages[i] = p.block(0, &wirev1.Segment{Index: uint64(i + 1), Length: protocol.ChunkSize})
	}
	before := live()
	for _, message := range messages {
		if err := p.blocks().send(message); err != nil {
			t.Fatal(err)
		}
	}
	for range protocol.MaxStreams {
		<-d.arrived
	}
	took := (live() - before) / protocol.MaxStreams
	runtime.KeepAlive(messages)
	// The near ends of the connections are in this process, too.
	if took > perStream {
		t.Errorf("each stream takes %d bytes", took)
	}
	t.Logf("%d bytes for each stream", took)
	close(d.release)
	p.over(receiver)
}

// fullConn is a connection whose other side takes nothing.
type fullConn struct {
	net.Conn
	waits func()
}

func (c fullConn) Write(p []byte) (int, error) {
	c.waits()
	return c.Conn.Write(p)
}

// TestSenderHoldsBoundedBlocks: all streams have a block to send over connections that do not take it.
func TestSenderHoldsBoundedBlocks(t *testing.T) {
	source := t.TempDir()
	for i := range protocol.MaxStreams {
		file(t, source, fmt.Sprint(i), text(i, protocol.ChunkSize), 0o600)
	}
	p := startReceiver(t, t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	waiting := make(chan struct{}, protocol.MaxStreams)
	sent := make(chan error, 1)
	before := live()
	go func() {
		_, err := p.send(ctx, t, source, func(o *send.Options) {
			o.Streams, o.Codecs = protocol.MaxStreams, []codec.ID{codec.Deflate}
			o.DialBlocks = func(context.Context) (net.Conn, error) {
				near, far := net.Pipe()
				t.Cleanup(func() { _ = far.Close() })
				var once sync.Once
				return fullConn{near, func() { once.Do(func() { waiting <- struct{}{} }) }}, nil
			}
		})
		sent <- err
	}()
	for range protocol.MaxStreams {
		select {
		case <-waiting:
		case err := <-sent:
			t.Fatal(err)
		case <-time.After(patience):
			t.Fatal("not all streams have a block to send")
		}
	}
	if took := (live() - before) / protocol.MaxStreams; took > perStream {
		t.Errorf("each stream takes %d bytes", took)
	} else {
		t.Logf("%d bytes for each stream", took)
	}
	stop()
	if err := <-sent; err == nil {
		t.Error("the sender has finished")
	}
	if p.wait(t) == nil {
		t.Error("the receiver has finished")
	}
}
