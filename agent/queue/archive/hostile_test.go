// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/archive"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// putRaw puts messages as a client can that writes the protocol itself.
func (q *queue) putRaw(operations ...string) {
	q.Helper()
	conn, err := q.store.Dial(q.Context())
	if err != nil {
		q.Fatal(err)
	}
	defer conn.Close()
	from := bufio.NewReader(conn)
	if _, err := from.ReadString('\n'); err != nil { // INFO
		q.Fatal(err)
	}
	connect := map[string]any{"verbose": false, "headers": true}
	if err := q.store.Introduce(connect, ""); err != nil {
		q.Fatal(err)
	}
	text, err := json.Marshal(connect)
	if err != nil {
		q.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s\r\n%sPING\r\n", text, strings.Join(operations, "")); err != nil {
		q.Fatal(err)
	}
	for {
		line, err := from.ReadString('\n')
		if err != nil || strings.HasPrefix(line, "-ERR") {
			q.Fatalf("%s %v", line, err)
		}
		if strings.HasPrefix(line, "PONG") {
			return
		}
	}
}

// hpub is a put with headers.
func hpub(subject, headers, payload string) string {
	return fmt.Sprintf("HPUB %s %d %d\r\n%s%s\r\n", subject, len(headers), len(headers)+len(payload), headers, payload)
}

// No message that a client can put keeps others from being archived and restored.
func TestHostileMessages(t *testing.T) {
	directory := t.TempDir()
	from := newQueue(t, "orders", store.Settings{})
	from.put("orders", "first")
	from.putRaw(
		hpub(
			"orders.a",
			"NATS/1.0\r\nNats-Sequence: 1\r\nNats-Subject: elsewhere\r\nNats-Time-Stamp: never\r\nStatus: 204\r\nCustomer: "+
				"7\r\n\r\n",
			"pretends",
		),
		hpub("orders.b", "NATS/1.0\r\nno header\r\nCustomer: 8\r\n\r\n", "not a header"),
		hpub("orders.c", "no headers\r\n\r\n", "no headers"),
		hpub("orders.d", "NATS/1.0\r\nA/B: 9\r\nC D: 10\r\nCustomer: 9\r\n\r\n", "names"),
		hpub("orders.\x01", "NATS/1.0\r\nCustomer: 10\r\n\r\n", "subject"),
		hpub("orders.e", "NATS/1.0\r\nCustomer: 11\r\nNats-Msg-Id: x", "without an end"),
		hpub("orders.f", "NATS/1.0\r\nLighterage-Codec: zstd\r\nCustomer: 12\r\n\r\n", "half a form"),
		"PUB orders.g 4\r\nlast\r\n",
	)
	const messages = 9
	// What is put without an answer is stored a moment later.
	for deadline := time.Now().Add(patience); progress(from) < messages; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the queue has %d messages", progress(from))
		}
	}
	s := from.archived(from.archiver(directory, nil), upTo(messages))
	if s.Index.Messages != messages || s.Index.Passed != 0 {
		t.Errorf("status %+v", s)
	}
	to := newQueue(t, "again", store.Settings{})
	to.restore(to.restorer(directory, nil))
	to.expect("again=first", "again.a=pretends", "again.b=not a header", "again.c=no headers", "again.d=names",
		"again=subject", "again.e=without an end",
		"again.f=half a form", "again.g=last")
	all := to.content()
	for i, customer := range map[int]string{1: "7", 2: "8", 3: "", 4: "9", 5: "10", 6: "11", 7: "12"} {
		if h := all[i].Header; h.Get("Customer") != customer || h.Get("Lighterage-Codec") != "" {
			t.Errorf("message %d has headers %v", i, h)
		}
	}
}

// A full claim is said to be full, and retention makes space on it.
func TestFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a small tmpfs")
	}
	directory := t.TempDir()
	if err := unix.Mount("tmpfs", directory, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("a small tmpfs cannot be mounted here: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(directory, unix.MNT_DETACH) })
	from := newQueue(t, "orders", store.Settings{})
	a := from.archiver(directory, nil)
	put := func(length int) {
		noise := make([]byte, length)
		_, _ = rand.Read(noise)
		from.put("orders", string(noise))
	}
	for i := uint64(1); i <= 3; i++ {
		put(200_000)
		from.archived(a, upTo(i))
	}
	for i := uint64(1); i <= 3; i++ {
		from.remove(i)
	}
	put(600_000)
	s := from.archived(a, func(s archive.Status) bool { return s.LastError != nil })
	if !failure.Is(s.LastError, wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL) ||
		!strings.Contains(s.LastError.Error(), "retention") || s.Sequence != 3 {
		t.Errorf("status %+v", s)
	}
	if left, err := filepath.Glob(filepath.Join(directory, "*", "*.tmp")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	// What was archived by then can be restored meanwhile.
	half := newQueue(t, "half", store.Settings{})
	if done := half.restore(half.restorer(directory, func(o *archive.RestoreOptions) {
		o.Everything = true
	})); done.Messages != 3 {
		t.Errorf("restored %+v", done)
	}
	a = from.archiver(directory, func(_ *archive.Options, s *archive.Settings) { s.Retention = time.Nanosecond })
	s = from.archived(a, upTo(4))
	if s.LastError != nil || s.Index.From != 4 || s.Index.Ranges != 1 || len(ranges(t, directory)) != 1 {
		t.Errorf("status %+v", s)
	}
	whole := newQueue(t, "whole", store.Settings{})
	if done := whole.restore(whole.restorer(directory, nil)); done.Messages != 1 || done.Bytes != 600_000 {
		t.Errorf("restored %+v", done)
	}
}

// An archive that is moved away, or whose index is deleted, while nothing is put is recreated.
func TestMovedAway(t *testing.T) {
	directory := t.TempDir()
	from := newQueue(t, "orders", store.Settings{})
	from.put("orders", "1")
	a := from.archiver(directory, nil)
	path := ""
	moved := false
	s := from.archived(a, func(s archive.Status) bool {
		if s.Sequence == 1 && !s.LastTime.IsZero() && !moved {
			path, moved = filepath.Join(directory, s.Path), true
			if err := os.Rename(path, filepath.Join(directory, "elsewhere")); err != nil {
				t.Error(err)
			}
		}
		_, err := os.Stat(filepath.Join(path, "index"))
		written, _ := filepath.Glob(filepath.Join(path, "0*.jsonl.zst"))
		return moved && err == nil && len(written) == 1
	})
	if s.LastError != nil {
		t.Errorf("status %+v", s)
	}
	to := newQueue(t, "again", store.Settings{})
	to.restore(to.restorer(directory, nil))
	to.expect("again=1")

	deleted := false
	from.archived(a, func(s archive.Status) bool {
		_, err := os.Stat(filepath.Join(path, "index"))
		if s.Sequence == 1 && err == nil && !deleted {
			if err := os.Remove(filepath.Join(path, "index")); err != nil {
				t.Error(err)
			}
			deleted = true
			return false
		}
		return deleted && err == nil
	})
}

// A member that stops leading while it writes leaves nothing behind and says nothing.
func TestLeadLost(t *testing.T) {
	from := newQueue(t, "orders", store.Settings{})
	from.put("orders", "1")
	// It leads when a look begins, and not before it writes the index of a new archive, or the range,
	// or between the index beside the range and this.
	for questions, indexed := range map[int64]bool{2: false, 3: true, 4: true} {
		t.Run(fmt.Sprint("question ", questions), func(t *testing.T) {
			from.T = t
			directory := t.TempDir()
			var lost, asked atomic.Int64
			a := from.archiver(directory, func(o *archive.Options, _ *archive.Settings) {
				o.Leads = func() bool {
					leads := asked.Add(1) < questions || lost.Load() > 0
					if !leads {
						lost.Add(1)
						if index, err := filepath.Glob(filepath.Join(directory, "*", "index")); err != nil || len(index) > 0 != indexed {
							t.Errorf("the index: %q, %v", index, err)
						}
					}
					return leads
				}
			})
			s := from.archived(a, func(s archive.Status) bool {
				if s.LastError != nil {
					t.Errorf("status %+v", s)
				}
				if files := ranges(t, directory); lost.Load() == 0 && (s.Sequence != 0 || len(files) > 0) {
					t.Errorf("it writes and does not lead: %+v", s)
				}
				return lost.Load() > 0 && s.Sequence == 1 && !s.LastTime.IsZero()
			})
			if s.Index.Messages != 1 {
				t.Errorf("status %+v", s)
			}
			for _, left := range []string{"*.tmp", ".*.lgci"} {
				found, err := filepath.Glob(filepath.Join(directory, "*", left))
				if err != nil || left == "*.tmp" && len(found) > 0 || left != "*.tmp" && len(found) != 1 {
					t.Errorf("%v is left, %v", found, err)
				}
			}
		})
	}
	from.T = t
}

// A member that does not lead says nothing of its own, and is done when the one is that does.
func TestRestoreFollows(t *testing.T) {
	directory := t.TempDir()
	from := newQueue(t, "orders", store.Settings{})
	from.put("orders", "1")
	from.archived(from.archiver(directory, nil), upTo(1))
	to := newQueue(t, "again", store.Settings{})
	var leads atomic.Bool
	leads.Store(true)
	asked := make(chan struct{}, 1)
	follower := to.restorer(t.TempDir(), func(o *archive.RestoreOptions) { // It would find nothing.
		o.Leads = func() bool {
			select {
			case asked <- struct{}{}:
			default:
			}
			return leads.Load()
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- follower.Run(ctx) }()
	for follower.Status().LastError == nil {
		if ctx.Err() != nil {
			t.Fatal("it restores what is not there")
		}
		time.Sleep(time.Millisecond)
	}
	if err := follower.Status().LastError; !errors.Is(err, archive.ErrNotFound) {
		t.Errorf("refused with %v", err)
	}
	leads.Store(false)
	for follower.Status().LastError != nil {
		if ctx.Err() != nil {
			t.Fatalf("it does not lead and says %v", follower.Status().LastError)
		}
		time.Sleep(time.Millisecond)
	}
	select {
	case err := <-ended:
		t.Fatalf("it is done, and nothing is restored: %v", err)
	case <-asked:
	}
	to.restore(to.restorer(directory, nil))
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if s := follower.Status(); !s.Done || s.Messages != 1 {
		t.Errorf("status %+v", s)
	}
}

// An archive in which there is nothing at all is none, whatever is to be restored of it.
func TestRestoreNothing(t *testing.T) {
	directory := t.TempDir()
	name := archive.Name("orders", archive.Life(time.Unix(5, 6)))
	for _, made := range []string{name, "some"} {
		if err := os.Mkdir(filepath.Join(directory, made), 0o700); err != nil {
			t.Fatal(err)
		}
		to := newQueue(t, "again", store.Settings{})
		err := to.refused(to.restorer(directory, func(o *archive.RestoreOptions) {
			o.Queue, o.Path, o.Everything = "", made, true
		}))
		if !errors.Is(err, archive.ErrNotFound) || !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND) {
			t.Errorf("refused with %v", err)
		}
	}
}

// A volume that does not answer is spoken of, although nothing comes back from it.
func TestSilentVolume(t *testing.T) {
	directory := t.TempDir()
	from := newQueue(t, "orders", store.Settings{})
	from.put("orders", "1")
	s := from.archived(from.archiver(directory, nil), upTo(1))
	index := filepath.Join(directory, s.Path, "index")
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
	// To open it takes until somebody writes.
	if err := unix.Mkfifo(index, 0o600); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	from.archived(from.archiver(directory, func(o *archive.Options, _ *archive.Settings) {
		o.Patience = 50 * time.Millisecond
	}), func(s archive.Status) bool {
		if s.LastError == nil {
			return false
		}
		if !failure.Is(s.LastError, wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE) ||
			!strings.Contains(s.LastError.Error(), "has not answered") {
			t.Errorf("it says %v", s.LastError)
		}
		go func() {
			f, err := os.OpenFile(index, os.O_WRONLY, 0)
			if err == nil {
				err = f.Close()
			}
			opened <- err
		}()
		return true
	})
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	// It may have been ended before it had written another.
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
	if s = from.archived(from.archiver(directory, nil), upTo(1)); s.Index.Messages != 1 || s.Index.Ranges != 1 {
		t.Errorf("status %+v", s)
	}
}
