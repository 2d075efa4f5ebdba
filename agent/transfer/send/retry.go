// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// again packs files that changed while they were read, after a pause and, if they change again, after the next one.
func (p *packer) again(ctx context.Context) error {
	for _, pause := range p.options.ChangedPauses {
		if err := p.workload.await(ctx); err != nil {
			return err
		}
		changed := p.changed.take()
		if len(changed) == 0 {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for len(changed) > 0 {
			var err error
			if changed, err = p.retry(ctx, changed); err != nil {
				return err
			}
		}
		if err := p.spans(ctx); err != nil {
			return err
		}
	}
	return nil
}

// retry announces some of the files again and returns the rest.
func (p *packer) retry(ctx context.Context, changed []*outFile) (rest []*outFile, err error) {
	b, m := batch{first: protocol.FirstRetried + p.retried}, &wirev1.Retry{}
	var files, bytes int64 // that the source has more
	for weight := 0; len(changed) > 0 && len(b.entries)+len(m.Gone) < batchEntries &&
		weight < batchBytes; changed = changed[1:] {
		f := changed[0]
		e, err := p.options.Source.Again(f.entry)
		switch {
		case err == nil:
			if err := p.window.acquire(ctx, e); err != nil {
				return nil, err
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
			if err := p.changed.add(f); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
	if len(b.entries)+len(m.Gone) == 0 {
		return changed, nil
	}
	p.retried += uint64(len(b.entries))
	p.options.Report.Update(func(p *wirev1.Progress) {
		p.FilesTotal += uint64(files)
		p.BytesTotal += uint64(bytes)
	})
	if err := p.session.send(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Retry{Retry: m}}); err != nil {
		return nil, err
	}
	needed, err := p.matcher.match(ctx, b)
	if err != nil {
		return nil, err
	}
	p.pending = append(p.pending, needed...)
	return changed, nil
}
