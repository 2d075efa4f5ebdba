// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

// TestUnwritten: of all that the server reports, errors of the volume count.
func TestUnwritten(t *testing.T) {
	l := newLogger(nil)
	full := &fs.PathError{Op: "write", Path: "1.blk", Err: syscall.ENOSPC}
	l.Errorf("Error trying to connect to route: %v", syscall.ECONNREFUSED)
	l.Errorf("no space left on device")
	l.Warnf("Filestore: %v", full)
	if err := l.unwritten.Load(); err != nil {
		t.Errorf("taken for one: %v", *err)
	}
	l.Errorf("Filestore [%s] Critical write error: %v", "orders", fmt.Errorf("wrapped: %w", full))
	l.Errorf("Critical write error: %v", syscall.EIO)
	if err := l.unwritten.Load(); err == nil || !errors.Is(*err, syscall.ENOSPC) {
		t.Errorf("the first that counts is %v", err)
	}
}
