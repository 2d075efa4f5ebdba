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
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
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
	// carried: the payload travels as it rests though it refers to a dictionary, which the other end is sent.
	carried bool

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
	carrier *carrier
}

// weigh reads the form of a letter's payload and returns how many bytes the payload has while it is recoded. A small
// one may become long.
func (r *recoder) weigh(l *letter) int {
	if l.damage != nil {
		return len(l.payload)
	}
	l.form, l.damage = message.FormOf(l.headers)
	l.carried = l.damage == nil && r.carrier.carries(l.sequence, l.form)
	if l.carried || r.inflates(l) {
		// The other end inflates what is carried.
		return max(l.form.Length, len(l.payload))
	}
	return len(l.payload)
}

// inflates reports whether the payload of a letter does not travel as it is.
func (r *recoder) inflates(l *letter) bool {
	return !l.form.Plain() && !l.carried && (l.form.Codec != r.codec || l.form.Dictionary != 0)
}

const (
	// aroundMessage bounds what a batch has around the encoding of each message, in bytes: a tag and a length.
	aroundMessage = 8
	// putTimeBytes bounds the time of a batch: a tag and a length, and a tag and 5 bytes each of seconds and nanoseconds.
	putTimeBytes = 16
)

// encoded is the length in bytes of a letter in a batch at most, and of what the other end inflates of it and keeps.
func (l *letter) encoded() int {
	size := proto.Size(l.wire) + aroundMessage
	if l.carried {
		size += l.plain
	}
	return size
}

// all fills in what is to be sent of letters that were weighed, on all cores if there is work to do.
func (r *recoder) all(ctx context.Context, letters []*letter) error {
	return inParallel(ctx, len(letters), runtime.GOMAXPROCS(0), func(workers int) (func(int) error, func(), error) {
		w := &worker{recoder: r, workers: workers}
		release, err := w.begin()
		return func(i int) error { return w.letter(letters[i]) }, release, err
	})
}

// inParallel calls a function of each of several workers, so many at most, for the indices up to n, as often as there
// are any. The workers are made by begin, which is told how many there are and returns what ends one as well.
func inParallel(
	ctx context.Context, n, most int, begin func(workers int) (work func(int) error, end func(), err error),
) error {
	const share = 16 // of indices that make a goroutine worth it
	var next atomic.Int64
	workers := min(runtime.GOMAXPROCS(0), most, (n+share-1)/share)
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
	workers    int         // of the batch
	compressor *compressor // nil when nothing is compressed
	decoder    *message.Decoder
}

func (w *worker) begin() (release func(), err error) {
	if w.decoder, err = w.decoding.Decoder(); err != nil {
		return nil, err
	}
	if w.encoding == nil {
		return w.decoder.Release, nil
	}
	if w.compressor, err = newCompressor(w.encoding, w.classes, w.work, w.workers); err != nil {
		w.decoder.Release()
		return nil, err
	}
	return func() { w.decoder.Release(); w.compressor.release() }, nil
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
	if inflates := w.inflates(l); inflates || !form.Plain() && l.sequence <= w.suspect {
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
	if form.Plain() && w.compressor != nil {
		packed, as := w.compressor.compress(l.subject, payload)
		if !as.Plain() {
			payload, form, l.recoded = packed, as, true
		}
	}
	l.wire.Payload = payload
	if !form.Plain() {
		l.wire.Form = &wirev1.ChannelForm{
			Codec: uint32(form.Codec), EngineClass: uint32(form.Class), Length: uint64(form.Length), Checksum: form.Checksum,
			Dictionary: form.Dictionary,
		}
	}
	l.headers, l.payload = nil, nil
	return nil
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
