// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"os"

	"github.com/lighterage/lighterage/agent/transfer/receive"
	"github.com/lighterage/lighterage/agent/tree"
)

// kept is a destination whose file is written over in each run and never goes. On a virtual machine the pages of a file
// that was removed go back to the host after a second or so, and finding them again takes up to twenty times what
// writing to them does: more than most choices differ by.
type kept struct {
	receive.Tree
	file *os.File
}

// Stage returns the file for the only one that is sent.
func (k kept) Stage(uint64, *tree.Entry) (receive.StagedFile, error) { return keptFile{k.file}, nil }

type keptFile struct{ *os.File }

var errNotSent = errors.New("the benchmark sends whole files without holes")

func (keptFile) WriteHole(int64, int64) error               { return errNotSent }
func (keptFile) CopyFrom(*tree.OldFile, int64, int64) error { return errNotSent }
func (keptFile) IsHole(int64, int64) (bool, error)          { return false, nil }
func (keptFile) Commit(*tree.Entry) error                   { return nil }
func (keptFile) Close() error                               { return nil }

// openKept makes the file, or opens it when it is there.
func openKept(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the destination's file: %w", err)
	}
	return f, nil
}
