// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/queue/jetstreamerror"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// volumeSize is smaller than a Queue may have, so that it is soon full: there is space for about 9 MiB of messages.
const volumeSize = 54 << 20

// mount mounts a volume, as a claim of that size is, until the test ends.
func mount(t *testing.T, size int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a small tmpfs")
	}
	directory := t.TempDir()
	if err := unix.Mount("tmpfs", directory, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skip("a small tmpfs cannot be mounted here: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(directory, unix.MNT_DETACH) })
	return directory
}

func free(t *testing.T, directory string) int64 {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(directory, &s); err != nil {
		t.Fatal(err)
	}
	return int64(s.Bavail * uint64(s.Bsize))
}

// occupy leaves so many bytes of a volume, until what it returns is called.
func occupy(t *testing.T, directory string, left int64) (release func()) {
	t.Helper()
	path := filepath.Join(directory, "of-somebody-else")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, free(t, directory)-left); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// small is a member with a small volume whose limits are the volume's alone.
type small struct {
	*member
	js       jetstream.JetStream
	consumer jetstream.Consumer
	payload  []byte
	puts     int
	gets     int
}

func newSmall(t *testing.T, size int, change func(*wirev1.QueueConfig)) *small {
	t.Helper()
	q := &small{member: newMember(t), payload: make([]byte, 256<<10)}
	_, _ = rand.Read(q.payload)
	q.config.Storage = &wirev1.QueueStorage{Directory: mount(t, size), Capacity: uint64(size / 20 * 19)}
	q.config.CompressionMinSize = 0
	if change != nil {
		change(q.config)
	}
	pool := q.certify()
	q.run()
	q.await("it serves", serves)
	conn, err := q.client(pool, "secret")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if q.js, err = jetstream.New(conn, jetstream.WithDefaultTimeout(patience)); err != nil {
		t.Fatal(err)
	}
	if q.consumer, err = q.js.CreateConsumer(t.Context(), "orders", jetstream.ConsumerConfig{
		Durable: "clerk", AckPolicy: jetstream.AckExplicitPolicy, AckWait: 10 * patience, MaxAckPending: 10_000,
	}); err != nil {
		t.Fatal(err)
	}
	return q
}

// put reports whether a message was taken. If not, it has to be because of the limit.
func (q *small) put() bool {
	q.Helper()
	_, err := q.js.Publish(q.Context(), "orders.new", q.payload, jetstream.WithMsgID(fmt.Sprint(q.puts)))
	if err == nil {
		q.puts++
		return true
	}
	if !jetstreamerror.Is(err, jetstreamerror.StoreFailed) { // the store has no space by its limits
		q.Fatalf("put %d: %v", q.puts, err)
	}
	return false
}

// fill puts until the limit refuses, and returns how many messages that took.
func (q *small) fill() int {
	q.Helper()
	before := q.puts
	for q.put() {
		if q.puts-before > volumeSize/len(q.payload) {
			q.Fatalf("%d messages of %d bytes are more than the volume has", q.puts-before, len(q.payload))
		}
	}
	q.well("full")
	return q.puts - before
}

// takes waits until a message is taken.
func (q *small) takes(what string) {
	q.Helper()
	for deadline := time.Now().Add(patience); !q.put(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			q.Fatalf("%s: nothing is taken", what)
		}
	}
}

// get gets messages and acknowledges those that it is told to.
func (q *small) get(n int, acknowledge func(i int) bool) (kept []jetstream.Msg) {
	q.Helper()
	for i := range n {
		m, err := q.consumer.Next(jetstream.FetchMaxWait(patience), jetstream.FetchHeartbeat(patience/2))
		if err != nil {
			q.Fatalf("get %d: %v", q.gets, err)
		}
		if want := fmt.Sprint(q.gets); m.Headers().Get(nats.MsgIdHdr) != want || len(m.Data()) != len(q.payload) {
			q.Fatalf("message %q of %d bytes came in place of %s", m.Headers().Get(nats.MsgIdHdr), len(m.Data()), want)
		}
		q.gets++
		if !acknowledge(i) {
			kept = append(kept, m)
			continue
		}
		q.acknowledge(m)
	}
	return kept
}

func (q *small) acknowledge(m jetstream.Msg) {
	q.Helper()
	ctx, cancel := context.WithTimeout(q.Context(), patience)
	defer cancel()
	if err := m.DoubleAck(ctx); err != nil {
		q.Fatal(err)
	}
}

func all(int) bool { return true }

// well: nothing is wrong with the store, and its volume is not full.
func (q *small) well(what string) {
	q.Helper()
	if failure := q.Report(q.Context()).GetStorageFailure(); failure != nil {
		q.Fatalf("%s: %v", what, failure)
	}
	if left := free(q.T, q.config.GetStorage().GetDirectory()); left < volumeSize/8 {
		q.Fatalf("%s: %d bytes of the volume are left", what, left)
	}
}

// TestFullByItself: a queue whose messages are as many as its volume holds refuses more, and gets free resources for
// others.
func TestFullByItself(t *testing.T) {
	q := newSmall(t, volumeSize, nil)
	if n := q.fill(); n < 8<<20/len(q.payload) {
		t.Errorf("only %d messages fit", n)
	}
	q.get(q.puts/2, all)
	q.takes("after gets")
	q.fill()
	// What stays between messages that leave keeps their space, until the server takes it back.
	kept := q.get(q.puts-q.gets, func(i int) bool { return i%2 == 0 })
	q.fill()
	for _, m := range kept {
		q.acknowledge(m)
	}
	q.get(q.puts-q.gets, all)
	q.takes("after all was got")
	q.fill()
}

// TestDropsBeforeFull: a queue that drops its oldest messages does so before its volume is full, for as long as
// messages come.
func TestDropsBeforeFull(t *testing.T) {
	q := newSmall(t, 64<<20, func(c *wirev1.QueueConfig) {
		c.Limits.Overflow = wirev1.QueueOverflow_QUEUE_OVERFLOW_DROP_OLDEST
	})
	const space = 24 << 20 // at most
	for range 2 * space / len(q.payload) {
		if !q.put() {
			t.Fatalf("put %d was refused", q.puts)
		}
	}
	q.well("after all puts")
	content := q.await("its content is known", func(r *wirev1.QueueReport) bool {
		return r.GetContent() != nil
	}).GetContent()
	if content.GetLastSequence() != uint64(q.puts) || content.GetMessages() < 6<<20/uint64(len(q.payload)) ||
		content.GetBytes() > space {
		t.Errorf("of %d puts there are %v", q.puts, content)
	}
	// The limit may have moved since: the oldest message that is left is the first that comes.
	m, err := q.consumer.Next(jetstream.FetchMaxWait(patience), jetstream.FetchHeartbeat(patience/2))
	if err != nil {
		t.Fatal(err)
	}
	oldest, err := strconv.Atoi(m.Headers().Get(nats.MsgIdHdr))
	if err != nil || oldest < q.puts-int(content.GetMessages()) {
		t.Fatalf(
			"of %d messages, the last of %d, message %q is the first: %v", content.GetMessages(), q.puts,
			m.Headers().Get(nats.MsgIdHdr), err,
		)
	}
	q.acknowledge(m)
	q.gets = oldest + 1
	q.get(q.puts-q.gets, all)
}

// TestFilledByOthers: what else is on the volume takes space from messages, which is said while it does; what is there
// can be got.
func TestFilledByOthers(t *testing.T) {
	q := newSmall(t, 128<<20, nil)
	q.put()
	q.put()
	release := occupy(t, q.config.GetStorage().GetDirectory(), 4<<20)
	q.await("it is said that the volume is full", func(r *wirev1.QueueReport) bool {
		return r.GetStorageFailure().GetReason() == wirev1.FailureReason_FAILURE_REASON_STORAGE_FULL &&
			r.GetState() == wirev1.QueueState_QUEUE_STATE_SERVING
	})
	// The limit follows a moment after the report. Few messages have to last for as long as that takes on a busy
	// machine.
	for pause := 100 * time.Millisecond; q.put(); pause *= 2 {
		if q.puts > 12 {
			t.Fatal("messages are taken although there is no space for them")
		}
		time.Sleep(pause)
	}
	q.get(1, all)
	release()
	q.await("there is space again", func(r *wirev1.QueueReport) bool { return r.GetStorageFailure() == nil })
	q.takes("with space")
	q.get(q.puts-q.gets, all)
}

// TestOthersTakeNothing: what others write to the volume of a queue that drops its oldest messages takes none that is
// there, and when they have left next to nothing, messages are refused in place of being stored for older ones.
func TestOthersTakeNothing(t *testing.T) {
	q := newSmall(t, 128<<20, func(c *wirev1.QueueConfig) {
		c.Limits.Overflow = wirev1.QueueOverflow_QUEUE_OVERFLOW_DROP_OLDEST
	})
	const messages = 40
	for range messages {
		if !q.put() {
			t.Fatalf("put %d was refused", q.puts)
		}
	}
	release := occupy(t, q.config.GetStorage().GetDirectory(), 4<<20)
	q.await("it is said that the volume is full", func(r *wirev1.QueueReport) bool {
		return r.GetStorageFailure().GetReason() == wirev1.FailureReason_FAILURE_REASON_STORAGE_FULL
	})
	// Until the limit follows, a moment after the report, messages are taken: few of them, or the volume would be full.
	for pause := 100 * time.Millisecond; q.put(); pause *= 2 {
		if q.puts > messages+10 {
			t.Fatal("messages are taken although there is no space for them")
		}
		time.Sleep(pause)
	}
	release()
	q.await("there is space again", func(r *wirev1.QueueReport) bool { return r.GetStorageFailure() == nil })
	q.takes("with space")
	q.get(q.puts-q.gets, all)
}

// TestVolumeOfTheStart: a member whose volume does not let it start says why, and ends when it would.
func TestVolumeOfTheStart(t *testing.T) {
	for name, test := range map[string]struct {
		breaks func(t *testing.T, directory string) (fix func())
		reason wirev1.FailureReason
	}{
		"full": {
			func(t *testing.T, directory string) func() { t.Helper(); return occupy(t, directory, 0) },
			wirev1.FailureReason_FAILURE_REASON_STORAGE_FULL,
		},
		"read-only": {
			func(t *testing.T, directory string) func() {
				t.Helper()
				remount := func(flags uintptr) {
					if err := unix.Mount(
						"tmpfs", directory, "tmpfs", unix.MS_REMOUNT|flags, fmt.Sprintf("size=%d", volumeSize),
					); err != nil {
						t.Error(err)
					}
				}
				remount(unix.MS_RDONLY)
				return func() { remount(0) }
			}, wirev1.FailureReason_FAILURE_REASON_STORAGE_FAILED,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(t)
			m.config.Storage.Directory = mount(t, volumeSize)
			m.certify()
			fix := test.breaks(t, m.config.GetStorage().GetDirectory())
			ended := make(chan error, 1)
			go func() { ended <- m.Agent.Run(t.Context()) }()
			m.await("it says what is wrong with the volume", func(r *wirev1.QueueReport) bool {
				return r.GetStorageFailure().GetReason() == test.reason && r.GetStorageFailure().GetMessage() != "" &&
					r.GetState() == wirev1.QueueState_QUEUE_STATE_STARTING
			})
			select {
			case err := <-ended:
				t.Fatalf("it ended before the volume was fixed: %v", err)
			default:
			}
			fix()
			select {
			case err := <-ended:
				if err == nil {
					t.Error("it ended without an error, and is to be started again")
				}
			case <-time.After(patience):
				t.Fatal("it does not end so that it can be started again")
			}
		})
	}
}
