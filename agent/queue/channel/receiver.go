// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/classes"
	"github.com/lighterage/lighterage/agent/queue/jetstreamerror"
	"github.com/lighterage/lighterage/agent/queue/message"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// maxSources bounds the sending queues that a receiver serves at a time, and those that it remembers.
const maxSources = 256

// ReceiverOptions of a Receiver. Log and everything else must be set.
type ReceiverOptions struct {
	// Conn to the server of the stream, which may do everything there.
	Conn *nats.Conn
	// Stream to store messages in. It has store.MarkerSubjects, and allows what markers need.
	Stream string
	// Admit says who calls, and fails for who may not send to the queue now.
	Admit func(context.Context) (Source, error)
	// Readable codecs.
	Readable []codec.ID
	Decoding *message.Decoding
	// Encoding returns that by which the queue has what is put now, which messages get that came with a dictionary of the
	// sending queue. Classes decide about them in mode Auto; nil: all are compressed. Without Encoding no dictionaries are
	// taken.
	Encoding func() *message.Encoding
	Classes  *classes.Classes
	// Work is where it is counted what the engines did with messages; default: nobody counts.
	Work *Work
	// MaxMessage is the length in bytes of the longest plain payload, until SetMaxMessage says another.
	MaxMessage int
	Log        *slog.Logger
}

// Receiver is the receiving end of channels. It is a wirev1.ChannelServer.
type Receiver struct {
	wirev1.UnimplementedChannelServer
	options ReceiverOptions

	mu         sync.Mutex
	accepts    Acceptance
	maxMessage int
	// batchMessages is how many messages of a batch the server is known to take.
	batchMessages int
	// carrying is how many channels may be sent dictionaries.
	carrying int
	sources  map[Source]*source
}

// source is what is known of a sending queue.
type source struct {
	status *wirev1.ReceivedChannel
	// end ends the channel that runs, done is closed when it has ended; nil when none runs.
	end  context.CancelCauseFunc
	done chan struct{}
	// marker as it was stored last, for a queue whose oldest messages make space for new ones, markers included.
	marker marker
}

// NewReceiver returns a receiver that accepts codecs.
func NewReceiver(o ReceiverOptions, accepts Acceptance) *Receiver {
	if o.Work == nil {
		o.Work = &Work{}
	}
	return &Receiver{
		options: o, accepts: accepts, maxMessage: o.MaxMessage, batchMessages: MaxBatchMessages,
		sources: map[Source]*source{},
	}
}

// SetAcceptance changes which codecs are accepted by channels that start.
func (r *Receiver) SetAcceptance(a Acceptance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepts = a
}

// SetMaxMessage changes the length in bytes of the longest plain payload, for channels that start.
func (r *Receiver) SetMaxMessage(length int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.maxMessage = length
}

// ResetStatistics begins the counters again.
func (r *Receiver) ResetStatistics() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sources {
		s.status.Messages, s.status.Batches, s.status.PayloadBytes, s.status.Dictionaries = 0, 0, 0, 0
	}
}

// errRevoked ends a channel that is not admitted any more.
var errRevoked = errors.New("the receiving cluster does not let this queue send any more")

// EndOthers ends the channels from sources that a function does not keep.
func (r *Receiver) EndOthers(keep func(Source) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, s := range r.sources {
		if s.end != nil && !keep(name) {
			s.end(
				failure.New(wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED, "%w: make a PeerGrant there if it should", errRevoked),
			)
		}
	}
}

// Status returns what there is to say of the channels that were received, by source.
func (r *Receiver) Status() []*wirev1.ReceivedChannel {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*wirev1.ReceivedChannel
	for _, s := range r.sources {
		out = append(out, proto.CloneOf(s.status))
	}
	slices.SortFunc(out, func(a, b *wirev1.ReceivedChannel) int {
		return strings.Compare(
			a.GetPeer()+"/"+a.GetNamespace()+"/"+a.GetQueue(), b.GetPeer()+"/"+b.GetNamespace()+"/"+b.GetQueue(),
		)
	})
	return out
}

// errReplaced ends a channel whose sender has begun a new one.
var errReplaced = errors.New("the sender restarted the channel")

// enter waits until no other channel of the source runs. leave must follow.
func (r *Receiver) enter(ctx context.Context, name Source, end context.CancelCauseFunc) (*source, error) {
	for {
		r.mu.Lock()
		s := r.sources[name]
		if s == nil {
			if s = r.remember(name); s == nil {
				r.mu.Unlock()
				return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_IN_USE,
					"the receiving queue has channels from %d queues already, which is as many as it may", maxSources)
			}
		}
		if s.end == nil {
			s.end, s.done = end, make(chan struct{})
			r.mu.Unlock()
			return s, nil
		}
		s.end(errReplaced)
		done := s.done
		r.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// remember makes space for a source, by forgetting one that is not connected if need be; nil if all are. mu is held.
func (r *Receiver) remember(name Source) *source {
	if len(r.sources) >= maxSources {
		var oldest *Source
		for other, s := range maps.All(r.sources) {
			if s.end == nil && (oldest == nil ||
				s.status.GetLastErrorTime().AsTime().Before(r.sources[*oldest].status.GetLastErrorTime().AsTime())) {
				oldest = &other
			}
		}
		if oldest == nil {
			return nil
		}
		delete(r.sources, *oldest)
	}
	s := &source{status: &wirev1.ReceivedChannel{Peer: name.Peer, Namespace: name.Namespace, Queue: name.Queue}}
	r.sources[name] = s
	return s
}

func (r *Receiver) leave(s *source, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.status.Connected, s.status.Codec = false, ""
	if err != nil {
		s.status.LastError, s.status.LastErrorTime = failure.ToWire(err), timestamppb.Now()
	}
	s.end = nil
	close(s.done)
}

// Run is of wirev1.ChannelServer.
func (r *Receiver) Run(run grpc.BidiStreamingServer[wirev1.ChannelRunRequest, wirev1.ChannelRunResponse]) error {
	name, err := r.options.Admit(run.Context())
	if err != nil {
		return refuse(run, err)
	}
	ctx, cancel := context.WithCancelCause(run.Context())
	defer cancel(errEnded)
	s, err := r.enter(ctx, name, cancel)
	if err != nil {
		return refuse(run, err)
	}
	err = r.serve(ctx, run, name, s)
	if cause := context.Cause(ctx); cause != nil && run.Context().Err() == nil {
		err = cause // Ended from here.
	}
	if run.Context().Err() != nil {
		err = failure.New(wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "the connection to the sending queue was lost")
	}
	r.leave(s, err)
	if err == nil {
		return nil
	}
	r.options.Log.Warn(
		"Channel ended", "stream", r.options.Stream, "source", name.String(), "cause",
		failure.Shorten(err.Error(), failure.MaxMessage),
	)
	return refuse(run, err)
}

// refuse tells the sender why in the stream, so that it looks in one place only.
func refuse(run grpc.BidiStreamingServer[wirev1.ChannelRunRequest, wirev1.ChannelRunResponse], err error) error {
	if sent := run.Send(
		&wirev1.ChannelRunResponse{Message: &wirev1.ChannelRunResponse_Refused{Refused: failure.ToWire(err)}},
	); sent != nil {
		return grpcstatus.Error(codes.Unavailable, "the channel ended")
	}
	return nil
}

// request is what receive found.
type request struct {
	message *wirev1.ChannelRunRequest
	err     error
}

// receive reads ahead by one, and ends with the run.
func receive(run grpc.BidiStreamingServer[wirev1.ChannelRunRequest, wirev1.ChannelRunResponse]) <-chan request {
	out := make(chan request)
	go func() {
		for {
			m, err := run.Recv()
			select {
			case out <- request{m, err}:
			case <-run.Context().Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return out
}

// serve stores what a source sends until it ends the channel.
func (r *Receiver) serve(
	ctx context.Context, run grpc.BidiStreamingServer[wirev1.ChannelRunRequest, wirev1.ChannelRunResponse], name Source,
	s *source,
) error {
	requests := receive(run)
	begin, err := next(ctx, requests, time.After(beginTimeout))
	if err != nil {
		return err
	}
	if err := checkBegin(begin.GetBegin()); err != nil {
		return err
	}
	js, err := jetstream.New(r.options.Conn)
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	lookup, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	stream, err := js.Stream(lookup, r.options.Stream)
	if err != nil {
		return fmt.Errorf("look at the receiving queue's stream: %w", err)
	}
	at, err := readMarker(lookup, stream, r.options.Stream, name)
	if err != nil {
		return err
	}
	at = at.in(begin.GetBegin().GetEpoch(), s.marker)
	r.mu.Lock()
	accepts, maxMessage, batchMessages := r.accepts, r.maxMessage, r.batchMessages
	r.mu.Unlock()
	l := limits{
		messages: batchMessages, bytes: maxBatchBytes, maxMessage: maxMessage,
		codec: negotiate(begin.GetBegin().GetCodecs(), accepts, r.options.Readable),
	}
	var release func()
	l.dictionaries, release = r.arrivals(l.codec)
	defer release()
	// Who has been told may ask for the status.
	r.update(s, func(now *wirev1.ReceivedChannel) {
		now.Connected, now.Codec, now.Position = true, l.codec.String(), at.position
	})
	accepted := &wirev1.ChannelAccepted{
		Codec: l.codec.String(), Position: at.position,
		MaxBatchMessages: uint32(l.messages), MaxBatchBytes: uint64(l.bytes), MaxMessageBytes: uint64(l.maxMessage),
		MaxDictionaries: l.dictionaries.most(),
	}
	if at.put != 0 {
		accepted.PositionTime = timestamppb.New(time.Unix(0, at.put))
	}
	if err := run.Send(
		&wirev1.ChannelRunResponse{Message: &wirev1.ChannelRunResponse_Accepted{Accepted: accepted}},
	); err != nil {
		return fmt.Errorf("accept the channel: %w", err)
	}
	r.options.Log.Info(
		"Channel is received", "stream", r.options.Stream, "source", name.String(), "codec", l.codec.String(), "position",
		at.position,
	)
	for {
		m, err := next(ctx, requests, nil)
		if err != nil || m == nil {
			return err
		}
		if d := m.GetDictionary(); d != nil {
			if err := l.dictionaries.add(d); err != nil {
				return err
			}
			r.update(s, func(now *wirev1.ReceivedChannel) {
				now.PayloadBytes += uint64(len(d.GetContent()))
				now.Dictionaries++
			})
			continue
		}
		if m.GetBatch() == nil {
			return invalid("the sending queue sent neither a batch nor a dictionary")
		}
		if at, err = r.store(ctx, m.GetBatch(), name, at, l); err != nil {
			return err
		}
		s.marker = at // Only the channel that runs uses it.
		r.update(s, func(now *wirev1.ReceivedChannel) {
			now.Position = at.position
			now.Batches++
			now.Messages += uint64(len(m.GetBatch().GetMessages()))
			for _, one := range m.GetBatch().GetMessages() {
				now.PayloadBytes += uint64(len(one.GetPayload()))
			}
		})
		if err := run.Send(
			&wirev1.ChannelRunResponse{
				Message: &wirev1.ChannelRunResponse_Stored{Stored: &wirev1.ChannelStored{Position: at.position}},
			},
		); err != nil {
			return fmt.Errorf("answer a batch: %w", err)
		}
	}
}

// next waits for a request; nil when the sender has ended the channel.
func next(ctx context.Context, requests <-chan request, late <-chan time.Time) (*wirev1.ChannelRunRequest, error) {
	select {
	case r := <-requests:
		switch {
		case errors.Is(r.err, io.EOF):
			return nil, nil
		case grpcstatus.Code(r.err) == codes.ResourceExhausted:
			return nil, invalid("a message of the protocol is too long: %w", r.err)
		case r.err != nil:
			return nil, fmt.Errorf("receive from the sending queue: %w", r.err)
		default:
			return r.message, nil
		}
	case <-late:
		return nil, failure.New(
			wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "the sending queue did not begin for %v", beginTimeout,
		)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (r *Receiver) update(s *source, change func(*wirev1.ReceivedChannel)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(s.status)
}

// store stores a batch after a marker and returns the marker that it ends with.
func (r *Receiver) store(
	ctx context.Context, b *wirev1.ChannelBatch, name Source, at marker, l limits,
) (marker, error) {
	if err := checkBatch(b, at, l); err != nil {
		return at, err
	}
	messages, err := toMessages(ctx, b, r.options.Stream, l, r.options.Decoding, r.options.Work)
	if err != nil {
		return at, err
	}
	stored := at.after(b)
	messages = append(messages, stored.message(r.options.Stream, name, at.sequence))
	stored.sequence, err = publish(ctx, r.options.Conn, messages)
	if jetstreamerror.Is(err, jetstreamerror.BatchTooLarge) && l.messages > usualBatchMessages {
		r.mu.Lock()
		r.batchMessages = usualBatchMessages
		r.mu.Unlock()
		return at, failure.New(wirev1.FailureReason_FAILURE_REASON_ABORTED,
			"the receiving queue's servers take smaller batches (%w); the channel starts again with at most %d messages in one",
			err, usualBatchMessages)
	}
	if err != nil {
		return at, err
	}
	return stored, nil
}
