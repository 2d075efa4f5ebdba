// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/filter"
	"github.com/lighterage/lighterage/agent/journal"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// attempt is one session and the connections for blocks that belong to it.
type attempt struct {
	options  *Options
	ctx      context.Context
	cancel   context.CancelCauseFunc
	session  *session
	activity *activity
	expected *expected

	// open counts the connections for blocks that have not ended, broken those that ended before their last block.
	open   atomic.Int32
	broken atomic.Int32
	// whole counts those that ended with their last block; more has a token when that, or broken, has changed.
	whole atomic.Int32
	more  chan struct{}
	// worked is how long connections were not waiting for data, in nanoseconds, all together.
	worked atomic.Int64

	// Set by accept, before opened.
	opened      atomic.Bool
	terms       *terms
	checkpoints *checkpoints // nil before that
	matcher     *matcher
	digester    *digester
	contents    *contentChecker
}

func newAttempt(
	ctx context.Context, cancel context.CancelCauseFunc, o *Options, stream wirev1.Receiver_SessionServer,
) *attempt {
	activity := newActivity()
	return &attempt{
		options: o, ctx: ctx, cancel: cancel, activity: activity, expected: newExpected(o.Report),
		more:    make(chan struct{}, 1),
		session: &session{stream: stream, activity: activity, patience: min(o.Idle, protocol.VerdictPatience)},
	}
}

// fail ends the attempt with an error. The first one counts.
func (a *attempt) fail(err error) { a.cancel(err) }

// run runs the attempt to its end. When it returns nothing is written any more.
func (a *attempt) run() error {
	err := a.serve()
	a.cancel(err)
	// At once: the connections are closed now, the sender waits for the reason, and what follows takes as long as a
	// disk does.
	a.session.end(err)
	a.activity.shut()
	if err != nil && a.checkpoints != nil {
		// What did not pass the verification is nothing to build upon.
		a.checkpoints.leave(!failure.Is(err, wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED))
	}
	return err
}

// serve waits for nothing but the attempt's own errors and the sender, for no longer than Idle; what may block on a
// sender that neither speaks nor listens has goroutines of its own, which end with the stream.
func (a *attempt) serve() error {
	finish := make(chan *wirev1.Finish, 1)
	go func() {
		f, err := a.steer()
		if err != nil {
			a.fail(err)
			return
		}
		finish <- f
	}()
	ticker := time.NewTicker(min(a.options.Idle, reportInterval))
	defer ticker.Stop()
	for {
		select {
		case <-a.ctx.Done():
			return a.session.cause(a.ctx)
		case f := <-finish:
			return a.finish(f)
		case <-ticker.C:
			if silence := a.activity.silence(); silence > a.options.Idle {
				return failure.New(wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST,
					"the sender was silent for %v", silence.Round(time.Second))
			}
		}
	}
}

// steer takes the sender's messages from Begin to Finish.
func (a *attempt) steer() (*wirev1.Finish, error) {
	if err := a.accept(); err != nil {
		return nil, err
	}
	go a.tell()
	go func() {
		if err := a.digester.run(a.ctx); err != nil {
			a.fail(err)
		}
	}()
	for {
		m, err := a.session.receive()
		if err != nil {
			return nil, err
		}
		if f := m.GetFinish(); f != nil {
			return f, a.ends(f.GetStreams())
		}
		var answer *wirev1.SessionResponse
		if !a.activity.do(func() { answer, err = a.take(m) }) {
			return nil, context.Canceled
		}
		if err == nil && answer != nil {
			err = a.session.send(answer)
		}
		if err != nil {
			return nil, err
		}
	}
}

// wordPatience is how long a receiver whose connection for blocks broke waits for the sender to say why.
const wordPatience = time.Second

// ends waits for the ends of connections that the sender did not wait for, and so does not know to have broken. A
// sender whose last blocks do not come is one that is silent.
func (a *attempt) ends(streams uint32) error {
	if streams > protocol.MaxStreams {
		return protocol.Invalid("the sender has had %d streams; the limit is %d", streams, protocol.MaxStreams)
	}
	// The sender says nothing more unless it gives up: its last blocks may be in buffers for long.
	gone := make(chan error, 1)
	if uint32(a.whole.Load()) < streams {
		go func() {
			_, err := a.session.receive()
			if err == nil {
				err = protocol.Invalid("the sender goes on after it has finished")
			}
			gone <- err
		}()
	}
	for uint32(a.whole.Load()) < streams {
		if a.broken.Load() > 0 {
			select {
			case err := <-gone: // It knows better why.
				return err
			case <-time.After(wordPatience):
				return protocol.Lost(errors.New("a connection ended before its last block"))
			case <-a.ctx.Done():
				return context.Cause(a.ctx)
			}
		}
		select {
		case <-a.more:
		case err := <-gone:
			return err
		case <-a.ctx.Done():
			return context.Cause(a.ctx)
		}
	}
	return nil
}

// accept takes the beginning of the session and answers it.
func (a *attempt) accept() error {
	m, err := a.session.receive()
	if err != nil {
		return err
	}
	begin := m.GetBegin()
	if a.terms, err = negotiate(a.options, begin); err != nil {
		return err
	}
	if !a.activity.do(func() { err = a.prepare(begin) }) {
		return context.Canceled
	}
	if err != nil {
		return err
	}
	a.opened.Store(true)
	a.options.Report.Transferring(a.options.Destination.Omissions())
	return a.session.send(&wirev1.SessionResponse{
		Message: &wirev1.SessionResponse_Accepted{Accepted: a.terms.accepted(a.options, begin)},
	})
}

// prepare looks at what earlier attempts left, and puts together what writes.
func (a *attempt) prepare(begin *wirev1.Begin) error {
	o := a.options
	form := a.terms.form
	if form != 0 {
		o.Destination.Rest(form, a.terms.records)
	}
	if err := mirror(o, begin.GetMirror()); err != nil {
		return err
	}
	header := journal.Header{
		Run: o.RunID, Sender: journalOf(o.Sender, a.terms), Attempt: o.Attempt, ChunkSize: begin.GetChunkSize(),
	}
	limit := func() int64 { return a.terms.interval * int64(max(1, min(protocol.MaxStreams, a.open.Load()))) }
	var err error
	if a.checkpoints, err = newCheckpoints(a.ctx, o.Destination, header, a.terms, limit, a.fail); err != nil {
		return err
	}
	a.checkpoints.touch = a.activity.touch
	a.matcher = &matcher{
		destination: o.Destination, terms: a.terms, report: o.Report, checkpoints: a.checkpoints, expected: a.expected,
		resumer: &resumer{
			destination: o.Destination, terms: a.terms, activity: a.activity, checkpoints: a.checkpoints,
		},
	}
	a.digester = &digester{
		destination: o.Destination, terms: a.terms, activity: a.activity, expected: a.expected, session: a.session,
		questions: make(chan question, protocol.MaxAsks),
	}
	a.contents = &contentChecker{destination: o.Destination, activity: a.activity}
	return nil
}

// journalOf says whose journal it is: what is staged in a form is of no use in another, nor with other records.
func journalOf(sender string, t *terms) string {
	if t.form != 0 {
		sender += " " + t.form.String()
	}
	if t.records.Layout != cargo.NoRecords {
		sender += " " + t.records.String()
	}
	return sender
}

// mirror does as the sender asks with what else is at the destination.
func mirror(o *Options, m *wirev1.Mirror) error {
	if m == nil {
		return nil
	}
	if !o.AllowDelete {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED,
			"the sender asks to remove what the source does not have, and its run was opened without spec.delete: nothing was "+
				"removed or written")
	}
	patterns, err := filter.New(m.GetInclude(), m.GetExclude())
	if err != nil {
		return protocol.Invalid("the sender's filter cannot be used: %w", err)
	}
	return o.Destination.Mirror(patterns, m.GetAllowEmptySource())
}

// take does what one message of the sender asks for and returns the answer, if it has one.
func (a *attempt) take(m *wirev1.SessionRequest) (*wirev1.SessionResponse, error) {
	var need *wirev1.Need
	var err error
	if a.contents.digest != nil && m.GetContents() == nil {
		return nil, protocol.Invalid("the sender sent something else amid its content manifest")
	}
	switch m := m.GetMessage().(type) {
	case *wirev1.SessionRequest_Manifest:
		need, err = a.matcher.announce(a.ctx, m.Manifest)
	case *wirev1.SessionRequest_ManifestEnd:
		return nil, a.matcher.end(m.ManifestEnd)
	case *wirev1.SessionRequest_AskOld:
		return nil, a.digester.ask(m.AskOld)
	case *wirev1.SessionRequest_Retry:
		need, err = a.matcher.retry(a.ctx, m.Retry)
	case *wirev1.SessionRequest_FileChanged:
		return nil, a.matcher.takeBack(m.FileChanged.GetIndex())
	case *wirev1.SessionRequest_Contents:
		if !a.terms.contents || a.expected.tally().changed > 0 {
			return nil, protocol.Invalid("the sender sent a content manifest of a run that has none")
		}
		if a.contents.digest == nil {
			a.activity.busyWhile(func() { err = a.settle(m.Contents.GetFiles(), m.Contents.GetBytes()) })
			if err != nil {
				return nil, err
			}
		}
		return nil, a.contents.take(a.ctx, m.Contents)
	default:
		return nil, protocol.Invalid("the sender sent a message that does not belong here")
	}
	if err != nil {
		return nil, err
	}
	return &wirev1.SessionResponse{Message: &wirev1.SessionResponse_Need{Need: need}}, nil
}

// serveBlocks takes the blocks of a connection and answers the last one.
func (a *attempt) serveBlocks(conn net.Conn) {
	if !a.opened.Load() || a.open.Add(1) > protocol.MaxStreams {
		return
	}
	// What waits for a sender ends with the attempt.
	stop := context.AfterFunc(a.ctx, func() { _ = conn.Close() })
	defer stop()
	o := a.options
	d := &stream{
		ctx: a.ctx, terms: a.terms, report: o.Report, activity: a.activity, expected: a.expected, engines: o.Engines,
		checkpoints: a.checkpoints, fail: a.fail, worked: &a.worked,
		writer: &writer{
			destination: o.Destination, terms: a.terms, report: o.Report, checkpoints: a.checkpoints, expected: a.expected,
		},
	}
	if a.terms.form != 0 {
		d.packer, d.patience = cargo.NewPacker(a.terms.form), o.Idle/2
	}
	err := d.serve(conn)
	if err != nil {
		a.broken.Add(1)
	}
	a.open.Add(-1)
	if err == nil {
		_ = protocol.WriteResponse(conn, d.blocks) // A sender that is gone needs no answer.
		a.whole.Add(1)                             // The attempt may end from here on, and the connection with it.
	}
	select {
	case a.more <- struct{}{}:
	default:
	}
}

// tell says every now and then how far the receiver is, also while it syncs: the sender takes silence for a fault.
func (a *attempt) tell() {
	ticker := time.NewTicker(reportInterval)
	defer ticker.Stop()
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-ticker.C:
			// Receiving ends with the stream too and knows the reason.
			if a.session.send(
				&wirev1.SessionResponse{Message: &wirev1.SessionResponse_Received{Received: a.received()}},
			) != nil {
				return
			}
		}
	}
}

// finish ends an attempt whose data are all there.
func (a *attempt) finish(f *wirev1.Finish) error {
	a.activity.shut()
	var digest *wirev1.ContentDigest
	var err error
	if a.terms.contents && a.expected.tally().changed == 0 {
		digest, err = a.contents.finish(f, &a.matcher.manifest)
	} else {
		err = a.settle(f.GetFiles(), f.GetBytes())
	}
	if err != nil {
		return err
	}
	a.options.Report.SetContents(digest)
	a.session.silent.Store(true)
	return a.session.lastWord(&wirev1.SessionResponse{Message: &wirev1.SessionResponse_Finished{Finished: &wirev1.Finished{
		Received:  a.received(),
		Omissions: a.options.Destination.Omissions().ToWire(), ContentsSha256: digest.GetSha256(),
	}}})
}

// settle syncs everything when all is there, makes what is left to make, and removes what a mirror is to remove. The
// sender counts so many files and bytes.
func (a *attempt) settle(files, bytes uint64) error {
	came := a.expected.tally()
	switch {
	case !a.matcher.manifest.ended:
		return protocol.Invalid("the sender finished before the end of its manifest")
	case a.broken.Load() > 0:
		return protocol.Invalid("the sender finished, but a connection ended before its last block")
	case a.open.Load() > 0:
		return protocol.Invalid("the sender finished before its streams had ended")
	case came.missing > 0:
		return protocol.Invalid("the sender finished, but %d files are not complete", came.missing)
	case files != came.files || bytes != came.bytes:
		return protocol.Invalid("the sender counts %d files of %d bytes, the receiver %d of %d", files, bytes, came.files,
			came.bytes)
	}
	if err := a.checkpoints.stop(); err != nil {
		return err
	}
	destination := a.options.Destination
	if came.changed > 0 {
		// The run is not complete, and so nothing is removed yet.
		destination.KeepOthers()
	}
	err := destination.Finish()
	a.options.Report.Update(func(p *wirev1.Progress) { p.Removed = destination.Removed() })
	return err
}

// received says how far the receiver is.
func (a *attempt) received() *wirev1.Received {
	came, blocks := a.expected.tally(), a.options.Report.Blocks.Snapshot()
	m := &wirev1.Received{
		Files:         came.files + came.empty,
		Bytes:         came.bytes,
		PartialBytes:  a.expected.partialBytes(),
		ResentBytes:   a.checkpoints.resentBytes(),
		Removed:       a.options.Destination.Removed(),
		BusyNanos:     uint64(max(a.worked.Load(), 0)),
		Streams:       uint32(max(a.open.Load(), 0)),
		Traffic:       a.options.Report.Wire.Traffic().Wire(),
		Decompression: a.options.Report.decompression(blocks, a.options.Report.came.Snapshot()),
		Cpu: &wirev1.CPU{
			DecompressNanos: uint64(blocks.CPU), WriteNanos: uint64(a.options.Report.writing.Load()),
		},
	}
	if !a.options.OneProcess {
		m.Cpu.ReceiveNanos = protocol.ProcessNanos()
	}
	return m
}
