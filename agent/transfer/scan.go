// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"errors"
	"time"

	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// batch are the entries of one manifest.
type batch struct {
	first   uint64
	entries []*tree.Entry
}

// outFile is a file whose content the receiver needs.
type outFile struct {
	entry *tree.Entry
	index uint64
	state outState
	// skip is what is safe at the receiver already.
	skip skip
	// old: the receiver has another version of it.
	old bool
}

// piece is a chunk of a file, or its shorter last one.
type piece struct {
	file   *outFile
	offset int64
	length int
	// old are the digests of its parts in the version that the receiver has; there may be fewer, or none.
	old []protocol.Digest
}

// maxBatchAge is how long an entry waits for others before it is announced.
const maxBatchAge = 200 * time.Millisecond

// walk announces everything at the source.
func (s *sender) walk(ctx context.Context) error {
	defer close(s.batches)
	var b batch
	var next, files, bytes uint64
	var weight int
	var began time.Time

	flush := func() error {
		if len(b.entries) == 0 {
			return nil
		}
		select {
		case s.batches <- b:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		m := &wirev1.Manifest{Entries: make([]*wirev1.Entry, len(b.entries))}
		var batchFiles, batchBytes uint64
		for i, e := range b.entries {
			m.Entries[i] = e.ToWire()
			if e.Type == tree.File {
				batchFiles++
				batchBytes += uint64(e.Size)
			}
		}
		b, weight = batch{first: next}, 0
		files, bytes = files+batchFiles, bytes+batchBytes
		s.Report.Update(func(p *wirev1.Progress) {
			p.FilesTotal, p.BytesTotal = files, bytes
		})
		return s.send(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Manifest{Manifest: m}})
	}

	err := s.Source.Walk(ctx, func(e *tree.Entry) error {
		if e.Type == tree.File {
			if err := s.window.Acquire(ctx, protocol.Cost(e)); err != nil {
				return context.Cause(ctx)
			}
		}
		if len(b.entries) == 0 {
			began = time.Now()
		}
		b.entries = append(b.entries, e)
		weight += e.Weight()
		next++
		if len(b.entries) == batchEntries || weight >= batchBytes || time.Since(began) > maxBatchAge {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return err
	}
	s.Report.Update(func(p *wirev1.Progress) { p.Scanned = true })
	end := &wirev1.ManifestEnd{Entries: next, Files: files, Bytes: bytes}
	return s.send(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_ManifestEnd{ManifestEnd: end}})
}

// match brings together what was announced and what is needed of it.
func (s *sender) match(ctx context.Context) error {
	defer close(s.queue)
	for b := range s.batches {
		var need *wirev1.Need
		select {
		case need = <-s.needs:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		files, err := s.apply(b, need)
		if err != nil {
			return err
		}
		for _, f := range files {
			s.queue <- f
		}
	}
	return ctx.Err()
}

// apply returns the files that the receiver needs of a batch.
func (s *sender) apply(b batch, need *wirev1.Need) (files []*outFile, err error) {
	if len(need.GetBitmap()) > (len(b.entries)+7)/8 {
		return nil, protocol.Invalid("the receiver needs more entries than were announced")
	}
	safe, err := skips(b, need)
	if err != nil {
		return nil, err
	}
	old, err := olds(need)
	if err != nil {
		return nil, err
	}
	var unchangedFiles, unchangedBytes, resumedBytes uint64
	for i, e := range b.entries {
		needed := i/8 < len(need.GetBitmap()) && need.GetBitmap()[i/8]>>(i%8)&1 != 0
		switch {
		case needed && (e.Type != tree.File || e.Size == 0):
			return nil, protocol.Invalid("the receiver needs the content of %q, which has none", e.Path)
		case needed:
			f := &outFile{entry: e, index: b.first + uint64(i), skip: safe[i], old: old(i)}
			f.state.handled = f.skip.bytes
			resumedBytes += uint64(f.skip.bytes)
			delete(safe, i)
			files = append(files, f)
		case e.Type == tree.File:
			s.window.Release(protocol.Cost(e))
			unchangedFiles++
			unchangedBytes += uint64(e.Size)
		}
	}
	switch {
	case len(safe) > 0:
		return nil, protocol.Invalid("the receiver says that parts are safe of files that it does not need")
	case need.GetUnchangedFiles() > unchangedFiles, need.GetResumedFiles() > unchangedFiles-need.GetUnchangedFiles(),
		need.GetUnchangedBytes() > unchangedBytes, need.GetResumedBytes() > unchangedBytes-need.GetUnchangedBytes():
		return nil, protocol.Invalid("the receiver counts more unchanged files than were announced")
	}
	s.Report.Update(func(p *wirev1.Progress) {
		p.UnchangedFiles += need.GetUnchangedFiles()
		p.UnchangedBytes += need.GetUnchangedBytes()
		p.Files += need.GetUnchangedFiles() + need.GetResumedFiles()
		p.Bytes += need.GetUnchangedBytes() + need.GetResumedBytes()
		p.ResumedBytes += need.GetResumedBytes() + resumedBytes
	})
	return files, nil
}

// errDrained ends next without an error.
var errDrained = errors.New("nothing is left")
