// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Dial returns a new connection to the receiver. It is closed with Close.
type Dial func() (Conn, error)

// Conn is a connection to the receiver, or to the gateway.
type Conn interface {
	grpc.ClientConnInterface
	io.Closer
	// Ready waits until the connection is made. It fails when the context ends, or at once when there is no trust.
	Ready(context.Context) error
	// Untrusted returns why there is no trust between the sides, as an error with a reason, or nil.
	Untrusted() error
}

// SendOptions describe one attempt to send.
type SendOptions struct {
	RunID   string
	Attempt uint32
	// ProtocolVersion in which to speak to the receiver; default: the newest.
	ProtocolVersion uint32

	Source *tree.Source
	// Engines to compress with, the preferred ones first. Those of class Hardware count as verified.
	Engines *codec.Registry
	// Accelerator is what is known of the machine's, for the reason to give when software has to do its work.
	Accelerator policy.Accelerator
	// Policy and Codecs, in order of preference, say how to compress.
	Policy policy.Settings
	Codecs []codec.ID
	// Ways to compress between which mode Auto chooses block by block, and the engine of each; none: it compresses what
	// promises to shrink as the first of Codecs that the receiver reads, at the policy's level.
	Ways       []policy.Way
	WayEngines map[policy.Option]codec.Engine
	// BandwidthLimit is what DialBlocks' connections hold themselves to, in bytes a second, for the choice between
	// Ways; 0: nothing.
	BandwidthLimit uint64
	// Verify asks the receiver to read back what it wrote.
	Verify bool
	// CheckpointInterval is how many bytes each stream may have at stake; 0 is DefaultCheckpointInterval.
	CheckpointInterval int64
	// Mirror asks the receiver to remove what the source does not have; nil if it is not to. Its patterns are those of
	// Source's filter.
	Mirror *wirev1.Mirror
	Dial   Dial
	// DialBlocks returns a new connection to the receiver that carries blocks.
	DialBlocks func(context.Context) (net.Conn, error)
	// Streams is the number of workers, 1 to MaxStreams.
	Streams int
	Report  *Report
	// Direct says that the receiver is reached without a gateway.
	Direct bool
	// OneProcess says that the receiver is in this process, and what is sent crosses no network.
	OneProcess bool
	// ChangedPauses are how long to wait before files that changed while they were read are read again, each once more
	// for every pause. nil is the default: 1 s, then 5 s.
	ChangedPauses []time.Duration
	// Silence is how long a receiver, which says every second how far it is, may say nothing. 0 is the default: 1
	// minute.
	Silence time.Duration
}

const defaultSilence = time.Minute

// tellPatience is how long a sender that gives up waits for the receiver to have heard so. A pod has 10 s to end.
const tellPatience = 5 * time.Second

// Send moves the source to the receiver. It returns nil when the receiver has synced everything; any other end has a
// reason (see package failure) or is an error of this side. Nothing is tried again.
func Send(ctx context.Context, o SendOptions) error {
	conn, err := o.Dial()
	if err != nil {
		return fmt.Errorf("connect to the receiver: %w", err)
	}
	defer conn.Close()
	if err := ready(ctx, conn, o.Direct); err != nil {
		return err
	}
	// The session outlives a context that ends, so that the receiver can be told.
	streamCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	if o.Silence == 0 {
		o.Silence = defaultSilence
	}
	if o.ChangedPauses == nil {
		o.ChangedPauses = []time.Duration{time.Second, 5 * time.Second}
	}
	stream, err := wirev1.NewReceiverClient(conn).Session(streamCtx)
	if err != nil {
		return lost(conn, err)
	}
	s := &sender{
		SendOptions: o,
		stream:      stream,
		cut:         cancel,
		window:      semaphore.NewWeighted(protocol.WindowBytes),
		batches:     make(chan batch, 64),
		needs:       make(chan *wirev1.Need, 64),
		// Never full, because the window admits no more files.
		queue: make(chan *outFile, protocol.WindowBytes/protocol.EntryCost),
		items: make(chan []piece),
		idle:  make(chan struct{}, 1),
		ended: make(chan struct{}),
	}
	if err := s.begin(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if untrusted := conn.Untrusted(); untrusted != nil {
			return untrusted
		}
		return err
	}
	stop()
	err = s.run(ctx)
	if err != nil {
		s.tell(err)
	}
	return err
}

// connectPatience is how long a sender tries to reach the receiver, which was ready a moment ago.
const connectPatience = 2 * time.Minute

func ready(ctx context.Context, conn Conn, direct bool) error {
	limited, cancel := context.WithTimeout(ctx, connectPatience)
	defer cancel()
	err := conn.Ready(limited)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		if direct {
			return failure.New(wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST,
				"the receiving agent cannot be reached since %v: look at the Delivery, and check that a NetworkPolicy lets "+
					"agents reach its port 8443", connectPatience)
		}
		return failure.New(wirev1.FailureReason_FAILURE_REASON_PEER_UNREACHABLE,
			"the receiving agent cannot be reached through the peer's gateway since %v: look at the Delivery in the other "+
				"cluster", connectPatience)
	}
	return err
}

type sender struct {
	SendOptions

	sendMu sync.Mutex // of stream's sending half
	stream grpc.BidiStreamingClient[wirev1.SessionRequest, wirev1.SessionResponse]
	cut    context.CancelFunc // ends stream

	codec   codec.ID
	session []byte
	salt    []byte
	adaptive

	window  *semaphore.Weighted
	batches chan batch
	needs   chan *wirev1.Need
	queue   chan *outFile
	items   chan []piece
	asks    asks
	// unfinished counts items that no worker is done with; idle has a token when it may have become 0.
	unfinished atomic.Int64
	idle       chan struct{}

	// ended is closed when the receiver has said its last word; verdict is nil if it has finished.
	ended   chan struct{}
	verdict error

	files   atomic.Uint64 // sent completely
	bytes   atomic.Uint64
	changed changedFiles
}

func (s *sender) send(m *wirev1.SessionRequest) error {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	if err := s.stream.Send(m); err != nil {
		// The stream's own error comes from Recv.
		return fmt.Errorf("send to the receiver: %w", errBroken)
	}
	return nil
}

// errBroken stands for an error that the session's receiving half knows better.
var errBroken = failure.New(
	wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "the connection to the receiver was lost",
)

// tell says to the receiver why the sender gives up, if it still listens.
func (s *sender) tell(err error) {
	if failure.Is(err, wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST) {
		return
	}
	if s.send(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Failure{Failure: failure.ToWire(err)}}) != nil {
		return
	}
	_ = s.stream.CloseSend()
	// The stream must not be cut before the message is out.
	select {
	case <-s.ended:
	case <-time.After(tellPatience):
	}
}

func (s *sender) begin() error {
	begin := &wirev1.Begin{
		ProtocolVersion:    cmp.Or(s.ProtocolVersion, wirev1.ProtocolVersion),
		RunId:              s.RunID,
		Attempt:            s.Attempt,
		ChunkSize:          protocol.ChunkSize,
		Verify:             s.Verify,
		CheckpointInterval: uint64(s.CheckpointInterval),
		Mirror:             s.Mirror,
	}
	for _, id := range s.offer() {
		begin.Codecs = append(begin.Codecs, uint32(id))
	}
	if err := s.stream.Send(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Begin{Begin: begin}}); err != nil &&
		!errors.Is(err, io.EOF) {
		return protocol.Lost(err)
	}
	m, err := s.receive()
	if err != nil {
		return err
	}
	if f := m.GetFailure(); f != nil {
		return refused(f)
	}
	accepted := m.GetAccepted()
	if accepted == nil || len(accepted.GetSession()) == 0 || accepted.GetCodec() > 255 {
		return protocol.Invalid("the receiver did not answer the beginning of the session")
	}
	s.codec, s.session, s.salt = codec.ID(accepted.GetCodec()), accepted.GetSession(), accepted.GetSalt()
	offered := false
	for _, id := range s.offer() {
		offered = offered || id == s.codec
	}
	if !offered {
		return protocol.Invalid("the receiver chose codec %d, which was not offered", accepted.GetCodec())
	}
	s.adapt(accepted)
	s.Report.Transferring(s.Source.Omissions())
	return nil
}

// offer returns the codecs that the sender can write and the policy allows, and none, which always works.
func (s *sender) offer() []codec.ID {
	var ids []codec.ID
	if s.Policy.Mode != policy.Never {
		for _, id := range s.Codecs {
			if id != codec.None && len(s.Engines.ForCodec(id)) > 0 {
				ids = append(ids, id)
			}
		}
	}
	return append(ids, codec.None)
}

func (s *sender) run(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	go func() {
		defer close(s.ended)
		if s.verdict = s.listen(); s.verdict != nil {
			cancel(s.verdict)
		}
	}()
	err := s.work(ctx)
	switch {
	case err == nil:
		return s.outcome()
	case parent.Err() != nil:
		return context.Cause(parent)
	case !errors.Is(err, context.Canceled) && !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST):
		return err
	}
	// A stream that broke may mean that the receiver has given up and is about to say why.
	select {
	case <-s.ended:
		if s.verdict != nil {
			return s.verdict
		}
	case <-time.After(protocol.VerdictPatience):
	}
	return err
}

// work does everything from the first look at the source to the end of the session.
func (s *sender) work(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.walk(gctx) })
	g.Go(func() error { return s.match(gctx) })
	g.Go(func() error { return s.pack(gctx) })
	for range s.Streams {
		g.Go(func() error { return s.sendItems(gctx) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	finish := &wirev1.Finish{Files: s.files.Load(), Bytes: s.bytes.Load()}
	if err := s.send(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Finish{Finish: finish}}); err != nil {
		return err
	}
	select {
	case <-s.ended:
		return s.verdict
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// outcome says whether a run that went through was complete.
func (s *sender) outcome() error {
	return s.changed.outcome()
}

// receive returns the receiver's next message. It cuts the stream when none comes for too long: a receiver that hangs
// may still answer the connection's keepalive.
func (s *sender) receive() (*wirev1.SessionResponse, error) {
	timer := time.AfterFunc(s.Silence, s.cut)
	m, err := s.stream.Recv()
	inTime := timer.Stop()
	switch {
	case err == nil:
		return m, nil
	case !inTime:
		return nil, failure.New(
			wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "the receiver was silent for %v", s.Silence,
		)
	default:
		return nil, protocol.Lost(err)
	}
}

// listen takes what the receiver says until it has finished or failed.
func (s *sender) listen() error {
	for {
		m, err := s.receive()
		if err != nil {
			return err
		}
		switch m := m.GetMessage().(type) {
		case *wirev1.SessionResponse_Need:
			select {
			case s.needs <- m.Need:
			case <-s.stream.Context().Done():
				return protocol.Lost(s.stream.Context().Err())
			}
		case *wirev1.SessionResponse_Old:
			if err := s.answered(m.Old); err != nil {
				return err
			}
		case *wirev1.SessionResponse_Received:
			s.Report.received(m.Received, nil)
			s.heard(m.Received)
		case *wirev1.SessionResponse_Failure:
			return refused(m.Failure)
		case *wirev1.SessionResponse_Finished:
			s.Report.received(m.Finished.GetReceived(), m.Finished.GetOmissions())
			return nil
		default:
			return protocol.Invalid("the receiver sent a message that does not belong here")
		}
	}
}

// refused returns why the receiver gave up.
func refused(f *wirev1.Failure) error {
	return failure.New(f.GetReason(), "the receiver: %w", failure.FromWire(f))
}

// lost is protocol.Lost for an error that want of trust may explain.
func lost(conn Conn, err error) error {
	if conn != nil {
		if untrusted := conn.Untrusted(); untrusted != nil {
			return untrusted
		}
	}
	return protocol.Lost(err)
}
