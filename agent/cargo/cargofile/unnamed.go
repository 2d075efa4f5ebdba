// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargofile

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// createUnnamed makes a file of a directory that has no name yet: a process that is killed leaves nothing. It fails
// where the file system has none, or none could get a name.
func createUnnamed(directory string) (*os.File, error) {
	file, err := os.OpenFile(directory, os.O_RDWR|unix.O_TMPFILE, 0o666)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(byDescriptor(file)); err != nil {
		_ = file.Close() // It is empty.
		return nil, err
	}
	return file, nil
}

// nameUnnamed gives such a file a name, which must be free: fs.ErrExist.
func nameUnnamed(file *os.File, name string) error {
	err := unix.Linkat(unix.AT_FDCWD, byDescriptor(file), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
	if err != nil {
		return fmt.Errorf("give a file the name %q: %w", name, err)
	}
	return nil
}

func byDescriptor(file *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", file.Fd()) }
