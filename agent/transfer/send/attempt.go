// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// attempt is one session that has begun, and what works for it.
type attempt struct {
	options   *Options
	session   *session
	terms     *terms
	adaptive  *adaptive
	window    *window
	announcer *announcer
	matcher   *matcher
	asks      *asks
	changed   *changedFiles
	workload  *workload
	early     early

	// received is the digest of the content manifest that the receiver computed, once the session has ended.
	received []byte
	verdict  error // once the session has ended: nil if the receiver has finished
}

func newAttempt(o *Options, s *session, t *terms, announcer *announcer, e early) *attempt {
	window := announcer.window
	return &attempt{
		options: o, session: s, terms: t, adaptive: newAdaptive(o, t), window: window,
		announcer: announcer, matcher: newMatcher(o.Report, window, announcer.batches, t.carry), asks: &asks{session: s},
		changed: &changedFiles{session: s}, workload: newWorkload(), early: e,
	}
}

// run sends everything. It says whether a run that went through was complete.
func (a *attempt) run(parent context.Context) error {
	omissions := a.options.Source.Omissions()
	if place := a.options.Place; place.sharedWalk() != nil {
		omissions = place.fan.options.Source.Omissions()
	}
	a.options.Report.Transferring(omissions)
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	go a.adaptive.sampler.Run(ctx)
	go func() {
		defer close(a.session.ended)
		if a.verdict = a.listen(); a.verdict != nil {
			cancel(a.verdict)
		}
	}()
	err := a.work(ctx)
	switch {
	case err == nil:
		return a.changed.outcome()
	case parent.Err() != nil:
		return context.Cause(parent)
	case !errors.Is(err, context.Canceled) && !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST):
		return err
	}
	// A stream that broke may mean that the receiver has given up and is about to say why.
	select {
	case <-a.session.ended:
		if a.verdict != nil {
			return a.verdict
		}
	case <-time.After(protocol.VerdictPatience):
	}
	return err
}

// work does everything from the first look at the source to the end of the session.
func (a *attempt) work(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	o := a.options
	g.Go(func() error { return a.announcer.wait(gctx) })
	g.Go(func() error { return a.matcher.run(gctx) })
	packer := &packer{
		queue: a.matcher.queue, asks: a.asks, workload: a.workload, changed: a.changed, pauses: o.ChangedPauses,
		apart: o.Form != 0, alike: o.Place != nil, records: o.Records,
		most: protocol.ChunkSize, streams: o.streams(),
		retrier: &retrier{
			source: o.Source, report: o.Report, session: a.session, window: a.window, matcher: a.matcher, changed: a.changed,
		},
	}
	if o.far() && !packer.alike {
		packer.most = farBlock
	}
	g.Go(func() error { return packer.run(gctx) })
	// Where nothing is left to be said after the last blocks, the session's end does not wait for the answers to them.
	streams := o.streams()
	soon := a.terms.accepted.GetEarlyFinish() && !o.Contents
	last := make(chan struct{}, streams)
	for i := range streams {
		w := &worker{
			source: o.Source, report: o.Report, window: a.window, changed: a.changed, workload: a.workload,
			adaptive: a.adaptive, parts: partReader{source: o.Source, salt: a.terms.salt}, whole: o.Form != 0,
			shared: newSharing(o.Place), last: last, soon: soon, ended: a.session.ended,
		}
		g.Go(func() error { return w.run(gctx, o, a.terms, a.early.take(gctx, i, a.terms.token)) })
	}
	if soon {
		g.Go(func() error {
			for range streams {
				select {
				case <-last:
				case <-gctx.Done():
					return context.Cause(gctx)
				}
			}
			return a.finish(nil, streams)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	var digest *wirev1.ContentDigest
	if o.Contents && a.changed.outcome() == nil {
		source, ok := o.Source.(ContentSource)
		if !ok {
			return fmt.Errorf("the content of a source of type %T cannot be digested", o.Source)
		}
		teller := &contentTeller{
			source: source, session: a.session, files: a.window.files.Load(), bytes: a.window.bytes.Load(),
			place: o.Place,
		}
		var err error
		if digest, err = teller.run(ctx); err != nil {
			return err
		}
	}
	if !soon {
		if err := a.finish(digest, 0); err != nil {
			return err
		}
	}
	select {
	case <-a.session.ended:
		if a.verdict == nil && !bytes.Equal(a.received, digest.GetSha256()) {
			return protocol.Invalid("the receiver's digest of the content manifest is another one than the sender's")
		}
		o.Report.SetContents(digest)
		return a.verdict
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// finish says that everything was sent, by so many streams whose ends may be on the way.
func (a *attempt) finish(digest *wirev1.ContentDigest, streams int) error {
	return a.session.send(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Finish{Finish: &wirev1.Finish{
		Files: a.window.files.Load(), Bytes: a.window.bytes.Load(), ContentsSha256: digest.GetSha256(),
		Streams: uint32(streams),
	}}})
}

// listen takes what the receiver says until it has finished or failed.
func (a *attempt) listen() error {
	report := a.options.Report
	for {
		m, err := a.session.receive()
		if err != nil {
			return err
		}
		switch m := m.GetMessage().(type) {
		case *wirev1.SessionResponse_Need:
			select {
			case a.matcher.needs <- m.Need:
			case <-a.session.stream.Context().Done():
				return protocol.Lost(a.session.stream.Context().Err())
			}
		case *wirev1.SessionResponse_Old:
			if err := a.asks.answered(m.Old); err != nil {
				return err
			}
		case *wirev1.SessionResponse_Received:
			report.received(m.Received, nil)
			a.adaptive.heard(m.Received, a.options.pace())
		case *wirev1.SessionResponse_Failure:
			return refused(m.Failure)
		case *wirev1.SessionResponse_Finished:
			report.received(m.Finished.GetReceived(), m.Finished.GetOmissions())
			a.received = m.Finished.GetContentsSha256()
			return nil
		default:
			return protocol.Invalid("the receiver sent a message that does not belong here")
		}
	}
}
