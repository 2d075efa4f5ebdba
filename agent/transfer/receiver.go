// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"math"
	"runtime"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/filter"
	"github.com/lighterage/lighterage/agent/journal"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Destination is where a receiver writes. See tree.Destination for what the methods promise.
type Destination interface {
	Mirror(f *filter.Filter, allowEmpty bool) error
	Removed() uint64
	Look(*tree.Entry) (needed bool, err error)
	LookAgain(*tree.Entry) (needed bool, err error)
	Forget(path string)
	OpenOld(path string) (*tree.OldFile, error)
	Stage(number uint64, e *tree.Entry) (StagedFile, error)
	Discard(number uint64) error
	KeepOthers()
	Finish() error
	Close() error
	Sync() error
	Staged(number uint64) (bytes int64, exists bool, err error)
	Clear(keep func(number uint64) bool) (bytes int64, err error)
	Staging() journal.Dir
	Omissions() *tree.Omissions
}

// StagedFile is a file that does not have its name yet.
type StagedFile interface {
	io.WriterAt
	io.ReaderAt
	WriteHole(offset, length int64) error
	CopyFrom(old *tree.OldFile, offset, length int64) error
	IsHole(offset, length int64) (bool, error)
	Sync() error
	Commit(*tree.Entry) error
	Close() error
}

// Tree is a tree.Destination as Destination.
type Tree struct{ *tree.Destination }

// Stage implements Destination.
func (t Tree) Stage(number uint64, e *tree.Entry) (StagedFile, error) {
	return t.Destination.Stage(number, e)
}

// ReceiveOptions describe one attempt to receive.
type ReceiveOptions struct {
	RunID   string
	Attempt uint32
	// Sender is the Transfer that the sender's certificate names, as NAMESPACE/NAME.
	Sender      string
	Destination Destination
	// AllowDelete says that the sender may ask for a mirror, which removes what the source does not have.
	AllowDelete bool
	Engines     *codec.Registry
	// InflateRates are the bytes of plain data for each second of CPU time that engines were measured to expand; may be
	// nil.
	InflateRates map[codec.ID]float64
	Report       *Report
	// OneProcess says that the sender is in this process and counts its CPU time.
	OneProcess bool
	// WaitForSender is how long the receiver waits for a session, Idle how long a session may be silent. 0 is the
	// default: 10 and 5 minutes.
	WaitForSender time.Duration
	Idle          time.Duration
}

const (
	defaultWaitForSender = 10 * time.Minute
	defaultIdle          = 5 * time.Minute
	// reportInterval is how often a receiver tells its sender how far it is.
	reportInterval = time.Second
)

// Receiver serves one session of one sender. It is a wirev1.ReceiverServer; blocks come to ServeBlocks.
type Receiver struct {
	wirev1.UnimplementedReceiverServer
	options ReceiveOptions

	mu      sync.Mutex
	session *session // nil before the first
	ended   chan struct{}
	err     error
}

// NewReceiver returns a receiver that waits for its sender.
func NewReceiver(o ReceiveOptions) *Receiver {
	if o.WaitForSender == 0 {
		o.WaitForSender = defaultWaitForSender
	}
	if o.Idle == 0 {
		o.Idle = defaultIdle
	}
	return &Receiver{options: o, ended: make(chan struct{})}
}

// Wait returns when the attempt has ended: nil after everything was received and synced. The destination is closed
// then.
func (r *Receiver) Wait(ctx context.Context) error {
	timer := time.NewTimer(r.options.WaitForSender)
	defer timer.Stop()
	for {
		select {
		case <-r.ended:
			return r.err
		case <-ctx.Done():
			return r.abort(context.Cause(ctx))
		case <-timer.C:
			r.mu.Lock()
			waiting := r.session == nil
			r.mu.Unlock()
			if waiting {
				return r.abort(failure.New(wirev1.FailureReason_FAILURE_REASON_ABORTED,
					"no sender connected within %v: the other cluster starts another attempt", r.options.WaitForSender))
			}
		}
	}
}

// abort ends the attempt from this side.
func (r *Receiver) abort(err error) error {
	r.mu.Lock()
	s := r.session
	if s == nil {
		// No sender may come any more.
		r.session = &session{}
	}
	r.mu.Unlock()
	if s == nil {
		return errors.Join(err, r.options.Destination.Close())
	}
	s.fail(err)
	<-r.ended
	return r.err
}

// Session implements wirev1.ReceiverServer.
func (r *Receiver) Session(stream wirev1.Receiver_SessionServer) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	s := &session{
		ReceiveOptions: r.options,
		ctx:            ctx,
		cancel:         cancel,
		stream:         stream,
		pending:        make(map[uint64]*inFile),
		room:           make(chan struct{}, 1),
		takenBack:      make(map[uint64]*taken),
		questions:      make(chan question, protocol.MaxAsks),
		began:          time.Now(),
	}
	r.mu.Lock()
	taken := r.session != nil
	if !taken {
		r.session = s
	}
	r.mu.Unlock()
	if taken {
		return status.Error(codes.FailedPrecondition, "this attempt has had its session")
	}
	s.touch()
	err := s.serve()
	cancel(err)
	// At once: the connections are closed now, the sender waits for the reason, and what follows takes as long as a
	// disk does.
	var last *wirev1.SessionResponse
	if err != nil && !s.silent.Load() {
		last = &wirev1.SessionResponse{Message: &wirev1.SessionResponse_Failure{Failure: failure.ToWire(err)}}
	}
	_ = s.lastWord(last)
	s.shut()
	if err != nil && s.checkpoints != nil {
		// What did not pass the verification is nothing to build upon.
		s.checkpoints.leave(!failure.Is(err, wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED))
	}
	if closing := s.Destination.Close(); err == nil {
		err = closing
	}
	r.err = err
	close(r.ended)
	return nil
}

func (s *session) accept() error {
	m, err := s.receive()
	if err != nil {
		return err
	}
	begin := m.GetBegin()
	if begin == nil {
		return protocol.Invalid("the session does not begin with its beginning")
	}
	if v := begin.GetProtocolVersion(); !wirev1.Speaks(v) {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE,
			"the sender speaks version %d of the protocol, this receiver (%s) version %d: use the same release of Lighterage "+
				"in both clusters",
			v, wirev1.Version, wirev1.ProtocolVersion)
	}
	if begin.GetRunId() != s.RunID || begin.GetAttempt() != s.Attempt {
		return protocol.Invalid("the sender is at run %q attempt %d, this receiver was made for run %q attempt %d",
			failure.Shorten(begin.GetRunId(), 64), begin.GetAttempt(), s.RunID, s.Attempt)
	}
	c := begin.GetChunkSize()
	if c < protocol.MinChunkSize || c > protocol.MaxChunkSize || c&(c-1) != 0 {
		return protocol.Invalid("a chunk size of %d bytes; it must be a power of two from %d to %d", c, protocol.MinChunkSize, protocol.MaxChunkSize)
	}
	s.chunk, s.verify = int64(c), begin.GetVerify()
	interval := begin.GetCheckpointInterval()
	if interval == 0 {
		interval = DefaultCheckpointInterval
	}
	if interval < minCheckpointInterval || interval > maxCheckpointInterval {
		return protocol.Invalid(
			"a checkpoint interval of %d bytes; it must be from %d to %d", interval, minCheckpointInterval,
			maxCheckpointInterval,
		)
	}
	id, err := s.choose(begin.GetCodecs())
	if err != nil {
		return err
	}
	header := journal.Header{Run: s.RunID, Sender: s.Sender, Attempt: s.Attempt, ChunkSize: c}
	limit := func() int64 { return int64(interval) * int64(max(1, min(protocol.MaxStreams, s.open.Load()))) }
	if !s.enter() {
		return context.Canceled
	}
	if err = s.mirror(begin.GetMirror()); err == nil {
		s.checkpoints, err = newCheckpoints(s.ctx, s.Destination, header, limit, s.fail)
	}
	s.leave()
	if err != nil {
		return err
	}
	s.token = make([]byte, 32)
	rand.Read(s.token) // Never fails.
	s.salt = make([]byte, saltSize)
	rand.Read(s.salt)
	s.opened.Store(true)
	s.Report.transferring(s.Destination.Omissions())
	return s.send(&wirev1.SessionResponse{Message: &wirev1.SessionResponse_Accepted{Accepted: &wirev1.Accepted{
		Codec:        uint32(id),
		Session:      s.token,
		Salt:         s.salt,
		Version:      wirev1.Version,
		Architecture: runtime.GOARCH,
		Codecs:       s.readable(begin.GetCodecs()),
		Inflate:      s.inflate(),
		Cores:        uint32(runtime.GOMAXPROCS(0)),
	}}})
}

// mirror does as the sender asks with what else is at the destination.
func (s *session) mirror(m *wirev1.Mirror) error {
	if m == nil {
		return nil
	}
	if !s.AllowDelete {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED,
			"the sender asks to remove what the source does not have, and its run was opened without spec.delete: nothing was "+
				"removed or written")
	}
	patterns, err := filter.New(m.GetInclude(), m.GetExclude())
	if err != nil {
		return protocol.Invalid("the sender's filter cannot be used: %w", err)
	}
	return s.Destination.Mirror(patterns, m.GetAllowEmptySource())
}

// readable returns the codecs of the sender's that this build can read.
func (s *session) readable(offered []uint32) []uint32 {
	var ids []uint32
	for _, n := range offered {
		if n <= 255 && len(ids) < maxCodecs && (codec.ID(n) == codec.None || len(s.Engines.ForCodec(codec.ID(n))) > 0) {
			ids = append(ids, n)
		}
	}
	return ids
}

// maxCodecs bounds the answer to a sender that offers very many.
const maxCodecs = 64

// inflate returns what is known of how fast this side expands.
func (s *session) inflate() []*wirev1.InflateRate {
	var rates []*wirev1.InflateRate
	for _, id := range s.Engines.Codecs() {
		if rate := s.InflateRates[id]; rate >= 1 && rate < math.MaxInt64 {
			rates = append(rates, &wirev1.InflateRate{Codec: uint32(id), BytesPerSecond: uint64(rate)})
		}
	}
	return rates
}

// choose returns the first codec of the sender's that this build can read.
func (s *session) choose(offered []uint32) (codec.ID, error) {
	for _, n := range offered {
		if n > 255 {
			continue
		}
		if id := codec.ID(n); id == codec.None || len(s.Engines.ForCodec(id)) > 0 {
			return id, nil
		}
	}
	return 0, failure.New(wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE,
		"the receiver reads none of the codecs that the sender offers: use the same release of Lighterage in both clusters")
}
