// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package journal_test

import (
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/lighterage/lighterage/agent/journal"
)

// errPower is what everything returns after the power is gone.
var errPower = errors.New("power loss")

// memory is a Dir whose power can be cut. What was synced survives; of what was not, any part may.
type memory struct {
	names map[string]*content
	// left operations that change something before the power is gone; negative: never.
	left int
}

type content struct{ written, synced []byte }

func newMemory() *memory { return &memory{names: make(map[string]*content), left: -1} }

// change counts an operation.
func (m *memory) change() error {
	if m.left == 0 {
		return errPower
	}
	if m.left > 0 {
		m.left--
	}
	return nil
}

func (m *memory) Create(name string) (journal.File, error) {
	if err := m.change(); err != nil {
		return nil, err
	}
	m.names[name] = &content{}
	return memoryFile{m, m.names[name]}, nil
}

func (m *memory) Open(name string) (journal.File, error) {
	c := m.names[name]
	if c == nil {
		return nil, fs.ErrNotExist
	}
	return memoryFile{m, c}, nil
}

func (m *memory) Rename(from, to string) error {
	if err := m.change(); err != nil {
		return err
	}
	m.names[to] = m.names[from]
	delete(m.names, from)
	return nil
}

func (m *memory) Remove(name string) error {
	if err := m.change(); err != nil {
		return err
	}
	delete(m.names, name)
	return nil
}

func (m *memory) Sync() error { return m.change() }

// crash returns the directory after a loss of power that kept some of the bytes that were not synced.
func (m *memory) crash(keep int) *memory {
	after := newMemory()
	for name, c := range m.names {
		b := slices.Clone(c.written)
		if len(c.synced) <= len(b) {
			// Bytes between are zero, as where a block was allocated but not written.
			n := len(c.synced)
			cut := min(n+keep, len(b))
			copy(b, c.synced)
			clear(b[cut:])
		}
		after.names[name] = &content{written: b, synced: slices.Clone(b)}
	}
	return after
}

type memoryFile struct {
	dir *memory
	*content
}

func (f memoryFile) ReadAt(p []byte, offset int64) (int, error) {
	if offset >= int64(len(f.written)) {
		return 0, io.EOF
	}
	n := copy(p, f.written[offset:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f memoryFile) WriteAt(p []byte, offset int64) (int, error) {
	if err := f.dir.change(); err != nil {
		return 0, err
	}
	if need := int(offset) + len(p); need > len(f.written) {
		f.written = slices.Grow(f.written, need-len(f.written))[:need]
	}
	return copy(f.written[offset:], p), nil
}

func (f memoryFile) Sync() error {
	if err := f.dir.change(); err != nil {
		return err
	}
	f.synced = append(f.synced, f.written[len(f.synced):]...) // Nothing is written twice.
	return nil
}

func (f memoryFile) Size() (int64, error) { return int64(len(f.written)), nil }

func (f memoryFile) Close() error { return nil }
