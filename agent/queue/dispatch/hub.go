// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/pull"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

const (
	// MaxBatch is how many messages or receipts one request has at most.
	MaxBatch = 256
	// MaxWait is how long a get waits at most.
	MaxWait = time.Minute
	// MinVisibility and MaxVisibility bound how long a client has a message.
	MinVisibility = time.Second
	// MaxVisibility see MinVisibility.
	MaxVisibility = 12 * time.Hour

	// defaultPatience is how long a request waits for a member that leads.
	defaultPatience = 10 * time.Second
	// defaultFill is shorter than remoteMargin.
	defaultFill = 4 * time.Second
	// retryInterval is between two looks for one, leadInterval between two looks whether this
	// one leads.
	retryInterval = 50 * time.Millisecond
	leadInterval  = 250 * time.Millisecond
	// defaultIdle is how long a dispatcher stays that nobody needs.
	defaultIdle = time.Minute
	// minPause and maxPause are how long no dispatcher begins after another member ended one.
	minPause = 100 * time.Millisecond
	maxPause = 5 * time.Second
)

// ErrUnavailable says that no member gives out messages now. It comes with the reason.
var ErrUnavailable = errors.New("no member of the queue gives out messages now: try again")

// Options of a Hub.
type Options struct {
	// Conn has all rights in the store. Queue is the name of the queue.
	Conn  *nats.Conn
	Queue string
	// Leads reports whether this member leads the stream.
	Leads func() bool
	// IDs of messages are written to it before they are given; nil: they are not kept.
	IDs ids.Keeper
	// Quota of ids that the server remembers, of which each dead letter has one; nil: there is none.
	Quota *ids.Quota
	// Failed reports that the store gave up writing, so that what it confirms may not last. Default: it does not.
	Failed func() error
	// Decoding makes messages plain that refer to a dictionary and are to be dead letters; nil: none do.
	Decoding *message.Decoding
	// EnsureLeases makes the stream for leases if it is not there.
	EnsureLeases func(context.Context) error
	// MaxPayload is the longest message with its headers in bytes, as it is stored.
	MaxPayload int
	// MaxDeliveries after which a message becomes a dead letter; 0: never.
	MaxDeliveries uint32
	// Forwards says that a channel takes the messages; see SetForwards.
	Forwards bool
	// Idle is how long a dispatcher stays that nobody needs, and nobody else reads the queue.
	// Default: a minute.
	Idle time.Duration
	// Patience is how long a request waits for a member that leads. Default: 10 s.
	Patience time.Duration
	// Fill is how long a get beyond its own time waits for a dispatcher that has just begun to
	// see what the queue has. Default: 4 s; with several members not longer, since they wait
	// for an answer by 5 s.
	Fill time.Duration
	Log  *slog.Logger
}

// Hub gives out messages in every member. It is safe for concurrent use.
type Hub struct {
	options       Options
	bounds        bounds
	maxDeliveries atomic.Uint32
	forwards      atomic.Bool

	mu      sync.Mutex
	leading context.Context //nolint:containedctx // Dispatchers last as long as this member leads. nil: it does not.
	running map[pile]*dispatcher
	pauses  map[pile]pause
	// lasting ends with Run, by end; nil: it has ended. Who asked before Run may have gone before it too.
	lasting   context.Context //nolint:containedctx // What is given back lasts longer than who asked for it.
	end       context.CancelFunc
	served    sync.WaitGroup
	returning sync.WaitGroup
	remote    chan struct{} // a place for each request of another member
}

// pause is when a dispatcher may begin again that another member ended: where two think that
// they lead, one has to be able to give out something before the other ends it.
type pause struct {
	until  time.Time
	length time.Duration
}

// New returns a hub that gives out nothing before Run.
func New(o Options) *Hub {
	if o.Idle == 0 {
		o.Idle = defaultIdle
	}
	if o.Patience == 0 {
		o.Patience = defaultPatience
	}
	if o.Fill == 0 {
		o.Fill = defaultFill
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Failed == nil {
		o.Failed = func() error { return nil }
	}
	h := &Hub{
		options: o, bounds: defaultBounds, running: make(map[pile]*dispatcher), pauses: make(map[pile]pause),
		remote: make(chan struct{}, maxWaiting),
	}
	h.lasting, h.end = context.WithCancel(context.Background())
	h.SetMaxDeliveries(o.MaxDeliveries)
	h.SetForwards(o.Forwards)
	return h
}

// SetMaxDeliveries changes it for messages that are given out from then on.
func (h *Hub) SetMaxDeliveries(n uint32) { h.maxDeliveries.Store(n) }

// SetForwards says whether a channel takes the messages. They are given to nobody here then, also while the channel
// has no consumer because the other end cannot be reached: what a client got meanwhile would be missing there, and
// the channel would wait for the client. Dead letters are given out in any case.
func (h *Hub) SetForwards(yes bool) { h.forwards.Store(yes) }

func (h *Hub) limits() uint32 { return h.maxDeliveries.Load() }

// Run gives out messages whenever this member leads, until the context ends. It is called once.
func (h *Hub) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, h.end)()
	defer func() {
		h.end()
		h.mu.Lock()
		h.lasting = nil
		h.mu.Unlock()
		h.returning.Wait()
	}()
	ticker := time.NewTicker(leadInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if h.options.Leads() {
			if err := h.lead(ctx); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	return nil
}

// lead gives out until this member does not lead any more.
func (h *Hub) lead(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	h.mu.Lock()
	h.leading = ctx
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.leading = nil
		clear(h.running)
		h.mu.Unlock()
		stop()
		h.served.Wait()
	}()
	asked, err := h.options.Conn.QueueSubscribe(requestSubject(h.options.Queue, "*"), leadingGroup, func(m *nats.Msg) {
		h.asked(ctx, m)
	})
	if err != nil {
		return fmt.Errorf("listen to other members: %w", err)
	}
	// Of two that think they lead only one is asked, so that none gives out what nobody gets.
	defer func() { _ = asked.Unsubscribe() }() // fails only when the connection is closed
	ticker := time.NewTicker(leadInterval)
	defer ticker.Stop()
	cleaned := false
	for h.options.Leads() {
		cleaned = cleaned || h.clean(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
	return nil
}

// clean removes consumers that a dispatcher left which was killed, so that others can read
// the queue.
//
// Who gets messages does not wait for the server's answers: it is only looked under the lock whether a dispatcher
// began before the consumers were listed, which has removed what was there, and has one of its own now. What begins
// later has one that is not in the list.
func (h *Hub) clean(ctx context.Context) bool {
	js, err := jetstream.New(h.options.Conn)
	if err != nil {
		return false
	}
	ctx, stop := context.WithTimeout(ctx, answerTimeout)
	defer stop()
	for _, p := range []pile{messages, deadLetters} {
		stream, names, listed := leftConsumers(ctx, js, h.options.Queue, pileOf(h.options.Queue, p).consumer)
		err = errors.Join(err, listed)
		if listed == nil && !h.begun(p) {
			err = errors.Join(err, endConsumers(ctx, stream, names))
		}
	}
	return err == nil
}

// begun reports whether there is, or was, a dispatcher of a pile since this member leads.
func (h *Hub) begun(p pile) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running[p] != nil
}

// dispatcher returns the one that gives out a pile; nil: this member does not lead. After an
// error there is one later.
func (h *Hub) dispatcher(p pile) (*dispatcher, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leading == nil {
		return nil, nil //nolint:nilnil // Another member is to be asked, which is no failure.
	}
	if d := h.running[p]; d != nil {
		select {
		case <-d.ended:
		default:
			return d, nil
		}
	}
	if time.Now().Before(h.pauses[p].until) {
		return nil, fmt.Errorf("%w: another member gives out messages", errEnded)
	}
	d := h.newDispatcher(p)
	h.running[p] = d
	ctx := h.leading
	h.served.Go(func() {
		if err := d.run(ctx); err != nil && !errors.Is(err, ErrTaken) {
			d.log.Warn("Delivery of messages restarts with the next request", "error", err.Error())
		}
	})
	return d, nil
}

// ended is told by a dispatcher before others learn that it ended.
func (h *Hub) ended(d *dispatcher) {
	if errors.Is(d.failure, errFenced) || errors.Is(d.failure, pull.ErrConsumer) {
		h.mu.Lock()
		length := minPause
		if before := h.pauses[d.pile].length; before > 0 && !d.useful {
			length = min(2*before, maxPause)
		}
		h.pauses[d.pile] = pause{time.Now().Add(length/2 + rand.N(length/2)), length} //nolint:gosec // It is not secret.
		h.mu.Unlock()
	}
	if !errors.Is(d.failure, errFenced) { // else it was not written
		h.giveBack(d.granted)
	}
}

// giveBack gives back what was given out and nobody heard of, as soon as somebody leads.
func (h *Hub) giveBack(receipts []string) {
	if len(receipts) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx := h.lasting; ctx != nil {
		h.returning.Go(func() { h.change(ctx, change{verb: unget}, receipts) })
	}
}

func receiptsOf(given []*messagesv1.ReceivedMessage) []string {
	receipts := make([]string, len(given))
	for i, m := range given {
		receipts[i] = m.GetReceipt()
	}
	return receipts
}

// Held returns how many messages are with clients or were given back for later, and how many of these were given out
// before, as of a second ago; 0 where this member does not lead, or nobody has needed messages for a while.
func (h *Hub) Held() (held, again int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.running {
		select {
		case <-d.ended:
		default:
			held, again = held+d.held.Load(), again+d.again.Load()
		}
	}
	return held, again
}

// get waits for messages. After errEnded another dispatcher may have some.
func (d *dispatcher) get(
	ctx context.Context, count int, visibility, wait time.Duration,
) ([]*messagesv1.ReceivedMessage, error) {
	w := &waiter{messages: count, visibility: visibility, reply: make(chan granted, 1)}
	if !d.tell(w) {
		return nil, d.gone()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case g := <-w.reply:
			if ctx.Err() != nil { // both came
				w.reply <- g
				continue
			}
			return g.messages, g.err
		case <-d.ended:
			return d.last(w)
		case <-timer.C:
			d.tell(&cancel{waiter: w})
		case <-ctx.Done():
		}
	}
	d.tell(&cancel{waiter: w, left: true})
	var g granted
	select {
	case g = <-w.reply:
	case <-d.ended:
		g.messages, _ = d.last(w)
	}
	d.hub.giveBack(receiptsOf(g.messages)) //nolint:contextcheck // Who asked has gone.
	return nil, ctx.Err()
}

// last returns what a dispatcher gave that has ended since, or why it ended.
func (d *dispatcher) last(w *waiter) ([]*messagesv1.ReceivedMessage, error) {
	select {
	case g := <-w.reply:
		return g.messages, g.err
	default:
		return nil, d.gone()
	}
}

func (d *dispatcher) gone() error {
	if errors.Is(d.failure, ErrTaken) {
		return ErrTaken
	}
	return errors.Join(errEnded, d.failure)
}

// do changes messages that were got.
func (d *dispatcher) do(ctx context.Context, c *change) ([]messagesv1.ReceiptResult, error) {
	c.reply = make(chan []messagesv1.ReceiptResult, 1)
	if !d.tell(c) {
		return nil, d.gone()
	}
	select {
	case results := <-c.reply:
		return results, nil
	case <-d.ended:
		select {
		case results := <-c.reply: // it was said before
			return results, nil
		default:
			return nil, d.gone()
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
