// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dictionary_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/codec/zstddict"
	"github.com/lighterage/lighterage/agent/queue/dictionary"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// still is a keeper that does nothing by itself.
func (q *queue) still(change func(*dictionary.Timing)) *dictionary.Keeper {
	conn, _ := storetest.Connect(q.T, q.store)
	timing := dictionary.Timing{Poll: time.Hour, Settle: 1, Lease: 1, Grace: 1}
	change(&timing)
	k := dictionary.New(dictionary.Options{
		Conn: conn, Queue: storetest.Queue, Leads: func() bool { return true }, Log: slog.New(slog.DiscardHandler),
		Ensure: func(ctx context.Context) error { return q.store.EnsureDictionaries(ctx, conn, store.Settings{}) },
		Timing: timing,
	})
	k.Set(dictionary.Settings{Use: true, Engine: gozstd.New().(codec.DictionaryEngine), Level: codec.Fast})
	return k
}

// adopt has a keeper put a dictionary of a seed into use, and returns its number.
func (q *queue) adopt(k *dictionary.Keeper, seed uint64) uint32 {
	q.Helper()
	content, _, err := zstddict.Train(codectest.Orders(seed, 300, 300), zstddict.MinSize)
	if err != nil {
		q.Fatal(err)
	}
	number, err := zstddict.Number(content)
	if err == nil {
		err = k.Adopt(q.Context(), &wirev1.QueueDictionary{Number: number}, content)
	}
	if err != nil {
		q.Fatal(err)
	}
	return number
}

// TestReplacedTwice: a member that did not come to use the next dictionary stops using the one before when that is
// replaced as well: others may take it for unused.
func TestReplacedTwice(t *testing.T) {
	q := newQueue(t)
	k := q.still(func(t *dictionary.Timing) { t.Lease = time.Hour })
	first := q.adopt(k, 1)
	if err := k.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := k.Current(); d == nil || d.Number != first {
		t.Fatalf("in use: %v", d)
	}
	k.Settle(time.Hour)
	q.adopt(k, 2)
	if d := k.Current(); d == nil || d.Number != first {
		t.Fatalf("while members hear of the second: %v", d)
	}
	q.adopt(k, 3)
	if d := k.Current(); d != nil {
		t.Errorf("dictionary %d is in use, which was replaced twice", d.Number)
	}
}

// TestUsedAgain: what is known of a dictionary that is not in use is forgotten when another member puts it into use
// once more.
func TestUsedAgain(t *testing.T) {
	q := newQueue(t)
	one, two := q.still(func(*dictionary.Timing) {}), q.still(func(*dictionary.Timing) {})
	number := q.adopt(one, 1)
	q.adopt(one, 2)
	retire := func(times int) {
		t.Helper()
		for range times {
			if err := one.Retire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	retire(2) // It is noted that no message refers to it.
	if again := q.adopt(two, 1); again != number {
		t.Fatalf("trained %d and then %d on the same messages", number, again)
	}
	ack, err := q.js.Publish(t.Context(), "orders.new", []byte("stands for one that refers to it"))
	if err != nil {
		t.Fatal(err)
	}
	q.adopt(two, 2)
	retire(9)
	if err := two.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := two.Dictionary(number); err != nil {
		t.Fatalf("it is gone while a message may refer to it: %v", err)
	}
	stream, err := q.js.Stream(t.Context(), storetest.Queue)
	if err == nil {
		err = stream.DeleteMsg(t.Context(), ack.Sequence)
	}
	if err != nil {
		t.Fatal(err)
	}
	retire(9)
	if err := two.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := two.Dictionary(number); !errors.Is(err, message.ErrDictionary) {
		t.Errorf("it is kept while no message refers to it: %v", err)
	}
}
