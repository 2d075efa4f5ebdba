// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// windowMessages and windowBytes bound what is held of a pile: messages that are with
	// clients, or ready, or behind others of their key.
	windowMessages = 4096
	windowBytes    = 64 << 20
	// answerBytes bounds what one answer holds, when it is made plain, unless it is one message.
	// Clients of gRPC take 4 MiB if they do not say otherwise.
	answerBytes = 3 << 20
	// maxWaiting is how many gets may wait at once.
	maxWaiting = 4096
	// acknowledgeAfter is after which time JetStream itself would deliver a message again. It
	// never comes to that: the dispatcher decides.
	acknowledgeAfter = 30 * 24 * time.Hour
	// tick is how often the dispatcher looks whether it is needed, and the server there.
	tick = time.Second
)

var (
	errEnded = errors.New("the dispatcher ended")
	// ErrBusy says that too many requests wait.
	ErrBusy = errors.New("too many gets wait for messages: try again later")
	// ErrTaken says that the messages go elsewhere.
	ErrTaken = errors.New("the queue's messages are read by a consumer of NATS or a channel, and a queue has one reader: remove that one, or read through it")
)

// piled is what differs between the dispatchers of a queue.
type piled struct {
	pile     pile
	consumer string
	subjects []string
}

func pileOf(queue string, p pile) piled {
	if p == deadLetters {
		return piled{p, store.DeadConsumer, []string{store.DeadSubject(queue)}}
	}
	return piled{p, store.ServiceConsumer, store.Subjects(queue)}
}

// dispatcher gives out the messages of one pile. Everything but its channels is its loop's
// alone.
type dispatcher struct {
	piled
	hub      *Hub
	js       jetstream.JetStream
	log      *slog.Logger
	name     string   // of the consumer
	requests chan any // *waiter, *cancel, *change, *settled or *unburied
	// ended is closed after failure was set.
	ended   chan struct{}
	failure error

	window  *window
	leases  leaseLog
	former  map[uint64]lease // of messages that were not delivered yet
	highest uint64           // sequence delivered
	pull    *puller
	waiting []*waiter
	active  time.Time
	moving  int
	// dirty are leases that have changed and are not written yet.
	dirty map[uint64]lease
	// given are messages whose ids are to be written too.
	given []ids.Message
	// answers are given when they are written.
	answers []func()
	// held and again are counts for who asks: messages that are with clients, and those of
	// them that were given out before.
	held, again atomic.Int64
}

// waiter is a get.
type waiter struct {
	messages   int
	visibility time.Duration
	reply      chan granted
	done       bool
}

type granted struct {
	messages []*wirev1.ReceivedMessage
	err      error
}

// cancel ends a waiter, which is answered in any case.
type cancel struct{ waiter *waiter }

func (h *Hub) newDispatcher(p pile) *dispatcher {
	return &dispatcher{
		piled: pileOf(h.options.Queue, p), hub: h, log: h.options.Log.With("pile", p.String()), requests: make(chan any, 256), ended: make(chan struct{}),
		window: newWindow(), dirty: make(map[uint64]lease),
	}
}

// run gives out until it is not needed any more, or something fails, or the context ends.
func (d *dispatcher) run(ctx context.Context) (err error) {
	defer func() { d.end(err) }()
	if err := d.prepare(ctx); err != nil {
		return err
	}
	defer d.pull.close()
	defer d.removeConsumer(ctx)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	d.active = time.Now()
	for {
		now := time.Now()
		if err := d.turn(ctx, now); err != nil {
			return err
		}
		if next := d.window.next(); !next.IsZero() {
			alarm.Reset(max(next.Sub(now), 0))
		}
		select {
		case <-ctx.Done():
			return nil
		case m := <-d.pull.letters:
			err = d.deliver(m)
		case r := <-d.requests:
			d.request(r, time.Now()) //nolint:contextcheck // What was begun is ended, whoever asked.
		case <-alarm.C:
		case <-ticker.C:
			if d.forwarded() {
				err = ErrTaken
			} else if d.pull.silent(time.Now()) {
				err = fmt.Errorf("%w: nothing was heard of it", errConsumer)
			} else if d.idle(time.Now()) {
				return nil
			}
			d.count()
		}
		// What has come meanwhile is done together, with one write.
		for range cap(d.requests) {
			if err != nil {
				return err
			}
			select {
			case m := <-d.pull.letters:
				err = d.deliver(m)
			case r := <-d.requests:
				d.request(r, time.Now()) //nolint:contextcheck // What was begun is ended, whoever asked.
			default:
			}
			if len(d.pull.letters) == 0 && len(d.requests) == 0 {
				break
			}
		}
		if err != nil {
			return err
		}
	}
}

// prepare reads who has which message and makes the consumer anew.
func (d *dispatcher) prepare(ctx context.Context) error {
	if d.forwarded() {
		return ErrTaken
	}
	o := d.hub.options
	var err error
	if d.js, err = jetstream.New(o.Conn); err != nil {
		return err
	}
	if err := o.EnsureLeases(ctx); err != nil {
		return err
	}
	d.leases = leaseLog{js: d.js, stream: store.LeaseStream(o.Queue), subject: store.LeaseSubject(o.Queue, d.pile.String())}
	if d.former, err = d.leases.load(ctx, d.log); err != nil {
		return err
	}
	// Who wrote before learns by this that it is over, before anything is given out anew.
	if err := d.leases.write(ctx, nil, d.all); err != nil {
		return err
	}
	asking, stop := context.WithTimeout(ctx, writeTimeout)
	defer stop()
	if err := removeConsumers(asking, d.js, o.Queue, d.consumer); err != nil {
		return err
	}
	// With a name of its own nothing that was meant for the one before reaches this one.
	d.name = d.consumer + "-" + nuid.Next()
	_, err = d.js.CreateConsumer(asking, o.Queue, jetstream.ConsumerConfig{
		Durable: d.name, Description: "Clients of gRPC and HTTP", FilterSubjects: d.subjects,
		AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverAllPolicy, AckWait: acknowledgeAfter,
		MaxDeliver: -1, MaxAckPending: windowMessages, MaxWaiting: 16, MemoryStorage: true,
	})
	var refused *jetstream.APIError
	if errors.As(err, &refused) && (refused.ErrorCode == codeNotUnique || refused.ErrorCode == codeUnfiltered) {
		return ErrTaken
	}
	if err != nil {
		return fmt.Errorf("make a consumer: %w", err)
	}
	d.pull, err = newPuller(o.Conn, o.Queue, d.name)
	return err
}

// Codes of JetStream for consumers that a work queue cannot have beside another.
const (
	codeUnfiltered jetstream.ErrorCode = 10099
	codeNotUnique  jetstream.ErrorCode = 10100
)

// forwarded reports whether the pile is for a channel alone.
func (d *dispatcher) forwarded() bool { return d.pile == messages && d.hub.forwards.Load() }

// removeConsumer lets others read the queue.
func (d *dispatcher) removeConsumer(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer stop()
	// Without success the next dispatcher removes it, or the hub.
	if err := d.js.DeleteConsumer(ctx, d.hub.options.Queue, d.name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		d.log.Warn("Consumer cannot be removed yet", "consumer", d.name, "error", err.Error())
	}
}

// removeConsumers removes those that former dispatchers left.
func removeConsumers(ctx context.Context, js jetstream.JetStream, queue, prefix string) error {
	stream, err := js.Stream(ctx, queue)
	if err != nil {
		return fmt.Errorf("end the consumer before: %w", err)
	}
	names := stream.ConsumerNames(ctx)
	for name := range names.Name() {
		if !strings.HasPrefix(name, prefix+"-") {
			continue
		}
		if err := stream.DeleteConsumer(ctx, name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("end the consumer before: %w", err)
		}
	}
	if err := names.Err(); err != nil {
		return fmt.Errorf("list the consumers of the queue: %w", err)
	}
	return nil
}

// end tells all that wait to go elsewhere.
func (d *dispatcher) end(err error) {
	d.failure = err
	close(d.ended)
}

// idle reports whether nobody has needed the dispatcher for a while.
func (d *dispatcher) idle(now time.Time) bool {
	if len(d.waiting) > 0 || len(d.window.held) > 0 || d.moving > 0 {
		d.active = now
		return false
	}
	return now.Sub(d.active) >= d.hub.options.Idle
}

// all returns the leases that count.
func (d *dispatcher) all() []lease {
	var out []lease
	for sequence, l := range d.former {
		if sequence > d.highest {
			out = append(out, l)
		}
	}
	for _, e := range d.window.entries {
		if e.count > 0 {
			out = append(out, leaseOf(e))
		}
	}
	return out
}

func leaseOf(e *entry) lease {
	l := lease{Sequence: e.sequence, Count: e.count, Nonce: e.nonce}
	if !e.until.IsZero() {
		l.Until = e.until.UnixMilli()
	}
	return l
}

// changed notes that a lease has to be written.
func (d *dispatcher) changed(e *entry) { d.dirty[e.sequence] = leaseOf(e) }

// deliver takes over what the consumer says.
func (d *dispatcher) deliver(m *nats.Msg) error {
	now := time.Now()
	at, err := d.pull.take(m, now)
	if err != nil || at == nil {
		return err
	}
	sequence := at.Sequence.Stream
	e := &entry{sequence: sequence, key: envelope.Key(m.Header), message: m, put: at.Timestamp, size: len(m.Data) + headerSize(m.Header)}
	e.plain = e.size
	if form, err := envelope.FormOf(m.Header); err == nil {
		e.plain += form.Length // more than it is by the payload as it is stored
	}
	d.highest = max(d.highest, sequence)
	if l, ok := d.former[sequence]; ok {
		delete(d.former, sequence)
		e.count, e.nonce = l.Count, l.Nonce
		// No time that a client can have asked for is later, whatever other members' clocks say.
		until := time.UnixMilli(l.Until)
		if latest := now.Add(MaxVisibility); until.After(latest) {
			until = latest
		}
		e.until, e.leased = until, l.Nonce != 0 && until.After(now)
	}
	d.window.add(e, now)
	return nil
}

func headerSize(h nats.Header) int {
	n := 64
	for name, values := range h {
		for _, value := range values {
			n += len(name) + len(value) + 4
		}
	}
	return n
}

// turn gives out what can be, writes what has changed, and answers.
func (d *dispatcher) turn(ctx context.Context, now time.Time) error {
	d.window.expire(now)
	d.grant(now) //nolint:contextcheck // What was begun is ended, whoever asked.
	if len(d.dirty) > 0 {
		changed := make([]lease, 0, len(d.dirty))
		for _, l := range d.dirty {
			changed = append(changed, l)
		}
		if err := d.leases.write(context.WithoutCancel(ctx), changed, d.all); err != nil {
			return err // those that wait ask the next dispatcher
		}
		clear(d.dirty)
	}
	if len(d.given) > 0 {
		if err := d.hub.options.IDs.Given(d.given); err != nil {
			return fmt.Errorf("remember what is given: %w", err)
		}
		d.given = d.given[:0]
	}
	for _, answer := range d.answers {
		answer()
	}
	d.answers = d.answers[:0]
	longest := d.hub.options.MaxPayload
	return d.pull.ask(now, windowMessages-len(d.window.entries), windowBytes+longest-d.window.bytes, longest)
}

// count says how many messages are with clients.
func (d *dispatcher) count() {
	again := 0
	for _, e := range d.window.held {
		if e.count > 1 {
			again++
		}
	}
	d.held.Store(int64(len(d.window.held)))
	d.again.Store(int64(again))
}

// grant gives messages to those that wait, first come, first served.
func (d *dispatcher) grant(now time.Time) {
	limit := d.hub.limits()
	for len(d.waiting) > 0 {
		w := d.waiting[0]
		if w.done {
			d.waiting = d.waiting[1:]
			continue
		}
		var out []*wirev1.ReceivedMessage
		nonce := rand.Uint64() | 1 //nolint:gosec // It tells one lease from another; clients of a queue may do all with its messages.
		for bytes := 0; len(out) < w.messages; {
			e := d.window.peek(now)
			if e == nil || len(out) > 0 && bytes+e.plain > answerBytes {
				break
			}
			if limit > 0 && d.pile == messages && e.count >= limit && !e.spared {
				d.bury(e, &wirev1.DeadLetter{Reason: envelope.MaxDeliveries, Deliveries: e.count}, func(wirev1.ReceiptResult) {})
				continue
			}
			bytes += e.plain
			e.spared = false
			d.window.lease(e, nonce, now.Add(w.visibility), now)
			d.changed(e)
			out = append(out, received(e, d.pile))
			d.remember(e)
		}
		if len(out) == 0 {
			return
		}
		d.waiting = d.waiting[1:]
		d.active = now
		d.answer(w, granted{messages: out})
	}
	d.waiting = nil
}

// remember notes the id of a message that is given. That of a dead letter was noted before it was one.
func (d *dispatcher) remember(e *entry) {
	id := e.message.Header.Get(nats.MsgIdHdr)
	if d.hub.options.IDs == nil || d.pile != messages || id == "" {
		return
	}
	d.given = append(d.given, ids.Message{ID: []byte(id), Sequence: e.sequence, Stored: e.put})
}

// answer answers a waiter when what was leased is written.
func (d *dispatcher) answer(w *waiter, g granted) {
	w.done = true
	d.answers = append(d.answers, func() { w.reply <- g })
}

// received is what a client gets, as it is stored.
func received(e *entry, p pile) *wirev1.ReceivedMessage {
	q, dead, damage := envelope.Read(e.message)
	return &wirev1.ReceivedMessage{
		Message: q, Receipt: receipt{p, e.sequence, e.nonce}.String(), Sequence: e.sequence, PutTime: timestamp(e.put), Deliveries: e.count,
		DeadLetter: dead, Damage: damage,
	}
}
