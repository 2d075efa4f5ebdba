// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/hack/bench/harness"
)

// queue is the name of the stream of every contender.
const queue = "orders"

// maxPayload of every contender in bytes.
const maxPayload = 1 << 20

// The contenders.
const (
	plain   = "JetStream"
	s2      = "JetStream, S2"
	deflate = "queue, deflate"
	zstd    = "queue, zstd"
	// uncompressed takes part where a channel is stopped only.
	uncompressed = "queue, none"
	// spilling as well: it is in memory, and sweeps what does not fit to the disk.
	spilling = "queue, none, spilling"
	// broker takes part in memory only.
	broker = "RabbitMQ, zstd in the client"
)

var contenders = []string{plain, s2, deflate, zstd}

// serve is a contender in a process of its own, which writes a CPU profile if there is a file for one. It answers with
// its address and ends when there are no more orders.
func serve(ctx context.Context, name, directory, profile string) (err error) {
	if profile != "" {
		f, failed := os.Create(profile)
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	switch name {
	case plain, s2:
		return serveJetStream(directory)
	case deflate:
		return serveQueue(ctx, directory, codec.Deflate, nil)
	case zstd:
		return serveQueue(ctx, directory, codec.Zstd, nil)
	case uncompressed:
		return serveQueue(ctx, directory, codec.None, nil)
	case spilling:
		return serveQueue(ctx, directory, codec.None, &store.Spill{Memory: stoppedMemory, Volume: 8 << 30})
	default:
		return fmt.Errorf("unknown contender %q", name)
	}
}

// listening says where, and waits until nobody wants it.
func listening(address string) error {
	harness.Answer(endAnswer{Address: address})
	return harness.Work(func(endOrder) error { return errors.New("there are no orders") })
}

func serveJetStream(directory string) error {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: directory, MaxPayload: maxPayload,
		NoSigs: true, NoLog: true,
		// As often as a queue.
		SyncInterval: store.DefaultSyncInterval,
	})
	if err != nil {
		return err
	}
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	if !s.ReadyForConnections(time.Minute) {
		return errors.New("JetStream does not start")
	}
	return listening(s.Addr().String())
}

// opened is a queue of our own: what an agent has, without what it follows and reports.
type opened struct {
	address string // of the front, for clients
	undo    []func()
}

// openQueue opens one in an empty directory, or one with what it kept.
// One that spills is in memory.
func openQueue(
	ctx context.Context, directory string, o message.EncodingOptions, spill *store.Spill,
) (*opened, error) {
	kept := store.Options{Queue: queue, Directory: directory, MaxPayload: 2 * maxPayload, Spill: spill}
	if spill != nil {
		kept.Sync.Interval = store.SpillSyncInterval
	}
	q := &opened{}
	if err := q.open(ctx, kept, o); err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

func (q *opened) open(ctx context.Context, kept store.Options, o message.EncodingOptions) error {
	s, err := store.Start(ctx, kept)
	if err != nil {
		return err
	}
	q.undo = append(q.undo, s.Shutdown)
	conn, err := s.Connect("bench")
	if err != nil {
		return err
	}
	q.undo = append(q.undo, conn.Close)
	if err := s.Ensure(ctx, conn, store.Settings{}); err != nil {
		return err
	}
	encoding, err := message.NewEncoding(o)
	if err != nil {
		return err
	}
	q.undo = append(q.undo, encoding.Close)
	decoding, err := message.NewDecoding(engines.Default())
	if err != nil {
		return err
	}
	q.undo = append(q.undo, decoding.Close)
	f, err := front.New(front.Options{ //nolint:contextcheck // Connections end by close.
		Queue: queue, Server: s,
		Settings: front.Settings{Encoding: encoding, Decoding: decoding, MaxMessageSize: maxPayload, Open: true},
	})
	if err != nil {
		return err
	}
	q.undo = append(q.undo, f.Close)
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = f.Serve(l) }() //nolint:contextcheck // It ends by close.
	q.address = l.Addr().String()
	return nil
}

// close ends it and leaves what it kept.
func (q *opened) close() {
	for _, undo := range slices.Backward(q.undo) {
		undo()
	}
	q.undo = nil
}

func serveQueue(ctx context.Context, directory string, id codec.ID, spill *store.Spill) error {
	q, err := openQueue(ctx, directory, encodingOptions(id), spill)
	if err != nil {
		return err
	}
	defer q.close()
	return listening(q.address)
}

// encodingOptions are those of a queue that compresses everything with a codec; None: nothing.
func encodingOptions(id codec.ID) message.EncodingOptions {
	if id == codec.None {
		return message.EncodingOptions{
			Policy: policy.Settings{Mode: policy.Never, Level: codec.Fast}, Engines: engines.Default(),
		}
	}
	return message.EncodingOptions{
		Policy: policy.Settings{Mode: policy.Auto, Level: codec.Fast, Objective: policy.Bytes}, Codecs: []codec.ID{id},
		MinSize: 1,
		Engines: engines.Default(),
	}
}

// running is a contender of our own making as its client sees it.
type running struct {
	name, directory string
	profile         string // a file for that of the server; empty: none is written
	server          *harness.Worker
	conn            *nats.Conn
	js              jetstream.JetStream
}

// start runs this program as a contender with an empty directory.
func start(ctx context.Context, name, parent, profile string) (*running, error) {
	directory, err := os.MkdirTemp(parent, "queue-")
	if err != nil {
		return nil, err
	}
	r := &running{name: name, directory: directory, profile: profile}
	if err := r.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", name, err), r.stop())
	}
	return r, nil
}

func (r *running) start(ctx context.Context) error {
	var first endAnswer
	var err error
	if r.server, err = startRole(ctx, serveRole, &first, r.name, r.directory, r.profile); err != nil {
		return err
	}
	if r.conn, err = nats.Connect("nats://" + first.Address); err != nil {
		return err
	}
	if r.js, err = jetstream.New(r.conn, jetstream.WithPublishAsyncMaxPending(pending)); err != nil {
		return err
	}
	if r.name != plain && r.name != s2 {
		return nil
	}
	c := jetstream.StreamConfig{
		Name: queue, Subjects: []string{queue, queue + ".>"}, Retention: jetstream.WorkQueuePolicy, AllowDirect: true,
	}
	if r.name == s2 {
		c.Compression = jetstream.S2Compression
	}
	_, err = r.js.CreateStream(ctx, c)
	return err
}

// startRole starts this program in a role and waits for its first answer.
func startRole(ctx context.Context, role string, answer any, args ...string) (*harness.Worker, error) {
	self := harness.Self(benchmark, role, args...)
	return firstAnswer(exec.CommandContext(ctx, self[0], self[1:]...), answer)
}

func firstAnswer(command *exec.Cmd, answer any) (*harness.Worker, error) {
	w, err := harness.StartWorker(command)
	if err != nil {
		return nil, err
	}
	if err := w.Answer(answer); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// pending is how many puts a client has in the air.
const pending = 512

// end ends it and leaves what it kept.
func (r *running) end() error {
	if r.conn != nil {
		r.conn.Close()
	}
	var err error
	if r.server != nil {
		err = r.server.Close()
	}
	r.conn, r.server = nil, nil
	return err
}

// stop ends it and removes what it kept.
func (r *running) stop() error {
	return errors.Join(r.end(), os.RemoveAll(r.directory))
}

func (r *running) usage() (harness.Usage, error) { return r.server.PID().Usage() }

// stored is how many bytes of files hold messages.
func (r *running) stored() (int64, error) { return sizeOf(r.directory, ".blk") }

// sizeOf is how many bytes the files under a directory have whose names end so.
func sizeOf(directory, end string) (int64, error) {
	var total int64
	err := filepath.WalkDir(directory, func(path string, entry os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // it was removed meanwhile
		}
		if err != nil || entry.IsDir() {
			return err
		}
		if !strings.HasSuffix(path, end) {
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil {
			total += info.Size()
		}
		return err
	})
	return total, err
}
