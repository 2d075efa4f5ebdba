// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/test/corpus"
)

// turn is what one contender did with messages of one size.
type turn struct {
	contender string
	size      int
	messages  int
	// put and get: messages a second, and CPU seconds of client and server together and of
	// the server alone for each.
	put, get phase
	// stored is how many bytes of files hold the messages after they were put.
	stored int64
}

type phase struct {
	rate, cpu, server float64
}

// messages are different, as those of a queue are.
const different = 64

func payloads(size int) ([][]byte, error) {
	xml, ok := corpus.ByName("xml")
	if !ok {
		return nil, errors.New("there is no corpus xml")
	}
	all := xml.Generate(size * different)
	out := make([][]byte, different)
	for i := range out {
		out[i] = all[i*size : (i+1)*size]
	}
	return out, nil
}

// run puts so many bytes of messages of a size, and gets them.
func (r *running) run(ctx context.Context, size, total int) (turn, error) {
	data, err := payloads(size)
	if err != nil {
		return turn{}, err
	}
	t := turn{contender: r.name, size: size, messages: max(total/size, different)}
	if t.put, err = r.phase(t.messages, func() error { return r.put(ctx, data, t.messages) }); err != nil {
		return turn{}, fmt.Errorf("put %d bytes into %s: %w", size, r.name, err)
	}
	// The server flushes and compresses what is full on its own time.
	if t.stored, err = r.stored(); err != nil {
		return turn{}, err
	}
	if t.get, err = r.phase(t.messages, func() error { return r.get(ctx, data, t.messages) }); err != nil {
		return turn{}, fmt.Errorf("get %d bytes from %s: %w", size, r.name, err)
	}
	return t, nil
}

func (r *running) put(ctx context.Context, data [][]byte, n int) error {
	for i := range n {
		if _, err := r.js.PublishAsync(queue, data[i%len(data)], jetstream.WithStallWait(time.Minute)); err != nil {
			return err
		}
	}
	select {
	case <-r.js.PublishAsyncComplete():
	case <-ctx.Done():
		return ctx.Err()
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

// get takes all messages, checks every one, and acknowledges them.
func (r *running) get(ctx context.Context, data [][]byte, n int) error {
	c, err := r.js.CreateConsumer(ctx, queue, jetstream.ConsumerConfig{Durable: "taker", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 2 * pending})
	if err != nil {
		return err
	}
	all, err := c.Messages(jetstream.PullMaxMessages(pending))
	if err != nil {
		return err
	}
	defer all.Stop()
	for i := range n {
		m, err := all.Next()
		if err != nil {
			return err
		}
		if !bytes.Equal(m.Data(), data[i%len(data)]) {
			return fmt.Errorf("message %d is another", i)
		}
		if err := m.Ack(); err != nil {
			return err
		}
	}
	return r.conn.Flush()
}

// phase takes time and CPU time.
func (r *running) phase(n int, work func() error) (phase, error) {
	server, err := cpuOf(r.command.Process.Pid)
	if err != nil {
		return phase{}, err
	}
	own, begin := ownCPU(), time.Now()
	if err := work(); err != nil {
		return phase{}, err
	}
	took, client := time.Since(begin).Seconds(), ownCPU()-own
	after, err := cpuOf(r.command.Process.Pid)
	if err != nil {
		return phase{}, err
	}
	return phase{rate: float64(n) / took, cpu: (client + after - server) / float64(n), server: (after - server) / float64(n)}, nil
}

func ownCPU() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// ticks are how the kernel counts CPU time in /proc, by second.
const ticks = 100

// cpuOf returns the CPU seconds of another process, user and system.
func cpuOf(pid int) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, errors.New("/proc has another form")
	}
	sum := 0.0
	for _, f := range fields[11:13] {
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return 0, err
		}
		sum += n / ticks
	}
	return sum, nil
}
