// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// changeSlack is by how much the time of a file may be behind the clock.
const changeSlack = time.Second

// Checkpoint syncs what the server of a store has written, as the server does itself at Sync.Interval: it tells nobody
// how long that takes. It is for one goroutine.
type Checkpoint struct {
	store *Store
	root  string
	// since is when the last one that succeeded began to look, and next when the one that is under way did.
	since, next time.Time
	paths       []string
	// seen is what the last look saw of the streams; nil: not known. quiet says that it found no file, and the streams as
	// the one before it did: what the server writes a little later was written.
	seen  *changes
	quiet bool
	walk  func(string, fs.WalkDirFunc) error
}

// changes of a store, by which it is seen whether there were some since: sums over its streams.
type changes struct{ last, messages, applied uint64 }

// changed is nil where it is not known.
func (s *Store) changed() *changes {
	info, err := s.server.Jsz(&server.JSzOptions{Streams: true})
	if err != nil {
		return nil
	}
	now := &changes{applied: s.Applied()}
	for _, account := range info.AccountDetails {
		for i := range account.Streams {
			now.last += account.Streams[i].State.LastSeq
			now.messages += account.Streams[i].State.Msgs
		}
	}
	return now
}

// NewCheckpoint returns nil where there is nothing to sync: no volume, one where each put is synced, or messages that are
// to be in memory.
func (s *Store) NewCheckpoint() *Checkpoint {
	if s.options.Memory || s.options.Spill != nil || s.options.Sync.Always {
		return nil
	}
	return &Checkpoint{
		store: s, root: filepath.Join(s.options.Directory, server.JetStreamStoreDir), since: time.Now(),
		walk: filepath.WalkDir,
	}
}

// Every is how often a checkpoint is due where one is wanted at an interval: not more often than the server syncs.
func (c *Checkpoint) Every(interval time.Duration) time.Duration {
	return max(interval, c.store.options.Sync.Every())
}

// Look finds the files and directories that have changed since the last checkpoint, and returns their number. It walks
// over all files of the store, of which there is one for some megabytes of messages, but not again while nothing has
// been put or removed since it found nothing twice. An error of the volume is one that Failed tells.
func (c *Checkpoint) Look() (int, error) {
	c.next, c.paths = time.Now(), c.paths[:0]
	now := c.store.changed()
	same := now != nil && c.seen != nil && *now == *c.seen
	if same && c.quiet {
		return 0, nil
	}
	err := c.walk(c.root, func(path string, entry fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = entry.Info()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // It was removed meanwhile.
		}
		if err != nil {
			return err
		}
		if (entry.IsDir() || info.Mode().IsRegular()) && info.ModTime().After(c.since.Add(-changeSlack)) {
			c.paths = append(c.paths, path)
		}
		return nil
	})
	if err != nil {
		c.store.log.noteUnwritten([]any{err})
		return 0, fmt.Errorf("look for changed files of queue %s: %w", c.store.options.Queue, err)
	}
	c.seen, c.quiet = now, same && len(c.paths) == 0
	return len(c.paths), nil
}

// Sync syncs what Look found. An error of the volume is one that the server may not see any more, so Failed tells it.
func (c *Checkpoint) Sync() error {
	for _, path := range c.paths {
		if err := syncPath(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.store.log.noteUnwritten([]any{err})
			return fmt.Errorf("sync the files of queue %s: %w", c.store.options.Queue, err)
		}
	}
	c.since = c.next
	return nil
}

func syncPath(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
