// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/queue/batch"
	"github.com/lighterage/lighterage/agent/queue/classes"
	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/message"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// letter is a message on its way out.
type letter struct {
	sequence uint64
	// reply is where it is acknowledged; empty where Fanout removes it.
	reply string
	// id is what the queue has to know when the message has gone.
	id      ids.Message
	subject string
	headers nats.Header
	payload []byte
	stored  time.Time
	// form of the payload; damage says why it is not known.
	form   message.Form
	damage error

	wire    *wirev1.ChannelMessage
	plain   int
	recoded bool
	// unsendable is why the letter cannot be sent, whatever the other end says; nil: it can.
	unsendable error
}

// recoder puts messages into the form in which they travel.
type recoder struct {
	codec      codec.ID
	level      wirev1.CompressionLevel // UNSPECIFIED when nothing is compressed
	encoding   *message.Encoding       // nil when nothing is compressed
	decoding   *message.Decoding
	classes    *classes.Classes // nil: all messages are compressed
	work       *Work
	stream     string
	maxMessage int
	// suspect is the last message that is looked into though it travels as it is: the other end could not read one up
	// to it.
	suspect uint64
}

// weigh reads the form of a letter's payload and returns how many bytes the payload has while it is recoded. A small
// one may become long.
func (r *recoder) weigh(l *letter) int {
	if l.damage != nil {
		return len(l.payload)
	}
	if l.form, l.damage = message.FormOf(l.headers); r.inflates(l.form) {
		return max(l.form.Length, len(l.payload))
	}
	return len(l.payload)
}

// inflates reports whether payloads of a form do not travel as they are.
func (r *recoder) inflates(f message.Form) bool {
	return !f.Plain() && (f.Codec != r.codec || f.Dictionary != 0)
}

// all fills in what is to be sent of letters that were weighed, on all cores if there is work to do.
func (r *recoder) all(ctx context.Context, letters []*letter) error {
	return inParallel(ctx, len(letters), func(workers int) (func(int) error, func(), error) {
		w := &worker{recoder: r, workers: workers}
		release, err := w.begin()
		return func(i int) error { return w.letter(letters[i]) }, release, err
	})
}

// inParallel calls a function of each of several workers for the indices up to n, as often as there are any. The
// workers are made by begin, which is told how many there are and returns what ends one as well.
func inParallel(ctx context.Context, n int, begin func(workers int) (work func(int) error, end func(), err error)) error {
	const share = 16 // of indices that make a goroutine worth it
	var next atomic.Int64
	workers := min(runtime.GOMAXPROCS(0), (n+share-1)/share)
	group, ctx := errgroup.WithContext(ctx)
	for range workers {
		group.Go(func() error {
			work, end, err := begin(workers)
			if err != nil {
				return err
			}
			defer end()
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := work(i); err != nil {
					return err
				}
			}
			return ctx.Err()
		})
	}
	return group.Wait()
}

// worker recodes one message at a time.
type worker struct {
	*recoder
	workers int              // of the batch
	encoder *message.Encoder // nil when nothing is compressed
	decoder *message.Decoder
}

func (w *worker) begin() (release func(), err error) {
	if w.decoder, err = w.decoding.Decoder(); err != nil {
		return nil, err
	}
	if w.encoding == nil {
		return w.decoder.Release, nil
	}
	if w.encoder, err = w.encoding.Encoder(); err != nil {
		w.decoder.Release()
		return nil, err
	}
	return func() { w.decoder.Release(); w.encoder.Release() }, nil
}

func (w *worker) letter(l *letter) error {
	if l.damage != nil {
		l.unsendable = l.damage
		return nil //nolint:nilerr // The letter has it; the channel goes on.
	}
	l.wire = &wirev1.ChannelMessage{
		Sequence: l.sequence, Suffix: strings.TrimPrefix(l.subject, w.stream),
		Headers: headersToWire(l.headers), TimeToLive: lifeLeft(l.headers, l.stored, time.Now()),
	}
	if l.unsendable = checkFrame(l.wire); l.unsendable != nil {
		return nil //nolint:nilerr // The letter has it; the channel goes on.
	}
	form, payload := l.form, l.payload
	l.plain = len(payload)
	if !form.Plain() {
		l.plain = form.Length
	}
	if l.plain > w.maxMessage {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
			"message %d of the queue has %d bytes and the receiving queue takes at most %d: raise its limits.maxMessageSize",
			l.sequence, l.plain, w.maxMessage)
	}
	if inflates := w.inflates(form); inflates || !form.Plain() && l.sequence <= w.suspect {
		plain, err := w.work.decode(w.decoder, nil, form, payload, w.maxMessage)
		if errors.Is(err, message.ErrCorrupt) {
			l.unsendable = err
			return nil
		}
		if err != nil {
			return w.unreadable(l, err)
		}
		if inflates {
			payload, form, l.recoded = plain, message.Form{}, true
		}
	}
	if choice := w.choose(form, l.subject, payload); form.Plain() && w.encoder != nil && choice.Reason == "" {
		// An engine that fails leaves the message plain.
		packed, as, err := w.encode(choice, payload)
		if err == nil && !as.Plain() {
			payload, form, l.recoded = packed, as, true
		}
	}
	l.wire.Payload = payload
	if !form.Plain() {
		l.wire.Form = &wirev1.ChannelForm{
			Codec: uint32(form.Codec), EngineClass: uint32(form.Class), Length: uint64(form.Length), Checksum: form.Checksum,
		}
	}
	l.headers, l.payload = nil, nil
	return nil
}

// choose decides about a message that has a form when it comes to be compressed.
func (w *worker) choose(form message.Form, subject string, payload []byte) classes.Choice {
	if w.classes == nil || w.encoder == nil || !form.Plain() {
		return classes.Choice{}
	}
	if _, skips := w.encoding.Skips(len(payload)); skips {
		return classes.Choice{}
	}
	choice := w.classes.Choose(w.encoding, []byte(subject), payload)
	choice.Workers = w.workers
	return choice
}

func (w *worker) encode(choice classes.Choice, payload []byte) ([]byte, message.Form, error) {
	return w.work.encode(func() ([]byte, message.Form, meter.Outcome, error) {
		if w.classes == nil {
			return w.encoder.Encode(nil, payload)
		}
		return w.classes.Encode(choice, w.encoder, nil, payload)
	})
}

// unreadable is about this member, not about the message.
func (w *worker) unreadable(l *letter, err error) error {
	var later *message.DictionaryError
	if errors.As(err, &later) {
		return failure.New(
			wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_READABLE, "message %d of the queue cannot be made plain now: %w",
			l.sequence, err,
		)
	}
	return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_READABLE,
		"message %d of the queue cannot be made plain here (%w): use the release of Lighterage that stored it, or a newer "+
			"one",
		l.sequence, err)
}

func isForm(name string) bool {
	return slices.ContainsFunc(message.FormHeaders, func(form string) bool { return strings.EqualFold(name, form) })
}

// headersToWire are those that travel.
func headersToWire(h nats.Header) []*wirev1.ChannelHeader {
	var out []*wirev1.ChannelHeader
	for name, values := range h {
		if name == jetstream.MsgIDHeader {
			name = batch.OriginHeader
		} else if batch.IsControl(name) || isForm(name) || isDead(name) {
			continue
		}
		for _, value := range values {
			out = append(out, &wirev1.ChannelHeader{Name: name, Value: []byte(value)})
		}
	}
	return out
}

// lifeLeft is what is left of a message's own time to live; nil if it has none.
func lifeLeft(h nats.Header, stored, now time.Time) *durationpb.Duration {
	life := batch.LifeLeft(h, stored, now)
	if life == 0 {
		return nil
	}
	return durationpb.New(life)
}
