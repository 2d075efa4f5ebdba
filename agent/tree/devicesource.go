// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/wire/contents"
)

// DeviceSource is a block volume as a tree of one file that is read. Nothing tells that a device changed while it was
// read: what is read of one that is written to is of several moments. It is safe for concurrent use.
type DeviceSource struct {
	fd        int
	entry     Entry
	image     bool
	omissions *Omissions
}

// OpenDeviceSource opens a block device.
func OpenDeviceSource(path string) (*DeviceSource, error) {
	fd, size, err := openDevice(path, unix.O_RDONLY)
	if err != nil {
		return nil, sourceDeviceError(err)
	}
	return &DeviceSource{
		fd: fd, entry: Entry{Path: DeviceName, Type: File, Mode: 0o600, Size: size, Sparse: true}, omissions: &Omissions{},
	}, nil
}

// Image makes the device a tree of the file ImageName, for where files are kept. version tells its content from all
// else, such as the UID of a copy that nobody writes to, and modified is when that was made. Its nanoseconds give way
// to some bits of the version: a restore takes a file of the same size and time for unchanged, and another copy may be
// of the same second. An empty version is that of no other source. It must be called before Walk.
func (s *DeviceSource) Image(version string, modified time.Time) {
	if version == "" {
		version = rand.Text()
	}
	sum := sha256.Sum256([]byte(version))
	s.image = true
	s.entry.Path, s.entry.Device = ImageName, true
	s.entry.Changed = int64(binary.BigEndian.Uint64(sum[:])&math.MaxInt64 | 1)
	s.entry.Modified = modified.Unix()*1e9 + s.entry.Changed%1e9
	s.entry.UID, s.entry.GID = uint32(os.Getuid()), uint32(os.Getgid())
}

// Close closes the device.
func (s *DeviceSource) Close() error { return unix.Close(s.fd) }

// Omissions returns that nothing is left out.
func (s *DeviceSource) Omissions() *Omissions { return s.omissions }

// Walk visits the root and the device, of an image that alone: the root would have attributes that nobody gave it.
func (s *DeviceSource) Walk(ctx context.Context, visit func(*Entry) error) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if !s.image {
		if err := visit(&Entry{Path: Root, Type: Directory, Mode: 0o700}); err != nil {
			return err
		}
	}
	e := s.entry
	return visit(&e)
}

// WalkAgain is Walk.
func (s *DeviceSource) WalkAgain(ctx context.Context, visit func(*Entry) error) error {
	return s.Walk(ctx, visit)
}

// Again returns the device.
func (s *DeviceSource) Again(e *Entry) (*Entry, error) {
	again := *e
	return &again, nil
}

// Open opens the device once more.
func (s *DeviceSource) Open(e *Entry) (*SourceFile, error) {
	fd, err := unix.FcntlInt(uintptr(s.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the device of the source claim again: %w", err)
	}
	return &SourceFile{entry: e, fd: fd, device: true}, nil
}

// ReadAt fills p with the bytes from offset on.
func (s *DeviceSource) ReadAt(e *Entry, p []byte, offset int64) error {
	return (&SourceFile{entry: e, fd: s.fd, device: true}).ReadAt(p, offset)
}

// Digest returns size and SHA-256 of the device. It calls alive before each part, and ends with its error.
func (s *DeviceSource) Digest(e *Entry, alive func() error) (size int64, sum [sha256.Size]byte, err error) {
	content, r := contents.NewFile(alive), readers.Get().(*contentReader) //nolint:forcetypeassert // It has no others.
	defer readers.Put(r)
	read := func(p []byte, offset int64) error { return s.ReadAt(e, p, offset) }
	if err := r.copy(content, e.Size, read); err != nil {
		return 0, sum, err
	}
	size, sum = content.Sum()
	return size, sum, nil
}
