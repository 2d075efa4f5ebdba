// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// filters are what consumers read as far as clients were heard. A consumer whose filters
// are changed has a position beyond messages that it was never given, of subjects that it
// did not read before. They must not count as acknowledged: that it has changed is written
// before it changes, and from then on no message is removed that was there at the next start.
type filters struct {
	mu sync.Mutex
	// known are those of each consumer; nil: those at the start could not be listed.
	known map[string]string
	// unnamed says that there are consumers whose names were not heard.
	unnamed bool
	changed bool
}

const (
	// maxFilters bounds how many consumers are known. With more the filters count as changed.
	maxFilters = 10_000
	// keptFile has the sequence of the last message that is not to be removed, or anything
	// else for all that are there at the next start.
	keptFile = "kept"
	keptAll  = "all"
)

// Configure is told before a client asks for a consumer with these filters, which may be
// there with others. An error says that it must not be asked for. An empty name is one that the
// server chooses.
func (s *Store) Configure(consumer string, subjects []string) error {
	if s.options.Cluster != nil || s.options.Memory {
		return nil // Sweep removes nothing.
	}
	f := &s.filters
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.changed {
		return nil
	}
	read := sortedFilters(subjects)
	before, ok := f.known[consumer]
	switch {
	case f.known == nil, ok && before != read, !ok && (f.unnamed && consumer != "" || len(f.known) >= maxFilters):
		if err := s.keepAll(); err != nil {
			return fmt.Errorf("note that filters of consumers change: %w", err)
		}
		f.changed, f.known = true, nil
	case consumer == "":
		f.unnamed = true
	default:
		f.known[consumer] = read
	}
	return nil
}

// keepAll notes that nothing is to be removed that is there at the next start. It is on the
// volume then, as the server's note of the filters may be that follows.
func (s *Store) keepAll() error {
	file, err := os.OpenFile(filepath.Join(s.options.Directory, keptFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(keptAll)
	return errors.Join(err, file.Sync(), file.Close())
}

// refiltered reports whether filters may have changed since the start.
func (s *Store) refiltered() bool {
	s.filters.mu.Lock()
	defer s.filters.mu.Unlock()
	return s.filters.changed
}

// learn is told what consumers read before clients come in.
func (f *filters) learn(known map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known = known
}

func sortedFilters(subjects []string) string {
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(subjects))), " ")
}

// kept returns the sequence of the last message that is not to be removed. last is that of
// the last that is there.
func (s *Store) kept(last uint64) (uint64, error) {
	path := filepath.Join(s.options.Directory, keptFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if kept, err := strconv.ParseUint(string(text), 10, 64); err == nil {
		return kept, nil
	}
	// Half a number would be a smaller one.
	whole := path + ".new"
	if err := os.WriteFile(whole, strconv.AppendUint(nil, last, 10), 0o600); err != nil {
		return 0, err
	}
	return last, os.Rename(whole, path)
}
