// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"golang.org/x/sys/unix"
)

// StagedFile is a file that does not have its name yet. Its methods are safe for concurrent use, but for Close.
type StagedFile struct {
	destination *Destination
	fd          int
	name        string
	path        string
	sparse      bool // zeros take no space
}

// Stage opens the staged file of an entry and makes it at first. number tells the entry from others; the same file may
// be open several times. The bytes may be written in any order. A sparse file has its size at once, and reads as zeros.
func (d *Destination) Stage(number uint64, e *Entry) (*StagedFile, error) {
	f, err := d.stageFile(strconv.FormatUint(number, 10), e)
	if err != nil || !e.Sparse {
		return f, err
	}
	f.sparse = true
	if err := f.grow(e.Size); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// grow gives the file its size, with a hole at the end. Others may do the same at the same time.
func (f *StagedFile) grow(size int64) error {
	var st unix.Stat_t
	err := fstat(f.fd, &st)
	if err == nil && st.Size < size {
		err = unix.Ftruncate(f.fd, size)
	}
	if err != nil {
		return writeError("set the size of", f.path, err)
	}
	return nil
}

// stageFile makes a file with the permissions of its entry, which mostly saves giving it those later. No one else can
// open it: the staging directory is the agent's own.
func (d *Destination) stageFile(name string, e *Entry) (*StagedFile, error) {
	const flags = unix.O_RDWR | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := openat(int(d.stage), name, flags, e.Mode&0o777|0o600)
	if err != nil {
		return nil, d.stageError("make a file for", e.Path, err)
	}
	return &StagedFile{destination: d, fd: fd, name: name, path: e.Path}, nil
}

// Discard removes the staged file of an entry, if there is one.
func (d *Destination) Discard(number uint64) error {
	d.discarded.Store(true)
	return d.Unstage(number)
}

// Unstage removes a staged file that gets no name, if there is one.
func (d *Destination) Unstage(number uint64) error {
	err := unix.Unlinkat(int(d.stage), strconv.FormatUint(number, 10), 0)
	if err != nil && err != unix.ENOENT {
		return fmt.Errorf("remove a staged file: %w", err)
	}
	return nil
}

// WriteAt writes all of p or returns an error. Whole blocks of zeros in a sparse file become holes.
func (f *StagedFile) WriteAt(p []byte, offset int64) (int, error) {
	if !f.sparse {
		return f.write(p, offset)
	}
	done := 0
	for done < len(p) {
		zeros, n := run(p[done:], offset+int64(done))
		var err error
		if zeros {
			err = f.WriteHole(offset+int64(done), int64(n))
		} else {
			_, err = f.write(p[done:done+n], offset+int64(done))
		}
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

var zeroBlock [smallestHole]byte

// run returns how many bytes at the beginning of p, which belongs at an offset, are blocks of zeros or else are not.
func run(p []byte, offset int64) (zeros bool, n int) {
	for n < len(p) {
		// To the end of a block of the file.
		block := p[n:min(len(p), n+len(zeroBlock)-int((offset+int64(n))%int64(len(zeroBlock))))]
		is := len(block) == len(zeroBlock) && bytes.Equal(block, zeroBlock[:])
		if n > 0 && is != zeros {
			break
		}
		zeros, n = is, n+len(block)
	}
	return zeros, n
}

func (f *StagedFile) write(p []byte, offset int64) (int, error) {
	done := 0
	for done < len(p) {
		n, err := unix.Pwrite(f.fd, p[done:], offset+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, writeError("write", f.path, err)
		}
		done += n
	}
	return done, nil
}

// ReadAt reads all of p or returns an error.
func (f *StagedFile) ReadAt(p []byte, offset int64) (int, error) {
	return readAll(f.fd, f.path, p, offset)
}

func readAll(fd int, path string, p []byte, offset int64) (int, error) {
	done := 0
	for done < len(p) {
		n, err := unix.Pread(fd, p[done:], offset+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, writeError("read back", path, err)
		}
		if n == 0 {
			return done, io.ErrUnexpectedEOF
		}
		done += n
	}
	return done, nil
}

// Sync waits until the bytes that were written, through any opening of the file, are on stable storage.
//
// A file that was written in several pieces needs it before Commit: the pieces get to the disk in any order, so a power
// loss could leave the full size and the right time with holes in between, which Look would take for an unchanged file.
// A file written at once needs none: the size on disk follows the data, so that what is lost shows in the size.
func (f *StagedFile) Sync() error {
	for {
		err := unix.Fdatasync(f.fd)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return writeError("sync", f.path, err)
		}
		return nil
	}
}

// WriteHole makes a range read as zeros that take no space on the volume, where the file system can. The file of a
// sparse entry has its size from the beginning; in any other, what is beyond the end of what was written takes space.
func (f *StagedFile) WriteHole(offset, length int64) error {
	if offset < 0 || length < 0 || offset > math.MaxInt64-length {
		return writeError("make a hole in", f.path, unix.EINVAL)
	}
	var st unix.Stat_t
	if err := fstat(f.fd, &st); err != nil {
		return writeError("look at", f.path, err)
	}
	end := offset + length
	if inside := min(end, st.Size); offset < inside {
		err := punch(f.fd, offset, inside-offset)
		if errors.Is(err, unix.ENOTSUP) || err == unix.ENOSYS {
			return f.writeZeros(offset, end)
		}
		if err != nil {
			return writeError("make a hole in", f.path, err)
		}
		offset = inside
	}
	return f.writeZeros(offset, end)
}

// Truncate cuts off what is behind the first bytes of the file.
func (f *StagedFile) Truncate(size int64) error {
	var st unix.Stat_t
	err := fstat(f.fd, &st)
	if err == nil && st.Size > size {
		err = unix.Ftruncate(f.fd, size)
	}
	if err != nil {
		return writeError("cut off the end of", f.path, err)
	}
	return nil
}

// IsHole reports whether nothing but a hole is known in a range, which then reads as zeros.
func (f *StagedFile) IsHole(offset, length int64) (bool, error) {
	start, _, err := dataRange(f.fd, offset, offset+length)
	if err != nil {
		return false, writeError("look for holes in", f.path, err)
	}
	return start >= offset+length, nil
}

func punch(fd int, offset, length int64) error {
	for {
		err := unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, offset, length)
		if err != unix.EINTR {
			return err
		}
	}
}

func (f *StagedFile) writeZeros(offset, end int64) error {
	if offset >= end {
		return nil
	}
	zeros := make([]byte, min(end-offset, 1<<20))
	for offset < end {
		n, err := f.write(zeros[:min(end-offset, int64(len(zeros)))], offset)
		if err != nil {
			return err
		}
		offset += int64(n)
	}
	return nil
}

// Commit gives the file the attributes and the name of its entry, in the place of a file or link that has the name, and
// where the destination is a mirror also of a directory. See Sync for what must come before. It refuses a file that has
// not the entry's size.
func (f *StagedFile) Commit(e *Entry) error {
	d := f.destination
	if err := f.dress(e); err != nil {
		return err
	}
	parent, name := Split(e.Path)
	for again := true; ; again = false {
		p, err := d.parents.acquire(parent)
		if err != nil {
			return writeError("open the directory of", e.Path, err)
		}
		err = f.rename(p.dir, name, e)
		if err == unix.ENOENT && again {
			// The directory may be another one now.
			d.parents.drop(p)
			d.parents.release(p)
			continue
		}
		d.parents.release(p)
		if err != nil {
			return d.stageError("give its name to", e.Path, err)
		}
		return nil
	}
}

func (f *StagedFile) rename(p dir, name string, e *Entry) error {
	d := f.destination
	err := unix.Renameat(int(d.stage), f.name, int(p), name)
	if err != unix.EISDIR || d.mirror == nil {
		return err
	}
	if err := d.mirror.remove(e, p, name, true); err != nil {
		return err
	}
	return unix.Renameat(int(d.stage), f.name, int(p), name)
}

// dress gives the file the attributes of an entry.
func (f *StagedFile) dress(e *Entry) error {
	d := f.destination
	var st unix.Stat_t
	if err := fstat(f.fd, &st); err != nil {
		return writeError("look at", e.Path, err)
	}
	if st.Size != e.Size {
		return fmt.Errorf(
			"give %q its name at the destination: %d bytes were written of %d", printable(e.Path), st.Size, e.Size,
		)
	}
	l, err := d.dress(node{at: d.stage, name: f.name, fd: f.fd}, e, &st, "", false)
	if err != nil {
		return d.stageError("set the attributes of", e.Path, err)
	}
	d.count(l, e.Path)
	return nil
}

// Close closes the file and leaves it staged unless it was committed.
func (f *StagedFile) Close() error { return unix.Close(f.fd) }
