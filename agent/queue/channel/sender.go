// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/classes"
	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/message"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Link is a connection to the receiving end.
type Link interface {
	grpc.ClientConnInterface
	// Untrusted returns why one side does not believe the other, nil if nothing of the kind was seen.
	Untrusted() error
	Close() error
}

// Backoff is how long the pauses between tries are.
type Backoff struct {
	// First is the first pause; it doubles up to Most. Each is shortened by up to half of it at random, so that
	// channels which were cut at the same moment do not come back at the same moment.
	First, Most time.Duration
}

// DefaultBackoff is what agents use.
var DefaultBackoff = Backoff{First: time.Second, Most: time.Minute}

// SenderOptions of a Sender. What is zero and has no default must be set.
type SenderOptions struct {
	// Conn to the server of the stream, which may do everything there.
	Conn *nats.Conn
	// Stream to send. Its subjects are its name, and what begins with the name and a dot.
	Stream string
	// Leads reports whether this member of the queue is the one to send. Two may do so for a while: nothing is lost or
	// sent twice. Default: it is.
	Leads func() bool
	// Connect returns a connection to the receiving end. An error of package failure is shown as it is.
	Connect func(context.Context) (Link, error)
	// Codecs in order of priority.
	Codecs []codec.ID
	// BatchMessages is how many a batch has at most; default DefaultBatchMessages, at most MaxBatchMessages. BatchDelay
	// is how long an incomplete one waits for more.
	BatchMessages int
	BatchDelay    time.Duration
	// Encoding says how messages are compressed for the channel that are not yet, or by another codec. Its Codecs are
	// not used.
	Encoding message.EncodingOptions
	// Encodings are in place of Encoding for codecs that have a level of their own.
	Encodings map[codec.ID]message.EncodingOptions
	Decoding  *message.Decoding
	// Work is where it is counted what the engines did with messages that do not travel as they are stored; default:
	// nobody counts.
	Work *Work
	// Classes decide in mode Auto about messages that rest as they were put; nil: all are compressed.
	Classes *classes.Classes
	// IDs of what was sent are written to it before it leaves the queue; nil: they are not kept.
	IDs ids.Keeper
	// Fanout removes what was sent, where Name is one of several that have each message; nil: the sender does.
	Fanout *Fanout
	Name   string
	// Backoff defaults to DefaultBackoff.
	Backoff Backoff
	Log     *slog.Logger
}

// Sender is the sending end of a channel.
type Sender struct {
	options SenderOptions
	status  *status
	// suspect is how far messages are looked into, see recoder. Only the session that runs uses it.
	suspect uint64
	// encoding of the last session; nil: it compressed nothing.
	encoding atomic.Pointer[message.Encoding]
	// version of the protocol in which the next session begins.
	version uint32
}

// standbyPause is between looks whether this member leads.
const standbyPause = 500 * time.Millisecond

// NewSender returns a sender that does not run yet.
func NewSender(o SenderOptions) (*Sender, error) {
	if o.BatchMessages == 0 {
		o.BatchMessages = DefaultBatchMessages
	}
	if o.BatchMessages < 1 || o.BatchMessages > MaxBatchMessages {
		return nil, fmt.Errorf("batches of %d messages: use 1 to %d", o.BatchMessages, MaxBatchMessages)
	}
	if o.BatchDelay < 0 {
		return nil, fmt.Errorf("batches wait for %v: use 0 or more", o.BatchDelay)
	}
	if o.Leads == nil {
		o.Leads = func() bool { return true }
	}
	if o.Work == nil {
		o.Work = &Work{}
	}
	if o.Backoff == (Backoff{}) {
		o.Backoff = DefaultBackoff
	}
	return &Sender{options: o, status: newStatus(), version: wirev1.ProtocolVersion}, nil
}

// Status returns what there is to say of the channel now.
func (s *Sender) Status() *wirev1.ChannelStatus {
	now := s.status.report(time.Now())
	if s.options.Classes != nil {
		now.Decisions = s.options.Classes.Decisions(s.encoding.Load())
	}
	return now
}

// ResetStatistics begins the counters again.
func (s *Sender) ResetStatistics() {
	s.status.reset()
	if s.options.Classes != nil {
		s.options.Classes.Reset()
	}
}

var (
	// errFollows ends a session of a member that does not lead any more.
	errFollows = errors.New("another member of the queue sends")
	// errSilent ends a session that was not accepted in time.
	errSilent = fmt.Errorf("the receiving queue did not answer for %v", beginTimeout)
	// errEnded ends a session without a fault.
	errEnded = errors.New("the channel was ended")
)

// Run sends until the context ends. There is no error that ends it sooner: what failed is tried again, after pauses
// that grow.
func (s *Sender) Run(ctx context.Context) {
	pause := s.options.Backoff.First
	for ctx.Err() == nil {
		if !s.options.Leads() {
			s.status.update(func(now *wirev1.ChannelStatus) {
				now.State, now.Detail, now.NextTryTime = wirev1.ChannelState_CHANNEL_STATE_STANDBY, "Another member of the queue "+
					"sends", nil
			})
			wait(ctx, standbyPause)
			continue
		}
		s.status.update(func(now *wirev1.ChannelStatus) {
			if now.State != wirev1.ChannelState_CHANNEL_STATE_RETRYING {
				now.State = wirev1.ChannelState_CHANNEL_STATE_CONNECTING
			}
			now.NextTryTime = nil
		})
		progressed, err := s.session(ctx)
		s.status.update(func(now *wirev1.ChannelStatus) {
			now.Codec, now.Level = "", wirev1.CompressionLevel_COMPRESSION_LEVEL_UNSPECIFIED
		})
		// The consumer goes when another member leads, as a rule before this session sees that.
		if ctx.Err() != nil || errors.Is(err, errFollows) || errors.Is(err, errConsumerWent) && !s.options.Leads() {
			continue
		}
		if progressed {
			pause = s.options.Backoff.First
		}
		jittered := pause - rand.N(pause/2+1)
		pause = min(2*pause, s.options.Backoff.Most)
		s.status.failed(err, time.Now().Add(jittered))
		s.options.Log.Warn(
			"Channel is tried again", "stream", s.options.Stream, "pause", jittered.String(), "cause",
			failure.Shorten(err.Error(), failure.MaxMessage),
		)
		wait(ctx, jittered)
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
