// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"golang.org/x/sync/semaphore"

	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/jetstreamerror"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/pull"
	"github.com/lighterage/lighterage/agent/queue/store"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

const (
	// windowMessages bounds what is held of a pile: messages that are with clients, or ready, or
	// behind others of their key. See bounds for bytes.
	windowMessages = 4096
	// pullBatch is how many messages are asked for at a time, namesSize how many bytes more than
	// there is space for: JetStream counts subjects and where to reply, too.
	pullBatch = 512
	namesSize = 8 << 10
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
	ErrTaken = errors.New(
		"the queue's messages are read by a consumer of NATS or a channel, and a queue has one reader: remove that one, or " +
			"read through it",
	)
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
	bounds   bounds
	js       jetstream.JetStream
	log      *slog.Logger
	name     string   // of the consumer
	requests chan any // *waiter, *cancel, *change, *looked, *buried, *settled or *unburied
	// ended is closed after failure was set. lasting ends then, by stop.
	ended   chan struct{}
	failure error
	lasting context.Context //nolint:containedctx // What was begun is ended, whoever asked.
	stop    context.CancelFunc

	window   *window
	leases   leaseLog
	former   map[uint64]lease // of messages that were not delivered yet
	departed *departures
	highest  uint64 // sequence delivered
	pull     *pull.Puller
	// subscription puts into letters what the consumer delivers; heard is when it was heard last.
	subscription *nats.Subscription
	letters      chan *nats.Msg
	heard        time.Time
	// delivered says that all were that the queue had at the start, which takes as many deliveries as expected. filled
	// says that the window has, or had once, what the queue has, as far as there is space. It counts as filled at fillBy
	// in any case.
	delivered bool
	filled    bool
	fillBy    time.Time
	expected  uint64
	waiting   []*waiter
	active    time.Time
	moving    int
	// broken is why the dispatcher has to end.
	broken error
	// dirty are leases that have changed and are not written yet, departing messages that are
	// gone by what is not written yet.
	dirty     map[uint64]lease
	departing []departure
	// given are messages whose ids are to be written too.
	given []ids.Message
	// rereading is about payloads that were forgotten, and rereads has as many bytes as may be read for another reason
	// than to be given out.
	rereading rereading
	rereads   *semaphore.Weighted
	// answers are given when they are written.
	answers []func()
	// granted are receipts in answers that were not given yet, and useful says that some were.
	granted []string
	useful  bool
	// held and again are counts for who asks: messages that are with clients or were given back for later, and those of
	// them that were given out before.
	held, again atomic.Int64
}

// waiter is a get.
type waiter struct {
	messages   int
	visibility time.Duration
	reply      chan granted
	done       bool
	// late says that its time is over and it waits only for the window to be filled.
	late bool
}

type granted struct {
	messages []*messagesv1.ReceivedMessage
	err      error
}

// cancel ends a waiter, which is answered in any case: at once if it has left, else when the
// window was filled.
type cancel struct {
	waiter *waiter
	left   bool
}

func (h *Hub) newDispatcher(p pile) *dispatcher {
	d := &dispatcher{
		piled: pileOf(h.options.Queue, p), hub: h, bounds: h.bounds.of(p), log: h.options.Log.With("pile", p.String()),
		requests: make(chan any, 256), ended: make(chan struct{}),
		window: newWindow(), dirty: make(map[uint64]lease),
	}
	d.rereads = semaphore.NewWeighted(int64(d.bounds.fetch))
	d.lasting, d.stop = context.WithCancel(context.Background())
	return d
}

// run gives out until it is not needed any more, or something fails, or the context ends.
func (d *dispatcher) run(ctx context.Context) (err error) {
	defer func() { d.end(err) }() //nolint:contextcheck // What is given back is so after the end.
	if err := d.prepare(ctx); err != nil {
		return err
	}
	defer d.unsubscribe()
	defer d.removeConsumer(ctx)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	d.active = time.Now()
	d.fillBy = d.active.Add(d.hub.options.Fill)
	for {
		now := time.Now()
		if err := d.turn(ctx, now); err != nil {
			return err
		}
		if next := d.soonest(now); !next.IsZero() {
			alarm.Reset(max(next.Sub(now), 0))
		}
		select {
		case <-ctx.Done():
			return nil
		case m := <-d.letters:
			err = d.deliver(m) //nolint:contextcheck // What was begun is ended, whoever asked.
		case r := <-d.requests:
			d.request(r, time.Now()) //nolint:contextcheck // What was begun is ended, whoever asked.
		case <-alarm.C:
		case <-ticker.C:
			switch now := time.Now(); {
			case d.forwarded():
				err = ErrTaken
			case d.pull.Asked() && now.Sub(d.heard) > pull.Silence:
				err = fmt.Errorf("%w: nothing was heard of it", pull.ErrConsumer)
			case d.idle(now):
				return nil
			}
			d.count(time.Now())
		}
		// What has come meanwhile is done together, with one write.
		for range cap(d.requests) {
			if err != nil {
				return err
			}
			select {
			case m := <-d.letters:
				err = d.deliver(m) //nolint:contextcheck // What was begun is ended, whoever asked.
			case r := <-d.requests:
				d.request(r, time.Now()) //nolint:contextcheck // What was begun is ended, whoever asked.
			default:
			}
			if len(d.letters) == 0 && len(d.requests) == 0 {
				break
			}
		}
		if err := cmp.Or(err, d.broken); err != nil {
			return err
		}
	}
}

// prepare reads who has which message and makes the consumer again.
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
	d.leases = leaseLog{
		js: d.js, stream: store.LeaseStream(o.Queue), subject: store.LeaseSubject(o.Queue, d.pile.String()),
	}
	if d.former, d.departed, err = d.leases.load(ctx, d.log); err != nil {
		return err
	}
	// Who wrote before learns by this that it is over, before anything is given out again.
	if err := d.leases.write(ctx, record{}, d.all); err != nil {
		return err
	}
	asking, stop := context.WithTimeout(ctx, writeTimeout)
	defer stop()
	if err := removeConsumers(asking, d.js, o.Queue, d.consumer); err != nil {
		return err
	}
	// With a name of its own nothing that was meant for the one before reaches this one.
	d.name = d.consumer + "-" + nuid.Next()
	config := jetstream.ConsumerConfig{
		Durable: d.name, Description: "Clients of gRPC and HTTP", FilterSubjects: d.subjects,
		AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverAllPolicy, AckWait: acknowledgeAfter,
		MaxDeliver: -1, MaxAckPending: windowMessages, MaxWaiting: 16, MemoryStorage: true,
	}
	consumer, err := d.js.CreateConsumer(asking, o.Queue, config)
	if jetstreamerror.OtherConsumer(err) {
		return d.whoReads(asking)
	}
	if err != nil {
		return fmt.Errorf("make a consumer: %w", err)
	}
	d.expected = consumer.CachedInfo().NumPending
	d.delivered = d.expected == 0
	return d.subscribe()
}

func (d *dispatcher) subscribe() (err error) {
	o := d.hub.options
	d.pull = pull.New(o.Conn, o.Queue, d.name)
	d.letters = make(chan *nats.Msg, 2*windowMessages) // it has space for all that can come
	if d.subscription, err = o.Conn.ChanSubscribe(d.pull.Inbox(), d.letters); err != nil {
		return fmt.Errorf("ask the queue for messages: %w", err)
	}
	return nil
}

func (d *dispatcher) unsubscribe() { _ = d.subscription.Unsubscribe() } // fails only when the connection is closed

// whoReads returns ErrTaken if others read what this one would, and another error if those
// are dispatchers of members that think they lead, of which all but one end soon.
func (d *dispatcher) whoReads(ctx context.Context) error {
	stream, err := d.js.Stream(ctx, d.hub.options.Queue)
	if err != nil {
		return fmt.Errorf("look who reads the queue: %w", err)
	}
	consumers := stream.ListConsumers(ctx)
	taken := false
	for c := range consumers.Info() {
		taken = taken || !store.Serves(c.Name) && d.reads(c.Config)
	}
	switch {
	case taken:
		return ErrTaken
	case consumers.Err() != nil:
		return fmt.Errorf("look who reads the queue: %w", consumers.Err())
	default:
		return fmt.Errorf("%w: another member took its place", pull.ErrConsumer)
	}
}

// reads reports whether a consumer gets messages of the pile.
func (d *dispatcher) reads(c jetstream.ConsumerConfig) bool {
	filters := c.FilterSubjects
	if c.FilterSubject != "" {
		filters = []string{c.FilterSubject}
	}
	return len(filters) == 0 || slices.ContainsFunc(filters, func(filter string) bool {
		return slices.ContainsFunc(d.subjects, func(subject string) bool { return server.SubjectsCollide(filter, subject) })
	})
}

// forwarded reports whether the pile is for a channel alone.
func (d *dispatcher) forwarded() bool { return d.pile == messages && d.hub.forwards.Load() }

// removeConsumer lets others read the queue.
func (d *dispatcher) removeConsumer(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer stop()
	// Without success the next dispatcher removes it, or the hub.
	if err := d.js.DeleteConsumer(ctx, d.hub.options.Queue, d.name); err != nil &&
		!errors.Is(err, jetstream.ErrConsumerNotFound) {
		d.log.Warn("Consumer cannot be removed yet", "consumer", d.name, "error", err.Error())
	}
}

// removeConsumers removes those that former dispatchers left.
func removeConsumers(ctx context.Context, js jetstream.JetStream, queue, prefix string) error {
	stream, names, err := leftConsumers(ctx, js, queue, prefix)
	if err != nil {
		return err
	}
	return endConsumers(ctx, stream, names)
}

// leftConsumers lists those whose names begin so.
func leftConsumers(
	ctx context.Context, js jetstream.JetStream, queue, prefix string,
) (jetstream.Stream, []string, error) {
	stream, err := js.Stream(ctx, queue)
	if err != nil {
		return nil, nil, fmt.Errorf("list the consumers of the queue: %w", err)
	}
	var left []string
	names := stream.ConsumerNames(ctx)
	for name := range names.Name() {
		if strings.HasPrefix(name, prefix+"-") {
			left = append(left, name)
		}
	}
	if err := names.Err(); err != nil {
		return nil, nil, fmt.Errorf("list the consumers of the queue: %w", err)
	}
	return stream, left, nil
}

func endConsumers(ctx context.Context, stream jetstream.Stream, names []string) error {
	for _, name := range names {
		if err := stream.DeleteConsumer(ctx, name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return fmt.Errorf("end the consumer before: %w", err)
		}
	}
	return nil
}

// end tells all that wait to go elsewhere.
func (d *dispatcher) end(err error) {
	d.failure = err
	d.hub.ended(d)
	close(d.ended)
	d.stop()
}

// idle reports whether nobody has needed the dispatcher for a while.
func (d *dispatcher) idle(now time.Time) bool {
	if len(d.waiting) > 0 || len(d.window.held) > 0 || d.moving > 0 {
		d.active = now
		return false
	}
	return now.Sub(d.active) >= d.hub.options.Idle
}

// changed notes that a lease has to be written.
func (d *dispatcher) changed(e *entry) { d.dirty[e.sequence] = leaseOf(e) }

// depart notes that a message is given to nobody any more, which has to be written before it
// is removed.
func (d *dispatcher) depart(e *entry, dead bool) {
	x := departure{Sequence: e.sequence, Put: e.put.UnixNano(), Nonce: e.nonce, Dead: dead}
	d.departed.add(x)
	d.departing = append(d.departing, x)
}

// deliver takes over what the consumer says.
func (d *dispatcher) deliver(m *nats.Msg) error {
	now := time.Now()
	d.heard = now
	at, err := d.pull.Take(m)
	if err != nil || at == nil {
		return err
	}
	sequence := at.Sequence.Stream
	// The header's values are parts of one text, which would stay as long as the key does.
	key := strings.Clone(envelope.Key(m.Header))
	e := &entry{
		sequence: sequence, key: key, message: m, reply: m.Reply, put: at.Timestamp, size: len(m.Data) + headerSize(m.Header),
	}
	e.plain = e.size
	if form, err := message.FormOf(m.Header); err == nil {
		e.plain += form.Length // more than it is by the payload as it is stored
	}
	d.highest = max(d.highest, sequence)
	l, leased := d.former[sequence]
	delete(d.former, sequence)
	if leased && l.of(e.put) {
		e.count, e.nonce = l.Count, l.Nonce
		// No time that a client can have asked for is later, whatever other members' clocks say.
		until := time.UnixMilli(l.Until)
		if latest := now.Add(MaxVisibility); until.After(latest) {
			until = latest
		}
		e.until, e.leased = until, l.Nonce != 0 && until.After(now)
	}
	d.delivered = d.delivered || at.NumPending == 0 || at.Sequence.Consumer >= d.expected
	if !d.departed.has(sequence, e.put) {
		d.window.add(e, now)
		return nil
	}
	// Its removal was not seen by the one before, or was undone by the end of the server.
	d.window.occupy(e)
	d.window.add(e, now)
	d.remove(&settled{entries: []*entry{e}, then: []func(messagesv1.ReceiptResult){func(messagesv1.ReceiptResult) {}}})
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
	space, _ := d.asks(now)
	d.filled = d.filled || d.delivered || space == 0 || now.After(d.fillBy)
	d.window.expire(now)
	d.grant(now) //nolint:contextcheck // What was begun is ended, whoever asked.
	if err := d.write(ctx); err != nil {
		return err // those that wait ask the next dispatcher
	}
	d.useful = d.useful || len(d.answers) > 0
	for _, answer := range d.answers {
		answer()
	}
	d.answers, d.granted = d.answers[:0], d.granted[:0]
	d.fetch(now) //nolint:contextcheck // What was begun is ended, whoever asked.
	return d.ask(now)
}

// write writes what has changed.
func (d *dispatcher) write(ctx context.Context) error {
	if len(d.dirty) > 0 || len(d.departing) > 0 {
		r := record{Departed: d.departing, Leases: make([]lease, 0, len(d.dirty))}
		for _, l := range d.dirty {
			r.Leases = append(r.Leases, l)
		}
		if err := d.leases.write(context.WithoutCancel(ctx), r, d.all); err != nil {
			return err
		}
		clear(d.dirty)
		d.departing = d.departing[:0]
	}
	if len(d.given) > 0 {
		if err := d.hub.options.IDs.Given(d.given); err != nil {
			return fmt.Errorf("remember what is given: %w", err)
		}
		d.given = d.given[:0]
	}
	return nil
}

// count says how many messages are with clients or were given back for later: those take places as well, and gets wait
// for them.
func (d *dispatcher) count(now time.Time) {
	held, again := 0, 0
	note := func(e *entry) {
		if held++; e.count > 1 {
			again++
		}
	}
	for _, e := range d.window.held {
		note(e)
	}
	for _, e := range d.window.timed.all {
		if e.count > 0 && !e.leased && !e.busy && e.until.After(now) {
			note(e)
		}
	}
	d.held.Store(int64(held))
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
		var out []*messagesv1.ReceivedMessage
		nonce := rand.Uint64() | 1 //nolint:gosec // It tells one lease from another; clients of a queue may do all with its messages.
		for bytes := 0; len(out) < w.messages; {
			e := d.window.peek(now)
			if e == nil || len(out) > 0 && bytes+e.plain > answerBytes {
				break
			}
			if limit > 0 && d.pile == messages && e.count >= limit && !e.spared {
				d.bury(e, &messagesv1.DeadLetter{Reason: envelope.MaxDeliveries, Deliveries: e.count},
					func(messagesv1.ReceiptResult) {})
				continue
			}
			bytes += e.plain
			e.spared = false
			d.window.lease(e, nonce, now.Add(w.visibility), now)
			d.changed(e)
			m := received(e, d.pile)
			out = append(out, m)
			d.granted = append(d.granted, m.GetReceipt())
			d.remember(e)
		}
		if len(out) == 0 {
			break
		}
		d.waiting = d.waiting[1:]
		d.active = now
		d.answer(w, granted{messages: out})
	}
	d.waiting = slices.DeleteFunc(d.waiting, func(w *waiter) bool {
		if w.late && d.filled && !w.done {
			d.answer(w, granted{})
		}
		return w.done
	})
}

// remember notes the id of a message that is given. That which a dead letter had as a message was noted before it was
// one; by its own it is found out that the message became one.
func (d *dispatcher) remember(e *entry) {
	id := e.message.Header.Get(nats.MsgIdHdr)
	if d.hub.options.IDs == nil || id == "" {
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
func received(e *entry, p pile) *messagesv1.ReceivedMessage {
	q, dead, damage := envelope.Read(e.message)
	return &messagesv1.ReceivedMessage{
		Message: q, Receipt: receipt{p, e.sequence, e.nonce}.String(), Sequence: e.sequence, PutTime: timestamp(e.put),
		Deliveries: e.count,
		DeadLetter: dead, Damage: damage,
	}
}
