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
	// MaxBytes is the most that the files take, 32 bytes for each time that a message is given; while a start writes
	// them again, twice as much. Beyond it the oldest are forgotten. 0, or more than 32 MiB: 32 MiB, which are about a
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
	parts   []part // oldest first; the last is file
	file    *os.File
	begun   time.Time // of file
	written int64     // to file
	buffer  []byte
	broken  error       // why nothing can be written any more
	later   *time.Timer // nil: no sync is due
}

// part is one of the files. How long it is, and when its last id was given, is known once it has ended.
type part struct {
	path  string
	ended time.Time
	bytes int64
}

const (
	suffix = ".ids"
	// parts is how many files have MaxBytes. Another is begun when one has its part of it or is as old as that part of
	// the window which lets the others cover it.
	parts = 5
	// maxFiles is what files take that have as many ids as are held in memory.
	maxFiles = maxKnown * recordLen
)

// Open reads what was written before, and begins a new file. It writes what still counts to new files when some of it
// was lost or takes more than MaxBytes. The log has to be closed.
func Open(o Options) (*Log, error) {
	l := &Log{options: o, fsync: (*os.File).Sync}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Log) open() error {
	o := &l.options
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxBytes <= 0 || o.MaxBytes > maxFiles {
		o.MaxBytes = maxFiles
	}
	l.init(o.Window, int(o.MaxBytes/parts*(parts-1)/recordLen), o.Now)
	if err := os.MkdirAll(o.Directory, 0o700); err != nil {
		return fmt.Errorf("keep ids: %w", err)
	}
	lost, err := l.read()
	if err != nil {
		return fmt.Errorf("read ids in %s: %w", o.Directory, err)
	}
	former := l.parts
	if err := l.begin(o.Now()); err != nil {
		return err
	}
	if lost || total(former) > o.MaxBytes {
		l.parts = l.parts[len(former):]
		if err := l.rewrite(); err != nil { // The next try would leave as much again.
			return errors.Join(fmt.Errorf("write ids to %s: %w", o.Directory, err), l.Close(), remove(l.parts))
		}
		if err := remove(former); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	l.order, l.old = nil, 0 // Nothing is learnt any more.
	return nil
}

// read learns what the files have that are there, and removes those of which nothing counts. It reports whether there
// were ids of messages that were lost.
func (l *Log) read() (lost bool, err error) {
	paths, err := filepath.Glob(filepath.Join(l.options.Directory, "*"+suffix))
	if err != nil {
		return false, err
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return false, err
		}
		records, err := io.ReadAll(io.LimitReader(file, maxFiles))
		if err := errors.Join(err, file.Close()); err != nil {
			return false, err
		}
		newest, beyond := l.learn(records, l.options.Last)
		p := part{path, time.Unix(newest+1, 0), int64(len(records))}
		if lost = lost || beyond; beyond || l.counts(place{stored: newest}, l.options.Now()) {
			l.parts = append(l.parts, p)
		} else if err := remove([]part{p}); err != nil {
			return false, err
		}
	}
	return lost, nil
}

// rewrite writes what is known to the file that was begun, and to more. So sequences of messages that were lost do not
// count when others have them.
func (l *Log) rewrite() error {
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
	if l.syncs() {
		return l.fsync(l.file)
	}
	return nil
}

func total(files []part) (bytes int64) {
	for _, p := range files {
		bytes += p.bytes
	}
	return bytes
}

func remove(files []part) error {
	for _, p := range files {
		if err := os.Remove(p.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove old ids: %w", err)
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
	if len(l.parts) > 0 { // even if the clock was set back
		n = max(n, number(l.parts[len(l.parts)-1].path)+1)
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
			return errors.Join(fmt.Errorf("begin a file of ids: %w", err), file.Close(), os.Remove(path))
		}
	}
	l.file, l.begun, l.written, l.parts = file, now, 0, append(l.parts, part{path: path})
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

// turn begins another file, and removes the oldest that are too old or beyond MaxBytes.
func (l *Log) turn(now time.Time) error {
	old := l.file
	if l.syncs() { // Nobody will later.
		if err := l.fsync(old); err != nil {
			return fmt.Errorf("sync ids: %w", err)
		}
	}
	ended := &l.parts[len(l.parts)-1]
	ended.ended, ended.bytes = now, l.written
	if err := l.begin(now); err != nil {
		return err
	}
	if err := old.Close(); err != nil {
		return fmt.Errorf("close ids: %w", err)
	}
	for earlier := l.parts[:len(l.parts)-1]; len(earlier) > 0; earlier = earlier[1:] {
		young := now.Sub(earlier[0].ended) <= time.Duration(l.window.Load())
		if young && total(earlier) <= l.options.MaxBytes-l.options.MaxBytes/parts {
			break
		}
		if err := remove(earlier[:1]); err != nil {
			return err
		}
		l.parts = l.parts[1:]
	}
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
