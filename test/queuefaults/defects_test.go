// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package queuefaults_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/test/queuefaults"
)

// TestDefectsAreFound does to the volume of a queue what a queue must never do, and expects that what clients see of it
// gives it away.
func TestDefectsAreFound(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  queuefaults.Fault
		tamper func(context.Context, jetstream.JetStream, jetstream.Stream) error
	}{
		{"a message is dropped", queuefaults.Lost, func(
			ctx context.Context, _ jetstream.JetStream, s jetstream.Stream,
		) error {
			m, err := victim(ctx, s)
			if err != nil {
				return err
			}
			return s.DeleteMsg(ctx, m.Sequence)
		}},
		{"a message is stored once more", queuefaults.Twice, func(
			ctx context.Context, js jetstream.JetStream, s jetstream.Stream,
		) error {
			return again(ctx, js, s, nil)
		}},
		{"a message is moved to the end", queuefaults.Order, func(
			ctx context.Context, js jetstream.JetStream, s jetstream.Stream,
		) error {
			if err := again(ctx, js, s, nil); err != nil {
				return err
			}
			m, err := victim(ctx, s)
			if err != nil {
				return err
			}
			return s.DeleteMsg(ctx, m.Sequence)
		}},
		{"a message is changed", queuefaults.Changed, func(
			ctx context.Context, js jetstream.JetStream, s jetstream.Stream,
		) error {
			return again(ctx, js, s, func(m *nats.Msg) { m.Data[len(m.Data)/2] ^= 1 })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newQueue(t, 1)
			l := begin(q, q)
			for deadline := time.Now().Add(patience); l.history.Count(queuefaults.PutAcknowledged) < 100; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("messages are not put")
				}
			}
			l.stop()
			l.putting.Wait()
			m := q.members[0]
			m.stop()
			tamper(t, m.volume, c.tamper)
			m.start()
			l.consume()
			found := queuefaults.Check(l.finish(), rules())
			if !slices.ContainsFunc(found, func(v queuefaults.Violation) bool { return v.Fault == c.fault }) {
				t.Errorf("found %v, want one that is %q", found, c.fault)
			}
			t.Log(found)
		})
	}
}

// tamper opens the volume of a member that is down.
func tamper(t *testing.T, directory string, do func(context.Context, jetstream.JetStream, jetstream.Stream) error) {
	t.Helper()
	kept, err := store.Start(t.Context(), store.Options{
		Queue: queueName, Member: queueName + "-0", Directory: directory, Capacity: capacity, MaxPayload: 8 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Shutdown()
	conn, err := kept.Connect("tamper")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// The agent makes the window what it was.
	const shortest = 100 * time.Millisecond
	if err := kept.Ensure(t.Context(), conn, store.Settings{DuplicateWindow: shortest, MaxBytes: capacity}); err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), queueName)
	if err != nil {
		t.Fatal(err)
	}
	if err := do(t.Context(), js, stream); err != nil {
		t.Fatal(err)
	}
}

// victim is the first message of those that are got in turn. More of its key come after it.
func victim(ctx context.Context, s jetstream.Stream) (*jetstream.RawStreamMsg, error) {
	return s.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(queueName+".turn.>"))
}

// again puts a message that the stream has as soon as the stream has forgotten its id.
func again(ctx context.Context, js jetstream.JetStream, s jetstream.Stream, change func(*nats.Msg)) error {
	stored, err := victim(ctx, s)
	if err != nil {
		return err
	}
	m := &nats.Msg{Subject: stored.Subject, Header: stored.Header, Data: slices.Clone(stored.Data)}
	if change != nil {
		change(m)
	}
	for {
		ack, err := js.PublishMsg(ctx, m)
		if err != nil || !ack.Duplicate {
			return err
		}
		wait(ctx, 10*time.Millisecond)
	}
}
