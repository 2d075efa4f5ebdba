// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestChoose: the files that were written longest ago are swept until the others fit, and each once.
func TestChoose(t *testing.T) {
	begin := time.Now()
	// at is a file of so many bytes that was written so many seconds after the beginning.
	at := func(path string, seconds, bytes int64) file {
		return file{
			path: path, bytes: bytes, stamp: stamp{size: bytes, modified: begin.Add(time.Duration(seconds) * time.Second)},
		}
	}
	a, b, c, d := at("a", 3, 10), at("b", 1, 20), at("c", 2, 30), at("d", 2, 5)
	all := []file{a, b, c, d}
	for what, test := range map[string]struct {
		swept    []file
		keep     int64
		want     []string
		inMemory int64
	}{
		"all fit":                        {keep: 65, inMemory: 65},
		"a byte too many":                {keep: 64, want: []string{"b"}, inMemory: 45},
		"of the same age by name":        {keep: 15, want: []string{"b", "c"}, inMemory: 15},
		"none may stay":                  {keep: 0, want: []string{"b", "c", "d", "a"}},
		"one was swept":                  {swept: []file{b}, keep: 45, inMemory: 45},
		"one was swept, and more is":     {swept: []file{b}, keep: 44, want: []string{"c"}, inMemory: 15},
		"one was swept and then written": {swept: []file{at("b", 0, 20)}, keep: 45, want: []string{"b"}, inMemory: 45},
		"one was swept and has grown":    {swept: []file{at("b", 1, 19)}, keep: 45, want: []string{"b"}, inMemory: 45},
		"one that is gone was swept":     {swept: []file{at("e", 0, 50)}, keep: 65, inMemory: 65},
	} {
		swept := make(map[string]stamp)
		for _, f := range test.swept {
			swept[f.path] = f.stamp
		}
		chosen, inMemory := choose(all, swept, test.keep)
		var got []string
		for _, f := range chosen {
			got = append(got, f.path)
		}
		if !slices.Equal(got, test.want) || inMemory != test.inMemory {
			t.Errorf("%s: %q, which leaves %d bytes; want %q and %d", what, got, inMemory, test.want, test.inMemory)
		}
	}
}

const spillFile = 256 << 10

// spillTo returns a sweeper of files that keeps one in memory.
func spillTo(t *testing.T, names ...string) *spilling {
	t.Helper()
	root := t.TempDir()
	for i, name := range names {
		path := filepath.Join(root, name)
		if err := os.WriteFile(path, bytes.Repeat([]byte{byte(i + 1)}, spillFile), 0o600); err != nil {
			t.Fatal(err)
		}
		age(t, path, len(names)-i)
	}
	return newSpilling(Spill{Memory: spillFile, Volume: 1 << 30}, root)
}

// age says that a file was written so many hours ago.
func age(t *testing.T, path string, hours int) {
	t.Helper()
	written := time.Now().Add(-time.Duration(hours) * time.Hour)
	if err := os.Chtimes(path, written, written); err != nil {
		t.Fatal(err)
	}
}

// resident is how many pages of a file are in memory; ok is false on tmpfs, which has no other place.
func resident(t *testing.T, path string) (pages int, ok bool) {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mapped, err := unix.Mmap(int(f.Fd()), 0, spillFile, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mapped)
	in := make([]byte, spillFile/os.Getpagesize())
	if _, _, err := unix.Syscall(
		unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mapped[0])), uintptr(len(mapped)), uintptr(unsafe.Pointer(&in[0])),
	); err != 0 {
		t.Fatal(err)
	}
	for _, page := range in {
		pages += int(page & 1)
	}
	return pages, s.Type != unix.TMPFS_MAGIC
}

// TestSpillTurn: what is swept leaves memory, keeps what it holds, and is swept again only when it was written.
func TestSpillTurn(t *testing.T) {
	s := spillTo(t, "1.blk", "2.blk", "3.blk")
	if err := s.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := Swept{Sweeps: 1, Bytes: 2 * spillFile, InMemory: spillFile}
	if s.counts != want {
		t.Errorf("%+v, want %+v", s.counts, want)
	}
	for name, kept := range map[string]bool{"1.blk": false, "2.blk": false, "3.blk": true} {
		if pages, ok := resident(t, filepath.Join(s.root, name)); ok && (pages > 0) != kept {
			t.Errorf("%d pages of %s are in memory", pages, name)
		}
	}
	for i, name := range []string{"1.blk", "2.blk", "3.blk"} {
		text, err := os.ReadFile(filepath.Join(s.root, name))
		if err != nil || !bytes.Equal(text, bytes.Repeat([]byte{byte(i + 1)}, spillFile)) {
			t.Errorf("%s holds something else: %v", name, err)
		}
	}
	if err := s.turn(t.Context()); err != nil || s.counts != want {
		t.Errorf("nothing was written, and it became %+v: %v", s.counts, err)
	}
	if err := os.Remove(filepath.Join(s.root, "1.blk")); err != nil {
		t.Fatal(err)
	}
	age(t, filepath.Join(s.root, "2.blk"), 9)
	want.Sweeps, want.Bytes = 2, 3*spillFile
	if err := s.turn(t.Context()); err != nil || s.counts != want {
		t.Errorf("one was written, and it became %+v: %v", s.counts, err)
	}
	if len(s.done) != 1 {
		t.Errorf("it remembers %v", s.done)
	}
}

// TestSpillEnds: a store that is shut down waits for the file that is being swept, and for no other.
func TestSpillEnds(t *testing.T) {
	s := spillTo(t, "1.blk", "2.blk", "3.blk")
	ctx, stop := context.WithCancel(t.Context())
	s.sweep = func(path string) error {
		stop()
		return sweepFile(path)
	}
	if err := s.turn(ctx); err != nil {
		t.Error(err)
	}
	if s.counts.Aborted != 0 || s.counts.Bytes != spillFile || s.counts.InMemory != 2*spillFile {
		t.Errorf("%+v", s.counts)
	}
}

// TestSpillAborts: after an error of the disk files stay in memory, and are swept when it is gone.
func TestSpillAborts(t *testing.T) {
	s := spillTo(t, "1.blk", "2.blk", "3.blk")
	broken := &fs.PathError{Op: "fdatasync", Path: "2.blk", Err: syscall.EIO}
	s.sweep = func(path string) error {
		if filepath.Base(path) == "2.blk" {
			return broken
		}
		return sweepFile(path)
	}
	if err := s.turn(t.Context()); !errors.Is(err, broken) || !ofVolume(err) {
		t.Errorf("it says %v", err)
	}
	if want := (Swept{Aborted: 1, Bytes: spillFile, InMemory: 2 * spillFile}); s.counts != want {
		t.Errorf("%+v, want %+v", s.counts, want)
	}
	s.sweep = sweepFile
	if err := s.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := (Swept{Sweeps: 1, Aborted: 1, Bytes: 2 * spillFile, InMemory: spillFile}); s.counts != want {
		t.Errorf("%+v, want %+v", s.counts, want)
	}
	s.root = filepath.Join(s.root, "gone")
	if err := s.turn(t.Context()); err != nil {
		t.Errorf("a directory that is gone: %v", err)
	}
	if err := sweepFile(filepath.Join(s.root, "4.blk")); err != nil {
		t.Errorf("a file that is gone: %v", err)
	}
}

// TestSpillVolume: files have what they may take of the disk, and no more than it has free.
func TestSpillVolume(t *testing.T) {
	s := spillTo(t, "1.blk", "2.blk", "3.blk")
	of := func(files, free int64) Volume { return Volume{Size: files * spillFile, Free: free * spillFile} }
	for what, test := range map[string]struct {
		volume     int64
		disk, want Volume
	}{
		"a large disk":     {8 * spillFile, of(1000, 1000), of(8, 5)},
		"a disk of others": {8 * spillFile, of(1000, 1), of(8, 1)},
		"a small disk":     {8 * spillFile, of(4, 1000), of(4, 1)},
		"too many files":   {2 * spillFile, of(1000, 1000), of(2, 0)},
	} {
		s.Volume = test.volume
		if got, err := s.within(test.disk); err != nil || got != test.want {
			t.Errorf("%s: %+v, %v, want %+v", what, got, err, test.want)
		}
	}
}

// TestSpillClosed: what files take beside messages closes the stream before they take more than they may, although the
// disk has space, and opens it again.
func TestSpillClosed(t *testing.T) {
	const volume = 256 << 20
	s, err := Start(t.Context(), Options{
		Queue: "orders", Directory: t.TempDir(), Capacity: volume - volume/20,
		Spill: &Spill{Memory: 16 << 20, Volume: volume}, Sync: Sync{Interval: SpillSyncInterval},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	conn, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := s.Ensure(t.Context(), conn, Settings{MaxBytes: s.options.Capacity, DropOldest: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.Crowded(1 << 20); err != nil {
		t.Error(err)
	}
	other := filepath.Join(s.options.Directory, "other")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	limit := func() int64 {
		s.spilling.usedAt = time.Time{}
		if err := s.moveLimit(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		_, stream, err := Look(t.Context(), conn, "orders")
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().Config.MaxBytes
	}
	open := limit()
	if err := os.Truncate(other, volume-8<<20); err != nil {
		t.Fatal(err)
	}
	if got := limit(); got != leastLimit || s.Crowded(1<<20) == nil {
		t.Errorf("with 8 MiB left messages may take %d bytes, and as told: %v", got, s.Crowded(1<<20))
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	if got := limit(); got != open || open <= leastLimit {
		t.Errorf("messages may take %d bytes again, and %d before", got, open)
	}
}
