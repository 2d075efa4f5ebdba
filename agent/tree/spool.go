// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// spool keeps records on disk, because a tree may have more entries than fit into memory. Records are read from the
// last to the first, so that what is in a directory comes before it.
//
// A record: its bytes, their number (4 bytes, big-endian).
type spool struct {
	file *os.File
	w    *bufio.Writer
	size int64

	// window is the part of buf that has what was read and not taken yet; it began at start in the file.
	buf, window []byte
	start       int64
	reading     bool
}

// maxRecord is the largest record: an entry with the longest path, target and extended attributes.
const maxRecord = 2*MaxPath + MaxXattrBytes + 16*MaxXattrs + 256

func newSpool(f *os.File) *spool {
	return &spool{file: f, w: bufio.NewWriter(f)}
}

// openSpool makes a spool in the staging directory.
func (d *Destination) openSpool(name string) (*spool, error) {
	fd, err := openat(int(d.stage), name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, d.stageError("make", d.staging+"/"+name, err)
	}
	return newSpool(os.NewFile(uintptr(fd), name)), nil
}

func (s *spool) add(record []byte, path string) error {
	n, err := s.w.Write(record)
	s.size += int64(n)
	if err == nil {
		b := binary.BigEndian.AppendUint32(s.w.AvailableBuffer(), uint32(len(record)))
		n, err = s.w.Write(b)
		s.size += int64(n)
	}
	if err != nil {
		return writeError("take note of", path, err)
	}
	return nil
}

func (s *spool) addEntry(e *Entry) error {
	b, err := proto.Marshal(e.ToWire())
	if err != nil {
		return fmt.Errorf("take note of %q: %w", printable(e.Path), err)
	}
	return s.add(b, e.Path)
}

// previous returns the record before the one that it returned last, and io.EOF after the first one. Nothing may be
// added any more. The record is valid until the next call.
func (s *spool) previous() ([]byte, error) {
	if !s.reading {
		if err := s.w.Flush(); err != nil {
			return nil, writeError("take note of", Root, err)
		}
		s.buf = make([]byte, min(s.size, maxRecord+256<<10))
		s.window, s.start, s.reading = s.buf[:0], s.size, true
	}
	if s.start > 0 && len(s.window) < maxRecord {
		n := min(int64(len(s.buf)-len(s.window)), s.start)
		copy(s.buf[n:], s.window)
		if _, err := s.file.ReadAt(s.buf[:n], s.start-n); err != nil {
			return nil, fmt.Errorf("read a list in the staging directory: %w", err)
		}
		s.start -= n
		s.window = s.buf[:int(n)+len(s.window)]
	}
	if len(s.window) == 0 {
		return nil, io.EOF
	}
	end := len(s.window) - 4
	if end < 0 {
		return nil, fmt.Errorf("read a list in the staging directory: %d bytes too many", len(s.window))
	}
	length := int64(binary.BigEndian.Uint32(s.window[end:]))
	if length > int64(end) {
		return nil, fmt.Errorf("read a list in the staging directory: a record of %d bytes", length)
	}
	first := end - int(length)
	record := s.window[first:end]
	s.window = s.window[:first]
	return record, nil
}

// entries calls visit for every entry, the last one first.
func (s *spool) entries(visit func(*Entry) error) error {
	for {
		record, err := s.previous()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		var w wirev1.Entry
		if err := proto.Unmarshal(record, &w); err != nil {
			return fmt.Errorf("read a list in the staging directory: %w", err)
		}
		e, err := FromWire(&w)
		if err != nil {
			return fmt.Errorf("read a list in the staging directory: %w", err)
		}
		if err := visit(&e); err != nil {
			return err
		}
	}
}

func (s *spool) close() error { return s.file.Close() }
