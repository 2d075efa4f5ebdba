// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package handoff_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/handoff"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestMain has the client library not wait after the only try that it makes.
func TestMain(m *testing.M) {
	minio.DefaultRetryUnit = 1
	os.Exit(m.Run())
}

const directory, serverName = ".lighterage/handoff/run/1", "0000.receive.lighterage.internal"

// open is a client of its own.
func open(t *testing.T, server *objectstoretest.Server) *objectstore.Store {
	t.Helper()
	return client(t, objectstore.Options{Endpoint: server.URL, CABundle: server.CA})
}

func client(t *testing.T, o objectstore.Options) *objectstore.Store {
	t.Helper()
	o.Bucket, o.Prefix = objectstoretest.Bucket, "east/bank"
	o.Retry = objectstore.Retry{Tries: 4, Base: 1, Longest: 1}
	o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	store, err := objectstore.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store
}

// link is one side, with a client of its own.
func link(t *testing.T, server *objectstoretest.Server, directory string, segment int) *handoff.Link {
	t.Helper()
	return linkOf(t, open(t, server), directory, segment, 10*time.Second)
}

// impatient is the patience of links whose other side is known not to answer.
const impatient = 200 * time.Millisecond

func linkOf(
	t *testing.T, store *objectstore.Store, directory string, segment int, patience time.Duration,
) *handoff.Link {
	t.Helper()
	l := handoff.NewLink(handoff.Options{
		Store: store, Directory: directory, First: time.Millisecond, Longest: 5 * time.Millisecond,
		SegmentSize: segment, Patience: patience,
	})
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// dial yields a connection when it was accepted.
func dial(t *testing.T, near *handoff.Link) <-chan net.Conn {
	dialing := make(chan net.Conn, 1)
	go func() {
		defer close(dialing)
		conn, err := near.DialContext(t.Context(), "", "")
		if err != nil {
			t.Error(err)
			return
		}
		dialing <- conn
	}()
	return dialing
}

// connect returns both ends of a connection.
func connect(t *testing.T, near, far *handoff.Link) (dialed, accepted net.Conn) {
	t.Helper()
	dialing := dial(t, near)
	accepted, err := far.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return <-dialing, accepted
}

func noise(n int) []byte {
	b := make([]byte, n)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// TestStreams has bytes cross in both directions while requests fail or lose their answers, and leaves nothing.
func TestStreams(t *testing.T) {
	server := objectstoretest.New(t, "")
	near, far := link(t, server, directory, 1000), link(t, server, directory, 1000)
	dialed, accepted := connect(t, near, far)
	var n atomic.Int64
	server.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		if n.Add(1)%7 > 0 {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	content := noise(100_000)
	go func() { _, _ = io.Copy(accepted, accepted); _ = accepted.Close() }()
	go func() { _, _ = dialed.Write(content) }()
	got := make([]byte, len(content))
	if _, err := io.ReadFull(dialed, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, content) {
		t.Error("what came back is not what was sent")
	}
	_ = dialed.Close()
	_ = near.Close()
	_ = far.Close()
	if keys := server.Keys(); len(keys) > 0 {
		t.Errorf("left behind: %v", keys)
	}
}

// TestLostAnswers has puts be carried out whose answers are lost, while the other side removes what they put.
func TestLostAnswers(t *testing.T) {
	server := objectstoretest.New(t, "")
	near, far := link(t, server, directory, 1000), link(t, server, directory, 1000)
	dialed, accepted := connect(t, near, far)
	for range 20 {
		server.Reset(2, http.MethodPut, true)
		content := noise(20_000)
		go func() { _, _ = dialed.Write(content) }()
		got := make([]byte, len(content))
		if _, err := io.ReadFull(accepted, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, content) {
			t.Fatal("what came is not what was sent")
		}
	}
	server.Intercept(nil)
	_ = dialed.Close()
	_ = accepted.Close()
	_ = near.Close()
	_ = far.Close()
	if keys := server.Keys(); len(keys) > 0 {
		t.Errorf("left behind: %v", keys)
	}
}

// TestDialAgain has nobody accept for some time: dials that are given up leave one segment in all, ask seldom, and the
// next one goes on with it.
func TestDialAgain(t *testing.T) {
	server := objectstoretest.New(t, "")
	near := link(t, server, directory, 1000)
	const dials, each = 5, 50 * time.Millisecond
	for range dials {
		ctx, cancel := context.WithTimeout(t.Context(), each)
		if _, err := near.DialContext(ctx, "", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a dial that nobody accepts: %v", err)
		}
		cancel()
	}
	if keys := server.Keys(); len(keys) != 1 {
		t.Errorf("in the bucket: %v", keys)
	}
	// The pauses of a dial are 1, 1.5, 2.25, 3.4 and then 5 ms.
	if n := len(server.Requests()); n > dials*(5+int(each/(5*time.Millisecond))) {
		t.Errorf("%d requests", n)
	}
	dialed, accepted := connect(t, near, link(t, server, directory, 1000))
	_ = dialed.Close()
	if n, err := accepted.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read %d bytes: %v", n, err)
	}
}

// TestPutTwice has an answer to a put be lost and the segment be put again after the other side has removed it.
func TestPutTwice(t *testing.T) {
	server := objectstoretest.New(t, "")
	near, far := link(t, server, directory, 100), link(t, server, directory, 100)
	dialed, accepted := connect(t, near, far)
	first := make([]byte, 100)
	if _, err := dialed.Write(first); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(accepted, first); err != nil {
		t.Fatal(err)
	}
	for len(server.Keys()) > 2 { // the first segments stay
		time.Sleep(time.Millisecond)
	}
	server.Add("east/bank/"+directory+"/0/d/1", []byte{2, 7}, time.Now())
	content := noise(100 * 3 * handoff.Window)
	go func() { _, _ = dialed.Write(content); _ = dialed.Close() }()
	got, err := io.ReadAll(accepted)
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes of %d came: %v", len(got), len(content), err)
	}
	_ = accepted.Close()
	_ = near.Close()
	_ = far.Close()
	if keys := server.Keys(); len(keys) > 0 {
		t.Errorf("left behind: %v", keys)
	}
}

func impatientLinks(t *testing.T, server *objectstoretest.Server) (near, far *handoff.Link) {
	t.Helper()
	return linkOf(t, open(t, server), directory, 100, impatient), linkOf(t, open(t, server), directory, 100, impatient)
}

// TestWindow has a writer whose other side takes nothing stop, and Sweep remove what it put.
func TestWindow(t *testing.T) {
	server := objectstoretest.New(t, "")
	near, far := impatientLinks(t, server)
	dialed, _ := connect(t, near, far)
	_ = dialed.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
	n, err := dialed.Write(noise(100_000))
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a write that nobody takes: %v", err)
	}
	if n > 100*(handoff.Window+2) {
		t.Errorf("%d bytes were taken off the writer's hands", n)
	}
	for len(server.Keys()) < handoff.Window+2 {
		time.Sleep(time.Millisecond)
	}
	_ = near.Close()                                          // nobody takes the end either
	if keys := server.Keys(); len(keys) != handoff.Window+2 { // with the first ones of both streams
		t.Errorf("%d segments are in the bucket: %v", len(keys), keys)
	}
	if err := handoff.Sweep(t.Context(), open(t, server), directory); err != nil {
		t.Fatal(err)
	}
	if keys := server.Keys(); len(keys) > 0 {
		t.Errorf("left behind: %v", keys)
	}
}

// TestHostile has others write into the directory: the connection breaks, or is one that the dialer does not take.
func TestHostile(t *testing.T) {
	for name, content := range map[string][]byte{
		"empty": {}, "kind": {9}, "opened twice": {1}, "no data": {2}, "end with data": {3, 1},
		"too long": make([]byte, handoff.MaxSegment+2),
	} {
		t.Run(name, func(t *testing.T) {
			server := objectstoretest.New(t, "")
			near, far := impatientLinks(t, server)
			_, accepted := connect(t, near, far)
			server.Add("east/bank/"+directory+"/0/d/1", content, time.Now())
			_ = accepted.SetReadDeadline(time.Now().Add(time.Minute))
			n, err := accepted.Read(make([]byte, 10))
			if n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("it was read as %d bytes: %v", n, err)
			}
		})
	}
	t.Run("connection", func(t *testing.T) {
		server := objectstoretest.New(t, "")
		near, far := impatientLinks(t, server)
		server.Add("east/bank/"+directory+"/0/d/0", []byte("x"), time.Now())
		dialing := dial(t, near)
		broken, err := far.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := broken.Read(make([]byte, 1)); err == nil {
			t.Error("a connection that nobody opened can be read")
		}
		accepted, err := far.Accept()
		if err != nil {
			t.Fatal(err)
		}
		dialed := <-dialing
		if _, err := dialed.Write([]byte("y")); err != nil {
			t.Fatal(err)
		}
		if b := make([]byte, 1); func() error { _, err := accepted.Read(b); return err }() != nil || b[0] != 'y' {
			t.Errorf("the dialer's connection has %q", b)
		}
	})
}

// sides are what both ends of an attempt have.
type sides struct {
	// stop ends the receiver of the attempt under way.
	stop           func()
	store          func() *objectstore.Store
	server         *objectstoretest.Server
	sender, target string // directories of certificates
	source, copied string
}

// newSides have a server in memory.
func newSides(t *testing.T) *sides {
	t.Helper()
	server := objectstoretest.New(t, "")
	s := sidesOf(t, func() *objectstore.Store { return open(t, server) })
	s.server = server
	return s
}

func sidesOf(t *testing.T, store func() *objectstore.Store) *sides {
	t.Helper()
	east, west := transporttest.NewAuthority(t, "east"), transporttest.NewAuthority(t, "west")
	return &sides{
		store: store, source: t.TempDir(), copied: t.TempDir(),
		sender: east.ForRun("run").Directory(t, west, "/ns/bank/transfer/ledger", ""),
		target: west.Directory(t, east, "/ns/bank/delivery/ledger", serverName),
	}
}

// attempt moves the source through the bucket. The sender's context may end before.
func (s *sides) attempt(
	ctx context.Context, t *testing.T, n uint32, directory string,
) (sent *wirev1.Report, err error) {
	t.Helper()
	far := linkOf(t, s.store(), directory, 64<<10, 10*time.Second)
	d, err := tree.OpenDestination(s.copied, ".", "run", n)
	if err != nil {
		t.Fatal(err)
	}
	received := receive.NewReport()
	receiver := receive.New(receive.Options{
		RunID: "run", Attempt: n, Sender: "bank/ledger", Destination: receive.Tree{Destination: d},
		Engines: engines.Default(), Report: received,
	})
	data := transport.NewDataServer(transport.NewFiles(s.target),
		transport.Sender{Namespace: "bank", Name: "ledger", Run: "run"}, receiver.ServeBlocks)
	wirev1.RegisterReceiverServer(data, receiver)
	go func() { _ = data.Serve(transport.Listen(far, &received.Wire, 64)) }()
	ended := make(chan error, 1)
	receiving, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { ended <- receiver.Wait(receiving) }()
	s.stop = func() { stop(); data.Stop() }

	near := linkOf(t, s.store(), directory, 64<<10, 10*time.Second)
	report := send.NewReport()
	dialer := &transport.Dialer{
		Address: directory, Files: transport.NewFiles(s.sender), Counter: &report.Wire, Connect: near.DialContext,
	}
	source, err := tree.OpenSource(s.source, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	err = send.Run(ctx, send.Options{
		RunID: "run", Attempt: n, Source: source, Engines: engines.Default(), Verify: true,
		Policy: policy.Settings{Mode: policy.Always, Level: codec.Fast}, Codecs: []codec.ID{codec.Deflate},
		Dial:               func() (send.Conn, error) { return dialer.Dial(serverName) },
		DialBlocks:         func(ctx context.Context) (net.Conn, error) { return dialer.DialBlocks(ctx, serverName) },
		Streams:            2,
		CheckpointInterval: 1 << 20,
		Report:             report,
	})
	report.End(err)
	if err != nil {
		stop()
	}
	if failed := <-ended; failed != nil && err == nil {
		t.Errorf("receive: %v", failed)
	}
	_ = near.Close()
	data.Stop()
	_ = far.Close()
	return report.Report(), err
}

func (s *sides) compare(t *testing.T, name string, content []byte) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(s.copied, name))
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("%s has %d bytes of %d, or others: %v", name, len(got), len(content), err)
	}
}

// TestTransfer moves a tree with TLS from end to end, compressed, and leaves nothing.
func TestTransfer(t *testing.T) {
	s := newSides(t)
	content := bytes.Repeat([]byte("one line of the ledger\n"), 200_000)
	if err := os.WriteFile(filepath.Join(s.source, "ledger"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := s.attempt(t.Context(), t, 1, directory)
	if err != nil {
		t.Fatal(err)
	}
	s.compare(t, "ledger", content)
	if keys := s.server.Keys(); len(keys) > 0 {
		t.Errorf("left behind: %v", keys)
	}
	if sent := report.GetWireBytes(); sent == 0 || sent > uint64(len(content)/4) {
		t.Errorf("%d bytes crossed the bucket for %d", sent, len(content))
	}
}

// TestRestart kills the sender in the middle. The next attempt sends the rest only, and nothing of either is left. What
// the bucket gets, which does not compress, is encrypted.
func TestRestart(t *testing.T) {
	s := newSides(t)
	content := noise(24 << 20)
	if err := os.WriteFile(filepath.Join(s.source, "noise"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	var bytesPut atomic.Int64
	killed := errors.New("killed")
	var plain atomic.Bool
	s.server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/d/") {
			return false
		}
		segment, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(segment))
		for at := 0; at < len(content); at += 1 << 20 {
			if bytes.Contains(segment, content[at+5000:at+5032]) {
				plain.Store(true)
			}
		}
		if bytesPut.Add(r.ContentLength) > 12<<20 {
			cancel(killed)
		}
		return false
	})
	if _, err := s.attempt(ctx, t, 1, directory); !errors.Is(err, killed) {
		t.Fatalf("the first attempt: %v", err)
	}
	if plain.Load() {
		t.Error("the bucket got what the file has")
	}
	s.resume(t, content)
}

// TestReceiverStops stops the receiver in the middle, and not the sender.
func TestReceiverStops(t *testing.T) {
	s := newSides(t)
	content := noise(24 << 20)
	if err := os.WriteFile(filepath.Join(s.source, "noise"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	var bytesPut atomic.Int64
	var once sync.Once
	s.server.Intercept(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/d/") && bytesPut.Add(r.ContentLength) > 12<<20 {
			once.Do(func() { go s.stop() })
		}
		return false
	})
	if _, err := s.attempt(t.Context(), t, 1, directory); err == nil {
		t.Fatal("the first attempt has moved everything")
	}
	s.resume(t, content)
}

// resume makes the second attempt, which finds what the first one has moved.
func (s *sides) resume(t *testing.T, content []byte) {
	t.Helper()
	if err := handoff.Sweep(t.Context(), open(t, s.server), directory); err != nil {
		t.Fatal(err)
	}
	s.server.Intercept(nil)
	report, err := s.attempt(t.Context(), t, 2, ".lighterage/handoff/run/2")
	if err != nil {
		t.Fatal(err)
	}
	s.compare(t, "noise", content)
	if resumed := report.GetProgress().GetResumedBytes(); resumed < 4<<20 {
		t.Errorf("%d bytes were safe", resumed)
	}
	if keys := s.server.Keys(); len(keys) > 0 {
		t.Errorf("left behind: %v", keys)
	}
}
