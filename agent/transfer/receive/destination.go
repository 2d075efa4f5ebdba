// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"io"

	"github.com/lighterage/lighterage/agent/filter"
	"github.com/lighterage/lighterage/agent/journal"
	"github.com/lighterage/lighterage/agent/tree"
)

// Destination is where a receiver writes. See tree.Destination for what the methods promise.
type Destination interface {
	Mirror(f *filter.Filter, allowEmpty bool) error
	Removed() uint64
	Look(*tree.Entry) (needed bool, err error)
	LookAgain(*tree.Entry) (needed bool, err error)
	Forget(path string)
	OpenOld(path string) (*tree.OldFile, error)
	Stage(number uint64, e *tree.Entry) (StagedFile, error)
	Discard(number uint64) error
	KeepOthers()
	Finish() error
	Close() error
	Sync() error
	Staged(number uint64) (bytes int64, exists bool, err error)
	Clear(keep func(number uint64) bool) (bytes int64, err error)
	Staging() journal.Dir
	Omissions() *tree.Omissions
}

// StagedFile is a file that does not have its name yet.
type StagedFile interface {
	io.WriterAt
	io.ReaderAt
	WriteHole(offset, length int64) error
	CopyFrom(old *tree.OldFile, offset, length int64) error
	IsHole(offset, length int64) (bool, error)
	Sync() error
	Commit(*tree.Entry) error
	Close() error
}

// Tree is a tree.Destination as Destination.
type Tree struct{ *tree.Destination }

// Stage implements Destination.
func (t Tree) Stage(number uint64, e *tree.Entry) (StagedFile, error) {
	return t.Destination.Stage(number, e)
}

var _ Destination = Tree{(*tree.Destination)(nil)}
