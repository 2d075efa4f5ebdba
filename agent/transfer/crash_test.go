// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"errors"
	"os"
	"path/filepath"
	"sync"

	"github.com/lighterage/lighterage/agent/journal"
	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/tree"
)

var errPower = errors.New("power loss")

// machine is a destination whose power goes after some operations. What was not synced then is something else, or
// nothing, and nothing works any more.
type machine struct {
	receive.Destination
	path string // of the destination

	mu   sync.Mutex
	left int // operations; negative: for ever
	dead bool
	// killed: only the process ends, and what was written stays.
	killed bool
	// written bytes of files; wrote, unless it is nil, is called with them after each write.
	written  int64
	wrote    func(int64)
	unsynced map[uint64]*staging
	small    []string // files that got their names since the last sync
	journals map[journal.File][]region
}

type staging struct {
	entry   tree.Entry
	regions []region
}

type region struct {
	offset int64
	length int
}

func newMachine(d receive.Destination, path string, operations int) *machine {
	return &machine{
		Destination: d, path: path, left: operations, unsynced: make(map[uint64]*staging),
		journals: make(map[journal.File][]region),
	}
}

// do does an operation, unless the power is gone.
func (m *machine) do(operation func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == 0 {
		m.die()
	}
	if m.dead {
		return errPower
	}
	m.left--
	return operation()
}

// die damages what was not synced.
func (m *machine) die() {
	if m.dead {
		return
	}
	m.dead = true
	if m.killed {
		return
	}
	for number, s := range m.unsynced {
		f, err := m.Destination.Stage(number, &s.entry)
		if err != nil {
			panic(err)
		}
		for _, r := range s.regions {
			if _, err := f.WriteAt(noise(uint64(r.offset), r.length), r.offset); err != nil {
				panic(err)
			}
		}
		f.Close()
	}
	for f, regions := range m.journals {
		for _, r := range regions {
			if _, err := f.WriteAt(make([]byte, r.length), r.offset); err != nil {
				panic(err)
			}
		}
	}
	for _, path := range m.small {
		if err := os.Truncate(filepath.Join(m.path, path), 0); err != nil {
			panic(err)
		}
	}
}

func (m *machine) Stage(number uint64, e *tree.Entry) (f receive.StagedFile, err error) {
	err = m.do(func() error {
		f, err = m.Destination.Stage(number, e)
		if m.unsynced[number] == nil {
			m.unsynced[number] = &staging{entry: *e}
		}
		return err
	})
	return machineFile{f, m, number}, err
}

func (m *machine) Discard(number uint64) error {
	return m.do(func() error {
		delete(m.unsynced, number)
		return m.Destination.Discard(number)
	})
}

func (m *machine) Unstage(number uint64) error {
	return m.do(func() error {
		delete(m.unsynced, number)
		return m.Destination.Unstage(number)
	})
}

func (m *machine) Sync() error {
	return m.do(func() error {
		for _, s := range m.unsynced {
			s.regions = nil
		}
		m.small = nil
		return m.Destination.Sync()
	})
}

func (m *machine) Clear(keep func(uint64) bool) (bytes int64, err error) {
	err = m.do(func() error {
		for number := range m.unsynced {
			if !keep(number) {
				delete(m.unsynced, number)
			}
		}
		bytes, err = m.Destination.Clear(keep)
		return err
	})
	return bytes, err
}

func (m *machine) Staging() journal.Dir { return machineDir{m.Destination.Staging(), m} }

type machineFile struct {
	receive.StagedFile
	m      *machine
	number uint64
}

func (f machineFile) WriteAt(p []byte, offset int64) (n int, err error) {
	var written int64
	err = f.m.do(func() error {
		s := f.m.unsynced[f.number]
		s.regions = append(s.regions, region{offset, len(p)})
		f.m.written += int64(len(p))
		written = f.m.written
		n, err = f.StagedFile.WriteAt(p, offset)
		return err
	})
	if f.m.wrote != nil {
		f.m.wrote(written)
	}
	return n, err
}

func (f machineFile) CopyFrom(old *tree.OldFile, offset, length int64) error {
	return f.m.do(func() error {
		s := f.m.unsynced[f.number]
		s.regions = append(s.regions, region{offset, int(length)})
		return f.StagedFile.CopyFrom(old, offset, length)
	})
}

func (f machineFile) WriteHole(offset, length int64) error {
	return f.m.do(func() error {
		s := f.m.unsynced[f.number]
		s.regions = append(s.regions, region{offset, int(length)})
		return f.StagedFile.WriteHole(offset, length)
	})
}

func (f machineFile) Truncate(size int64) error {
	return f.m.do(func() error { return f.StagedFile.Truncate(size) })
}

func (f machineFile) Sync() error {
	return f.m.do(func() error {
		f.m.unsynced[f.number].regions = nil
		return f.StagedFile.Sync()
	})
}

func (f machineFile) Commit(e *tree.Entry) error {
	return f.m.do(func() error {
		if len(f.m.unsynced[f.number].regions) > 0 {
			f.m.small = append(f.m.small, e.Path)
		}
		delete(f.m.unsynced, f.number)
		return f.StagedFile.Commit(e)
	})
}

func (f machineFile) Close() error {
	if f.StagedFile == nil {
		return nil
	}
	return f.StagedFile.Close()
}

type machineDir struct {
	journal.Dir
	m *machine
}

func (d machineDir) Create(name string) (f journal.File, err error) {
	err = d.m.do(func() error { f, err = d.Dir.Create(name); return err })
	return machineJournal{f, d.m}, err
}

func (d machineDir) Open(name string) (f journal.File, err error) {
	err = d.m.do(func() error { f, err = d.Dir.Open(name); return err })
	return machineJournal{f, d.m}, err
}

func (d machineDir) Rename(from, to string) error {
	return d.m.do(func() error { return d.Dir.Rename(from, to) })
}

func (d machineDir) Remove(name string) error {
	return d.m.do(func() error { return d.Dir.Remove(name) })
}

func (d machineDir) Sync() error { return d.m.do(d.Dir.Sync) }

type machineJournal struct {
	journal.File
	m *machine
}

func (f machineJournal) WriteAt(p []byte, offset int64) (n int, err error) {
	err = f.m.do(func() error {
		f.m.journals[f.File] = append(f.m.journals[f.File], region{offset, len(p)})
		n, err = f.File.WriteAt(p, offset)
		return err
	})
	return n, err
}

func (f machineJournal) Sync() error {
	return f.m.do(func() error {
		delete(f.m.journals, f.File)
		return f.File.Sync()
	})
}

func (f machineJournal) Close() error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	delete(f.m.journals, f.File)
	return f.File.Close()
}
