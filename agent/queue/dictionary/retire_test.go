// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dictionary_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/codec/zstddict"
	"github.com/lighterage/lighterage/agent/queue/dictionary"
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
		Ensure: func(ctx context.Context) error { return q.store.EnsureDictionaries(ctx, conn, q.settings) },
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
	if err != nil {
		q.Fatal(err)
	}
	q.answered(func(ctx context.Context) error {
		return k.Adopt(ctx, &wirev1.QueueDictionary{Number: number}, content)
	})
	return number
}

// retire has a keeper look so often that it has deleted what it deletes.
func (q *queue) retire(k *dictionary.Keeper) {
	q.Helper()
	for range 9 {
		if err := k.Retire(q.Context()); err != nil {
			q.Fatal(err)
		}
	}
}

// publish stores what stands for a message that refers to a dictionary, and returns its sequence.
func (q *queue) publish() uint64 {
	q.Helper()
	ack, err := q.js.Publish(q.Context(), "orders.new", nil)
	if err != nil {
		q.Fatal(err)
	}
	return ack.Sequence
}

func (q *queue) remove(sequence uint64) {
	q.Helper()
	stream, err := q.js.Stream(q.Context(), storetest.Queue)
	if err == nil {
		err = stream.DeleteMsg(q.Context(), sequence)
	}
	if err != nil {
		q.Fatal(err)
	}
}

// has reports whether an entry is in the store.
func (q *queue) has(number uint32) bool {
	q.Helper()
	stream, err := q.js.Stream(q.Context(), store.DictionaryStream(storetest.Queue))
	if err == nil {
		subject := store.DictionarySubject(storetest.Queue, strconv.FormatUint(uint64(number), 10))
		_, err = stream.GetLastMsgForSubject(q.Context(), subject)
	}
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		q.Fatal(err)
	}
	return err == nil
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
	one.Set(dictionary.Settings{}) // Otherwise so few are spared.
	number := q.adopt(one, 1)
	q.adopt(one, 2)
	for range 2 { // It is noted that no message refers to it.
		if err := one.Retire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if again := q.adopt(two, 1); again != number {
		t.Fatalf("trained %d and then %d on the same messages", number, again)
	}
	sequence := q.publish()
	q.adopt(two, 2)
	q.retire(one)
	if !q.has(number) {
		t.Fatal("it is gone while a message may refer to it")
	}
	q.remove(sequence)
	q.retire(one)
	if q.has(number) {
		t.Error("it is kept while no message refers to it")
	}
}

// TestSpared: while dictionaries are used, half of what may be kept stays though no message refers to it, for a put
// that was under way for long, and the oldest are deleted first. When they are not used any more, the others are
// deleted as well once all messages have left.
func TestSpared(t *testing.T) {
	q := newQueue(t)
	k := q.still(func(*dictionary.Timing) {})
	var numbers []uint32
	adopt := func(count int) {
		t.Helper()
		for range count {
			numbers = append(numbers, q.adopt(k, uint64(len(numbers)+1)))
		}
		q.retire(k)
	}
	kept := func(when string, want ...uint32) {
		t.Helper()
		for i, number := range numbers {
			if has := q.has(number); has != slices.Contains(want, number) {
				t.Errorf("%s, dictionary %d of %d is there: %v", when, i, len(numbers), has)
			}
		}
	}
	adopt(store.MaxDictionaries / 2)
	kept("with half of them", numbers...)
	late := q.publish()
	adopt(2)
	kept("with more, while there is a message", numbers...)
	q.remove(late)
	q.retire(k)
	kept("with more", numbers[2:]...)
	late = q.publish()
	q.retire(k)
	k.Set(dictionary.Settings{})
	q.retire(k)
	kept("without any in use, while there is a message", numbers[2:]...)
	q.remove(late)
	q.retire(k)
	kept("without any in use", numbers[len(numbers)-1])
}

// TestUnknownCodec: an entry of a codec that this release does not know is left to a newer one.
func TestUnknownCodec(t *testing.T) {
	q := newQueue(t)
	k := q.still(func(*dictionary.Timing) {})
	k.Set(dictionary.Settings{})
	number := q.adopt(k, 1)
	q.adopt(k, 2)
	const unknown = 1 << 16
	entry, err := dictionary.Marshal(&wirev1.QueueDictionary{Number: unknown, Codec: "brotli"}, []byte("of another form"))
	if err != nil {
		t.Fatal(err)
	}
	subject := store.DictionarySubject(storetest.Queue, strconv.Itoa(unknown))
	if _, err := q.js.Publish(t.Context(), subject, entry); err != nil {
		t.Fatal(err)
	}
	q.retire(k)
	if q.has(number) {
		t.Error("one that is known and not needed is kept")
	}
	if !q.has(unknown) {
		t.Error("one that is not known is gone")
	}
}
