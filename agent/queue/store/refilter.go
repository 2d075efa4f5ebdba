// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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

// Configure implements Engine. A consumer may be there with other filters.
func (s *Store) Configure(ctx context.Context, consumer string, subjects []string) (fresh bool, err error) {
	if s.options.Cluster == nil {
		return false, s.note(consumer, subjects)
	}
	return s.CheckFilters(ctx, s.looks, consumer, subjects)
}

// FiltersError says that the filters of a consumer cannot be changed.
type FiltersError struct{ Consumer, Before string }

func (e *FiltersError) Error() string {
	return fmt.Sprintf("consumer %q reads %s, which cannot be changed in a queue of several servers: those would remove "+
		"messages of other subjects that are below the consumer's position, though nobody got them. Delete the consumer "+
		"and create it again: it then begins with the oldest message, and what was delivered and not acknowledged is "+
		"delivered again. Or make one of another name, for subjects that no consumer reads", e.Consumer, e.Before)
}

// filtersPatience bounds how long servers may take to say what a consumer reads.
const filtersPatience = 5 * time.Second

// CheckFilters returns a *FiltersError if a consumer is there and reads something else: servers of a cluster look for
// messages that are below the position of a consumer that reads them, and remove them as acknowledged, also those that
// it did not read when it passed them. fresh says that there is none. Nothing is removed with a consumer, and one that
// is made begins with the oldest message.
func (s *Streams) CheckFilters(
	ctx context.Context, conn *nats.Conn, consumer string, subjects []string,
) (fresh bool, err error) {
	if consumer == "" {
		return false, nil // the server chooses a name that is no other's
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, filtersPatience)
	defer cancel()
	found, err := js.Consumer(ctx, s.queue, consumer)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("look what consumer %q reads now: %w", consumer, err)
	}
	if before := sortedFilters(filtersOf(found.CachedInfo())); before != sortedFilters(subjects) {
		return false, &FiltersError{Consumer: consumer, Before: before}
	}
	return false, nil
}

// note keeps that filters change on the volume of the only member.
func (s *Store) note(consumer string, subjects []string) error {
	if s.options.Memory {
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
