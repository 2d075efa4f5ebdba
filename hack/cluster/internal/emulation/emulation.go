// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package emulation has the kernel run programs for s390x by QEMU, for as long as the clusters are there.
package emulation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// QEMU runs a program for s390x; a static one, since containers have no libraries of this machine.
	QEMU = "qemu-s390x-static"

	fileSystem = "/proc/sys/fs/binfmt_misc"
	// handler is the name of ours among those of the machine, which stay as they are.
	handler = "lighterage-s390x"
	// What a program for s390x begins with, and which bits of that count, as the kernel's documentation has it written.
	magic = `\x7fELF\x02\x02\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x16`
	mask  = `\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff`
)

// entry is what the kernel is told. The flag F has it open QEMU now, so that containers, which do not have it, can use
// it.
func entry(qemu string) string {
	return fmt.Sprintf(":%s:M::%s:%s:%s:F", handler, magic, mask, qemu)
}

// Register is idempotent. In the file mark it notes, before it does so, that the kernel's file system had to be
// mounted.
func Register(qemu, mark string) error {
	if _, err := os.Stat(filepath.Join(fileSystem, "register")); errors.Is(err, fs.ErrNotExist) {
		if err := os.WriteFile(mark, []byte("mounted "+fileSystem+"\n"), 0o644); err != nil {
			return fmt.Errorf("noting the mount of %s: %w", fileSystem, err)
		}
		if err := unix.Mount(
			"binfmt_misc", fileSystem, "binfmt_misc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "",
		); err != nil {
			return fmt.Errorf("mounting %s: %w", fileSystem, err)
		}
	}
	if _, err := os.Stat(filepath.Join(fileSystem, handler)); err == nil {
		return nil
	}
	if err := os.WriteFile(filepath.Join(fileSystem, "register"), []byte(entry(qemu)), 0o200); err != nil {
		return fmt.Errorf("having the kernel run programs for s390x by %s: %w", qemu, err)
	}
	return nil
}

// Remove undoes what Register did, if it did.
func Remove(mark string) error {
	own := filepath.Join(fileSystem, handler)
	if _, err := os.Stat(own); err == nil {
		if err := os.WriteFile(own, []byte("-1"), 0o200); err != nil {
			return fmt.Errorf("removing %s: %w", own, err)
		}
	}
	text, err := os.ReadFile(mark)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !strings.HasPrefix(string(text), "mounted ") {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading what was mounted: %w", err)
	}
	if err := unix.Unmount(fileSystem, 0); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmounting %s: %w", fileSystem, err)
	}
	return os.Remove(mark)
}
