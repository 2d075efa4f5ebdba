// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"fmt"

	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// manifest checks a sender's list of entries as a whole. It remembers no more than the last path and the directories on the
// way to it.
type manifest struct {
	next  uint64 // index of the next entry
	files uint64
	bytes uint64
	last  string
	// open are the directories that the last entry is in, and itself if it is one.
	open  []string
	ended bool
}

// add checks the next entry: its form, its order, and that its directory was announced.
func (m *manifest) add(w *wirev1.Entry) (tree.Entry, error) {
	e, err := tree.FromWire(w)
	if err != nil {
		return tree.Entry{}, fmt.Errorf("entry %d: %w", m.next, err)
	}
	if err := m.place(&e); err != nil {
		return tree.Entry{}, err
	}
	m.next++
	m.last = e.Path
	if e.Type == tree.File {
		m.files++
		m.bytes += uint64(e.Size)
	}
	return e, nil
}

func (m *manifest) place(e *tree.Entry) error {
	if m.ended {
		return fmt.Errorf("entry %q after the end of the manifest", e.Path)
	}
	if m.next == 0 {
		if e.Path != tree.Root {
			return fmt.Errorf("the first entry is %q instead of the root", e.Path)
		}
		m.open = append(m.open, e.Path)
		return nil
	}
	if tree.Compare(m.last, e.Path) >= 0 {
		return fmt.Errorf("entry %q after %q: a repetition or out of order", e.Path, m.last)
	}
	parent, _ := tree.Split(e.Path)
	for m.open[len(m.open)-1] != parent {
		if len(m.open) == 1 {
			return fmt.Errorf("entry %q: its directory was not announced", e.Path)
		}
		m.open = m.open[:len(m.open)-1]
	}
	if e.Type == tree.Directory {
		m.open = append(m.open, e.Path)
	}
	return nil
}

// end compares the sender's totals with what came.
func (m *manifest) end(w *wirev1.ManifestEnd) error {
	if m.ended {
		return invalid("the manifest ends twice")
	}
	if m.next == 0 {
		return invalid("the manifest lacks its root")
	}
	if w.GetEntries() != m.next || w.GetFiles() != m.files || w.GetBytes() != m.bytes {
		return invalid("the manifest ends with %d entries, %d files of %d bytes, but %d, %d of %d came",
			w.GetEntries(), w.GetFiles(), w.GetBytes(), m.next, m.files, m.bytes)
	}
	m.ended = true
	return nil
}

// announce takes a part of the manifest and says what is needed of it.
func (s *session) announce(m *wirev1.Manifest) (*wirev1.Need, error) {
	if n := len(m.GetEntries()); n == 0 || n > maxEntries {
		return nil, invalid("a manifest of %d entries; it must have 1 to %d", n, maxEntries)
	}
	need := &wirev1.Need{Bitmap: make([]byte, (len(m.GetEntries())+7)/8)}
	var emptyFiles, resumedBytes uint64
	ranges := 0
	for i, w := range m.GetEntries() {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		index := s.manifest.next
		e, err := s.manifest.add(w)
		if err != nil {
			return nil, invalid("%w", err)
		}
		if e.Type == tree.File && e.Size/s.chunk >= maxChunks {
			return nil, invalid("file %q: %d bytes are more than this version moves with chunks of %d", e.Path, e.Size, s.chunk)
		}
		needed, err := s.Destination.Look(&e)
		switch {
		case err != nil:
			return nil, err
		case needed && e.Size == 0:
			if err := s.makeEmpty(index, &e); err != nil {
				return nil, err
			}
			emptyFiles++
		case needed:
			f, safe, err := s.resume(index, &e, maxRanges-ranges)
			if err != nil {
				return nil, err
			}
			if f.whole() {
				if err := s.finishResumed(f); err != nil {
					return nil, err
				}
				need.ResumedFiles++
				need.ResumedBytes += uint64(e.Size)
				continue
			}
			need.Bitmap[i/8] |= 1 << (i % 8)
			if len(safe) > 0 {
				ranges += len(safe)
				need.Safe = append(need.Safe, safeRanges(i, safe))
				resumedBytes += uint64(f.safe)
			}
			if err := s.expect(f); err != nil {
				return nil, err
			}
			s.arrived(f, f.safe)
		case e.Type == tree.File:
			need.UnchangedFiles++
			need.UnchangedBytes += uint64(e.Size)
		}
	}
	s.mu.Lock()
	s.made += emptyFiles
	s.mu.Unlock()
	s.Report.update(func(p *wirev1.Progress) {
		p.FilesTotal, p.BytesTotal = s.manifest.files, s.manifest.bytes
		p.UnchangedFiles += need.UnchangedFiles
		p.UnchangedBytes += need.UnchangedBytes
		p.Files += need.UnchangedFiles + emptyFiles + need.ResumedFiles
		p.Bytes += need.UnchangedBytes + need.ResumedBytes
		p.ResumedBytes += resumedBytes + need.ResumedBytes
		p.ResentBytes = s.checkpoints.resentBytes()
	})
	return need, nil
}

// makeEmpty makes a file that has no content.
func (s *session) makeEmpty(index uint64, e *tree.Entry) error {
	f, err := s.Destination.Stage(s.checkpoints.base+index, e)
	if err != nil {
		return err
	}
	defer f.Close()
	file := newInFile(index, *e, s.chunk)
	return s.commit(f, file)
}

// expect notes a file whose content will come.
func (s *session) expect(f *inFile) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.weight += cost(&f.entry)
	if s.weight > 2*windowBytes {
		return invalid("the sender announces more files than it sends: %d are not complete", len(s.pending))
	}
	s.pending[f.index] = f
	return nil
}
