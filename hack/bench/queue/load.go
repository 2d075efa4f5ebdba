// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/test/corpus"
)

// peer is a contender as its client sees it.
type peer interface {
	// put puts so many messages, each a copy of one of those given, in turn, and returns
	// when all are acknowledged.
	put(ctx context.Context, messages [][]byte, n int) error
	// get takes as many, checks every one, and acknowledges them.
	get(ctx context.Context, messages [][]byte, n int) error
	// usage of its server.
	usage() (harness.Usage, error)
	// stored is how many bytes of files hold messages.
	stored() (int64, error)
}

// turn is what one contender did with messages of one size.
type turn struct {
	contender string
	size      int
	messages  int
	put, get  phase
	// stored is how many bytes of files hold the messages after they were put.
	stored int64
}

// phase is a rate in messages a second, and what each message took.
type phase struct {
	rate float64
	// cpu seconds of client and server together, and of the server alone.
	cpu, server float64
	// Bytes of files that the server read and wrote.
	read, written float64
}

// between is what is done when all was put and when all was got: settle within the time
// that counts, chill outside of it.
type between struct {
	settle, chill func() error
	putsAlone     bool // nothing is got
}

const (
	// leastMessages in a turn.
	leastMessages = 64
	// differentBytes of messages are different, far more than compression looks back.
	differentBytes = 16 << 20
)

// texts are what messages are cut from, by corpus.
var texts sync.Map

// payloads are different messages of a size, of XML.
func payloads(size int) ([][]byte, error) { return payloadsOf("xml", size) }

func payloadsOf(name string, size int) ([][]byte, error) {
	made, ok := corpus.ByName(name)
	if !ok {
		return nil, fmt.Errorf("there is no corpus %q", name)
	}
	text, ok := texts.Load(name)
	if !ok {
		text, _ = texts.LoadOrStore(name, made.Generate(differentBytes))
	}
	all := text.([]byte)
	out := make([][]byte, len(all)/size)
	for i := range out {
		out[i] = all[i*size : (i+1)*size]
	}
	return out, nil
}

// run puts so many bytes of messages of a size, and gets them.
func run(ctx context.Context, p peer, name string, size, total int, b between) (turn, error) {
	data, err := payloads(size)
	if err != nil {
		return turn{}, err
	}
	t := turn{contender: name, size: size, messages: max(total/size, leastMessages)}
	if t.put, err = measure(p, t.messages, b.settle, func() error { return p.put(ctx, data, t.messages) }); err != nil {
		return turn{}, fmt.Errorf("put messages of %d bytes into %s: %w", size, name, err)
	}
	// The server flushes and compresses what is full on its own time.
	if t.stored, err = p.stored(); err != nil {
		return turn{}, err
	}
	if b.putsAlone {
		return t, nil
	}
	if b.chill != nil {
		if err := b.chill(); err != nil {
			return turn{}, fmt.Errorf("start %s again: %w", name, err)
		}
	}
	if t.get, err = measure(p, t.messages, b.settle, func() error { return p.get(ctx, data, t.messages) }); err != nil {
		return turn{}, fmt.Errorf("get messages of %d bytes from %s: %w", size, name, err)
	}
	return t, nil
}

// measure takes time, CPU time and bytes of files.
func measure(p peer, n int, settle, work func() error) (phase, error) {
	before, err := p.usage()
	if err != nil {
		return phase{}, err
	}
	own, begin := harness.OwnCPU(), time.Now()
	if err := work(); err != nil {
		return phase{}, err
	}
	if settle != nil {
		if err := settle(); err != nil {
			return phase{}, err
		}
	}
	took, client := time.Since(begin).Seconds(), harness.OwnCPU()-own
	after, err := p.usage()
	each, server := float64(n), after.CPU-before.CPU
	return phase{
		rate: each / took, cpu: (client + server).Seconds() / each, server: server.Seconds() / each,
		read: float64(after.Read-before.Read) / each, written: float64(after.Written-before.Written) / each,
	}, err
}

// putAll puts so many messages, and waits until all are acknowledged.
func putAll(ctx context.Context, js jetstream.JetStream, subject string, messages [][]byte, n int) error {
	for i := range n {
		if _, err := js.PublishAsync(subject, messages[i%len(messages)], jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *running) put(ctx context.Context, messages [][]byte, n int) error {
	if err := putAll(ctx, r.js, queue, messages, n); err != nil {
		return err
	}
	s, err := r.js.Stream(ctx, queue)
	if err != nil {
		return err
	}
	if got := s.CachedInfo().State.Msgs; got != uint64(n) {
		return fmt.Errorf("%d of %d messages are in the stream", got, n)
	}
	return nil
}

// maxAhead bounds what a server sends before the client has taken it, in bytes. A server of NATS disconnects who lets
// it grow to 64 MiB, and what was on its way comes again much later.
const maxAhead = 16 << 20

func (r *running) get(ctx context.Context, messages [][]byte, n int) error {
	ahead := max(min(pending, maxAhead/len(messages[0])), 1)
	c, err := r.js.CreateConsumer(
		ctx, queue,
		jetstream.ConsumerConfig{Durable: "taker", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 2 * ahead},
	)
	if err != nil {
		return err
	}
	all, err := c.Messages(jetstream.PullMaxMessages(ahead))
	if err != nil {
		return err
	}
	defer all.Stop()
	for i := range n {
		m, err := all.Next()
		if err != nil {
			return err
		}
		if !bytes.Equal(m.Data(), messages[i%len(messages)]) {
			return fmt.Errorf("message %d is another", i)
		}
		if err := m.Ack(); err != nil {
			return err
		}
	}
	return r.conn.Flush()
}
