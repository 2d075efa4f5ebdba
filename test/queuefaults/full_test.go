// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package queuefaults_test

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/jetstreamerror"
)

// TestFullByItself fills a queue of three members, of whose volumes others have taken different parts, until it refuses
// more. No volume is full then, gets free resources for puts, and nothing is lost.
func TestFullByItself(t *testing.T) {
	const (
		taken   = 96 << 20 // of each, and as much again of the last
		payload = 100_000
		// leastFit is less than what fits into the volume of the last, and mostFit more, but less than what fits into
		// another's.
		leastFit, mostFit = 32 << 20, 110 << 20
		// leastFree is what is left of the 16 MiB that queuevolume.Short says, of which a block that is being compacted
		// takes up to 8 MiB, and puts that arrive between two looks at the volume take some more.
		leastFree = 2 << 20
	)
	q := newQueue(t, 3, func(m *member, index int) {
		m.capacity = volumeSize / 20 * 19
		size := int64(taken)
		if index == 2 {
			size += taken / 2
		}
		f, err := os.Create(filepath.Join(m.volume, "of-somebody-else"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := syscall.Fallocate(int(f.Fd()), 0, 0, size); err != nil {
			t.Fatal(err)
		}
	})
	_, js := q.connect("filler")
	body := make([]byte, payload)
	_, _ = rand.Read(body)
	puts, gets := 0, 0
	put := func() (taken bool) {
		t.Helper()
		m := &nats.Msg{Subject: queueName, Data: body, Header: nats.Header{nats.MsgIdHdr: {strconv.Itoa(puts)}}}
		for deadline := time.Now().Add(patience); ; wait(t.Context(), 50*time.Millisecond) {
			ctx, cancel := context.WithTimeout(t.Context(), answerTime)
			_, err := js.PublishMsg(ctx, m)
			cancel()
			switch {
			case err == nil:
				puts++
				return true
			case jetstreamerror.Is(err, jetstreamerror.StoreFailed):
				return false
			case time.Now().After(deadline):
				t.Fatalf("put %d: %v", puts, err)
			}
		}
	}
	fill := func(what string) {
		t.Helper()
		for put() {
			if (puts-gets)*payload > mostFit {
				t.Fatalf("%s: there are %d messages of %d bytes", what, puts-gets, payload)
			}
		}
		for _, m := range q.members {
			var s syscall.Statfs_t
			if err := syscall.Statfs(m.volume, &s); err != nil {
				t.Fatal(err)
			}
			free := int64(s.Bavail) * s.Bsize
			t.Logf("%s: %d bytes of the volume of %s are free", what, free, m.name)
			if free < leastFree {
				t.Errorf("%s: %d bytes of the volume of %s are left", what, free, m.name)
			}
		}
	}
	fill("at first")
	if puts*payload < leastFit {
		t.Errorf("only %d messages of %d bytes fit", puts, payload)
	}
	t.Logf("%d messages of %d bytes fit", puts, payload)
	var consumer jetstream.Consumer
	for deadline := time.Now().Add(patience); ; wait(t.Context(), 50*time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), answerTime)
		var err error
		consumer, err = js.CreateOrUpdateConsumer(
			ctx, queueName,
			jetstream.ConsumerConfig{Durable: "clerk", AckPolicy: jetstream.AckExplicitPolicy, AckWait: patience},
		)
		cancel()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("make a consumer: %v", err)
		}
	}
	get := func(n int) {
		t.Helper()
		for range n {
			m, err := consumer.Next(jetstream.FetchMaxWait(patience), jetstream.FetchHeartbeat(patience/2))
			if err != nil {
				t.Fatal(err)
			}
			if id := m.Headers().Get(nats.MsgIdHdr); id != strconv.Itoa(gets) || len(m.Data()) != payload {
				t.Fatalf("message %s of %d bytes came in place of %d", id, len(m.Data()), gets)
			}
			gets++
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			err = m.DoubleAck(ctx)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 3 {
		get((puts - gets) / 2)
		for deadline := time.Now().Add(patience); !put(); wait(t.Context(), 50*time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("gets free no space")
			}
		}
		fill("after gets")
	}
	get(puts - gets)
	for _, m := range q.members {
		m.mu.Lock()
		deaths := m.deaths
		m.mu.Unlock()
		if deaths > 0 {
			t.Errorf("%s ended %d times", m.name, deaths)
		}
	}
}
