// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Spill keeps files of messages in the kernel's memory until they are swept to the disk. They are those of a store with
// a volume, so what is swept is as much there as what is not.
type Spill struct {
	// Memory is how many bytes of files stay in memory: of more the oldest are swept.
	Memory int64
	// Volume is how many bytes all files of the directory may take, whatever its file system has: it is the node's.
	Volume int64
}

// SpillSyncInterval is Sync.Interval for a store that spills: messages that are got before are not written. The server
// compacts files as often, and the kernel writes what is older.
const SpillSyncInterval = 30 * time.Second

// Swept is what was swept since the start or the last reset, but for InMemory.
type Swept struct {
	// Sweeps are looks that found too much in memory and swept it, Aborted those that an error of the disk ended.
	Sweeps, Aborted uint64
	// Bytes of the files that were swept.
	Bytes uint64
	// InMemory is how many bytes of files are not swept.
	InMemory uint64
}

const (
	// spillInterval is between two looks for what to sweep.
	spillInterval = time.Second
	// mostFiles bounds a look at the files of a store, of which there is one for some megabytes of messages.
	mostFiles = 1 << 17
	// usedPause is for how many times as long as a walk over the files took there is no other, beside spaceInterval.
	usedPause = 100
)

// file is one of the store's.
type file struct {
	path string
	stamp
	bytes int64 // that it takes on the file system, or has, whichever is more
}

// stamp changes when a file is written.
type stamp struct {
	size     int64
	modified time.Time
}

// choose returns which files to sweep, in order, so that the others have at most so many bytes: those that were written
// longest ago. What was swept and not written since is in memory no more.
func choose(files []file, swept map[string]stamp, keep int64) (sweep []file, inMemory int64) {
	var present []file
	for _, f := range files {
		if swept[f.path] != f.stamp {
			present = append(present, f)
			inMemory += f.bytes
		}
	}
	slices.SortFunc(present, func(a, b file) int {
		return cmp.Or(a.modified.Compare(b.modified), cmp.Compare(a.path, b.path))
	})
	for _, f := range present {
		if inMemory <= keep {
			break
		}
		sweep = append(sweep, f)
		inMemory -= f.bytes
	}
	return sweep, inMemory
}

// walkFiles returns the files of a directory.
func walkFiles(root string) ([]file, error) {
	var files []file
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = entry.Info()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // It was removed meanwhile.
		}
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		if len(files) == mostFiles {
			return fmt.Errorf("%s has more than %d files", root, mostFiles)
		}
		one := file{path: path, bytes: info.Size(), stamp: stamp{size: info.Size(), modified: info.ModTime()}}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			const block = 512
			one.bytes = max(one.bytes, stat.Blocks*block)
		}
		files = append(files, one)
		return nil
	})
	return files, err
}

// sweepFile writes what of a file is in memory alone, and lets the kernel drop it from there. What it holds stays as it
// is, so that the server may read and write it meanwhile. A file that is gone is swept.
func sweepFile(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // Nothing is written through it.
	for {
		if err = unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return &fs.PathError{Op: "fdatasync", Path: path, Err: err}
	}
	// Of what could not be written the kernel has the only copy, so this comes after.
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return &fs.PathError{Op: "fadvise", Path: path, Err: err}
	}
	return nil
}

// spilling is a store's Spill at work. turn is for one goroutine, the rest safe for concurrent use.
type spilling struct {
	Spill
	root  string
	sweep func(path string) error
	done  map[string]stamp // files as they were when they were swept

	mu     sync.Mutex
	counts Swept

	usedMu sync.Mutex
	used   int64
	usedAt time.Time // when the walk ended that found used
	took   time.Duration
}

func newSpilling(s Spill, root string) *spilling {
	return &spilling{Spill: s, root: root, sweep: sweepFile, done: make(map[string]stamp)}
}

// turn looks once and sweeps, until the context ends.
func (s *spilling) turn(ctx context.Context) error {
	files, err := walkFiles(s.root)
	if err != nil {
		s.count(Swept{Aborted: 1}, nil)
		return fmt.Errorf("look for files to sweep: %w", err)
	}
	known := make(map[string]stamp, len(s.done))
	for _, f := range files {
		if s.done[f.path] == f.stamp {
			known[f.path] = f.stamp
		}
	}
	s.done = known
	sweep, inMemory := choose(files, s.done, s.Memory)
	var now Swept
	for i, f := range sweep {
		ended := ctx.Err() != nil
		if !ended {
			err = s.sweep(f.path)
		}
		if ended || err != nil {
			for _, left := range sweep[i:] {
				inMemory += left.bytes
			}
			break
		}
		s.done[f.path] = f.stamp
		now.Bytes += uint64(f.bytes)
	}
	switch {
	case err != nil:
		now.Aborted, err = 1, fmt.Errorf("sweep files from memory: %w", err)
	case len(sweep) > 0:
		now.Sweeps = 1
	}
	s.count(now, &inMemory)
	return err
}

func (s *spilling) count(now Swept, inMemory *int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Sweeps += now.Sweeps
	s.counts.Aborted += now.Aborted
	s.counts.Bytes += now.Bytes
	if inMemory != nil {
		s.counts.InMemory = uint64(*inMemory)
	}
}

// within is what files have of a file system that is not theirs alone. What they take was seen some milliseconds ago,
// or, where there are thousands, some hundred.
func (s *spilling) within(v Volume) (Volume, error) {
	s.usedMu.Lock()
	defer s.usedMu.Unlock()
	if now := time.Now(); s.usedAt.IsZero() || now.Sub(s.usedAt) >= max(spaceInterval, usedPause*s.took) {
		files, err := walkFiles(s.root)
		if err != nil {
			return Volume{}, err
		}
		s.used = 0
		for _, f := range files {
			s.used += f.bytes
		}
		s.usedAt = time.Now()
		s.took = s.usedAt.Sub(now)
	}
	size := min(v.Size, s.Volume)
	return Volume{Size: size, Free: max(0, min(v.Free, size-s.used))}, nil
}

// Swept returns what was swept; nil of a store that does not spill.
func (s *Store) Swept() *Swept {
	if s.spilling == nil {
		return nil
	}
	s.spilling.mu.Lock()
	defer s.spilling.mu.Unlock()
	counts := s.spilling.counts
	return &counts
}

// ResetSwept has the counters of Swept begin again.
func (s *Store) ResetSwept() {
	if s.spilling == nil {
		return
	}
	s.spilling.mu.Lock()
	defer s.spilling.mu.Unlock()
	s.spilling.counts = Swept{InMemory: s.spilling.counts.InMemory}
}

// keepSpilling sweeps until stop is called; wait waits for the file that is being written then. The context says what
// the store was started with, and its end ends nothing. An error of the disk is one that the server may not see any
// more, so Failed tells it. It ends the sweeping, because the kernel takes what it could not write for written.
func (s *Store) keepSpilling(ctx context.Context) (stop, wait func()) {
	ctx, stop = context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(spillInterval)
		defer ticker.Stop()
		for failing := false; ; {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			err := s.spilling.turn(ctx)
			if err != nil && !failing { // the first in a row
				s.log.noteUnwritten([]any{err})
				s.log.log.Warn("Messages are not swept from memory to the disk", "error", err.Error())
			}
			if ofVolume(err) {
				return
			}
			failing = err != nil
		}
	})
	return stop, running.Wait
}
