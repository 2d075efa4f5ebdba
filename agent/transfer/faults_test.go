// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// wantReason fails the test unless both sides ended for the reason.
func wantReason(t *testing.T, p *pair, sent error, want wirev1.FailureReason) {
	t.Helper()
	if !failure.Is(sent, want) {
		t.Errorf("the sender ended with %v", sent)
	}
	if err := p.wait(t); !failure.Is(err, want) {
		t.Errorf("the receiver ended with %v", err)
	}
}

// noRemains fails the test if a failed attempt left something beside complete files.
func noRemains(t *testing.T, source, destination string) (files int) {
	t.Helper()
	want := listing(t, source)
	for path, got := range listing(t, destination) {
		switch {
		case strings.Contains(path, tree.StagingName):
			t.Errorf("%q was left behind", path)
		case strings.HasPrefix(got, "100"):
			files++
			if got != want[path] {
				t.Errorf("%q is %s instead of %s", path, got, want[path])
			}
		}
	}
	return files
}

// corrupting is a destination with bad storage: after a write to the chosen offset a byte there flips.
type corrupting struct {
	receive.Destination
	offset int64
}

func (c corrupting) Stage(number uint64, e *tree.Entry) (receive.StagedFile, error) {
	f, err := c.Destination.Stage(number, e)
	return corruptFile{f, c.offset}, err
}

type corruptFile struct {
	receive.StagedFile
	offset int64
}

func (f corruptFile) WriteAt(p []byte, offset int64) (int, error) {
	n, err := f.StagedFile.WriteAt(p, offset)
	if err == nil && f.offset >= offset && f.offset < offset+int64(len(p)) {
		_, err = f.StagedFile.WriteAt([]byte{p[f.offset-offset] ^ 1}, f.offset)
	}
	return n, err
}

func TestVerifyFindsDamagedStorage(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	file(t, source, "large", text(1, 10<<20), 0o600)
	for _, offset := range []int64{0, 1<<20 + 5, 9<<20 + 1} { // the last is behind a checkpoint
		t.Run(fmt.Sprint(offset), func(t *testing.T) {
			destination := t.TempDir()
			p := startReceiver(t, destination, func(o *receive.Options) {
				o.Destination = corrupting{o.Destination, offset}
			})
			_, err := p.send(t.Context(), t, source, func(o *send.Options) { o.CheckpointInterval = 4 << 20 })
			wantReason(t, p, err, wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED)
			if n := noRemains(t, source, destination); n != 0 {
				t.Errorf("%d files have their names", n)
			}
		})
	}
}

// pausing is a destination that calls a function at a file in the middle of the attempt, and takes no further one
// before it may.
type pausing struct {
	receive.Destination
	files  atomic.Int64
	at     int64
	middle func()
	resume <-chan struct{}
}

func (d *pausing) Stage(number uint64, e *tree.Entry) (receive.StagedFile, error) {
	n := d.files.Add(1)
	if n == d.at {
		d.middle()
	}
	if n >= d.at {
		<-d.resume
	}
	return d.Destination.Stage(number, e)
}

// gate is a listener in front of the receiver, like a gateway, whose connections can be cut.
type gate struct {
	mu     sync.Mutex
	conns  []io.Closer
	closed bool
}

// add lets connections pass until the gate is cut.
func (g *gate) add(conns ...io.Closer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns = append(g.conns, conns...)
	if g.closed {
		g.close()
	}
}

func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	g.close()
}

func (g *gate) close() {
	for _, c := range g.conns {
		c.Close()
	}
}

// overheard is a receiver of which a test learns what it hears in its session, or that it hears no more.
type overheard struct {
	*receive.Receiver
	heard func(*wirev1.SessionRequest, error)
}

func (o overheard) Session(stream wirev1.Receiver_SessionServer) error {
	// A receiver that is busy when its sender goes away does not look for another message.
	defer context.AfterFunc(stream.Context(), func() { o.heard(nil, context.Cause(stream.Context())) })()
	return o.Receiver.Session(overheardStream{stream, o.heard})
}

type overheardStream struct {
	wirev1.Receiver_SessionServer
	heard func(*wirev1.SessionRequest, error)
}

func (s overheardStream) Recv() (*wirev1.SessionRequest, error) {
	m, err := s.Receiver_SessionServer.Recv()
	s.heard(m, err)
	return m, err
}

// overhear serves the receiver again and returns what is closed when it has heard that its sender gave up or is gone.
func (p *pair) overhear(t *testing.T) (gone <-chan struct{}) {
	t.Helper()
	heard := make(chan struct{})
	var once sync.Once
	p.dialer = serve(t, overheard{p.receiver, func(m *wirev1.SessionRequest, err error) {
		if err != nil || m.GetFailure() != nil {
			once.Do(func() { close(heard) })
		}
	}}, &transport.Counter{})
	return heard
}

func manyFiles(t *testing.T, n int) string {
	t.Helper()
	source := t.TempDir()
	for i := range n {
		file(t, source, fmt.Sprintf("dir-%d/file-%d", i%10, i), noise(uint64(i), 3000), 0o600)
	}
	return source
}

func TestInterruptedAttemptLeavesCompleteFilesOnly(t *testing.T) {
	source, destination := manyFiles(t, 1500), t.TempDir()
	g := &gate{}
	// What three streams are at then are 1,047 files at most.
	d := &pausing{at: 400, middle: g.cut}
	p := startReceiver(t, destination, func(o *receive.Options) {
		d.Destination, o.Destination = o.Destination, d
	})
	d.resume = p.overhear(t)
	p.dialer.Address = splice(t, g, p.dialer.Address)
	_, err := p.send(t.Context(), t, source)
	wantReason(t, p, err, wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST)
	n := noRemains(t, source, destination)
	if n < 100 || n >= 1500 {
		t.Errorf("%d files have their names", n)
	}
	// The next attempt goes on from there.
	sent, _ := move(t, source, destination)
	same(t, source, destination)
	if got := sent.Progress.UnchangedFiles; got != uint64(n) {
		t.Errorf("%d files were unchanged, %d had arrived", got, n)
	}
}

func TestSenderIsStopped(t *testing.T) {
	source, destination := manyFiles(t, 1500), t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	d := &pausing{at: 200, middle: func() {
		cancel(failure.New(wirev1.FailureReason_FAILURE_REASON_ABORTED, "stopped by the test"))
	}}
	p := startReceiver(t, destination, func(o *receive.Options) {
		d.Destination, o.Destination = o.Destination, d
	})
	d.resume = p.overhear(t)
	report, err := p.send(ctx, t, source)
	wantReason(t, p, err, wirev1.FailureReason_FAILURE_REASON_ABORTED)
	if report.Failure.Reason != wirev1.FailureReason_FAILURE_REASON_ABORTED {
		t.Errorf("the report says %v", report.Failure)
	}
	if f := p.report.Report().Failure; !strings.Contains(f.GetMessage(), "stopped by the test") {
		t.Errorf("the receiver's report says %v", f)
	}
	noRemains(t, source, destination)
}

func TestReceiverIsStopped(t *testing.T) {
	destination := t.TempDir()
	d, err := tree.OpenDestination(destination, ".", "run", 1)
	if err != nil {
		t.Fatal(err)
	}
	r := receive.New(
		receive.Options{Destination: receive.Tree{Destination: d}, WaitForSender: time.Hour},
	)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting ended with %v", err)
	}
	if names, _ := os.ReadDir(destination); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
}

func TestNoSenderComes(t *testing.T) {
	d, err := tree.OpenDestination(t.TempDir(), ".", "run", 1)
	if err != nil {
		t.Fatal(err)
	}
	r := receive.New(
		receive.Options{Destination: receive.Tree{Destination: d}, WaitForSender: time.Millisecond},
	)
	if err := r.Wait(t.Context()); !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_ABORTED) {
		t.Errorf("waiting ended with %v", err)
	}
}

func TestDestinationFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a small tmpfs")
	}
	destination := t.TempDir()
	if err := unix.Mount("tmpfs", destination, "tmpfs", 0, "size=4m"); err != nil {
		t.Skip("a small tmpfs cannot be mounted here: ", err)
	}
	t.Cleanup(func() { unix.Unmount(destination, unix.MNT_DETACH) })
	source := t.TempDir()
	file(t, source, "a", text(1, 1<<20), 0o600)
	file(t, source, "b", noise(1, 8<<20), 0o600)
	p := startReceiver(t, destination)
	_, err := p.send(t.Context(), t, source)
	wantReason(t, p, err, wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL)
	noRemains(t, source, destination)
}

func TestDirectoryInPlaceOfFile(t *testing.T) {
	source, destination := t.TempDir(), t.TempDir()
	file(t, source, "name", []byte("a file"), 0o600)
	file(t, destination, "name/precious", []byte("kept"), 0o600)
	p := startReceiver(t, destination)
	_, err := p.send(t.Context(), t, source)
	wantReason(t, p, err, wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE)
	if !strings.Contains(err.Error(), `"name"`) {
		t.Errorf("the message does not name it: %v", err)
	}
	if b, err := os.ReadFile(filepath.Join(destination, "name/precious")); err != nil || string(b) != "kept" {
		t.Errorf("what was there is %q, %v", b, err)
	}
}

// busyDisk is a destination that is not closed before it may be.
type busyDisk struct {
	receive.Destination
	release <-chan struct{}
}

func (d busyDisk) Close() error {
	<-d.release
	return d.Destination.Close()
}

// A sender learns why the receiver gives up however long that one's disk keeps it afterwards.
func TestVerdictDoesNotWaitForTheDisk(t *testing.T) {
	source, destination := t.TempDir(), t.TempDir()
	file(t, source, "name", []byte("a file"), 0o600)
	file(t, destination, "name/precious", []byte("kept"), 0o600)
	told := make(chan struct{})
	p := startReceiver(t, destination, func(o *receive.Options) { o.Destination = busyDisk{o.Destination, told} })
	_, err := p.send(t.Context(), t, source)
	close(told)
	wantReason(t, p, err, wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE)
}

func TestUntrustedReceiver(t *testing.T) {
	p := startReceiver(t, t.TempDir())
	other := startReceiver(t, t.TempDir())
	// The right address with the certificates of another pair of clusters.
	p.dialer = &transport.Dialer{Address: p.dialer.Address, Files: other.dialer.Files}
	_, err := p.send(t.Context(), t, t.TempDir())
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED) {
		t.Errorf("the sender ended with %v", err)
	}
}
