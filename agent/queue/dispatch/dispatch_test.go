// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/dispatch"
	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/store"
	"github.com/lighterage/lighterage/agent/queue/store/storetest"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

const (
	// long is a time that does not pass in a test.
	long = time.Hour
	// soon bounds waiting for what has to come.
	soon = 2 * time.Minute

	done    = messagesv1.ReceiptResult_RECEIPT_RESULT_DONE
	expired = messagesv1.ReceiptResult_RECEIPT_RESULT_EXPIRED
	invalid = messagesv1.ReceiptResult_RECEIPT_RESULT_INVALID
	unknown = messagesv1.ReceiptResult_RECEIPT_RESULT_UNKNOWN
)

// queue is a store with a hub.
type queue struct {
	*testing.T
	store *store.Store
	conn  *nats.Conn
	js    jetstream.JetStream
	hub   *dispatch.Hub
	// stop ends hub and store.
	stop func()
}

type config struct {
	directory string
	settings  store.Settings
	options   dispatch.Options
}

func start(t *testing.T, c config) *queue {
	t.Helper()
	q := &queue{T: t}
	q.store, q.conn, q.js = storetest.Open(
		t, store.Options{Directory: c.directory, MaxPayload: 8 << 20, Capacity: 1 << 30}, c.settings,
	)
	stopHub := q.newHub(c)
	var once sync.Once
	q.stop = func() {
		once.Do(func() {
			stopHub()
			q.conn.Close()
			q.store.Shutdown()
		})
	}
	t.Cleanup(q.stop)
	return q
}

// newHub starts a hub for the store and makes it the queue's.
func (q *queue) newHub(c config) (stop func()) {
	q.Helper()
	o := c.options
	o.Conn, o.Queue, o.MaxPayload = q.conn, "orders", cmp.Or(o.MaxPayload, 8<<20)
	if o.Leads == nil {
		o.Leads = q.store.Leader
	}
	if o.Patience == 0 {
		o.Patience = soon
	}
	o.EnsureLeases = func(ctx context.Context) error { return q.store.EnsureLeases(ctx, q.conn, c.settings) }
	q.hub = dispatch.New(o)
	return run(q.T, q.hub)
}

func run(t *testing.T, h *dispatch.Hub) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func (q *queue) put(key string, texts ...string) {
	q.Helper()
	for _, text := range texts {
		m := nats.NewMsg("orders")
		m.Data = []byte(text)
		if key != "" {
			m.Header.Set(envelope.KeyHeader, key)
		}
		// A member that is told to end, or loses an election, takes with it what it was asked: each try has a bound of
		// its own.
		deadline := time.Now().Add(soon)
		for bound := 5 * time.Second; ; bound *= 2 {
			ctx, stop := context.WithTimeout(q.Context(), bound)
			_, err := q.js.PublishMsg(ctx, m, jetstream.WithMsgID(text))
			stop()
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				q.Fatal(err)
			}
		}
	}
}

type got []*messagesv1.ReceivedMessage

func (g got) texts() []string {
	out := make([]string, len(g))
	for i, m := range g {
		out[i] = string(m.GetMessage().GetPayload())
	}
	return out
}

func (g got) receipts() []string {
	out := make([]string, len(g))
	for i, m := range g {
		out[i] = m.GetReceipt()
	}
	return out
}

func (q *queue) get(count int, visibility, wait time.Duration, dead bool) got {
	q.Helper()
	out, err := q.hub.Get(q.Context(), count, visibility, wait, dead)
	if err != nil {
		q.Fatal(err)
	}
	return out
}

// expect gets until so many messages came, and says which.
func (q *queue) expect(visibility time.Duration, want ...string) got {
	q.Helper()
	return q.expectFrom(false, visibility, want...)
}

func (q *queue) expectFrom(dead bool, visibility time.Duration, want ...string) got {
	q.Helper()
	var out got
	for len(out) < len(want) {
		more := q.get(len(want)-len(out), visibility, soon, dead)
		if len(more) == 0 {
			q.Fatalf("got %q and no more, want %q", out.texts(), want)
		}
		out = append(out, more...)
	}
	if texts := out.texts(); !slices.Equal(texts, want) {
		q.Fatalf("got %q, want %q", texts, want)
	}
	return out
}

// none expects that nothing can be got. All that was put has been seen before: the
// dispatcher holds it.
func (q *queue) none() {
	q.Helper()
	if more := q.get(10, long, 0, false); len(more) > 0 {
		q.Fatalf("got %q, which cannot be got now", more.texts())
	}
}

func (q *queue) results(got []messagesv1.ReceiptResult, want ...messagesv1.ReceiptResult) {
	q.Helper()
	if !slices.Equal(got, want) {
		q.Fatalf("%v, want %v", got, want)
	}
}

// statistics waits until they are as they should be.
func (q *queue) await(messages, dead uint64) {
	q.Helper()
	deadline := time.Now().Add(soon)
	for {
		s, err := q.store.Statistics(q.Context(), q.conn)
		if err == nil && s.Messages == messages && s.DeadLetters == dead {
			return
		}
		if time.Now().After(deadline) {
			q.Fatalf("%+v, %v; want %d messages and %d dead letters", s, err, messages, dead)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestAcknowledge(t *testing.T) {
	t.Parallel()
	q := start(t, config{})
	q.put("", "a", "b", "c")
	first := q.expect(long, "a", "b", "c")
	for i, m := range first {
		if m.GetDeliveries() != 1 || m.GetSequence() != uint64(i+1) ||
			m.GetMessage().GetId() != string(m.GetMessage().GetPayload()) || m.GetPutTime() == nil {
			t.Errorf("message %d: %v", i, m)
		}
	}
	q.none()
	r := first.receipts()
	q.results(q.hub.Acknowledge(t.Context(), []string{r[0], "nonsense", r[1]}), done, invalid, done)
	q.results(q.hub.Acknowledge(t.Context(), []string{r[0]}), done)
	q.results(q.hub.Reject(t.Context(), []string{r[0]}, ""), expired)
	q.results(q.hub.Release(t.Context(), []string{r[0]}, 0), expired)
	q.await(1, 0)
	q.results(q.hub.Release(t.Context(), []string{r[2]}, 0), done)
	again := q.expect(long, "c")
	if again[0].GetDeliveries() != 2 {
		t.Errorf("second time: %v", again)
	}
	q.results(q.hub.Acknowledge(t.Context(), []string{r[2]}), expired)
	q.results(q.hub.Acknowledge(t.Context(), again.receipts()), done)
	q.await(0, 0)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	q := start(t, config{})
	q.put("x", "x1", "x2", "x3")
	q.put("y", "y1")
	q.put("", "z")
	first := q.expect(long, "x1", "y1", "z")
	q.none()
	q.results(q.hub.Acknowledge(t.Context(), first.receipts()[1:]), done, done)
	q.none()
	// What is given back comes before what is behind it.
	q.results(q.hub.Release(t.Context(), first.receipts()[:1], 0), done)
	second := q.expect(long, "x1")
	q.results(q.hub.Release(t.Context(), second.receipts(), long), done)
	q.none() // x2 and x3 wait for the delayed x1
	q.results(q.hub.Release(t.Context(), second.receipts(), 0), expired)
}

func TestVisibility(t *testing.T) {
	t.Parallel()
	q := start(t, config{})
	q.put("x", "x1", "x2")
	q.expect(time.Millisecond, "x1")
	again := q.expect(long, "x1")
	if again[0].GetDeliveries() < 2 {
		t.Errorf("after its time-out: %v", again)
	}
	q.results(q.hub.Extend(t.Context(), again.receipts(), time.Millisecond), done)
	third := q.expect(long, "x1")
	q.results(q.hub.Extend(t.Context(), again.receipts(), long), expired)
	q.results(q.hub.Acknowledge(t.Context(), third.receipts()), done)
	q.expect(long, "x2")
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	q := start(t, config{options: dispatch.Options{MaxDeliveries: 2}})
	q.put("x", "poison", "good", "bad")
	for range 2 {
		q.results(q.hub.Release(t.Context(), q.expect(long, "poison").receipts(), 0), done)
	}
	good := q.expect(long, "good")
	q.await(2, 1)
	q.results(q.hub.Acknowledge(t.Context(), good.receipts()), done)
	q.results(q.hub.Reject(t.Context(), q.expect(long, "bad").receipts(), "no such account"), done)
	q.await(0, 2)
	dead := q.expectFrom(true, long, "poison")
	if d := dead[0].GetDeadLetter(); d.GetReason() != envelope.MaxDeliveries || d.GetDeliveries() != 2 ||
		d.GetSequence() != 1 || dead[0].GetMessage().GetId() != "poison" {
		t.Errorf("%v", dead)
	}
	q.results(q.hub.Acknowledge(t.Context(), dead.receipts()), done)
	rejected := q.expectFrom(true, long, "bad")
	if d := rejected[0].GetDeadLetter(); d.GetReason() != envelope.Rejected || d.GetDetail() != "no such account" ||
		d.GetSequence() != 3 {
		t.Errorf("%v", rejected)
	}
	// A dead letter does not become one again, however often it is got.
	for range 3 {
		q.results(q.hub.Reject(t.Context(), rejected.receipts(), ""), done)
		rejected = q.expectFrom(true, long, "bad")
	}
	q.await(0, 1)
}

// keeper knows of every id that it was given.
type keeper struct {
	ids.Keeper
	mu    sync.Mutex
	known map[string]uint64
}

func (k *keeper) Given(messages []ids.Message) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range messages {
		k.known[string(m.ID)] = m.Sequence
	}
	return nil
}

func (k *keeper) Any() bool { return true }

func (k *keeper) Sequence(id []byte) (uint64, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sequence, ok := k.known[string(id)]
	return sequence, ok
}

// TestDeadOnce: who was killed between the two steps of a move does it again, and the dead letter that was read in
// between is not there again, though the server has forgotten its id.
func TestDeadOnce(t *testing.T) {
	t.Parallel()
	k := &keeper{known: make(map[string]uint64)}
	q := start(t, config{options: dispatch.Options{IDs: k}})
	q.put("", "first", "second")
	got := q.expect(long, "first", "second")
	q.results(q.hub.Reject(t.Context(), got.receipts()[:1], ""), done)
	q.results(q.hub.Acknowledge(t.Context(), q.expectFrom(true, long, "first").receipts()), done)
	q.await(1, 0)
	// What became of the first is known of the second: that is what is left when the server is gone between the steps.
	sequence, ok := k.Sequence([]byte(envelope.DeadIDPrefix + "1"))
	if !ok {
		t.Fatalf("the id of the dead letter is not known: %v", k.known)
	}
	if err := k.Given([]ids.Message{{ID: []byte(envelope.DeadIDPrefix + "2"), Sequence: sequence}}); err != nil {
		t.Fatal(err)
	}
	q.results(q.hub.Reject(t.Context(), got.receipts()[1:], ""), done)
	q.await(0, 0)
}

// TestNoRoomForDeadLetters: a full queue gives poison out again and loses nothing.
func TestNoRoomForDeadLetters(t *testing.T) {
	t.Parallel()
	q := start(t, config{settings: store.Settings{MaxMessages: 1}, options: dispatch.Options{MaxDeliveries: 1}})
	q.put("", "poison")
	for range 3 {
		q.results(q.hub.Release(t.Context(), q.expect(long, "poison").receipts(), 0), done)
	}
	m := q.expect(long, "poison")
	ctx, stop := context.WithCancel(t.Context())
	go stop() // it is tried until there is space
	q.results(q.hub.Reject(ctx, m.receipts(), ""), unknown)
	q.await(1, 0)
}

func TestRestart(t *testing.T) {
	t.Parallel()
	c := config{directory: t.TempDir()}
	q := start(t, c)
	q.put("x", "x1", "x2")
	q.put("", "a", "b")
	first := q.expect(long, "x1", "a", "b")
	q.results(q.hub.Release(t.Context(), first.receipts()[2:], 0), done)
	q.stop()

	q = start(t, c)
	second := q.expect(long, "b")
	if second[0].GetDeliveries() != 2 {
		t.Errorf("deliveries were forgotten: %v", second)
	}
	q.none()
	q.results(q.hub.Acknowledge(t.Context(), first.receipts()), done, done, expired)
	q.expect(long, "x2")
	q.await(2, 0)
}

func TestLongPoll(t *testing.T) {
	t.Parallel()
	q := start(t, config{})
	arrived := make(chan got, 1)
	go func() {
		out, err := q.hub.Get(t.Context(), 5, long, soon, false)
		if err != nil {
			t.Error(err)
		}
		arrived <- out
	}()
	q.put("", "a")
	if out := <-arrived; len(out) != 1 {
		t.Errorf("%v", out)
	}
	// Who goes away takes nothing.
	ctx, stop := context.WithCancel(t.Context())
	go stop()
	if out, err := q.hub.Get(ctx, 1, long, soon, false); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", out, err)
	}
	q.put("", "b")
	q.expect(long, "b")
}

// TestOneReader: a work queue is read by the service or by others, and by others again
// after nobody asked for a while.
func TestOneReader(t *testing.T) {
	t.Parallel()
	q := start(t, config{options: dispatch.Options{Idle: time.Millisecond}})
	other := jetstream.ConsumerConfig{Durable: "clerk", FilterSubjects: store.Subjects("orders")}
	if _, err := q.js.CreateConsumer(t.Context(), "orders", other); err != nil {
		t.Fatal(err)
	}
	if _, err := q.hub.Get(t.Context(), 1, long, 0, false); !errors.Is(err, dispatch.ErrTaken) {
		t.Errorf("beside another consumer: %v", err)
	}
	if err := q.js.DeleteConsumer(t.Context(), "orders", "clerk"); err != nil {
		t.Fatal(err)
	}
	q.put("", "a")
	m := q.expect(long, "a")
	if _, err := q.js.CreateConsumer(t.Context(), "orders", other); err == nil {
		t.Error("a second reader while a client has a message")
	}
	q.results(q.hub.Acknowledge(t.Context(), m.receipts()), done)
	deadline := time.Now().Add(soon)
	for {
		_, err := q.js.CreateConsumer(t.Context(), "orders", other)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestForwards: where a channel takes the messages, gets are refused and end, and the consumer with them, but dead
// letters are given out.
func TestForwards(t *testing.T) {
	t.Parallel()
	q := start(t, config{})
	q.put("", "a")
	q.put("", "b")
	m := q.expect(long, "a")
	q.results(q.hub.Reject(t.Context(), m.receipts(), "unreadable"), done)
	m = q.expect(long, "b")
	q.hub.SetForwards(true)
	deadline := time.Now().Add(soon)
	for {
		_, err := q.js.CreateConsumer(
			t.Context(), "orders", jetstream.ConsumerConfig{Durable: "channel", FilterSubjects: store.Subjects("orders")},
		)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := q.js.DeleteConsumer(t.Context(), "orders", "channel"); err != nil {
		t.Fatal(err)
	}
	if _, err := q.hub.Get(t.Context(), 1, long, soon, false); !errors.Is(err, dispatch.ErrTaken) {
		t.Errorf("while a channel has no consumer: %v", err)
	}
	q.results(q.hub.Acknowledge(t.Context(), m.receipts()), unknown)
	if dead, err := q.hub.Get(t.Context(), 1, long, soon, true); err != nil || len(dead) != 1 {
		t.Errorf("dead letters: %v, %v", dead, err)
	}
	// When the channel is taken away, the client has what it had.
	q.hub.SetForwards(false)
	q.results(q.hub.Acknowledge(t.Context(), m.receipts()), done)
}
