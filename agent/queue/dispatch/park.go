// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// Messages behind others of their key cannot be given out for as long as somebody has the first one. So
// that they leave room for others, their payloads are forgotten while there is none, and read anew
// when it is their turn.

const (
	// keptBehind is how many messages of a key are not parked.
	keptBehind = 4
	// fetchAhead is how many of a key are read anew at once, if there is room, and fetchBytes how many bytes of all keys: they are held
	// beside the window, and for a moment in text that is a third longer.
	fetchAhead = 64
	fetchBytes = 16 << 20
	// parkInterval is between two looks for what can be parked, fetchInterval between two tries to read.
	parkInterval  = 20 * time.Millisecond
	fetchInterval = 200 * time.Millisecond
)

// parking is when a dispatcher looked for what can be parked last, and what it is reading anew.
type parking struct {
	parked     time.Time
	fetching   bool
	fetchAfter time.Time
}

// park forgets the payloads of messages behind the first ones of their key, up to a limit of all
// that are parked.
func (w *window) park(keep, limit int) {
	for _, rest := range w.keys {
		for i := len(rest) - 1; i >= keep && !rest[i].parked && w.parked < limit; i-- {
			e := rest[i]
			if e.leased || e.busy || e.count > 0 {
				continue // receipts of it may come
			}
			e.parked, e.message, e.key = true, nil, rest[0].key // the same text, and not one of each
			w.parked++
			w.bytes -= e.size
		}
	}
}

// due returns parked entries that are to be read anew, one at least and no more bytes than are given, and forgets that their keys are
// wanted. Those for which there is no room stay so.
func (w *window) due(ahead, bytes int) (due []*entry) {
	for key := range w.wanted {
		rest := w.keys[key]
		for i, e := range rest[:min(len(rest), ahead)] {
			if !e.parked {
				continue
			}
			if bytes -= e.size; bytes < 0 && len(due) > 0 {
				if i > 0 {
					delete(w.wanted, key) // of which there is something to give out
				}
				return due
			}
			due = append(due, e)
		}
		delete(w.wanted, key)
	}
	return due
}

// unpark takes back a message that was parked.
func (w *window) unpark(e *entry, m *nats.Msg, now time.Time) {
	if e.gone || !e.parked {
		return
	}
	e.parked, e.message = false, m
	w.parked--
	w.bytes += e.size
	w.offer(e, now)
}

// room returns for how many messages and bytes there is room.
func (d *dispatcher) room(now time.Time) (messages, bytes int) {
	left := func() (int, int) {
		return windowMessages - len(d.window.entries) + d.window.parked, windowBytes + d.hub.options.MaxPayload - d.window.bytes
	}
	messages, bytes = left()
	if (messages <= 0 || bytes < d.hub.options.MaxPayload) && now.Sub(d.parking.parked) >= parkInterval {
		d.parking.parked = now
		d.window.park(keptBehind, windowParked)
		messages, bytes = left()
	}
	return messages, bytes
}

// fetched is what became of reading messages anew.
type fetched struct {
	entries  []*entry
	messages []*nats.Msg // nil: it could not be read
	gone     []bool      // it is not in the stream any more
}

// fetch begins to read anew the messages whose turn it is.
func (d *dispatcher) fetch(now time.Time) {
	if len(d.window.wanted) == 0 || d.parking.fetching || now.Before(d.parking.fetchAfter) {
		return
	}
	ahead := fetchAhead
	messages, bytes := d.room(now)
	if messages < fetchAhead || bytes < d.hub.options.MaxPayload {
		ahead = keptBehind
	}
	due := d.window.due(ahead, min(bytes, fetchBytes))
	if len(due) == 0 {
		return
	}
	d.parking.fetching = true
	sequences := make([]uint64, len(due))
	for i, e := range due {
		sequences[i] = e.sequence
	}
	go func() {
		f := &fetched{due, make([]*nats.Msg, len(due)), make([]bool, len(due))}
		var group errgroup.Group
		group.SetLimit(answersAtOnce)
		for i, sequence := range sequences {
			group.Go(func() error {
				f.messages[i], f.gone[i] = d.read(sequence)
				return nil
			})
		}
		_ = group.Wait() // none returns an error
		d.tell(f)
	}()
}

// read reads a message from the stream, of the member that leads it. It reports whether that says that it
// is not there.
func (d *dispatcher) read(sequence uint64) (m *nats.Msg, gone bool) {
	ctx, stop := context.WithTimeout(context.Background(), answerTimeout)
	defer stop()
	response, err := d.hub.options.Conn.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+d.hub.options.Queue, fmt.Appendf(nil, `{"seq":%d}`, sequence))
	if err != nil {
		return nil, false
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string `json:"subject"`
			Header  []byte `json:"hdrs"`
			Data    []byte `json:"data"`
		} `json:"message"`
	}
	if json.Unmarshal(response.Data, &answer) != nil {
		return nil, false
	}
	if answer.Message == nil {
		return nil, answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound
	}
	m = &nats.Msg{Subject: answer.Message.Subject, Data: answer.Message.Data}
	if m.Header, err = nats.DecodeHeadersMsg(answer.Message.Header); err != nil {
		return nil, false
	}
	return m, false
}

// take takes over what was read. What could not be is tried again.
func (d *dispatcher) take(f *fetched, now time.Time) {
	d.parking.fetching = false
	for i, e := range f.entries {
		switch {
		case e.gone:
		case f.messages[i] != nil:
			f.messages[i].Reply = e.reply
			d.window.unpark(e, f.messages[i], now)
		case f.gone[i]:
			// A limit of the queue has dropped it. The server would keep a place for it.
			if err := d.hub.options.Conn.Publish(e.reply, []byte("+ACK")); err != nil {
				d.log.Debug("A message that has gone cannot be acknowledged", "error", err.Error())
			}
			d.window.remove(e, now)
		default:
			d.window.wanted[e.key] = struct{}{}
			d.parking.fetchAfter = now.Add(fetchInterval)
		}
	}
}
