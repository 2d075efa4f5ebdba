// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"time"

	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// A manifest is sent when it has batchEntries or batchBytes of paths.
	batchEntries = 1024
	batchBytes   = 256 << 10
	// maxBatchAge is how long an entry waits for others before it is announced.
	maxBatchAge = 200 * time.Millisecond
	// farEntries are those of the first manifest on a long path, which goes out in the first window of a connection beside
	// the session's beginning. Each of the following ones has twice as many, as the window grows.
	farEntries = 96
)

// announcer walks the source and announces what it finds.
type announcer struct {
	source  Source
	report  *Report
	session *session
	window  *window
	batches chan batch
	place   *Place // in a Fan; nil: there is none
	// most is how many entries the next manifest has at most.
	most int

	cancel context.CancelCauseFunc // nil before start
	ended  chan struct{}           // closed when it has ended with err
	err    error

	batch  batch // the next to be announced
	weight int
	began  time.Time
	// entries, and files and bytes of those that were announced.
	entries, files, bytes uint64
}

func newAnnouncer(o *Options, s *session, w *window) *announcer {
	a := &announcer{
		source: o.Source, report: o.Report, session: s, window: w, batches: make(chan batch, 64), place: o.Place,
		most: batchEntries, ended: make(chan struct{}),
	}
	if o.far() {
		a.most = farEntries
	}
	return a
}

// start begins to announce, once.
func (a *announcer) start(ctx context.Context) {
	if a.cancel != nil {
		return
	}
	ctx, a.cancel = context.WithCancelCause(ctx)
	go func() {
		defer close(a.ended)
		a.err = a.run(ctx)
	}()
}

// wait starts it, if it is not, and waits until it has ended, which a context that ends has it do.
func (a *announcer) wait(ctx context.Context) error {
	a.start(ctx)
	defer context.AfterFunc(ctx, func() { a.cancel(context.Cause(ctx)) })()
	<-a.ended
	return a.err
}

// end has it end: nothing reads the source any more then.
func (a *announcer) end() {
	if a.cancel != nil {
		a.cancel(nil)
		<-a.ended
	}
}

// run announces everything at the source.
func (a *announcer) run(ctx context.Context) error {
	defer close(a.batches)
	add := func(e *tree.Entry) error { return a.add(ctx, e) }
	var err error
	if walk := a.place.sharedWalk(); walk != nil {
		err = walk.each(ctx, a.source, func() { a.report.Transferring(a.source.Omissions()) }, add)
	} else {
		err = a.source.Walk(ctx, add)
	}
	if err == nil {
		err = a.flush(ctx)
	}
	if err != nil {
		return err
	}
	a.report.Update(func(p *wirev1.Progress) { p.Scanned = true })
	end := &wirev1.ManifestEnd{Entries: a.entries, Files: a.files, Bytes: a.bytes}
	return a.session.send(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_ManifestEnd{ManifestEnd: end}})
}

func (a *announcer) add(ctx context.Context, e *tree.Entry) error {
	if e.Type == tree.File {
		if err := a.window.acquire(ctx, e); err != nil {
			return err
		}
	}
	if len(a.batch.entries) == 0 {
		a.began = time.Now()
	}
	a.batch.entries = append(a.batch.entries, e)
	a.weight += e.Weight()
	a.entries++
	if len(a.batch.entries) >= a.most || a.weight >= batchBytes || time.Since(a.began) > maxBatchAge {
		return a.flush(ctx)
	}
	return nil
}

// flush announces the batch.
func (a *announcer) flush(ctx context.Context) error {
	b := a.batch
	if len(b.entries) == 0 {
		return nil
	}
	select {
	case a.batches <- b:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	m := &wirev1.Manifest{Entries: make([]*wirev1.Entry, len(b.entries))}
	for i, e := range b.entries {
		m.Entries[i] = e.ToWire()
		if e.Type == tree.File {
			a.files++
			a.bytes += uint64(e.Size)
		}
	}
	a.most = min(2*a.most, batchEntries)
	a.batch, a.weight = batch{first: a.entries, start: int64(a.bytes)}, 0
	a.report.Update(func(p *wirev1.Progress) { p.FilesTotal, p.BytesTotal = a.files, a.bytes })
	return a.session.send(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Manifest{Manifest: m}})
}
