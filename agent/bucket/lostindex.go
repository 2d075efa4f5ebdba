// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/lighterage/lighterage/agent/failure"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// errNoIndex says that no index names archives that are there.
var errNoIndex = fmt.Errorf("%w: it is not there", errIndex)

// liveBytes returns how many bytes of each archive are of files by the index. Where archives are there it fails unless
// that can be read to its end: the new index would not name what the source does not have any more, and archives that
// it does not name are removed.
func (w *writing) liveBytes(ctx context.Context) (map[string]int64, error) {
	a := w.archives
	if !a.any() {
		return nil, nil
	}
	index, err := openIndex(ctx, a.store)
	if err != nil {
		return nil, w.needed(err)
	}
	defer func() { _ = index.close() }() // It was only read.
	if index.object == nil {
		if a.ofFirstRun() {
			return nil, nil
		}
		return nil, w.needed(errNoIndex)
	}
	w.indexNeeded = true
	index.unfit, index.lacks = func(string) {}, a.lacks
	live := make(map[string]int64)
	for {
		r, err := index.next()
		if errors.Is(err, io.EOF) {
			return live, nil
		}
		if err != nil {
			return nil, w.needed(err)
		}
		if r.archive != "" {
			live[r.archive] += tarLength(&r.entry)
		}
	}
}

// ofFirstRun reports whether attempts that have written no index made all archives: journals go when an index names
// what they have.
func (a *archives) ofFirstRun() bool {
	journals := make(map[string]bool)
	for _, object := range a.journal {
		name, _, _ := strings.Cut(strings.TrimPrefix(object, journalName), "/")
		journals[name] = true
	}
	unnamed := func(name string) bool { return !journals[name] }
	return !slices.ContainsFunc(slices.Collect(maps.Keys(a.present)), unnamed) &&
		!slices.ContainsFunc(slices.Collect(maps.Keys(a.bare)), unnamed)
}

// needed gives an index that is lost, while archives are there, a reason.
func (w *writing) needed(err error) error {
	if !errors.Is(err, errIndex) {
		return err
	}
	return failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
		"%s cannot be read (%w), and nothing else says which files the archives in %s have: this run would remove those of "+
			"files that the source does not have any more; nothing was removed: restore an earlier version of the index, or "+
			"use another path of spec.destination (tar extracts the archives, in the order of their names); if nobody needs "+
			"that copy, remove the index and the archives", IndexName, err, archivesName)
}

// unusable gives an index that is lost a reason.
func unusable(ctx context.Context, store Store, err error) error {
	if !errors.Is(err, errIndex) {
		return err
	}
	archives, failed := hasArchives(ctx, store)
	switch {
	case failed != nil:
		return failed
	case archives:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
			"%s cannot be read (%w), and nothing else says which files the archives in %s have: restore an earlier version of "+
				"the index, or extract the archives with tar, in the order of their names; while the first run of the Transfer "+
				"that writes there has not ended, wait for it", IndexName, err, archivesName)
	case errors.Is(err, errNoIndex):
		return nil
	default:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
			"%s cannot be read (%w): restore an earlier version of this object, or remove it to go on without owners, modes, "+
				"times, links and extended attributes", IndexName, err)
	}
}

// hasArchives reports whether there are archives.
func hasArchives(ctx context.Context, store Store) (bool, error) {
	for object, err := range store.List(ctx, archivesName) {
		if err != nil {
			return false, err
		}
		if _, ok := archiveForm(strings.TrimPrefix(object.Name, archivesName)); ok {
			return true, nil
		}
	}
	return false, nil
}
