// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"fmt"

	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// manifest checks a sender's list of entries as a whole. It remembers no more than the last path and the directories on
// the way to it.
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
		return protocol.Invalid("the manifest ends twice")
	}
	if m.next == 0 {
		return protocol.Invalid("the manifest lacks its root")
	}
	if w.GetEntries() != m.next || w.GetFiles() != m.files || w.GetBytes() != m.bytes {
		return protocol.Invalid("the manifest ends with %d entries, %d files of %d bytes, but %d, %d of %d came",
			w.GetEntries(), w.GetFiles(), w.GetBytes(), m.next, m.files, m.bytes)
	}
	m.ended = true
	return nil
}

// announce takes a part of the manifest and says what is needed of it.
func (s *session) announce(m *wirev1.Manifest) (*wirev1.Need, error) {
	if n := len(m.GetEntries()); n == 0 || n > protocol.MaxEntries {
		return nil, protocol.Invalid("a manifest of %d entries; it must have 1 to %d", n, protocol.MaxEntries)
	}
	a := s.newAnswer(len(m.GetEntries()))
	for i, w := range m.GetEntries() {
		if err := s.ctx.Err(); err != nil {
			return nil, err
		}
		index := s.manifest.next
		e, err := s.manifest.add(w)
		if err != nil {
			return nil, protocol.Invalid("%w", err)
		}
		if err := a.consider(i, index, &e, s.Destination.Look); err != nil {
			return nil, err
		}
	}
	return a.finish(), nil
}

// answer is a Need in the making.
type answer struct {
	*session
	need         *wirev1.Need
	ranges       int
	emptyFiles   uint64
	resumedBytes uint64
}

func (s *session) newAnswer(entries int) *answer {
	return &answer{session: s, need: &wirev1.Need{Bitmap: make([]byte, (entries+7)/8), Old: make([]byte, (entries+7)/8)}}
}

// consider looks at an entry and answers whether its content is needed.
func (a *answer) consider(i int, index uint64, e *tree.Entry, look func(*tree.Entry) (bool, error)) error {
	if e.Type == tree.File && e.Size/a.chunk >= maxChunks {
		return protocol.Invalid("file %q: %d bytes are more than this version moves with chunks of %d", e.Path, e.Size, a.chunk)
	}
	needed, err := look(e)
	switch {
	case err != nil:
		return err
	case needed && e.Size == 0:
		a.emptyFiles++
		return a.makeEmpty(index, e)
	case needed:
		return a.require(i, index, e)
	case e.Type == tree.File:
		a.need.UnchangedFiles++
		a.need.UnchangedBytes += uint64(e.Size)
	}
	return nil
}

// require asks for what is not there of a file.
func (a *answer) require(i int, index uint64, e *tree.Entry) error {
	f, safe, err := a.resume(index, e, protocol.MaxRanges-a.ranges)
	if err != nil {
		return err
	}
	if f.whole() {
		a.need.ResumedFiles++
		a.need.ResumedBytes += uint64(e.Size)
		return a.finishResumed(f)
	}
	if f.old, err = a.hasOld(e); err != nil {
		return err
	}
	a.need.Bitmap[i/8] |= 1 << (i % 8)
	if f.old {
		a.need.Old[i/8] |= 1 << (i % 8)
	}
	if len(safe) > 0 {
		a.ranges += len(safe)
		a.need.Safe = append(a.need.Safe, safeRanges(i, safe))
		a.resumedBytes += uint64(f.safe)
	}
	if err := a.expect(f); err != nil {
		return err
	}
	a.arrived(f, f.safe)
	return nil
}

// hasOld reports whether there is another version of a file that is worth comparing.
func (s *session) hasOld(e *tree.Entry) (bool, error) {
	if e.Size < comparedSize {
		return false, nil
	}
	old, err := s.Destination.OpenOld(e.Path)
	if old == nil || err != nil {
		return false, err
	}
	defer old.Close()
	return old.Size() >= comparedSize, nil
}

// finish returns the answer and counts what is in it.
func (a *answer) finish() *wirev1.Need {
	need := a.need
	a.mu.Lock()
	a.made += a.emptyFiles
	a.mu.Unlock()
	a.Report.update(func(p *wirev1.Progress) {
		p.FilesTotal, p.BytesTotal = a.manifest.files, a.manifest.bytes
		p.UnchangedFiles += need.UnchangedFiles
		p.UnchangedBytes += need.UnchangedBytes
		p.Files += need.UnchangedFiles + a.emptyFiles + need.ResumedFiles
		p.Bytes += need.UnchangedBytes + need.ResumedBytes
		p.ResumedBytes += a.resumedBytes + need.ResumedBytes
		p.ResentBytes = a.checkpoints.resentBytes()
	})
	return need
}

// makeEmpty makes a file that has no content.
func (s *session) makeEmpty(index uint64, e *tree.Entry) error {
	file := newInFile(index, *e, s.chunk)
	file.number = s.number()
	f, err := s.Destination.Stage(file.number, e)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.commit(f, file)
}

// expect notes a file whose content will come. It waits while those that have not come yet weigh twice what a sender
// may have announced and not sent: of tiny files many more are on their way, in the buffers of connections, and they
// come without anything that is said here. A sender that announces and never sends is one that is silent.
func (s *session) expect(f *inFile) error {
	for {
		s.mu.Lock()
		if weight := s.weight + protocol.Cost(&f.entry); weight <= 2*protocol.WindowBytes || len(s.pending) == 0 {
			s.weight, s.pending[f.index] = weight, f
			s.mu.Unlock()
			return nil
		}
		s.mu.Unlock()
		select {
		case <-s.room:
		case <-s.ctx.Done():
			return s.cause()
		}
	}
}

// lighten takes a file away from what is expected; s.mu is held.
func (s *session) lighten(f *inFile) {
	delete(s.pending, f.index)
	s.weight -= protocol.Cost(&f.entry)
	select {
	case s.room <- struct{}{}:
	default:
	}
}
