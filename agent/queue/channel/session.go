// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/roles"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// consumerName is that of the consumer by which a stream is sent.
	consumerName = roles.OwnConsumers + "channel"
	// windowBatches is how many full batches may be in doubt.
	windowBatches = 4
	// redeliverAfter is when JetStream redelivers what was not acknowledged: the acknowledgement was lost, or a member
	// that did not know yet that it leads no more has asked the consumer of the one that does.
	redeliverAfter = time.Minute
	// beginTimeout is how long the receiving end may take to accept.
	beginTimeout = 45 * time.Second
)

// session is one start of the channel.
type session struct {
	*Sender
	run      grpc.BidiStreamingClient[wirev1.ChannelRunRequest, wirev1.ChannelRunResponse]
	accepted *wirev1.ChannelAccepted
	letters  chan *letter
	// share is that in a Fanout; nil: there is none.
	share *share
	// window bounds the messages that are in doubt.
	window *semaphore.Weighted
	// announced are the bytes of dictionaries that were sent since the last batch. Only send uses it.
	announced uint64

	mu sync.Mutex
	// sent batches that are in doubt, oldest first.
	sent []sentBatch
	// last is the greatest sequence that was delivered, confirmed that of the last message which the other end has
	// stored since the start.
	last, confirmed uint64
	progressed      bool
}

// sentBatch is what has to be remembered of a batch.
type sentBatch struct {
	last                    uint64
	replies                 []string
	ids                     []ids.Message
	payload, plain, recoded uint64
}

// session runs the channel until something ends it. progressed says whether the other end stored something.
func (s *Sender) session(ctx context.Context) (progressed bool, err error) {
	link, err := s.options.Connect(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = link.Close() }() // Nothing is lost with it.
	js, err := jetstream.New(s.options.Conn)
	if err != nil {
		return false, fmt.Errorf("use JetStream: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(errEnded)
	x := &session{
		Sender: s, letters: make(chan *letter), window: semaphore.NewWeighted(int64(windowBatches * s.options.BatchMessages)),
	}
	late := time.AfterFunc(beginTimeout, func() { cancel(errSilent) })
	stream, err := x.begin(ctx, js, link)
	if !late.Stop() && err != nil {
		err = failure.New(wirev1.FailureReason_FAILURE_REASON_PEER_UNREACHABLE, "%w: %w", errSilent, err)
	}
	s.version = nextVersion(s.version, err)
	if err != nil {
		return false, x.explain(link, err)
	}
	recoder, err := s.recoder(x.accepted)
	if err != nil {
		return false, err
	}
	if recoder.encoding != nil {
		defer recoder.encoding.Close()
	}
	read, err := x.source(ctx, stream)
	if err != nil {
		return false, err
	}
	s.status.update(func(now *wirev1.ChannelStatus) {
		now.State, now.Detail, now.InDoubt = wirev1.ChannelState_CHANNEL_STATE_RUNNING, "", 0
		now.Codec, now.Level = x.accepted.GetCodec(), recoder.level
		now.Starts++
		now.Position = x.accepted.GetPosition()
	})
	s.options.Log.Info(
		"Channel runs", "stream", s.options.Stream, "codec", x.accepted.GetCodec(), "position", x.accepted.GetPosition(),
	)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return read(ctx) })
	group.Go(func() error { return x.send(ctx, js, recoder) })
	group.Go(func() error { return x.answers(ctx) })
	group.Go(func() error { return lead(ctx, x.options.Leads) })
	if x.share != nil {
		group.Go(func() error { return x.share.watch(ctx) })
	}
	// A receive does not look at the group's context.
	stop := context.AfterFunc(ctx, func() { cancel(errEnded) })
	defer stop()
	err = x.explain(link, group.Wait())
	if failure.Is(err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
		s.suspect = x.last
	}
	return x.progressed, err
}

// nextVersion is the version of the protocol in which to begin after what became of a beginning: an older one, if that
// is spoken here, where the other end rejected the newer. Once it was accepted the newest is tried again, since the
// other end may be upgraded meanwhile.
func nextVersion(version uint32, err error) uint32 {
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE) || !wirev1.Speaks(version-1) {
		return wirev1.ProtocolVersion
	}
	return version - 1
}

// explain gives an error a reason.
func (x *session) explain(link Link, err error) error {
	if untrusted := link.Untrusted(); untrusted != nil {
		return untrusted
	}
	return err
}

// recoder returns what puts messages into the negotiated form.
func (s *Sender) recoder(accepted *wirev1.ChannelAccepted) (*recoder, error) {
	id, err := codec.ParseID(accepted.GetCodec())
	if err != nil || id != codec.None && !slices.Contains(s.options.Codecs, id) {
		return nil, invalid("the receiving queue chose codec %.20q, which was not offered", accepted.GetCodec())
	}
	r := &recoder{
		codec: id, decoding: s.options.Decoding, work: s.options.Work, stream: s.options.Stream, suspect: s.suspect,
		carrier:    newCarrier(accepted, id, s.options.Decoding, s.suspect),
		maxMessage: int(min(accepted.GetMaxMessageBytes(), message.MaxLength)),
	}
	if id != codec.None {
		o, own := s.options.Encodings[id]
		if !own {
			o = s.options.Encoding
		}
		r.level = compression.LevelToWire(o.Policy.Level)
		o.Codecs = []codec.ID{id}
		if r.encoding, err = message.NewEncoding(o); err != nil {
			return nil, fmt.Errorf("compress for the channel: %w", err)
		}
		if r.classes = s.options.Classes; r.classes != nil {
			r.classes.Set(r.encoding, s.encoding.Load())
		}
	}
	s.encoding.Store(r.encoding)
	return r, nil
}

// begin agrees with the other end on where to go on.
func (x *session) begin(ctx context.Context, js jetstream.JetStream, link Link) (jetstream.Stream, error) {
	stream, err := js.Stream(ctx, x.options.Stream)
	if err != nil {
		return nil, fmt.Errorf("look at the queue's stream: %w", err)
	}
	info := stream.CachedInfo()
	if x.run, err = wirev1.NewChannelClient(link).Run(
		ctx, grpc.MaxCallSendMsgSize(FrameBound(message.MaxLength)),
	); err != nil {
		return nil, lost(err)
	}
	begin := &wirev1.ChannelBegin{
		ProtocolVersion: x.version, Epoch: strconv.FormatInt(info.Created.UnixNano(), 10), LastSequence: info.State.LastSeq,
	}
	for _, id := range x.options.Codecs {
		begin.Codecs = append(begin.Codecs, id.String())
	}
	if err := x.write(&wirev1.ChannelRunRequest{Message: &wirev1.ChannelRunRequest_Begin{Begin: begin}}); err != nil {
		return nil, err
	}
	response, err := x.receive()
	if err != nil {
		return nil, err
	}
	if x.accepted = response.GetAccepted(); x.accepted == nil {
		return nil, invalid("the receiving queue answered something else than that it accepts")
	}
	if x.accepted.GetMaxBatchMessages() == 0 {
		return nil, invalid("the receiving queue takes no messages")
	}
	switch position := x.accepted.GetPosition(); {
	case position <= info.State.LastSeq:
	case x.accepted.GetPositionTime() != nil:
		x.options.Log.Warn("The queue has lost its last messages, as in a power failure, which the receiving queue has; "+
			"what is put now is sent",
			"stream", x.options.Stream, "last", info.State.LastSeq, "position", position)
	default:
		return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED,
			"the receiving queue has message %d already and this queue has only come to %d: its storage was put back to an "+
				"older state, and what is put now would be taken for what was sent before; move the messages to a new Queue",
			position, info.State.LastSeq)
	}
	return stream, nil
}

// source returns what hands out messages: the channel's own consumer, which is made, or, beside others, a reader from
// where the other end has come to.
func (x *session) source(ctx context.Context, stream jetstream.Stream) (read func(context.Context) error, err error) {
	if x.options.Fanout == nil {
		return x.read, makeConsumer(ctx, stream, x.options.Stream, jetstream.ConsumerConfig{
			AckWait: redeliverAfter, MaxAckPending: windowBatches * x.options.BatchMessages,
		})
	}
	at := positionOf(x.accepted)
	if x.share, err = x.options.Fanout.join(ctx, x.options.Name, at); err != nil {
		return nil, err
	}
	from, err := x.begins(ctx, at, stream.CachedInfo().State.FirstSeq)
	return func(ctx context.Context) error { return x.direct(ctx, from) }, err
}

// read hands out what the consumer delivers.
func (x *session) read(ctx context.Context) error {
	// One that this queue takes and the other does not is asked for as well: what is said of it then says what to do.
	longest := FrameBound(
		int(min(max(x.accepted.GetMaxMessageBytes(), uint64(x.options.Conn.MaxPayload())), message.MaxLength)),
	)
	return deliver(ctx, x.options.Conn, x.options.Stream, x.options.BatchMessages, longest, x.letters)
}

// send puts messages into batches and sends them.
func (x *session) send(ctx context.Context, js jetstream.JetStream, r *recoder) error {
	most := min(x.options.BatchMessages, int(min(x.accepted.GetMaxBatchMessages(), MaxBatchMessages)))
	bytes := int(min(x.accepted.GetMaxBatchBytes(), maxBatchBytes))
	for {
		letters, err := x.collect(ctx, r, most, bytes)
		if err != nil {
			return err
		}
		if err := r.all(ctx, letters); err != nil {
			return err
		}
		if letters, err = x.bury(ctx, js, letters); err != nil {
			return err
		}
		if err := x.announce(r.carrier); err != nil {
			return err
		}
		for len(letters) > 0 {
			n := fits(letters, bytes)
			if err := x.batch(ctx, letters[:n]); err != nil {
				return err
			}
			letters = letters[n:]
		}
	}
}

// collect waits for a message, and for more as long as they may come. What it returns takes, when it is recoded, so
// many bytes of memory at most and one message more.
func (x *session) collect(ctx context.Context, r *recoder, most, bytes int) ([]*letter, error) {
	var letters []*letter
	size := 0
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for len(letters) < most && size < bytes {
		var next *letter
		select {
		case next = <-x.letters:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timer.C:
			if len(letters) > 0 {
				return letters, nil
			}
			continue
		}
		fresh, err := x.fresh(next)
		if err != nil {
			return nil, err
		}
		if !fresh {
			continue
		}
		if letters == nil {
			// The least delay lets those come that are on their way already.
			timer.Reset(max(x.options.BatchDelay, time.Millisecond))
		}
		letters = append(letters, next)
		size += r.weigh(next)
	}
	return letters, nil
}

// fresh reports whether a message is to be sent. What the other end has is acknowledged.
func (x *session) fresh(l *letter) (bool, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	first := l.sequence > x.last
	x.last = max(x.last, l.sequence)
	switch had := positionOf(x.accepted).has(l); {
	case first && !had:
		return true, nil
	case x.share == nil && (had || l.sequence <= x.confirmed):
		return false, acknowledge(x.options.Conn, x.options.IDs, []string{l.reply}, []ids.Message{l.id})
	default:
		return false, nil // in doubt, or removed by Fanout
	}
}

// acknowledge removes messages from the queue, which will know their ids after a restart nevertheless.
func acknowledge(conn *nats.Conn, keeper ids.Keeper, replies []string, gone []ids.Message) error {
	if keeper != nil {
		if err := keeper.Given(gone); err != nil {
			return fmt.Errorf("remember messages that were sent: %w", err)
		}
	}
	for _, reply := range replies {
		if err := conn.Publish(reply, nil); err != nil {
			return fmt.Errorf("acknowledge a message that was sent: %w", err)
		}
	}
	return nil
}

// fits returns how many messages at the front fit into a batch, one at least. The other end counts the same, or less.
func fits(letters []*letter, bytes int) int {
	size := putTimeBytes
	for i, l := range letters {
		if size += l.encoded(); size > bytes && i > 0 {
			return i
		}
	}
	return len(letters)
}

func (x *session) batch(ctx context.Context, letters []*letter) error {
	b := &wirev1.ChannelBatch{Messages: make([]*wirev1.ChannelMessage, len(letters))}
	sent := sentBatch{last: letters[len(letters)-1].sequence, replies: make([]string, len(letters))}
	var put time.Time
	for i, l := range letters {
		if l.stored.After(put) {
			put = l.stored
		}
		b.Messages[i], sent.replies[i] = l.wire, l.reply
		sent.ids = append(sent.ids, l.id)
		sent.payload += uint64(len(l.wire.GetPayload()))
		sent.plain += uint64(l.plain)
		if l.recoded {
			sent.recoded++
		}
	}
	b.PutTime = timestamppb.New(put)
	sent.payload, x.announced = sent.payload+x.announced, 0
	if err := x.window.Acquire(ctx, int64(len(letters))); err != nil {
		return context.Cause(ctx)
	}
	x.mu.Lock()
	x.sent = append(x.sent, sent)
	x.mu.Unlock()
	x.status.update(func(now *wirev1.ChannelStatus) { now.InDoubt += uint64(len(letters)) })
	return x.write(&wirev1.ChannelRunRequest{Message: &wirev1.ChannelRunRequest_Batch{Batch: b}})
}

// answers forgets what the other end has stored.
func (x *session) answers(ctx context.Context) error {
	for {
		response, err := x.receive()
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		stored := response.GetStored()
		if stored == nil {
			return invalid("the receiving queue answered a batch with something else than that it is stored")
		}
		if err := x.confirm(stored.GetPosition()); err != nil {
			return err
		}
	}
}

// confirm acknowledges the oldest batch that is in doubt.
func (x *session) confirm(position uint64) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.sent) == 0 || x.sent[0].last != position {
		return invalid(
			"the receiving queue says it has stored message %d, which ends no batch that it was to answer", position,
		)
	}
	b := x.sent[0]
	x.sent = x.sent[1:]
	x.window.Release(int64(len(b.ids)))
	x.confirmed, x.progressed = position, true
	x.status.stored(position, uint64(len(b.ids)), 1, b.payload, b.plain, b.recoded)
	if x.share != nil {
		x.share.stored(position)
		return nil
	}
	return acknowledge(x.options.Conn, x.options.IDs, b.replies, b.ids)
}

// lead ends the session when another member is to send.
func lead(ctx context.Context, leads func() bool) error {
	for ctx.Err() == nil {
		if !leads() {
			return errFollows
		}
		wait(ctx, standbyPause)
	}
	return context.Cause(ctx)
}

func (x *session) write(m *wirev1.ChannelRunRequest) error {
	err := x.run.Send(m)
	if err != nil && !errors.Is(err, io.EOF) {
		return lost(err)
	}
	return nil // after EOF receiving says why
}

// receive returns an answer that is no refusal.
func (x *session) receive() (*wirev1.ChannelRunResponse, error) {
	response, err := x.run.Recv()
	if err != nil {
		return nil, lost(err)
	}
	if refused := response.GetRefused(); refused != nil {
		return nil, failure.FromWire(refused)
	}
	return response, nil
}

// lost gives an error of gRPC a reason.
func lost(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "the receiving queue ended the channel")
	case grpcstatus.Code(err) == codes.Unimplemented:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE,
			"the peer does not know channels (%w): use the same release of Lighterage in both clusters", err)
	default:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST,
			"the connection to the receiving queue was lost (%w): messages wait here until it is there again", err)
	}
}
