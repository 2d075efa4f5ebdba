// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"sync"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// maxChangedNames bounds the files that a message names.
const maxChangedNames = 5

// changedFiles are files that changed while they were read and that the receiver was told to forget.
type changedFiles struct {
	session *session

	mu    sync.Mutex
	files []*outFile
	total int // those that were read again included
}

func (c *changedFiles) add(f *outFile) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files = append(c.files, f)
	if c.total++; c.total <= protocol.MaxChanged {
		return nil
	}
	return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED,
		"more than %d times a file changed while it was read, among them %s: stop what writes to the claim, or snapshot it",
		protocol.MaxChanged, c.names())
}

// take returns the files and forgets them.
func (c *changedFiles) take() []*outFile {
	c.mu.Lock()
	defer c.mu.Unlock()
	files := c.files
	c.files = nil
	return files
}

// names are some of the files'.
func (c *changedFiles) names() string {
	var names []string
	for _, f := range c.files[:min(len(c.files), maxChangedNames)] {
		names = append(names, strconv.Quote(failure.Shorten(f.entry.Path, failure.MaxMessage/2/maxChangedNames)))
	}
	return strings.Join(names, ", ")
}

// outcome is nil if nothing is left.
func (c *changedFiles) outcome() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.files) == 0 {
		return nil
	}
	return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED,
		"%d files changed each time they were read, among them %s; everything else is at the destination: run again when "+
			"they are at rest, snapshot the claim, or leave them out with spec.exclude", len(c.files), c.names())
}

// takeBack tells the receiver to forget a file. It is read again when everything else is sent.
func (c *changedFiles) takeBack(f *outFile) error {
	f.state.mu.Lock()
	defer f.state.mu.Unlock()
	if f.state.takenBack {
		return nil
	}
	f.state.takenBack = true
	f.records.stop()
	if err := c.add(f); err != nil {
		return err
	}
	return c.session.send(
		&wirev1.SessionRequest{Message: &wirev1.SessionRequest_FileChanged{FileChanged: &wirev1.FileChanged{Index: f.index}}},
	)
}

// retrier announces files again that changed while they were read.
type retrier struct {
	source  Source
	report  *Report
	session *session
	window  *window
	matcher *matcher
	changed *changedFiles

	retried uint64 // files that were announced again
}

// retry announces some of the files again and returns those that the receiver needs, and the rest.
func (r *retrier) retry(ctx context.Context, changed []*outFile) (needed, rest []*outFile, err error) {
	b, m := batch{first: protocol.FirstRetried + r.retried, start: retriedFrom}, &wirev1.Retry{}
	var files, bytes int64 // that the source has more
	for weight := 0; len(changed) > 0 && len(b.entries)+len(m.Gone) < batchEntries &&
		weight < batchBytes; changed = changed[1:] {
		f := changed[0]
		e, err := r.source.Again(f.entry)
		switch {
		case err == nil:
			if err := r.window.acquire(ctx, e); err != nil {
				return nil, nil, err
			}
			b.entries = append(b.entries, e)
			m.Files = append(m.Files, &wirev1.RetriedFile{Index: f.index, Entry: e.ToWire()})
			weight += e.Weight()
			bytes += e.Size - f.entry.Size
		case errors.Is(err, fs.ErrNotExist):
			m.Gone = append(m.Gone, f.index)
			files--
			bytes -= f.entry.Size
		case errors.Is(err, tree.ErrChanged):
			if err := r.changed.add(f); err != nil {
				return nil, nil, err
			}
		default:
			return nil, nil, err
		}
	}
	if len(b.entries)+len(m.Gone) == 0 {
		return nil, changed, nil
	}
	r.retried += uint64(len(b.entries))
	r.report.Update(func(p *wirev1.Progress) {
		p.FilesTotal += uint64(files)
		p.BytesTotal += uint64(bytes)
	})
	if err := r.session.send(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Retry{Retry: m}}); err != nil {
		return nil, nil, err
	}
	needed, err = r.matcher.match(ctx, b)
	return needed, changed, err
}
