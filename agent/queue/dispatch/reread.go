// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// Messages that are with clients, were given back for later, or wait behind others of their key keep their places.
// Their payloads are forgotten while there is no space for those of others, and read again when they can be given out.
// So gets wait for bytes at most for as long as the payloads of what was just given out stay: what is left else can be
// given out.

const (
	// forgetInterval is between two looks for what can be forgotten, and fetchInterval between two tries to read.
	forgetInterval = 50 * time.Millisecond
	fetchInterval  = 200 * time.Millisecond
)

// bounds of what a dispatcher holds. In bytes its window has up to bytes, a longest message and what one pull may
// bring.
type bounds struct {
	// bytes of the window. Up to pull, or a longest message, are asked for at a time, and up to fetch, or a longest
	// message, read again at once; for a moment they are there once more, in text that is a third longer.
	bytes, pull, fetch int
	// answered is how long the payload of a message stays after that was given out: until then it is in an answer,
	// which may wait for memory. It is longer than AnswerPatience.
	answered time.Duration
}

var defaultBounds = bounds{bytes: 64 << 20, pull: 16 << 20, fetch: 8 << 20, answered: AnswerPatience + 10*time.Second}

// of returns those for a pile. Few get many dead letters at once.
func (b bounds) of(p pile) bounds {
	if p == deadLetters {
		const less = 4
		b.bytes, b.pull, b.fetch = b.bytes/less, b.pull/less, b.fetch/less
	}
	return b
}

// AnswerPatience is how long who got messages may hold them before their memory is accounted for elsewhere. After it
// the dispatcher soon counts them no more.
const AnswerPatience = 20 * time.Second

// rereading is when a dispatcher may look again for what can be forgotten, whether it waits for that, and what it is
// reading again.
type rereading struct {
	lookAfter  time.Time
	waits      bool
	fetching   *fetched
	fetchAfter time.Time
}

// forget forgets the payloads of messages that cannot be given out now, and of those that were given out only of what
// was at least that long ago.
func (w *window) forget(answered time.Duration, now time.Time) {
	for _, e := range w.entries {
		if e.away || e.busy || now.Sub(e.given) < answered || w.first(e) && !e.until.After(now) {
			continue
		}
		w.bytes -= e.counted()
		e.away, e.message = true, nil
		w.bytes += e.counted()
	}
}

// due returns entries that are to be read again, oldest first. They have no more bytes than are given, unless it is a
// single one. What there is no space for stays wanted.
func (w *window) due(bytes int, now time.Time) (due []*entry) {
	for sequence, e := range w.wanted {
		if e.gone || e.busy || !e.away || e.until.After(now) || !w.first(e) {
			delete(w.wanted, sequence) // it is offered again when it is its turn
			continue
		}
		due = append(due, e)
	}
	slices.SortFunc(due, func(a, b *entry) int { return cmp.Compare(a.sequence, b.sequence) })
	for i, e := range due {
		if bytes -= e.size; bytes < 0 && i > 0 {
			return due[:i]
		}
		delete(w.wanted, e.sequence)
	}
	return due
}

// restore takes back the payload of a message that was forgotten.
func (w *window) restore(e *entry, m *nats.Msg, now time.Time) {
	if e.gone || !e.away {
		return
	}
	w.bytes -= e.counted()
	e.away, e.message = false, m
	w.bytes += e.counted()
	w.offer(e, now)
}

// space returns for how many bytes there is space, beside those that are being read again, and makes some where there
// is none for a longest message.
func (d *dispatcher) space(now time.Time) int {
	longest := d.hub.options.MaxPayload
	left := func() int {
		bytes := d.bounds.bytes + longest - d.window.bytes
		if f := d.rereading.fetching; f != nil {
			bytes -= f.bytes
		}
		return bytes
	}
	if d.rereading.waits = left() < longest && now.Before(d.rereading.lookAfter); left() < longest && !d.rereading.waits {
		d.window.forget(d.bounds.answered, now)
		d.rereading.lookAfter = now.Add(forgetInterval)
	}
	return left()
}

// soonest is when there is something to do that nobody asks for; zero: never.
func (d *dispatcher) soonest(now time.Time) time.Time {
	next := d.window.next()
	sooner := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if d.rereading.waits {
		sooner(d.rereading.lookAfter)
	}
	// Later than that it is not the time that is waited for, but space.
	if retry := d.rereading.fetchAfter; len(d.window.wanted) > 0 && retry.After(now) {
		sooner(retry)
	}
	return next
}

// asks returns how many messages and bytes the consumer may be asked for; none where there is no space for a longest
// one.
func (d *dispatcher) asks(now time.Time) (messages, bytes int) {
	longest := d.hub.options.MaxPayload
	if bytes = d.space(now); bytes < longest {
		return 0, 0
	}
	return min(max(windowMessages-len(d.window.entries), 0), pullBatch), min(bytes, max(d.bounds.pull, longest))
}

// ask asks for messages, if there is space for some and nothing is under way.
func (d *dispatcher) ask(now time.Time) error {
	if d.pull.Asked() {
		return nil
	}
	messages, bytes := d.asks(now)
	if messages == 0 {
		return nil
	}
	d.heard = now
	return d.pull.Ask(messages, bytes+namesSize)
}

// fetched is what is read again, and what became of it.
type fetched struct {
	entries  []*entry
	bytes    int         // that it takes
	messages []*nats.Msg // nil: it could not be read
	gone     []bool      // it is not in the stream any more
}

// fetch begins to read again the messages whose turn it is.
func (d *dispatcher) fetch(now time.Time) {
	f := d.next(now)
	if f == nil {
		return
	}
	sequences := make([]uint64, len(f.entries))
	for i, e := range f.entries {
		sequences[i] = e.sequence
	}
	go func() {
		var group errgroup.Group
		group.SetLimit(answersAtOnce)
		for i, sequence := range sequences {
			group.Go(func() error {
				m, gone := d.read(sequence)
				if f.gone[i] = gone; m != nil {
					f.messages[i] = m.message()
				}
				return nil
			})
		}
		_ = group.Wait() // none returns an error
		d.tell(f)
	}()
}

// next says what is to be read again, as far as there is space; nil: nothing is.
func (d *dispatcher) next(now time.Time) *fetched {
	if len(d.window.wanted) == 0 || d.rereading.fetching != nil || now.Before(d.rereading.fetchAfter) {
		return nil
	}
	longest := d.hub.options.MaxPayload
	bytes := d.space(now)
	if bytes < longest {
		return nil // there is enough to be given out, or was just given out
	}
	f := &fetched{entries: d.window.due(min(bytes, max(d.bounds.fetch, longest)), now)}
	if len(f.entries) == 0 {
		return nil
	}
	for _, e := range f.entries {
		f.bytes += e.size
	}
	f.messages, f.gone = make([]*nats.Msg, len(f.entries)), make([]bool, len(f.entries))
	d.rereading.fetching = f
	return f
}

// take takes over what was read. What could not be is tried again.
func (d *dispatcher) take(f *fetched, now time.Time) {
	d.rereading.fetching = nil
	for i, e := range f.entries {
		switch {
		case e.gone:
		case f.messages[i] != nil:
			f.messages[i].Reply = e.reply
			d.window.restore(e, f.messages[i], now)
		case f.gone[i] && !e.busy: // else it is found out by who removes it
			// A limit of the queue has dropped it. The server would keep a place for it.
			if err := d.hub.options.Conn.Publish(e.reply, []byte("+ACK")); err != nil {
				d.log.Debug("A message that has gone cannot be acknowledged", "error", err.Error())
			}
			d.window.remove(e, now)
		default:
			d.window.offer(e, now)
			d.rereading.fetchAfter = now.Add(fetchInterval)
		}
	}
}

// storedMessage is a message of the stream as JetStream shows it.
type storedMessage struct {
	Subject string    `json:"subject"`
	Header  []byte    `json:"hdrs"`
	Data    []byte    `json:"data"`
	Time    time.Time `json:"time"`
	headers nats.Header
}

// message returns it as a consumer would deliver it, but for where it is acknowledged.
func (m *storedMessage) message() *nats.Msg {
	return &nats.Msg{Subject: m.Subject, Header: m.headers, Data: m.Data}
}

// read reads a message from the stream, of the member that leads it: others, which jetstream.Stream.GetMsg may ask, may
// not know yet what became of it. It returns nil without success, and reports whether the member says that it is not
// there.
func (d *dispatcher) read(sequence uint64) (m *storedMessage, gone bool) {
	ctx, stop := context.WithTimeout(context.Background(), answerTimeout)
	defer stop()
	response, err := d.hub.options.Conn.RequestWithContext(
		ctx, "$JS.API.STREAM.MSG.GET."+d.hub.options.Queue, fmt.Appendf(nil, `{"seq":%d}`, sequence),
	)
	if err != nil {
		return nil, false
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *storedMessage      `json:"message"`
	}
	if json.Unmarshal(response.Data, &answer) != nil {
		return nil, false
	}
	if answer.Message == nil {
		return nil, answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound
	}
	if len(answer.Message.Header) > 0 {
		if answer.Message.headers, err = nats.DecodeHeadersMsg(answer.Message.Header); err != nil {
			return nil, false
		}
	}
	return answer.Message, false
}
