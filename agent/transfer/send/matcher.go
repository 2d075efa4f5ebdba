// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// matcher brings together what was announced and what is needed of it.
type matcher struct {
	report  *Report
	window  *window
	batches <-chan batch
	needs   chan *wirev1.Need
	queue   chan *outFile // what is needed of the manifest
	carry   cargo.Form    // of files whose blocks travel as they rest; 0: none
}

func newMatcher(r *Report, w *window, batches <-chan batch, carry cargo.Form) *matcher {
	return &matcher{
		report: r, window: w, carry: carry, batches: batches, needs: make(chan *wirev1.Need, 64),
		// Never full, because the window admits no more files.
		queue: make(chan *outFile, protocol.WindowBytes/protocol.EntryCost),
	}
}

// run matches every batch.
func (m *matcher) run(ctx context.Context) error {
	defer close(m.queue)
	for b := range m.batches {
		files, err := m.match(ctx, b)
		if err != nil {
			return err
		}
		for _, f := range files {
			m.queue <- f
		}
	}
	return ctx.Err()
}

// match waits for what is needed of a batch and returns it.
func (m *matcher) match(ctx context.Context, b batch) ([]*outFile, error) {
	select {
	case need := <-m.needs:
		return m.apply(b, need)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// apply returns the files that the receiver needs of a batch.
func (m *matcher) apply(b batch, need *wirev1.Need) (files []*outFile, err error) {
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
	start := b.start
	for i, e := range b.entries {
		needed := i/8 < len(need.GetBitmap()) && need.GetBitmap()[i/8]>>(i%8)&1 != 0
		switch {
		case needed && (e.Type != tree.File || e.Size == 0):
			return nil, protocol.Invalid("the receiver needs the content of %q, which has none", e.Path)
		case needed:
			carried := e.Form != 0 && e.Form == m.carry
			f := &outFile{
				entry: e, index: b.first + uint64(i), start: start, skip: safe[i], old: old(i) && !carried, carried: carried,
			}
			f.state.handled = f.skip.bytes
			resumedBytes += uint64(f.skip.bytes)
			delete(safe, i)
			files = append(files, f)
		case e.Type == tree.File:
			m.window.release(e)
			unchangedFiles++
			unchangedBytes += uint64(e.Size)
		}
		start += e.Size
	}
	switch {
	case len(safe) > 0:
		return nil, protocol.Invalid("the receiver says that parts are safe of files that it does not need")
	case need.GetUnchangedFiles() > unchangedFiles, need.GetResumedFiles() > unchangedFiles-need.GetUnchangedFiles(),
		need.GetUnchangedBytes() > unchangedBytes, need.GetResumedBytes() > unchangedBytes-need.GetUnchangedBytes():
		return nil, protocol.Invalid("the receiver counts more unchanged files than were announced")
	}
	m.report.Update(func(p *wirev1.Progress) {
		p.UnchangedFiles += need.GetUnchangedFiles()
		p.UnchangedBytes += need.GetUnchangedBytes()
		p.Files += need.GetUnchangedFiles() + need.GetResumedFiles()
		p.Bytes += need.GetUnchangedBytes() + need.GetResumedBytes()
		p.ResumedBytes += need.GetResumedBytes() + resumedBytes
	})
	return files, nil
}

// olds says of which needed files the receiver has another version.
func olds(need *wirev1.Need) (func(i int) bool, error) {
	old := need.GetOld()
	if len(old) > len(need.GetBitmap()) {
		return nil, protocol.Invalid("the receiver has other versions of more entries than it needs")
	}
	for i := range old {
		if old[i]&^need.GetBitmap()[i] != 0 {
			return nil, protocol.Invalid("the receiver has another version of an entry that it does not need")
		}
	}
	return func(i int) bool { return i/8 < len(old) && old[i/8]>>(i%8)&1 != 0 }, nil
}

// skips checks what the receiver says is safe of the needed files of a batch, and returns it by position.
func skips(b batch, need *wirev1.Need) (map[int]skip, error) {
	if len(need.GetSafe()) == 0 {
		return nil, nil
	}
	all, total, next := make(map[int]skip, len(need.GetSafe())), 0, 0
	for _, safe := range need.GetSafe() {
		position := int(safe.GetPosition())
		total += len(safe.GetRanges())
		if position < next || position >= len(b.entries) || total > protocol.MaxRanges || len(safe.GetRanges()) == 0 {
			return nil, protocol.Invalid("the receiver says that something is safe of an entry that is out of order")
		}
		next = position + 1
		size := b.entries[position].Size
		chunks, end := uint64((size+protocol.ChunkSize-1)/protocol.ChunkSize), uint64(0)
		s := skip{ranges: safe.GetRanges(), latest: safe.RecordOffset}
		for _, r := range s.ranges {
			first, count := r.GetFirst(), r.GetCount()
			if first < end || count == 0 || first >= chunks || count > chunks-first {
				return nil, protocol.Invalid(
					"the receiver says that chunks are safe that %q does not have", b.entries[position].Path,
				)
			}
			end = first + count
			s.bytes += min(int64(end)*protocol.ChunkSize, size) - int64(first)*protocol.ChunkSize
		}
		if s.latest != nil && (len(s.ranges) > 1 || s.ranges[0].GetFirst() > 0 || *s.latest >= uint64(s.bytes)) {
			return nil, protocol.Invalid("the receiver says that a record begins at %d of %q, which is not behind what is safe",
				*s.latest, b.entries[position].Path)
		}
		if s.bytes >= size {
			return nil, protocol.Invalid("the receiver needs %q and says that all of it is safe", b.entries[position].Path)
		}
		all[position] = s
	}
	return all, nil
}
