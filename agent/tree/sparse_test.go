// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/zeebo/xxh3"
	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/tree"
)

const mib = 1 << 20

// noise returns bytes that are not zero in any block.
func noise(seed byte, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// sparse writes a file with data at some offsets and skips the test where there are no holes.
func sparse(t *testing.T, name string, size int64, at map[int64][]byte) {
	t.Helper()
	f, err := os.Create(name)
	must(t, err)
	defer f.Close()
	must(t, f.Truncate(size))
	for offset, b := range at {
		_, err := f.WriteAt(b, offset)
		must(t, err)
	}
	must(t, f.Sync())
	if st := stat(t, name); st.Blocks*512 >= size {
		t.Skip("the file system of temporary directories has no holes")
	}
}

func TestHolesAreKept(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	sparse(t, filepath.Join(from, "both"), 64*mib+5, map[int64][]byte{8 * mib: noise(1, mib), 40*mib + 3: noise(2, 100)})
	sparse(t, filepath.Join(from, "begins"), 8*mib, map[int64][]byte{0: noise(3, mib)})
	sparse(t, filepath.Join(from, "ends"), 8*mib, map[int64][]byte{7 * mib: noise(4, mib)})
	write(t, from, "full", string(noise(5, 2*mib)))
	must(t, os.WriteFile(filepath.Join(from, "zeros"), make([]byte, 2*mib), 0o644))
	none(t, move(t, from, to, moveOptions{}))
	same(t, from, to, nil)
	// Larger than any memory and any disk.
	sparse(t, filepath.Join(from, "hole"), 1<<40, map[int64][]byte{1<<40 - 5: []byte("x")})
	none(t, move(t, from, to, moveOptions{}))
	for _, name := range []string{"both", "begins", "ends", "hole", "full", "zeros"} {
		a, b := stat(t, filepath.Join(from, name)), stat(t, filepath.Join(to, name))
		if a.Size != b.Size || b.Blocks > a.Blocks+16 || b.Blocks < a.Blocks-16 {
			t.Errorf("%q: %d bytes in %d blocks became %d in %d", name, a.Size, a.Blocks, b.Size, b.Blocks)
		}
	}
}

func TestWriteHole(t *testing.T) {
	volume := t.TempDir()
	content := noise(1, 4*mib)
	for name, isSparse := range map[string]bool{"sparse": true, "full": false} {
		t.Run(name, func(t *testing.T) {
			d := destination(t, volume, ".")
			look(t, d, tree.Entry{Path: ".", Type: tree.Directory, Mode: 0o755})
			e := tree.Entry{Path: name, Type: tree.File, Mode: 0o644, Size: 8 * mib, Modified: 1, Sparse: isSparse}
			look(t, d, e)
			f, err := d.Stage(1, &e)
			must(t, err)
			defer f.Close()
			_, err = f.WriteAt(content, 0)
			must(t, err, f.WriteHole(mib, mib), f.WriteHole(3*mib+1, 5*mib-1), f.Sync())
			if f.WriteHole(-1, 1) == nil || f.WriteHole(1<<62, 1<<62) == nil {
				t.Error("a hole that is nowhere is accepted")
			}
			got := make([]byte, e.Size)
			_, err = f.ReadAt(got, 0)
			must(t, err, f.Commit(&e), d.Finish())
			want := slices.Concat(content[:mib], make([]byte, mib), content[2*mib:3*mib+1], make([]byte, 5*mib-1))
			if !bytes.Equal(got, want) {
				t.Error("it reads differently")
			}
			if st := stat(t, filepath.Join(volume, name)); isSparse && st.Blocks*512 > 2*mib+64<<10 {
				t.Errorf("it takes %d bytes", st.Blocks*512)
			}
		})
	}
}

// Zeros that a sender did not leave out take no space either, and what was there before does not show through.
func TestZerosOfSparseFiles(t *testing.T) {
	for _, offset := range []int64{0, 1, 4095, 4096, 100_000} {
		volume := t.TempDir()
		d := destination(t, volume, ".")
		look(t, d, tree.Entry{Path: ".", Type: tree.Directory, Mode: 0o755})
		content := slices.Concat(noise(1, 5), make([]byte, 2*mib), noise(2, mib+1), make([]byte, mib))
		e := tree.Entry{Path: "a", Type: tree.File, Mode: 0o644, Size: offset + int64(len(content)), Sparse: true}
		f, err := d.Stage(1, &e)
		must(t, err)
		_, err = f.WriteAt(noise(3, len(content)), offset)
		must(t, err)
		n, err := f.WriteAt(content, offset)
		must(t, err, f.Sync(), f.Commit(&e), f.Close(), d.Finish())
		got, err := os.ReadFile(filepath.Join(volume, "a"))
		must(t, err)
		if n != len(content) || !bytes.Equal(got, append(make([]byte, offset), content...)) {
			t.Errorf("at %d, %d bytes are written and read differently", offset, n)
		}
		if st := stat(t, filepath.Join(volume, "a")); st.Blocks*512 > mib+128<<10 {
			t.Errorf("at %d, it takes %d bytes", offset, st.Blocks*512)
		}
	}
}

// A file that has not the size that was announced gets no name.
func TestCommitRefusesOtherSizes(t *testing.T) {
	for _, size := range []int64{5, 7} {
		volume := t.TempDir()
		d := destination(t, volume, ".")
		e := tree.Entry{Path: "a", Type: tree.File, Mode: 0o644, Size: size}
		f, err := d.Stage(1, &e)
		must(t, err)
		_, err = f.WriteAt([]byte("longer"), 0)
		must(t, err)
		if f.Commit(&e) == nil {
			t.Errorf("6 bytes of %d are accepted", size)
		}
		must(t, f.Close(), d.Close())
		if _, err := os.Lstat(filepath.Join(volume, "a")); err == nil {
			t.Error("it has its name")
		}
	}
}

// A large file is changed by blocks: only those that differ are read from the source into the new version, the rest
// comes from the old one.
func TestChangedBlocks(t *testing.T) {
	const block = 64 << 10
	from, to := t.TempDir(), t.TempDir()
	content := noise(1, 20*block+100)
	must(t, os.WriteFile(filepath.Join(to, "file"), content[:18*block+7], 0o644))
	copy(content[3*block+5:], "changed")
	copy(content[11*block-3:], "changed")
	must(t, os.WriteFile(filepath.Join(from, "file"), content, 0o644))

	s, d := open(t, from, "."), destination(t, to, ".")
	entries, err := walk(t, s)
	must(t, err)
	e := entries[1]
	look(t, d, *entries[0])
	if !look(t, d, *e) {
		t.Fatal("it is taken as unchanged")
	}
	old, err := d.OpenOld(e.Path)
	must(t, err)
	defer old.Close()
	var digests []tree.Digest
	for first := int64(0); ; first += 5 {
		part, err := old.Digests(t.Context(), xxh3Digest, block, first, 5)
		must(t, err)
		if len(part) == 0 {
			break
		}
		digests = append(digests, part...)
	}
	if len(digests) != 19 || digests[0] != xxh3.Hash128(content[:block]).Bytes() {
		t.Fatalf("there are %d digests", len(digests))
	}
	in, err := s.Open(e)
	must(t, err)
	defer in.Close()
	out, err := d.Stage(1, e)
	must(t, err)
	defer out.Close()
	var changed []int64
	next := int64(0)
	for offset := int64(0); offset < e.Size; offset += block {
		b := make([]byte, min(block, e.Size-offset))
		must(t, in.ReadAt(b, offset))
		if i := int(offset / block); i < len(digests) && digests[i] == xxh3Digest(b) {
			continue
		}
		changed = append(changed, offset/block)
		_, err := out.WriteAt(b, offset)
		must(t, err)
		if offset > next {
			must(t, out.CopyFrom(old, next, offset-next))
		}
		next = offset + int64(len(b))
	}
	must(t, in.Check(), out.Commit(e), d.Finish())
	if want := []int64{3, 10, 11, 18, 19, 20}; !slices.Equal(changed, want) {
		t.Errorf("blocks %v are sent instead of %v", changed, want)
	}
	same(t, from, to, nil)
}

func xxh3Digest(b []byte) tree.Digest { return xxh3.Hash128(b).Bytes() }

func TestCopyFrom(t *testing.T) {
	volume := t.TempDir()
	sparse(t, filepath.Join(volume, "old"), 16*mib, map[int64][]byte{mib: noise(1, mib), 9 * mib: noise(2, 3*mib)})
	before := stat(t, filepath.Join(volume, "old"))
	want, err := os.ReadFile(filepath.Join(volume, "old"))
	must(t, err)
	d := destination(t, volume, ".")
	old, err := d.OpenOld("old")
	must(t, err)
	defer old.Close()
	e := tree.Entry{Path: "old", Type: tree.File, Mode: 0o644, Size: 16 * mib, Modified: 1, Sparse: true}
	f, err := d.Stage(1, &e)
	must(t, err)
	defer f.Close()
	for _, bad := range [][2]int64{{-1, 2}, {0, -1}, {16 * mib, 1}, {0, 16*mib + 1}, {1 << 62, 1 << 62}} {
		if f.CopyFrom(old, bad[0], bad[1]) == nil {
			t.Errorf("%v is copied", bad)
		}
	}
	for offset := int64(0); offset < 16*mib; offset += 3*mib + 1 {
		must(t, f.CopyFrom(old, offset, min(3*mib+1, 16*mib-offset)))
	}
	must(t, f.Sync(), f.Commit(&e))
	got, err := os.ReadFile(filepath.Join(volume, "old"))
	must(t, err)
	after := stat(t, filepath.Join(volume, "old"))
	if !bytes.Equal(got, want) || after.Ino == before.Ino {
		t.Error("it is not a copy")
	}
	if after.Blocks > before.Blocks+64 {
		t.Errorf("%d blocks became %d", before.Blocks, after.Blocks)
	}
}

// What is no regular file of the tree has no old version.
func TestOpenOld(t *testing.T) {
	volume, outside := t.TempDir(), t.TempDir()
	write(t, outside, "x", "x")
	write(t, volume, "dir/x", "x")
	must(t, os.Symlink(outside, filepath.Join(volume, "away")), os.Symlink("dir/x", filepath.Join(volume, "alias")),
		unix.Mkfifo(filepath.Join(volume, "fifo"), 0o600))
	d := destination(t, volume, ".")
	for path, want := range map[string]bool{
		"dir/x": true, "dir": false, "away/x": false, "alias": false, "fifo": false, "missing": false, "dir/x/y": false,
	} {
		f, err := d.OpenOld(path)
		must(t, err)
		if (f != nil) != want {
			t.Errorf("%q: %v", path, f)
		}
		if f == nil {
			continue
		}
		if digests, err := f.Digests(t.Context(), xxh3Digest, 4096, 0, 10); err != nil || len(digests) != 1 {
			t.Errorf("%q has %d digests, %v", path, len(digests), err)
		}
		for _, first := range []int64{-1, 1, 1 << 62} {
			if digests, err := f.Digests(t.Context(), xxh3Digest, 4096, first, 10); err != nil || len(digests) != 0 {
				t.Errorf("from block %d on there are %d digests, %v", first, len(digests), err)
			}
		}
		must(t, f.Close())
	}
}
