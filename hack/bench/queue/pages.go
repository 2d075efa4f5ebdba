// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// findPages makes the machine find so much memory for files in a directory on tmpfs, and leaves it free. On a virtual
// machine free pages go back to the host after a while, and who writes to them next pays for finding them again:
// several times what writing takes, and more the longer the turns before were.
func findPages(directory string, bytes int) error {
	path := filepath.Join(directory, "pages")
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("find memory: %w", err)
	}
	buffer := make([]byte, 1<<20)
	for left := bytes; left > 0 && err == nil; left -= len(buffer) {
		_, err = f.Write(buffer)
	}
	if err = errors.Join(err, f.Close(), os.Remove(path)); err != nil {
		return fmt.Errorf("find memory: %w", err)
	}
	return nil
}
