// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ids

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Options of a Log.
type Options struct {
	// Directory for its files, which is made; nothing else may be in it.
	Directory string
	// Window is how long an id is known after its message was stored.
	Window time.Duration
	// MaxBytes is the most that the files take, 32 bytes for each time that a message is given; while they are read
	// at a start, twice as much. Beyond it the oldest are forgotten. 0, or more than 32 MiB: 32 MiB, which are about a
	// million.
	MaxBytes int64
	// Last is the sequence of the last message that the stream had. What was given and is
	// beyond it was lost, as by a power failure, and is to be put again.
	Last uint64
	// SyncAlways says that an id survives the node, and not this process alone, before its message
	// is given. Else it does a SyncInterval later; 0: whenever the file system writes it.
	SyncAlways   bool
	SyncInterval time.Duration
	// Now is time.Now unless a test sets it.
	Now func() time.Time
}

// Log is ids in files of one process, whose server knows those that are given after the start.
type Log struct {
	index
	options Options
	fsync   func(*os.File) error

	writing sync.Mutex
	paths   []string // oldest first; the last is that of file
	file    *os.File
	begun   time.Time // of file
	written int64     // to file
	buffer  []byte
	broken  error       // why nothing can be written any more
	later   *time.Timer // nil: no sync is due
}

const (
	suffix = ".ids"
	// parts is how many files there are at most. Another is begun when one has its part of MaxBytes or is as old as
	// that part of the window which lets the others cover it.
	parts = 5
	// maxFiles is what files take that have as many ids as are held in memory.
	maxFiles = maxKnown * recordLen
)

// Open reads what was written before, and writes what still counts to new files. The log has to be closed.
func Open(o Options) (*Log, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxBytes <= 0 || o.MaxBytes > maxFiles {
		o.MaxBytes = maxFiles
	}
	l := &Log{options: o, fsync: (*os.File).Sync}
	l.init(o.Window, int(o.MaxBytes/parts*(parts-1)/recordLen), o.Now)
	if err := os.MkdirAll(o.Directory, 0o700); err != nil {
		return nil, fmt.Errorf("keep ids: %w", err)
	}
	before, err := l.read()
	if err != nil {
		return nil, fmt.Errorf("read ids in %s: %w", o.Directory, err)
	}
	if err := l.rewrite(before); err != nil {
		return nil, errors.Join(fmt.Errorf("write ids to %s: %w", o.Directory, err), l.Close())
	}
	return l, nil
}

// read learns what the files have that are there, and returns their paths.
func (l *Log) read() ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(l.options.Directory, "*"+suffix))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		records, err := io.ReadAll(io.LimitReader(file, maxFiles))
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, err
		}
		l.learn(records, l.options.Last)
	}
	return paths, nil
}

// rewrite writes what is known to new files before it removes the former ones. So sequences of messages that were lost
// do not count when others have them.
func (l *Log) rewrite(former []string) error {
	l.paths = former // for the number of the next
	if err := l.begin(l.options.Now()); err != nil {
		return err
	}
	l.paths = l.paths[len(former):]
	var b []byte
	for _, e := range l.order[l.old:] {
		if l.places[e.id] != e.at {
			continue
		}
		if b = appendRecord(b, e.id, e.at); int64(len(b)) > l.options.MaxBytes/parts-recordLen {
			if err := l.append(b, l.begun); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	if err := l.append(b, l.begun); err != nil {
		return err
	}
	l.order, l.old = nil, 0 // Nothing is learnt any more.
	if l.syncs() {
		if err := l.fsync(l.file); err != nil {
			return err
		}
	}
	for _, path := range former {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// number of a file, which is when it was begun.
func number(path string) int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(path), suffix), 10, 64)
	if err != nil {
		return 0 // it is none of ours, and is read as empty and removed
	}
	return n
}

// syncs reports whether it is this package that sees to it that ids get to the volume.
func (l *Log) syncs() bool { return l.options.SyncAlways || l.options.SyncInterval > 0 }

// begin begins a file. writing is held, or nobody else has the log.
func (l *Log) begin(now time.Time) error {
	n := now.UnixNano()
	if len(l.paths) > 0 { // even if the clock was set back
		n = max(n, number(l.paths[len(l.paths)-1])+1)
	}
	path := filepath.Join(l.options.Directory, strconv.FormatInt(n, 10)+suffix)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("begin a file of ids: %w", err)
	}
	if l.syncs() { // The name has to survive the node as well.
		directory, err := os.Open(l.options.Directory)
		if err == nil {
			err = errors.Join(l.fsync(directory), directory.Close())
		}
		if err != nil {
			return errors.Join(fmt.Errorf("begin a file of ids: %w", err), file.Close())
		}
	}
	l.file, l.begun, l.written, l.paths = file, now, 0, append(l.paths, path)
	return nil
}

// Given implements Keeper. The index does not learn these ids: the server knows them until it ends.
func (l *Log) Given(messages []Message) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.buffer = l.records(l.buffer[:0], messages); len(l.buffer) == 0 {
		return nil
	}
	if l.broken != nil {
		return l.broken
	}
	if err := l.append(l.buffer, l.options.Now()); err != nil {
		return err
	}
	switch {
	case l.options.SyncAlways:
		if err := l.fsync(l.file); err != nil {
			return fmt.Errorf("sync ids: %w", err)
		}
	case l.options.SyncInterval > 0 && l.later == nil:
		l.later = time.AfterFunc(l.options.SyncInterval, l.syncLater)
	}
	return nil
}

// syncLater syncs without keeping messages from being given meanwhile. After an error the next message has it tried
// again; who closes the file in between has synced it.
func (l *Log) syncLater() {
	l.writing.Lock()
	l.later = nil
	file := l.file
	l.writing.Unlock()
	_ = l.fsync(file)
}

// append writes records, to another file if it is time to. writing is held, or nobody else has the log.
func (l *Log) append(records []byte, now time.Time) error {
	full := l.written > 0 && l.written+int64(len(records)) > l.options.MaxBytes/parts
	if full || now.Sub(l.begun) >= time.Duration(l.window.Load())/(parts-1) {
		if err := l.turn(now); err != nil {
			return err
		}
	}
	n, err := l.file.Write(records)
	if err == nil {
		l.written += int64(n)
		return nil
	}
	err = fmt.Errorf("write ids: %w", err)
	// What follows half a record could not be read.
	if cut := l.file.Truncate(l.written); cut != nil {
		l.broken = fmt.Errorf("%w; then %w", err, cut)
		return l.broken
	}
	return err
}

// turn begins another file, and removes the oldest of as many as there may be.
func (l *Log) turn(now time.Time) error {
	old := l.file
	if l.syncs() { // Nobody will later.
		if err := l.fsync(old); err != nil {
			return fmt.Errorf("sync ids: %w", err)
		}
	}
	if err := l.begin(now); err != nil {
		return err
	}
	if err := old.Close(); err != nil {
		return fmt.Errorf("close ids: %w", err)
	}
	if len(l.paths) <= parts {
		return nil
	}
	if err := os.Remove(l.paths[0]); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove old ids: %w", err)
	}
	l.paths = l.paths[1:]
	return nil
}

// Close ends writing.
func (l *Log) Close() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if l.later != nil {
		l.later.Stop()
	}
	if l.file == nil {
		return nil
	}
	var err error
	if l.broken == nil && l.syncs() {
		err = l.fsync(l.file)
	}
	l.broken = errors.New("write ids: the log was closed")
	if closed := l.file.Close(); closed != nil {
		err = errors.Join(err, fmt.Errorf("close ids: %w", closed))
	}
	return err
}
