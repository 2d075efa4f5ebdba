// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"errors"
	"io/fs"

	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// retrier announces files again that changed while they were read.
type retrier struct {
	source  *tree.Source
	report  *Report
	session *session
	window  *window
	matcher *matcher
	changed *changedFiles

	retried uint64 // files that were announced again
}

// retry announces some of the files again and returns those that the receiver needs, and the rest.
func (r *retrier) retry(ctx context.Context, changed []*outFile) (needed, rest []*outFile, err error) {
	b, m := batch{first: protocol.FirstRetried + r.retried}, &wirev1.Retry{}
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
