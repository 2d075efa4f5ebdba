// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/batch"
	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/message"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// checkBegin refuses what no correct sender begins with.
func checkBegin(b *wirev1.ChannelBegin) error {
	if b == nil {
		return invalid("the sending queue did not begin with ChannelBegin")
	}
	if !wirev1.Speaks(b.GetProtocolVersion()) {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE,
			"the sending queue speaks protocol %d and the receiving one (version %s) %d; upgrade the older cluster",
			b.GetProtocolVersion(), wirev1.Version, wirev1.ProtocolVersion)
	}
	epoch := b.GetEpoch()
	if len(epoch) == 0 || len(epoch) > maxEpoch || strings.ContainsFunc(epoch, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_'
	}) {
		return invalid("epoch must be 1 to %d letters, digits, '-' and '_'", maxEpoch)
	}
	if len(b.GetCodecs()) > maxCodecs {
		return invalid("%d codecs; at most %d can be offered", len(b.GetCodecs()), maxCodecs)
	}
	return nil
}

// maxPutTime is the latest time in seconds of Unix time of which there are nanoseconds.
const maxPutTime = math.MaxInt64/int64(time.Second) - 1

// limits of what is taken.
type limits struct {
	messages   int
	bytes      int
	maxMessage int
	codec      codec.ID
	// dictionaries that the channel was sent; nil: it takes none.
	dictionaries *arrivals
}

// checkBatch refuses a batch whose frame breaks the limits or that does not continue after a marker: with later
// sequences, or with messages that were put later, in a stream that lost its end. Nothing of it was looked into
// further.
func checkBatch(b *wirev1.ChannelBatch, at marker, l limits) error {
	messages := b.GetMessages()
	if len(messages) == 0 || len(messages) > l.messages {
		return invalid("a batch of %d messages; it must have 1 to %d", len(messages), l.messages)
	}
	size := proto.Size(b)
	for _, m := range messages {
		if !refers(m) {
			continue
		}
		if m.GetForm().GetLength() > message.MaxReferring {
			return invalid("a message of %d bytes that refers to a dictionary; the limit is %d",
				m.GetForm().GetLength(), message.MaxReferring)
		}
		size += int(m.GetForm().GetLength())
	}
	if len(messages) > 1 && size > l.bytes {
		return invalid("a batch of %d bytes, with what refers to dictionaries inflated; the limit is %d", size, l.bytes)
	}
	if b.GetPutTime() != nil && (b.GetPutTime().CheckValid() != nil || b.GetPutTime().GetSeconds() > maxPutTime) {
		return invalid("a batch that was put at no time")
	}
	after := at.position
	if at.put != 0 && putTime(b.GetPutTime()) > at.put {
		after = 0
	}
	for _, m := range messages {
		if m.GetSequence() <= after {
			return invalid("message %d comes after message %d", m.GetSequence(), after)
		}
		after = m.GetSequence()
	}
	return nil
}

// taker makes messages of what a peer sent, one at a time.
type taker struct {
	stream  string
	limits  limits
	decoder *message.Decoder
	work    *Work
	// compressor puts messages into the queue's own form that came with a dictionary; nil: none did.
	compressor *compressor
	scratch    []byte
}

// message returns a message as it is published, if what a peer sent is sound: it is decoded to see.
func (t *taker) message(m *wirev1.ChannelMessage) (*nats.Msg, error) {
	if err := checkFrame(m); err != nil {
		return nil, err
	}
	out := nats.NewMsg(t.stream + m.GetSuffix())
	for _, h := range m.GetHeaders() {
		out.Header[h.GetName()] = append(out.Header[h.GetName()], string(h.GetValue()))
	}
	form, err := formFromWire(m.GetForm())
	if err != nil {
		return nil, err
	}
	if out.Data, form, err = t.payload(out.Subject, form, m.GetPayload()); err != nil {
		return nil, err
	}
	envelope.SetForm(out, form)
	if m.GetTimeToLive() != nil {
		life := m.GetTimeToLive().AsDuration()
		if m.GetTimeToLive().CheckValid() != nil || life < time.Second {
			return nil, invalid("a time to live of %v; the least is a second", life)
		}
		out.Header.Set(jetstream.MsgTTLHeader, strconv.FormatInt(int64(life/time.Second), 10)+"s")
	}
	return out, nil
}

// payload returns a payload as it is stored: as it came, unless it refers to a dictionary, which is not the queue's.
func (t *taker) payload(subject string, form message.Form, payload []byte) ([]byte, message.Form, error) {
	limit := t.limits.maxMessage
	switch {
	case form.Plain() && len(payload) > limit:
		return nil, form, invalid("a payload of %d bytes; the limit is %d", len(payload), limit)
	case form.Plain():
		return payload, form, nil
	case form.Codec != t.limits.codec:
		return nil, form, invalid("a payload in %v, and %v was negotiated", form.Codec, t.limits.codec)
	case form.Dictionary != 0 && t.compressor == nil:
		return nil, form, invalid("a payload that refers to dictionary %d, and none were negotiated", form.Dictionary)
	}
	scratch := t.scratch[:0]
	if form.Dictionary != 0 {
		scratch = nil // It may be stored as it is.
	}
	plain, err := t.work.decode(t.decoder, scratch, form, payload, limit)
	if err != nil {
		return nil, form, invalid("a payload that cannot be read: %w", err)
	}
	if form.Dictionary != 0 {
		payload, form = t.compressor.compress(subject, plain)
		return payload, form, nil
	}
	t.scratch = plain
	return payload, form, nil
}

// checkFrame refuses subjects and headers that no queue has. The sender checks the same before it sends.
func checkFrame(m *wirev1.ChannelMessage) error {
	if !envelope.FitsSuffix(m.GetSuffix()) {
		return invalid(
			"a subject that goes on with %.40q; it needs a dot first, tokens that are no wildcards, and at most %d bytes",
			m.GetSuffix(), maxSuffix,
		)
	}
	size := 0
	for _, h := range m.GetHeaders() {
		if err := checkHeader(h); err != nil {
			return err
		}
		size += envelope.FieldSize(len(h.GetName()), len(h.GetValue()))
	}
	if size > maxHeaderBytes {
		return invalid("headers of %d bytes; the limit is %d", size, maxHeaderBytes)
	}
	return nil
}

// checkHeader refuses headers that NATS could not carry, that would be taken for others, and that steer the stream.
func checkHeader(h *wirev1.ChannelHeader) error {
	name := h.GetName()
	switch {
	case !envelope.FitsName(name):
		return invalid("a header with the name %.40q; use letters, digits and hyphens", name)
	case !envelope.FitsValue(h.GetValue()):
		return invalid("a value of header %.40s that does not fit on a line", name)
	case batch.IsControl(name) || isForm(name) || isDead(name):
		return invalid("the header %.40s, which peers may not set", name)
	}
	return nil
}

// isDead reports whether a header is one that dead letters have, of which channels carry none.
func isDead(name string) bool {
	return len(name) >= len(envelope.DeadPrefix) && strings.EqualFold(name[:len(envelope.DeadPrefix)], envelope.DeadPrefix)
}

func formFromWire(f *wirev1.ChannelForm) (message.Form, error) {
	if f == nil {
		return message.Form{}, nil
	}
	if f.GetCodec() > math.MaxUint8 || f.GetEngineClass() > math.MaxUint8 || f.GetLength() > message.MaxLength {
		return message.Form{}, invalid("a payload in a form that this release (%s) does not know", wirev1.Version)
	}
	id, class := codec.ID(f.GetCodec()), codec.Class(f.GetEngineClass())
	if !id.Valid() || id == codec.None || !slices.Contains([]codec.Class{codec.Software, codec.Hardware}, class) {
		return message.Form{}, invalid("a payload in a form that this release (%s) does not know", wirev1.Version)
	}
	return message.Form{
		Codec: id, Class: class, Length: int(f.GetLength()), Checksum: f.GetChecksum(), Dictionary: f.GetDictionary(),
	}, nil
}

// toMessages returns the messages of a batch as they are published, made on all cores if there is work to do.
func toMessages(
	ctx context.Context, b *wirev1.ChannelBatch, stream string, l limits, decoding *message.Decoding, work *Work,
) ([]*nats.Msg, error) {
	out := make([]*nats.Msg, len(b.GetMessages()))
	most, own := runtime.GOMAXPROCS(0), l.dictionaries
	if own == nil || own.decoding == nil || !slices.ContainsFunc(b.GetMessages(), refers) {
		own = nil
	} else {
		decoding, most = own.decoding, carryingWorkers
	}
	err := inParallel(ctx, len(out), most, func(workers int) (func(int) error, func(), error) {
		decoder, err := decoding.Decoder()
		if err != nil {
			return nil, nil, err
		}
		t, release := &taker{stream: stream, limits: l, decoder: decoder, work: work}, decoder.Release
		if own != nil {
			if t.compressor, err = newCompressor(own.encoding(), own.classes, work, workers); err != nil {
				release()
				return nil, nil, err
			}
			release = func() { decoder.Release(); t.compressor.release() }
		}
		return func(i int) error {
			m, err := t.message(b.GetMessages()[i])
			if err != nil {
				return failure.New(
					wirev1.FailureReason_FAILURE_REASON_INVALID_DATA, "message %d of the sending queue is refused: %w",
					b.GetMessages()[i].GetSequence(), err,
				)
			}
			out[i] = m
			return nil
		}, release, nil
	})
	return out, err
}
