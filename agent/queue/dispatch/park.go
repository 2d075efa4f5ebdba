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

// What cannot be given out now leaves space for what can: messages that are with clients, or were given back for later,
// and messages behind others of their key, which somebody may have for long. Their payloads are forgotten while there
// is no space, and read again when they can be given out.
//
// So gets of others wait only while as many messages as there are places were given out before and are in the queue
// still. For bytes they wait at most for as long as the payloads of what was just given out stay: what is left else can
// be given out.

const (
	// keptBehind is how many messages of a key are not parked if that makes space enough. If not, one is.
	keptBehind = 4
	// fetchAhead is how many of a key are read again at once, if there is space.
	fetchAhead = 64
	// fetchMessages is how many of those that were parked are read again at once. More are not read ahead unless twice
	// as many places are left: to make space for others those would be forgotten before they were given out. Others
	// have their places, and as many are read as there is space for in bytes.
	fetchMessages = 512
	// parkInterval is between two looks for what can be forgotten, vainInterval after one that made no space, and
	// fetchInterval between two tries to read.
	parkInterval  = 20 * time.Millisecond
	vainInterval  = 200 * time.Millisecond
	fetchInterval = 200 * time.Millisecond
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

// parking is when a dispatcher may look again for what can be forgotten, whether it is to, how many of a key it kept
// the last time, and what it is reading again.
type parking struct {
	lookAfter  time.Time
	due        bool
	kept       int
	fetching   *fetched
	fetchAfter time.Time
}

// forget forgets the payload of an entry that cannot be given out now. parked says that it takes no place either.
func (w *window) forget(e *entry, parked bool) {
	w.bytes -= e.counted()
	e.away, e.parked, e.message = true, parked, nil
	if parked {
		e.key = w.keys[e.key][0].key // the same text, and not one of each
		w.parked++
	}
	w.bytes += e.counted()
}

// forgetGiven forgets the payloads of messages that are with clients, or may be given out again later, and were given
// out at least that long ago.
func (w *window) forgetGiven(answered time.Duration, now time.Time) {
	for _, e := range w.timed {
		if !e.away && !e.busy && e.until.After(now) && now.Sub(e.given) >= answered {
			w.forget(e, false)
		}
	}
}

// park forgets the payloads of messages behind the first ones of their key, of which at least one is kept.
func (w *window) park(keep int, answered time.Duration, now time.Time) {
	for _, rest := range w.keys {
		for _, e := range rest[min(keep, len(rest)):] {
			switch {
			case e.away || e.busy:
			case !e.leased && e.count == 0:
				w.forget(e, true)
			case now.Sub(e.given) >= answered: // receipts of it may come, so that it keeps its place
				w.forget(e, false)
			}
		}
	}
}

// due returns entries that are to be read again: those that are wanted, oldest first, and the next ones of their keys.
// They have no more bytes than are given, unless it is a single one, and those that were parked take no more than so
// many places. What there is no space for stays wanted.
func (w *window) due(ahead, places, bytes int, now time.Time) (due []*entry) {
	take := func(e *entry) bool {
		if e.size > bytes && len(due) > 0 || e.parked && places <= 0 {
			return false
		}
		if bytes -= e.size; e.parked {
			places--
		}
		due = append(due, e)
		return true
	}
	wanted := make([]*entry, 0, len(w.wanted))
	for sequence, e := range w.wanted {
		if e.gone || e.busy || !e.away || e.until.After(now) || !w.first(e) {
			delete(w.wanted, sequence) // it is offered again when it is its turn
			continue
		}
		wanted = append(wanted, e)
	}
	slices.SortFunc(wanted, func(a, b *entry) int { return cmp.Compare(a.sequence, b.sequence) })
	for i, e := range wanted {
		if e.parked && places <= 0 {
			continue // others have their places still
		}
		if !take(e) {
			wanted = wanted[:i]
			break
		}
		delete(w.wanted, e.sequence)
	}
	for _, e := range wanted {
		if e.key == "" {
			continue
		}
		rest := w.keys[e.key]
		for _, next := range rest[1:min(len(rest), max(ahead, 1))] {
			if next.parked && !take(next) {
				return due
			}
		}
	}
	return due
}

// restore takes back the payload of a message that was forgotten.
func (w *window) restore(e *entry, m *nats.Msg, now time.Time) {
	if e.gone || !e.away {
		return
	}
	w.bytes -= e.counted()
	if e.parked {
		w.parked--
	}
	e.away, e.parked, e.message = false, false, m
	w.bytes += e.counted()
	w.offer(e, now)
}

// left returns for how many messages and bytes there is space, beside those that are being read again.
func (d *dispatcher) left() (places, bytes int) {
	places = windowMessages - len(d.window.entries) + d.window.parked
	bytes = d.bounds.bytes + d.hub.options.MaxPayload - d.window.bytes
	if f := d.parking.fetching; f != nil {
		places -= f.places
		bytes -= f.bytes
	}
	return places, bytes
}

// space returns the same, and makes space where there is none.
func (d *dispatcher) space(now time.Time) (places, bytes int) {
	longest := d.hub.options.MaxPayload
	places, bytes = d.left()
	short := func() bool { return places <= 0 || bytes < longest }
	d.parking.due = short() && now.Before(d.parking.lookAfter)
	if !short() || d.parking.due {
		return places, bytes
	}
	d.parking.kept = keptBehind
	if bytes < longest {
		d.window.forgetGiven(d.bounds.answered, now)
		places, bytes = d.left()
	}
	for _, keep := range []int{keptBehind, 1} {
		if short() {
			d.parking.kept = keep
			d.window.park(keep, d.bounds.answered, now)
			places, bytes = d.left()
		}
	}
	d.parking.lookAfter = now.Add(parkInterval)
	if short() {
		d.parking.lookAfter = now.Add(vainInterval)
	}
	return places, bytes
}

// soonest is when there is something to do that nobody asks for; zero: never.
func (d *dispatcher) soonest(now time.Time) time.Time {
	next := d.window.next()
	sooner := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	if d.parking.due {
		sooner(d.parking.lookAfter)
	}
	// Later than that it is not the time that is waited for, but space.
	if retry := d.parking.fetchAfter; len(d.window.wanted) > 0 && retry.After(now) {
		sooner(retry)
	}
	return next
}

// asks returns how many messages and bytes the consumer may be asked for; none where there is no space for a longest
// one.
func (d *dispatcher) asks(now time.Time) (messages, bytes int) {
	longest := d.hub.options.MaxPayload
	places, bytes := d.space(now)
	if bytes < longest {
		return 0, 0
	}
	return max(min(places, d.most-len(d.window.entries), pullBatch), 0), min(bytes, max(d.bounds.pull, longest))
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
	entries []*entry
	// places and bytes that it takes.
	places, bytes int
	messages      []*nats.Msg // nil: it could not be read
	gone          []bool      // it is not in the stream any more
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
	if len(d.window.wanted) == 0 || d.parking.fetching != nil || now.Before(d.parking.fetchAfter) {
		return nil
	}
	longest, most := d.hub.options.MaxPayload, d.bounds.fetch
	places, bytes := d.space(now)
	if bytes < longest {
		return nil // there is enough to be given out, or was just given out
	}
	ahead := fetchAhead
	if places < 2*fetchMessages || bytes < most+longest {
		ahead = d.parking.kept // what comes beyond that would be forgotten
	}
	f := &fetched{entries: d.window.due(ahead, min(places, fetchMessages), min(bytes, max(most, longest)), now)}
	if len(f.entries) == 0 {
		return nil
	}
	for _, e := range f.entries {
		if f.bytes += e.size; e.parked {
			f.places++
		}
	}
	f.messages, f.gone = make([]*nats.Msg, len(f.entries)), make([]bool, len(f.entries))
	d.parking.fetching = f
	return f
}

// take takes over what was read. What could not be is tried again.
func (d *dispatcher) take(f *fetched, now time.Time) {
	d.parking.fetching = nil
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
			d.parking.fetchAfter = now.Add(fetchInterval)
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
