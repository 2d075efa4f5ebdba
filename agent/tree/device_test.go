// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lighterage/lighterage/agent/failure"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// deviceFile is a file that stands for a device.
func deviceFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "device")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func openDeviceDestination(t *testing.T, path string) *DeviceDestination {
	t.Helper()
	d, err := OpenDeviceDestination(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestDeviceDestinationRefusesLargerDevice(t *testing.T) {
	d := openDeviceDestination(t, deviceFile(t, make([]byte, 4096)))
	_, err := d.Look(&Entry{Path: DeviceName, Type: File, Size: 8192})
	if !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_DESTINATION_FULL) ||
		!strings.Contains(err.Error(), "4096") || !strings.Contains(err.Error(), "8192") {
		t.Errorf("a device of 8192 bytes into one of 4096: %v; want a full destination and both sizes", err)
	}
	if err := d.Finish(); !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
		t.Errorf("Finish without a device: %v", err)
	}
}

func TestDeviceDestinationRefusesOtherEntries(t *testing.T) {
	d := openDeviceDestination(t, deviceFile(t, make([]byte, 4096)))
	for _, e := range []Entry{
		{Path: "other", Type: File, Size: 1},
		{Path: DeviceName, Type: Directory},
		{Path: DeviceName, Type: Symlink, Target: "x"},
		{Path: DeviceName + "/x", Type: File},
	} {
		if _, err := d.Look(&e); !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA) {
			t.Errorf("Look(%+v): %v; want invalid data", e, err)
		}
	}
}

func TestDeviceHoleZeroesWhatIsNotZero(t *testing.T) {
	const size = 5 * zeroUnit
	content := bytes.Repeat([]byte{7}, size)
	clear(content[2*zeroUnit : 3*zeroUnit])
	path := deviceFile(t, content)
	f := openDeviceDestination(t, path).Open()
	// A range that does not begin or end with a unit.
	const from, to = 1000, 4*zeroUnit + 512
	if err := f.WriteHole(from, to-from); err != nil {
		t.Fatal(err)
	}
	clear(content[from:to])
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, content) {
		t.Error("the range does not read as zeros, or more than it does")
	}
}

func TestDeviceHoleWritesNothingWhereZerosAre(t *testing.T) {
	path := deviceFile(t, make([]byte, 3*zeroUnit))
	// Opened for reading: any write fails.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := (&DeviceFile{fd: fd}).WriteHole(0, 3*zeroUnit); err != nil {
		t.Errorf("WriteHole over zeros: %v", err)
	}
}

func TestDeviceThatPodMayNotOpen(t *testing.T) {
	for _, errno := range []error{unix.EACCES, unix.EPERM} {
		if err := sourceDeviceError(errno); !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_READABLE) ||
			!strings.Contains(err.Error(), "device_ownership_from_security_context") {
			t.Errorf("source, %v: %v", errno, err)
		}
		if err := destinationDeviceError(errno); !failure.Is(
			err, wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
		) || !strings.Contains(err.Error(), "device_ownership_from_security_context") {
			t.Errorf("destination, %v: %v", errno, err)
		}
	}
	if err := destinationDeviceError(unix.EBUSY); !failure.Is(
		err, wirev1.FailureReason_FAILURE_REASON_DESTINATION_IN_USE,
	) {
		t.Errorf("a device in use: %v", err)
	}
}

func TestDirectoryIsNoDevice(t *testing.T) {
	if _, err := OpenDeviceSource(t.TempDir()); err == nil {
		t.Error("a directory was opened as a device")
	}
	if _, err := OpenDeviceSource(filepath.Join(t.TempDir(), "none")); !failure.Is(
		err, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND,
	) {
		t.Errorf("no device: %v", err)
	}
}
