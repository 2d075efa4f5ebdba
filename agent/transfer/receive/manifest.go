// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

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
	// symlinks, and further names of files.
	symlinks, hardLinks uint64

	last string
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
	switch e.Type {
	case tree.File:
		m.files++
		m.bytes += uint64(e.Size)
	case tree.HardLink:
		m.hardLinks++
	case tree.Symlink:
		m.symlinks++
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
