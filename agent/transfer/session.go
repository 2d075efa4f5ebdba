// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// session is one attempt as the receiver sees it.
type session struct {
	ReceiveOptions
	ctx    context.Context
	cancel context.CancelCauseFunc
	// open counts the connections for blocks that have not ended, broken those that ended before their last block, busy
	// the blocks that are being written.
	open   atomic.Int32
	broken atomic.Int32
	busy   sync.WaitGroup

	sendMu sync.Mutex // of stream's sending half
	stream wirev1.Receiver_SessionServer
	over   bool // nothing is sent any more
	// silent: the sender knows already why the session ended, or is gone.
	silent atomic.Bool

	// Set by accept, before opened.
	opened atomic.Bool
	token  []byte
	salt   []byte
	chunk  int64
	verify bool
	// checkpoints is nil before that.
	checkpoints *checkpoints

	// began and last, which is when the last message came, in nanoseconds since, are not of the clock that can be set.
	began time.Time
	last  atomic.Int64
	// worked is how long streams were not waiting for data, in nanoseconds, all together.
	worked atomic.Int64

	// Of the goroutine that steers: the manifest, how many numbers staged files have got, and how many files were
	// announced again.
	manifest manifest
	numbers  uint64
	retried  uint64

	questions chan question

	mu        sync.Mutex
	pending   map[uint64]*inFile // announced, needed, not complete
	weight    int64              // of pending
	room      chan struct{}      // has a token when pending became lighter
	takenBack map[uint64]*taken
	changed   int  // of takenBack, those that are not settled
	closed    bool // nothing is written any more
	// files and bytes are complete; made are files without content.
	files, bytes, made uint64

	// partial bytes are of files of several chunks that are not complete. It may be less than 0 for moments.
	partial atomic.Int64
}

// enter announces that a block will be written; leave must follow if it returns true.
func (s *session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.busy.Add(1)
	return true
}

func (s *session) leave() {
	// A slow destination is not a silent sender.
	s.touch()
	s.busy.Done()
}

// shut waits for blocks that are being written and lets no further one begin.
func (s *session) shut() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.busy.Wait()
}

func (s *session) touch() { s.last.Store(int64(time.Since(s.began))) }

// fail ends the session with an error. The first one counts.
func (s *session) fail(err error) { s.cancel(err) }

func (s *session) send(m *wirev1.SessionResponse) error {
	s.sendMu.Lock()
	defer s.sendMu.Unlock()
	if s.over {
		return context.Canceled
	}
	if err := s.stream.Send(m); err != nil {
		return protocol.Lost(err)
	}
	return nil
}

// lastWord is send for the last message, which may be nil for none. It does not wait for long for a sender that takes
// nothing.
func (s *session) lastWord(m *wirev1.SessionResponse) error {
	said := make(chan error, 1)
	go func() {
		var err error
		if m != nil {
			err = s.send(m)
		}
		s.sendMu.Lock()
		s.over = true
		s.sendMu.Unlock()
		said <- err
	}()
	select {
	case err := <-said:
		return err
	case <-time.After(min(s.Idle, protocol.VerdictPatience)):
		return failure.New(
			wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "the sender does not take the receiver's last message",
		)
	}
}

// receive returns the sender's next message. A sender that gives up or goes away is an error.
func (s *session) receive() (*wirev1.SessionRequest, error) {
	m, err := s.stream.Recv()
	if err != nil {
		s.silent.Store(true)
		if errors.Is(err, io.EOF) {
			return nil, failure.New(
				wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "the sender ended the session before it was finished",
			)
		}
		return nil, failure.New(
			wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "the connection to the sender was lost: %w", err,
		)
	}
	s.touch()
	if f := m.GetFailure(); f != nil {
		s.silent.Store(true)
		return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_ABORTED,
			"the sender gave up: %s", failure.Shorten(f.GetMessage(), failure.MaxMessage/2))
	}
	return m, nil
}

// serve runs the session to its end. It waits for nothing but the session's own errors and the sender, for no longer
// than Idle; what may block on a sender that neither speaks nor listens has goroutines of its own, which end with the
// stream.
func (s *session) serve() error {
	finish := make(chan *wirev1.Finish, 1)
	go func() {
		f, err := s.steer()
		if err != nil {
			s.fail(err)
			return
		}
		finish <- f
	}()
	ticker := time.NewTicker(min(s.Idle, reportInterval))
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return s.cause()
		case f := <-finish:
			return s.finish(f)
		case <-ticker.C:
			if silence := time.Since(s.began) - time.Duration(s.last.Load()); silence > s.Idle {
				return failure.New(wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST,
					"the sender was silent for %v", silence.Round(time.Second))
			}
		}
	}
}

// tell says every now and then how far the receiver is, also while it syncs: the sender takes silence for a fault.
func (s *session) tell() {
	ticker := time.NewTicker(reportInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
			// Receiving ends with the stream too and knows the reason.
			if s.send(&wirev1.SessionResponse{Message: &wirev1.SessionResponse_Received{Received: s.received()}}) != nil {
				return
			}
		}
	}
}

// cause says why the session's context ended.
func (s *session) cause() error {
	cause := context.Cause(s.ctx)
	var known *failure.Error
	if !errors.As(cause, &known) && s.stream.Context().Err() != nil {
		s.silent.Store(true)
		return failure.New(
			wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "the connection to the sender was lost: %w", cause,
		)
	}
	return cause
}

// steer takes the sender's messages from Begin to Finish.
func (s *session) steer() (*wirev1.Finish, error) {
	if err := s.accept(); err != nil {
		return nil, err
	}
	go s.tell()
	go s.answerAll()
	for {
		m, err := s.receive()
		if err != nil {
			return nil, err
		}
		if f := m.GetFinish(); f != nil {
			return f, nil
		}
		if !s.enter() {
			return nil, context.Canceled
		}
		answer, err := s.take(m)
		s.leave()
		if err == nil && answer != nil {
			err = s.send(answer)
		}
		if err != nil {
			return nil, err
		}
	}
}

// take does what one message of the sender asks for and returns the answer, if it has one.
func (s *session) take(m *wirev1.SessionRequest) (*wirev1.SessionResponse, error) {
	switch m := m.GetMessage().(type) {
	case *wirev1.SessionRequest_Manifest:
		need, err := s.announce(m.Manifest)
		if err != nil {
			return nil, err
		}
		return &wirev1.SessionResponse{Message: &wirev1.SessionResponse_Need{Need: need}}, nil
	case *wirev1.SessionRequest_ManifestEnd:
		if err := s.manifest.end(m.ManifestEnd); err != nil {
			return nil, err
		}
		s.Report.update(func(p *wirev1.Progress) { p.Scanned = true })
		return nil, nil
	case *wirev1.SessionRequest_AskOld:
		return nil, s.takeAsk(m.AskOld)
	case *wirev1.SessionRequest_Retry:
		need, err := s.retry(m.Retry)
		if err != nil {
			return nil, err
		}
		return &wirev1.SessionResponse{Message: &wirev1.SessionResponse_Need{Need: need}}, nil
	case *wirev1.SessionRequest_FileChanged:
		return nil, s.takeBack(m.FileChanged.GetIndex())
	default:
		return nil, protocol.Invalid("the sender sent a message that does not belong here")
	}
}

// finish ends a session whose data are all there.
func (s *session) finish(f *wirev1.Finish) error {
	s.shut()
	missing, files, bytes := len(s.pending), s.files, s.bytes
	switch {
	case !s.manifest.ended:
		return protocol.Invalid("the sender finished before the end of its manifest")
	case s.open.Load() > 0:
		return protocol.Invalid("the sender finished before its streams had ended")
	case s.broken.Load() > 0:
		return protocol.Invalid("the sender finished, but a connection ended before its last block")
	case missing > 0:
		return protocol.Invalid("the sender finished, but %d files are not complete", missing)
	case f.GetFiles() != files || f.GetBytes() != bytes:
		return protocol.Invalid(
			"the sender counts %d files of %d bytes, the receiver %d of %d", f.GetFiles(), f.GetBytes(), files, bytes,
		)
	}
	if err := s.checkpoints.stop(); err != nil {
		return err
	}
	if s.changed > 0 {
		// The run is not complete, and so nothing is removed yet.
		s.Destination.KeepOthers()
	}
	err := s.Destination.Finish()
	s.Report.update(func(p *wirev1.Progress) { p.Removed = s.Destination.Removed() })
	if err != nil {
		return err
	}
	s.silent.Store(true)
	return s.lastWord(&wirev1.SessionResponse{Message: &wirev1.SessionResponse_Finished{Finished: &wirev1.Finished{
		Received:  s.received(),
		Omissions: s.Destination.Omissions().ToWire(),
	}}})
}

// received says how far the receiver is.
func (s *session) received() *wirev1.Received {
	s.mu.Lock()
	m := &wirev1.Received{Files: s.files + s.made, Bytes: s.bytes}
	s.mu.Unlock()
	m.PartialBytes = uint64(max(0, s.partial.Load()))
	m.ResentBytes = s.checkpoints.resentBytes()
	m.Removed = s.Destination.Removed()
	m.BusyNanos, m.Streams = uint64(max(s.worked.Load(), 0)), uint32(max(s.open.Load(), 0))
	blocks := s.Report.Blocks.Snapshot()
	m.Decompression = decompression(&blocks)
	m.Cpu = &wirev1.CPU{DecompressNanos: uint64(blocks.CPU)}
	if user, system, err := meter.ProcessCPU(); err == nil && !s.OneProcess {
		m.Cpu.ReceiveNanos = uint64(user + system)
	}
	return m
}
