// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/filter"
	"github.com/lighterage/lighterage/agent/journal"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// DeviceDestination is a block volume as a tree of one file that is written in its place. What it holds before is the
// old version of the file, so that only what differs is written; a run that was killed leaves a device that is part
// the old and part the new one, and what it wrote counts as old for the next attempt. So there is no staging and no
// journal. What the device has beyond the size of the source stays.
//
// The device is opened exclusively, which keeps out all others of the same node that do so, and mounts. All methods are
// safe for concurrent use, but for Look and Finish.
type DeviceDestination struct {
	fd        int // -1 after Close
	capacity  int64
	device    atomic.Pointer[Entry] // nil until it was announced, and after Forget
	omissions *Omissions
	content   contentReader
}

// OpenDeviceDestination opens a block device.
func OpenDeviceDestination(path string) (*DeviceDestination, error) {
	fd, size, err := openDevice(path, unix.O_RDWR|unix.O_EXCL)
	if err != nil {
		return nil, destinationDeviceError(err)
	}
	return &DeviceDestination{fd: fd, capacity: size, omissions: &Omissions{}}, nil
}

// Look reports that the content of the device is needed. It refuses one that is larger than this one, and any other
// entry.
func (d *DeviceDestination) Look(e *Entry) (needed bool, err error) {
	switch {
	case e.Path == Root && e.Type == Directory:
		return false, nil
	case e.Path != DeviceName || e.Type != File:
		return false, failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
			"the sender announces %q as if its source were a block volume", printable(e.Path))
	case e.Size > d.capacity:
		return false, failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL,
			"the source's device has %d bytes and the destination's %d, so nothing was written: enlarge the destination claim "+
				"to the source's size at least", e.Size, d.capacity)
	}
	d.device.Store(e)
	return true, nil
}

// LookAgain is Look.
func (d *DeviceDestination) LookAgain(e *Entry) (needed bool, err error) { return d.Look(e) }

// OpenOld opens what the device holds, as far as the source reaches; nil after Forget.
func (d *DeviceDestination) OpenOld(string) (*OldFile, error) {
	device := d.device.Load()
	if device == nil {
		return nil, nil
	}
	fd, err := unix.FcntlInt(uintptr(d.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the device of the destination claim again: %w", err)
	}
	return &OldFile{path: DeviceName, fd: fd, size: device.Size}, nil
}

// Open returns the device for writing, which Close leaves open.
func (d *DeviceDestination) Open() *DeviceFile { return &DeviceFile{fd: d.fd} }

// Mirror does nothing: a device has nothing beside its content.
func (d *DeviceDestination) Mirror(*filter.Filter, bool) error { return nil }

// Removed is 0.
func (d *DeviceDestination) Removed() uint64 { return 0 }

// Rest does nothing: a session for a device has no form.
func (d *DeviceDestination) Rest(cargo.Form, cargo.Records) {}

// Forget has Finish fail: the sender has the device no more, of which a part may be written.
func (d *DeviceDestination) Forget(string) { d.device.Store(nil) }

// Discard does nothing: what was written stays.
func (d *DeviceDestination) Discard(uint64) error { return nil }

// Unstage does nothing.
func (d *DeviceDestination) Unstage(uint64) error { return nil }

// KeepOthers does nothing.
func (d *DeviceDestination) KeepOthers() {}

// Staged returns that nothing is staged.
func (d *DeviceDestination) Staged(uint64) (bytes int64, exists bool, err error) {
	return 0, false, nil
}

// Clear does nothing.
func (d *DeviceDestination) Clear(func(uint64) bool) (bytes int64, err error) { return 0, nil }

// Staging returns nil: there is no place for a journal.
func (d *DeviceDestination) Staging() journal.Dir { return nil }

// Omissions returns that nothing is lost.
func (d *DeviceDestination) Omissions() *Omissions { return d.omissions }

// Sync puts what was written on stable storage.
func (d *DeviceDestination) Sync() error { return d.Open().Sync() }

// Finish syncs the device. It refuses a sender that announced none, or has it no more.
func (d *DeviceDestination) Finish() error {
	if d.device.Load() == nil {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
			"the sender announced no device, or withdrew it before all was sent")
	}
	return d.Sync()
}

// Close closes the device. Closing again does nothing.
func (d *DeviceDestination) Close() error {
	if d.fd < 0 {
		return nil
	}
	fd := d.fd
	d.fd = -1
	return unix.Close(fd)
}

// ReadContent writes what the device holds to w, as far as the source reaches, and returns its size in bytes, or -1 for
// any other path. It is not safe for concurrent use.
func (d *DeviceDestination) ReadContent(path string, w io.Writer) (size int64, err error) {
	if path != DeviceName || d.device.Load() == nil {
		return -1, nil
	}
	f := d.Open()
	read := func(p []byte, offset int64) error {
		_, err := f.ReadAt(p, offset)
		return err
	}
	size = d.device.Load().Size
	return size, d.content.copy(w, size, read)
}

// ReadLink returns that there is no link.
func (d *DeviceDestination) ReadLink(string) (target string, ok bool, err error) {
	return "", false, nil
}

// DeviceFile is a device that is written in its place. Its methods are safe for concurrent use.
type DeviceFile struct{ fd int }

// WriteAt writes all of p or returns an error.
func (f *DeviceFile) WriteAt(p []byte, offset int64) (int, error) {
	done := 0
	for done < len(p) {
		n, err := unix.Pwrite(f.fd, p[done:], offset+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, deviceWriteError(err)
		}
		done += n
	}
	return done, nil
}

// deviceWriteError: a thin device may have no space for what its size promises.
func deviceWriteError(err error) error {
	if errors.Is(err, unix.ENOSPC) {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL,
			"the destination's device cannot be written (%w): free space in the pool that its storage class takes it from", err)
	}
	return fmt.Errorf("write the destination's device: %w", err)
}

// ReadAt reads all of p or returns an error.
func (f *DeviceFile) ReadAt(p []byte, offset int64) (int, error) {
	return readAll(f.fd, DeviceName, p, offset)
}

// zeroUnit is how much of a device is compared with zeros at once, in bytes. Devices give back whole units.
const zeroUnit = 64 << 10

var zeros [zeroUnit]byte

// WriteHole makes a range read as zeros. What reads so already is not written, and what does not is given back to the
// device where it can.
func (f *DeviceFile) WriteHole(offset, length int64) error {
	buf := make([]byte, min(zeroUnit, length))
	for end := offset + length; offset < end; {
		p := buf[:min(end-offset, zeroUnit)]
		if _, err := f.ReadAt(p, offset); err != nil {
			return err
		}
		if !bytes.Equal(p, zeros[:len(p)]) {
			if err := f.zero(p, offset); err != nil {
				return err
			}
		}
		offset += int64(len(p))
	}
	return nil
}

// zero makes the range of p read as zeros.
func (f *DeviceFile) zero(p []byte, offset int64) error {
	// Whole units only: others may not be whole sectors or pages. Whatever the device does not like, it takes zeros.
	if len(p) == zeroUnit && offset%zeroUnit == 0 && punch(f.fd, offset, zeroUnit) == nil {
		return nil
	}
	_, err := f.WriteAt(zeros[:len(p)], offset)
	return err
}

// CopyFrom does nothing: the old version is in its place.
func (f *DeviceFile) CopyFrom(*OldFile, int64, int64) error { return nil }

// IsHole reports false: nobody knows of a device.
func (f *DeviceFile) IsHole(int64, int64) (bool, error) { return false, nil }

// Truncate does nothing: a device keeps its size.
func (f *DeviceFile) Truncate(int64) error { return nil }

// Sync waits until what was written is on stable storage.
func (f *DeviceFile) Sync() error {
	for {
		err := unix.Fdatasync(f.fd)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return deviceWriteError(err)
		}
		return nil
	}
}

// Commit does nothing: a device has its name, and the attributes of its own.
func (f *DeviceFile) Commit(*Entry) error { return nil }

// Close does nothing: the destination has the device open.
func (f *DeviceFile) Close() error { return nil }
