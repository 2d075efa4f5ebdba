// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/failure"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// DeviceName is the path of the one file in the tree of a block volume.
const DeviceName = "block"

// ImageName is the path of a block volume where files are kept.
const ImageName = "volume.img"

// deviceRefused is what to do when a pod may not open the device of its claim.
const deviceRefused = "the container runtime leaves block devices to root unless containerd's configuration has " +
	"device_ownership_from_security_context = true (CRI-O: device_ownership_from_security_context in [crio.runtime]): set " +
	"it on the nodes and restart the runtime"

// openDevice opens a block device, or a file that stands for one, and returns its size in bytes.
func openDevice(path string, flags int) (fd int, size int64, err error) {
	for {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC, 0)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return -1, 0, err
	}
	var st unix.Stat_t
	if err = fstat(fd, &st); err == nil {
		if t := st.Mode & unix.S_IFMT; t != unix.S_IFBLK && t != unix.S_IFREG {
			err = unix.ENOTBLK
		}
	}
	if err == nil {
		size, err = unix.Seek(fd, 0, unix.SEEK_END)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, 0, err
	}
	return fd, size, nil
}

// refusedDevice: the pod has the device and may not open it.
func refusedDevice(err error) bool { return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) }

func sourceDeviceError(err error) error {
	switch {
	case refusedDevice(err):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_READABLE,
			"the agent may not open the device of the source claim (%w): %s", err, deviceRefused)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND,
			"the device of the source claim is gone (%w): see the events of its PersistentVolume", err)
	default:
		return fmt.Errorf("open the device of the source claim: %w", err)
	}
}

func destinationDeviceError(err error) error {
	switch {
	case refusedDevice(err):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
			"the agent may not open the device of the destination claim (%w): %s", err, deviceRefused)
	case errors.Is(err, unix.EROFS):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
			"the device of the destination claim is read-only (%w): use a claim that can be written", err)
	case errors.Is(err, unix.EBUSY):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_IN_USE,
			"the device of the destination claim is in use on this node (%w): it is mounted, part of a RAID or volume group, "+
				"or an agent of an earlier attempt still has it; end what uses it", err)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV):
		return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_FOUND,
			"the device of the destination claim is gone (%w): see the events of its PersistentVolume", err)
	default:
		return fmt.Errorf("open the device of the destination claim: %w", err)
	}
}
