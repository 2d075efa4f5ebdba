// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package loop gives files block devices. A device lasts until it is detached, whatever becomes of the process, and is
// found again by its file.
package loop

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// control is the device that hands out free loop devices.
const control = "/dev/loop-control"

// attempts is how often another process may take the device that was free.
const attempts = 50

// sysfs has a folder for each block device.
const sysfs = "/sys/block"

// Available is nil if this machine has loop devices.
func Available() error {
	if _, err := os.Stat(control); err != nil {
		return fmt.Errorf("loop devices: %w", err)
	}
	return nil
}

// Find returns the device of the file, or "" if it has none. The path is absolute and has no symbolic links.
func Find(path string) (string, error) {
	devices, err := list()
	if err != nil {
		return "", err
	}
	for _, d := range devices {
		if d.backing == path {
			return d.path, nil
		}
	}
	return "", nil
}

// Attach returns the device of the file, which it makes unless the file has one.
func Attach(path string) (string, error) {
	if device, err := Find(path); err != nil || device != "" {
		return device, err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("giving a file a loop device: %w", err)
	}
	defer file.Close()
	c, err := os.OpenFile(control, os.O_RDWR, 0)
	if err != nil {
		return "", fmt.Errorf("giving a file a loop device: %w", err)
	}
	defer c.Close()
	for range attempts {
		number, err := unix.IoctlRetInt(int(c.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return "", fmt.Errorf("looking for a free loop device: %w", err)
		}
		device := fmt.Sprintf("/dev/loop%d", number)
		err = configure(device, file)
		if err == nil {
			return device, nil
		}
		if !errors.Is(err, unix.EBUSY) {
			return "", fmt.Errorf("giving %s the loop device %s: %w", path, device, err)
		}
	}
	return "", fmt.Errorf("giving %s a loop device: others took each that was free, %d times", path, attempts)
}

func configure(device string, file *os.File) error {
	d, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer d.Close()
	config := unix.LoopConfig{Fd: uint32(file.Fd())}
	copy(config.Info.File_name[:len(config.Info.File_name)-1], file.Name())
	return unix.IoctlLoopConfigure(int(d.Fd()), &config)
}

// Detach frees the device. If somebody still uses it, it is freed when the last of them has ended.
func Detach(device string) error {
	d, err := os.OpenFile(device, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("detaching a loop device: %w", err)
	}
	defer d.Close()
	err = unix.IoctlSetInt(int(d.Fd()), unix.LOOP_CLR_FD, 0)
	if err != nil && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("detaching %s: %w", device, err)
	}
	return nil
}

// DetachBelow detaches the devices of all files below dir, and those that kubelets have put over such devices.
func DetachBelow(dir string) error {
	devices, err := Below(dir)
	errs := []error{err}
	for _, device := range devices {
		errs = append(errs, Detach(device))
	}
	return errors.Join(errs...)
}

// Below lists the devices of all files below dir, and those that kubelets have put over such devices.
func Below(dir string) ([]string, error) {
	devices, err := list()
	return below(devices, dir), err
}

// device is a loop device and the file, or the device, under it.
type device struct{ path, backing string }

func list() ([]device, error) {
	files, err := filepath.Glob(sysfs + "/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	var devices []device
	for _, f := range files {
		data, err := os.ReadFile(f)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO) {
			continue // Detached meanwhile.
		}
		if err != nil {
			return nil, fmt.Errorf("listing loop devices: %w", err)
		}
		name := filepath.Base(filepath.Dir(filepath.Dir(f)))
		devices = append(devices, device{path: "/dev/" + name, backing: strings.TrimSuffix(string(data), "\n")})
	}
	return devices, nil
}

// below are the devices whose file is below dir, and those that lie over one of them, which come first.
func below(devices []device, dir string) []string {
	var found []string
	for grown := true; grown; {
		grown = false
		for _, d := range devices {
			ours := strings.HasPrefix(d.backing, dir+"/") || slices.Contains(found, d.backing)
			if ours && !slices.Contains(found, d.path) {
				found, grown = append(found, d.path), true
			}
		}
	}
	slices.Reverse(found)
	return found
}
