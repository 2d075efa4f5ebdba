// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// OldFile is the version of a file that is at the destination before a new one takes its place. Its methods are safe
// for concurrent use, but for Close. Whoever has the volume may write to it meanwhile: what is copied from it must be
// compared like what is received.
type OldFile struct {
	path string
	fd   int
	size int64
}

// OpenOld opens the file that is at a path, which must have passed CheckPath. It returns nil if there is none that can
// be read.
func (d *Destination) OpenOld(path string) (*OldFile, error) { return openFile(d.root, path) }

func openFile(root dir, path string) (*OldFile, error) {
	fd, err := root.open(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	switch err {
	case nil:
	case unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EACCES, unix.EPERM, unix.ENXIO:
		return nil, nil
	default:
		return nil, writeError("open", path, err)
	}
	var st unix.Stat_t
	if err := fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return nil, writeError("look at", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		_ = unix.Close(fd)
		return nil, nil
	}
	return &OldFile{path: path, fd: fd, size: st.Size}, nil
}

// Size is the file's size in bytes when it was opened.
func (f *OldFile) Size() int64 { return f.size }

// ReadAt reads all of p or returns an error, io.ErrUnexpectedEOF if the file is shorter.
func (f *OldFile) ReadAt(p []byte, offset int64) (int, error) {
	return readAll(f.fd, f.path, p, offset)
}

// digestRead is how many bytes Digests reads at once, unless blocks are larger.
const digestRead = 1 << 20

// Digest is of a block.
type Digest = [16]byte

// Digests returns what digest returns for each of at most count blocks of blockSize bytes from block first on, fewer at
// the end of the file. The last block of the file may be shorter.
func (f *OldFile) Digests(
	ctx context.Context, digest func([]byte) Digest, blockSize int, first int64, count int,
) ([]Digest, error) {
	if blockSize <= 0 || first < 0 || first > f.size/int64(blockSize) {
		return nil, nil
	}
	blocks := (f.size + int64(blockSize) - 1) / int64(blockSize)
	last := min(blocks, first+int64(max(count, 0)))
	digests := make([]Digest, 0, max(0, last-first))
	// Many blocks by one read: a disk answers a few large requests sooner than many small ones.
	atOnce := max(1, digestRead/int64(blockSize))
	buf := make([]byte, min(atOnce*int64(blockSize), f.size))
	for from := first; from < last; from += atOnce {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := from * int64(blockSize)
		p := buf[:min(int64(len(buf)), last*int64(blockSize)-start, f.size-start)]
		if _, err := f.ReadAt(p, start); err != nil {
			return nil, err
		}
		for block := range slices.Chunk(p, blockSize) {
			digests = append(digests, digest(block))
		}
	}
	return digests, nil
}

// Close closes the file.
func (f *OldFile) Close() error { return unix.Close(f.fd) }

// CopyFrom copies a range of the old version to the same place. File systems that can share the blocks. Holes stay
// holes.
func (f *StagedFile) CopyFrom(old *OldFile, offset, length int64) error {
	if offset < 0 || length < 0 || offset > old.size || length > old.size-offset {
		return writeError("copy from the old version of", f.path, unix.EINVAL)
	}
	for end := offset + length; offset < end; {
		start, stop, err := dataRange(old.fd, offset, end)
		if err != nil {
			return writeError("look for holes in the old version of", f.path, err)
		}
		if start > offset {
			if err := f.WriteHole(offset, start-offset); err != nil {
				return err
			}
		}
		if err := f.copyData(old, start, stop); err != nil {
			return err
		}
		offset = stop
	}
	return nil
}

func (f *StagedFile) copyData(old *OldFile, start, stop int64) error {
	for start < stop {
		from, to := start, start
		n, err := unix.CopyFileRange(old.fd, &from, f.fd, &to, int(min(stop-start, 1<<30)), 0)
		switch {
		case err == unix.EINTR:
		case err == nil && n > 0:
			start += int64(n)
		case err == nil, err == unix.EXDEV, err == unix.EINVAL, err == unix.ENOSYS, err == unix.EPERM,
			errors.Is(err, unix.ENOTSUP), err == unix.ETXTBSY:
			return f.copyThrough(old, start, stop)
		default:
			return f.destination.stageError("copy the old version of", f.path, err)
		}
	}
	return nil
}

// copyThrough copies in memory, for file systems that cannot by themselves.
func (f *StagedFile) copyThrough(old *OldFile, start, stop int64) error {
	buf := make([]byte, min(1<<20, stop-start))
	for start < stop {
		p := buf[:min(int64(len(buf)), stop-start)]
		if _, err := old.ReadAt(p, start); err != nil {
			return err
		}
		if _, err := f.WriteAt(p, start); err != nil {
			return err
		}
		start += int64(len(p))
	}
	return nil
}
