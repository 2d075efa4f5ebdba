// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Place is where archives are: in a directory, or in an object store.
type Place struct {
	Directory string
	// Store whose prefix has the archives; nil: they are in Directory.
	Store *objectstore.Store
}

// make opens the archive of a name, and makes it if it is not there. The context bounds everything that is done with
// it.
func (p Place) make(ctx context.Context, name string) (*Directory, error) {
	if p.Store == nil {
		return Make(p.Directory, name)
	}
	return inStore(ctx, p.Store, "", name), nil
}

// open opens an archive that is there.
func (p Place) open(ctx context.Context, at string) (*Directory, error) {
	if p.Store == nil {
		return Open(p.Directory, at)
	}
	below, name := path.Split(path.Clean(at))
	d := inStore(ctx, p.Store, below, name)
	some := false
	if err := d.files.list(func(file) bool { some = true; return false }); err != nil {
		return nil, fmt.Errorf("open the archive %s: %w", at, err)
	}
	if !some {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, at)
	}
	return d, nil
}

// latest returns the name of the latest archive of a queue, of those that begin with another life than one.
func (p Place) latest(ctx context.Context, queue, but string) (string, error) {
	if p.Store == nil {
		return Latest(p.Directory, queue, but)
	}
	children, err := p.Store.Directory(ctx, "")
	if err != nil {
		return "", fmt.Errorf("look for archives: %w", err)
	}
	var names []string
	for _, child := range children {
		if child.Directory {
			names = append(names, child.Name)
		}
	}
	return latest(names, queue, but)
}

// rangeBytes is the length of messages from which a range is closed there.
func (p Place) rangeBytes(wanted int64) int64 {
	if p.Store == nil {
		return wanted
	}
	return min(wanted, storeRangeBytes)
}

// silent says that it has not answered for a while, as a volume over a network may not that is out of reach.
func (p Place) silent(since time.Duration) error {
	if p.Store != nil {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_STORE_UNREACHABLE,
			"the archive's object store has not taken anything for %v: see whether it can be reached, and its own log",
			since.Round(time.Second))
	}
	return failure.New(wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE,
		"the archive's claim has not answered for %v: see whether its volume, and what it is on, can be reached",
		since.Round(time.Second))
}
