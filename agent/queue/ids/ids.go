// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ids remembers, over restarts, the ids of messages that were given to consumers.
//
// A server of NATS that starts knows the ids of the messages that it has. One that left the
// queue, because it was given and acknowledged, is put again by a client that does not know
// that it was stored: without this it would be stored twice. So the id of each message is
// written before it is given, which is before it can be acknowledged; and it is written
// only of messages that are in the stream, so that no id is known of one that is not.
// After a start, puts with these ids are answered as the server would have.
//
// What was written is there when the process is killed. When the power fails, what was written
// since the last sync may not be, like what is in the server's own files.
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
	"sync/atomic"
	"time"
)

// Options of a Log.
type Options struct {
	// Directory for its files, which is made; nothing else may be in it.
	Directory string
	// Window is how long an id is known after its message was stored.
	Window time.Duration
	// MaxBytes is about the most that the files take, 32 bytes for each time that a message
	// is given. Beyond it the oldest are forgotten. 0, or more than 32 MiB: 32 MiB, which
	// are about a million.
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

// Message is one that is given to a consumer.
type Message struct {
	ID []byte
	// Sequence in the stream.
	Sequence uint64
	// Stored is when it was stored.
	Stored time.Time
}

// Log is the ids. It is safe for concurrent use. One that is nil knows none and writes none.
type Log struct {
	options Options
	window  atomic.Int64 // of Options, as it is now
	// before has what was given before the start, and stays as it is; nil when all of it is too old.
	before atomic.Pointer[known]

	mu       sync.Mutex
	file     *os.File
	begun    time.Time // of file
	written  int64     // to file
	durable  int64     // of written, how much is known to be on the volume
	earlier  []segment // oldest first, without file
	buffer   []byte
	unusable error // why nothing can be written any more
	later    *time.Timer
	fsync    func(*os.File) error
	syncs    int // that were made
}

// known are ids, and the last second in which one of them may count.
type known struct {
	places map[digest]place
	newest int64
}

type place struct {
	sequence uint64
	stored   int64 // seconds since 1970
}

// segment is a file that is not written to any more.
type segment struct {
	path  string
	ended time.Time
	bytes int64
}

// parts is how many segments there are to a window, so that most of what is too old is removed.
const parts = 4

const suffix = ".ids"

// maxKnown bounds how many ids are held in memory, and maxFiles what files take that hold as many.
const (
	maxKnown = 1 << 20
	maxFiles = maxKnown * recordLen
)

// Open reads what was written before, and begins a new file. The log has to be closed.
func Open(o Options) (*Log, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxBytes <= 0 || o.MaxBytes > maxFiles {
		o.MaxBytes = maxFiles
	}
	l := &Log{options: o, fsync: (*os.File).Sync}
	l.window.Store(int64(o.Window))
	if err := os.MkdirAll(o.Directory, 0o700); err != nil {
		return nil, fmt.Errorf("keep ids: %w", err)
	}
	lost, err := l.read()
	if err != nil {
		return nil, fmt.Errorf("read ids in %s: %w", o.Directory, err)
	}
	if err := l.begin(o.Now()); err != nil {
		return nil, err
	}
	if lost {
		if err := l.rewrite(); err != nil {
			return nil, errors.Join(fmt.Errorf("forget ids of lost messages in %s: %w", o.Directory, err), l.Close())
		}
	}
	return l, nil
}

// rewrite writes what is known to the file that was begun and removes all others, so that
// sequences of messages that were lost do not count when others have them.
func (l *Log) rewrite() error {
	var b []byte
	if before := l.before.Load(); before != nil {
		for id, at := range before.places {
			b = appendRecord(b, id, at)
		}
	}
	n, err := l.file.Write(b)
	l.written = int64(n)
	if err != nil {
		return err
	}
	if l.options.syncs() { // before those are removed that it stands for
		if err := l.sync(); err != nil {
			return err
		}
	}
	for _, s := range l.earlier {
		if err := os.Remove(s.path); err != nil {
			return err
		}
	}
	l.earlier = nil
	return nil
}

// read reads all files, and removes those that are too old. It reports whether there were
// ids of messages that were lost.
func (l *Log) read() (lost bool, err error) {
	paths, err := filepath.Glob(filepath.Join(l.options.Directory, "*"+suffix))
	if err != nil {
		return false, err
	}
	slices.SortFunc(paths, func(a, b string) int { return cmp.Compare(number(a), number(b)) })
	now := l.options.Now()
	found := &known{places: make(map[digest]place)}
	infos := make([]os.FileInfo, len(paths))
	var total int64
	for i, path := range paths {
		if infos[i], err = os.Stat(path); err != nil {
			return false, err
		}
		total += infos[i].Size()
	}
	for i, path := range paths {
		info := infos[i]
		// They may have been written when more was allowed.
		skip := min(max(total-l.options.MaxBytes, 0), info.Size())
		skip = (skip + recordLen - 1) / recordLen * recordLen
		total -= info.Size()
		if now.Sub(info.ModTime()) > l.windowNow() || skip >= info.Size() && info.Size() > 0 {
			if err := os.Remove(path); err != nil {
				return false, err
			}
			continue
		}
		file, err := os.Open(path)
		if err != nil {
			return false, err
		}
		if _, err := file.Seek(skip, io.SeekStart); err != nil {
			return false, errors.Join(err, file.Close())
		}
		err = scan(file, func(id digest, at place) {
			if at.sequence > l.options.Last {
				lost = true
				return
			}
			// Of two messages with one id the later counts.
			if p, ok := found.places[id]; l.counts(at, now) && (!ok || p.stored <= at.stored) {
				found.places[id] = at
				found.newest = max(found.newest, at.stored)
			}
		})
		if err := errors.Join(err, file.Close()); err != nil {
			return false, err
		}
		l.earlier = append(l.earlier, segment{path, info.ModTime(), info.Size()})
	}
	if len(found.places) > 0 {
		l.before.Store(found)
	}
	return lost, nil
}

func (l *Log) windowNow() time.Duration { return time.Duration(l.window.Load()) }

// SetWindow changes it, from now on.
func (l *Log) SetWindow(d time.Duration) {
	if l != nil {
		l.window.Store(int64(d))
	}
}

// counts reports whether the window of what was stored then has not ended. Seconds are
// rounded so that an id is known too long rather than too short, which is by one at most.
func (l *Log) counts(p place, now time.Time) bool { return counts(p, now, l.windowNow()) }

func counts(p place, now time.Time, window time.Duration) bool {
	return now.Sub(time.Unix(p.stored+1, 0)) < window
}

// number of a file, which is when it was begun.
func number(path string) int64 {
	n, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(path), suffix), 10, 64)
	if err != nil {
		return 0 // it is none of ours, and will be read as empty or removed as too old
	}
	return n
}

// begin begins a file. mu is held, or nobody else has the log.
func (l *Log) begin(now time.Time) error {
	n := now.UnixNano()
	if len(l.earlier) > 0 { // even if the clock was set back
		n = max(n, number(l.earlier[len(l.earlier)-1].path)+1)
	}
	path := filepath.Join(l.options.Directory, strconv.FormatInt(n, 10)+suffix)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("begin a file of ids: %w", err)
	}
	l.file, l.begun, l.written, l.durable = file, now, 0, 0
	if l.options.syncs() {
		if err := syncDirectory(l.options.Directory); err != nil {
			return fmt.Errorf("begin a file of ids: %w", err)
		}
	}
	return nil
}

// syncDirectory makes the names of new files survive the node.
func syncDirectory(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Given writes the ids of messages that are about to be given to a consumer. After an
// error they must not be given.
func (l *Log) Given(messages []Message) error {
	if l == nil {
		return nil
	}
	now := l.options.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buffer = l.buffer[:0]
	for _, m := range messages {
		at := place{m.Sequence, m.Stored.Unix()}
		if len(m.ID) > 0 && l.counts(at, now) {
			l.buffer = appendRecord(l.buffer, digestOf(m.ID), at)
		}
	}
	if len(l.buffer) == 0 {
		return nil
	}
	if l.unusable != nil {
		return l.unusable
	}
	if err := l.turn(now); err != nil {
		return err
	}
	n, err := l.file.Write(l.buffer)
	l.written += int64(n)
	if err == nil {
		return l.synced()
	}
	err = fmt.Errorf("write ids: %w", err)
	// What follows half a record could not be read.
	if cut := l.file.Truncate(l.written - int64(n)); cut != nil {
		l.unusable = fmt.Errorf("%w; then %w", err, cut)
		return l.unusable
	}
	l.written -= int64(n)
	return err
}

// synced syncs what was written, or sees to it that it will be. mu is held.
func (l *Log) synced() error {
	switch {
	case l.options.SyncAlways:
		return l.sync()
	case l.options.SyncInterval > 0 && l.later == nil:
		l.later = time.AfterFunc(l.options.SyncInterval, l.syncLater)
	}
	return nil
}

// syncLater syncs without keeping messages from being given meanwhile. After an error the next message tries again.
// Until it is done the file counts as one that was not synced: who closes it in between syncs it, too.
func (l *Log) syncLater() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.later = nil
	if l.unusable != nil || l.written == l.durable {
		return
	}
	file, written := l.file, l.written
	l.syncs++
	l.mu.Unlock()
	err := l.fsync(file)
	l.mu.Lock()
	if err == nil && l.file == file {
		l.durable = max(l.durable, written)
	}
}

// sync returns when all of file is on the volume. mu is held.
func (l *Log) sync() error {
	if l.written == l.durable {
		return nil
	}
	l.syncs++
	if err := l.fsync(l.file); err != nil {
		return fmt.Errorf("sync ids: %w", err)
	}
	l.durable = l.written
	return nil
}

// syncs reports whether it is this package that sees to it that ids get to the volume.
func (o Options) syncs() bool { return o.SyncAlways || o.SyncInterval > 0 }

// turn begins another file if it is time to, and removes those that are not needed. mu is held.
func (l *Log) turn(now time.Time) error {
	limit := l.options.MaxBytes / parts
	full := l.written > 0 && l.written+int64(len(l.buffer)) > limit
	if !full && now.Sub(l.begun) < l.windowNow()/parts {
		return nil
	}
	if l.options.syncs() { // nobody will sync it later
		if err := l.sync(); err != nil {
			return err
		}
	}
	old := l.file
	l.earlier = append(l.earlier, segment{old.Name(), now, l.written})
	if err := l.begin(now); err != nil {
		l.earlier = l.earlier[:len(l.earlier)-1]
		return err
	}
	if err := old.Close(); err != nil {
		return fmt.Errorf("close ids: %w", err)
	}
	total := int64(0)
	for _, s := range l.earlier {
		total += s.bytes
	}
	for len(l.earlier) > 0 {
		oldest := l.earlier[0]
		if now.Sub(oldest.ended) <= l.windowNow() && total <= l.options.MaxBytes-limit {
			break
		}
		if err := os.Remove(oldest.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove old ids: %w", err)
		}
		total -= oldest.bytes
		l.earlier = l.earlier[1:]
	}
	return nil
}

// Any implements Keeper.
func (l *Log) Any() bool { return l != nil && l.before.Load() != nil }

// Sequence returns that of the message with an id which was given before the start and was
// stored within the window.
func (l *Log) Sequence(id []byte) (sequence uint64, ok bool) {
	if l == nil || len(id) == 0 {
		return 0, false
	}
	before := l.before.Load()
	if before == nil {
		return 0, false
	}
	now := l.options.Now()
	if !l.counts(place{stored: before.newest}, now) {
		l.before.CompareAndSwap(before, nil)
		return 0, false
	}
	p, ok := before.places[digestOf(id)]
	if !ok || !l.counts(p, now) {
		return 0, false
	}
	return p.sequence, true
}

// Close ends writing.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var err error
	if l.unusable == nil && l.options.syncs() {
		err = l.sync()
	}
	if l.later != nil {
		l.later.Stop()
	}
	l.unusable = errors.New("write ids: the log was closed")
	if closed := l.file.Close(); closed != nil {
		err = errors.Join(err, fmt.Errorf("close ids: %w", closed))
	}
	return err
}
