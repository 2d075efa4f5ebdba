// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
)

// Settings of an archive. They may be changed while it is written.
type Settings struct {
	// Interval between two looks for what was put. 0: DefaultInterval.
	Interval time.Duration
	// RangeBytes is the length of messages from which a file is closed. 0: DefaultRangeBytes.
	RangeBytes int64
	// Retention after which a file is deleted whose messages have all left the queue; 0: never.
	Retention   time.Duration
	Compression Compression
}

// Options of an Archiver.
type Options struct {
	// Conn may do everything in the stream, which has the name of the queue.
	Conn   *nats.Conn
	Stream string
	// Leads reports whether this member leads the stream. Only then does it write.
	Leads func() bool
	// Place in which archives are, of all members.
	Place Place
	// Member is the name of this one.
	Member string
	// Decoders read what former members have written.
	Decoders *codec.Registry
	// Decoding makes messages plain that refer to a dictionary of the queue; nil: none do.
	Decoding *message.Decoding
	Log      *slog.Logger
	// Poll is how often it is looked whether it is time. Default 1 s.
	Poll time.Duration
	// Patience is how long the volume may take to answer before that counts as a failure, of which Status tells
	// although nothing comes back. Default 2 min.
	Patience time.Duration
	// Recheck is how often it is looked whether the ranges that were written are all there still. Default 5 min.
	Recheck time.Duration
}

// Archiver writes down what a queue holds as long as its member leads. It is safe for concurrent use.
type Archiver struct {
	options Options
	source  source

	// What follows is Run's.
	current *current
	next    time.Time

	began time.Time
	// busy is when, since began, a look that is under way came on last; 0: none is.
	busy atomic.Int64

	mu       sync.Mutex
	settings Settings
	status   Status
	meter    *meter.Meter
}

// current is an archive while this member leads.
type current struct {
	directory *Directory
	life      string
	index     Index
	// announced is that the index on the volume says that there may be ranges of lines.
	announced bool
	// ranges that there are, the oldest first.
	ranges []Range
	// seen is the sequence up to which the archive has all. The index ends before if there was nothing after its end.
	seen uint64
	// state of the stream when the index was written.
	state *jetstream.StreamState
	// loaded is when it was seen that all ranges are there.
	loaded time.Time
}

// Status is how far an archive has come.
type Status struct {
	// Path of it below the directory, empty while this member does not lead.
	Path string
	// Sequence up to which the archive has all.
	Sequence uint64
	Index    Index
	// LastTime is when that was seen; zero: not yet.
	LastTime time.Time
	// LastError is why that is not so, at LastErrorTime; nil when the last try went well.
	LastError     error
	LastErrorTime time.Time
	// Compression of what was put plain.
	Compression meter.Snapshot
}

// NewArchiver returns one that does not run yet.
func NewArchiver(o Options, s Settings) *Archiver {
	if o.Poll == 0 {
		o.Poll = time.Second
	}
	if o.Patience == 0 {
		o.Patience = 2 * time.Minute
	}
	if o.Recheck == 0 {
		o.Recheck = 5 * time.Minute
	}
	a := &Archiver{options: o, source: source{conn: o.Conn, stream: o.Stream, decoding: o.Decoding},
		began: time.Now(), meter: new(meter.Meter)}
	a.Set(s)
	return a
}

// Set changes the settings.
func (a *Archiver) Set(s Settings) {
	if s.Interval == 0 {
		s.Interval = DefaultInterval
	}
	if s.RangeBytes == 0 {
		s.RangeBytes = DefaultRangeBytes
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.settings = s
}

// ResetStatistics begins to count compression again.
func (a *Archiver) ResetStatistics() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.meter = new(meter.Meter)
}

// Status returns how far it has come.
func (a *Archiver) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.status
	s.Compression = a.meter.Snapshot()
	if busy := time.Duration(a.busy.Load()); busy > 0 && s.LastError == nil {
		if since := time.Since(a.began) - busy; since > a.options.Patience {
			s.LastError, s.LastErrorTime = a.options.Place.silent(since), time.Now().Add(-since)
		}
	}
	return s
}

// tick notes that a look comes on.
func (a *Archiver) tick() { a.busy.Store(int64(max(time.Since(a.began), 1))) }

// Run writes the archive until the context ends.
func (a *Archiver) Run(ctx context.Context) {
	ticker := time.NewTicker(a.options.Poll)
	defer ticker.Stop()
	defer a.forget()
	for {
		a.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// look goes over the queue if it is time.
func (a *Archiver) look(ctx context.Context) {
	if !a.options.Leads() {
		a.leave()
		return
	}
	a.mu.Lock()
	settings := a.settings
	a.mu.Unlock()
	now := time.Now()
	// A clock that was set back must not stop it.
	if now.Before(a.next) && a.next.Sub(now) <= settings.Interval {
		return
	}
	a.tick()
	err := a.pass(ctx, settings)
	a.busy.Store(0)
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, errNotLeading) {
		a.leave() // Whoever leads now says how it is.
		return
	}
	a.next = time.Now().Add(settings.Interval)
	if err != nil {
		a.forget() // What is on the volume may be other than it was.
		a.next = time.Now().Add(min(settings.Interval, retryPause))
	}
	a.note(err, now)
}

// retryPause is the longest pause after a failure.
const retryPause = 15 * time.Second

// note keeps what came of a look that began at a time.
func (a *Archiver) note(err error, began time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.status.LastTime, a.status.LastError = began, nil
		return
	}
	if a.status.LastError == nil || a.status.LastError.Error() != err.Error() {
		a.options.Log.Error("Queue cannot be archived; it is tried again", "error", err.Error())
	}
	a.status.LastError, a.status.LastErrorTime = why(err), time.Now()
}

// forget closes the archive. What is on the volume is read again.
func (a *Archiver) forget() {
	if a.current != nil {
		_ = a.current.directory.Close() // What was written is synced.
		a.current = nil
	}
}

// leave leaves the archive to another member, which says how it is.
func (a *Archiver) leave() {
	a.forget()
	a.next = time.Time{}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status = Status{}
}

// show makes what was archived by now part of the status.
func (a *Archiver) show(c *current) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status.Path, a.status.Sequence, a.status.Index = c.directory.Name(), c.seen, c.index
	a.status.Index.Left = nil
}

// pass brings the archive up to what the queue holds now.
func (a *Archiver) pass(ctx context.Context, settings Settings) error {
	info, err := a.info(ctx)
	if err != nil {
		return err
	}
	life := Life(info.Created)
	if c := a.current; c != nil && (c.life != life || time.Since(c.loaded) >= a.options.Recheck ||
		!c.directory.inPlace(a.options.Place.Directory, c.state != nil)) {
		a.forget()
	}
	if a.current == nil {
		if a.current, err = a.open(ctx, life); err != nil {
			return err
		}
	}
	c := a.current
	if last := info.State.LastSeq; c.seen > last {
		return fmt.Errorf("%w: the archive %s has message %d and the queue has only come to %d: its storage was put back "+
			"to an older state, or lost what was not on its volume yet; move the archive away, and another one begins", ErrOther,
			c.directory.Name(), c.seen, last)
	}
	if !c.announced {
		c.left(&info.State) // A lost index, which is made again before a range is written, says what has left the queue.
	}
	encoders, err := NewEncoders(settings.Compression)
	if err != nil {
		return err
	}
	err = a.write(ctx, c, info.State.LastSeq, settings, encoders)
	if err == nil || full(err) {
		// On a full volume, files whose time has come make space.
		if concluded := a.conclude(c, info, settings, encoders); err == nil {
			err = concluded
		}
	}
	a.show(c)
	if n := a.source.unfit; n > 0 {
		a.source.unfit = 0
		a.options.Log.Warn(
			"Messages were archived without headers, or parts of their subjects, that no client of NATS could read", "messages",
			n,
		)
	}
	return errors.Join(err, encoders.Close())
}

// info asks for the state of the stream, with the sequences that have no message if they are not too many to name.
func (a *Archiver) info(ctx context.Context) (*jetstream.StreamInfo, error) {
	_, stream, err := store.Look(ctx, a.options.Conn, a.options.Stream)
	if err != nil {
		return nil, err
	}
	info := stream.CachedInfo()
	if info.State.NumDeleted == 0 || info.State.NumDeleted > maxNamed {
		return info, nil
	}
	ctx, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	if info, err = stream.Info(ctx, jetstream.WithDeletedDetails(true)); err != nil {
		return nil, fmt.Errorf("look at the queue's stream: %w", err)
	}
	return info, nil
}

// maxNamed is of how many messages that have left the queue the stream is asked for the names, which come in one
// message.
const maxNamed = 1_000_000

// write writes what was put since the last look.
func (a *Archiver) write(ctx context.Context, c *current, to uint64, settings Settings, encoders *Encoders) error {
	a.mu.Lock()
	count := a.meter.Add
	a.mu.Unlock()
	var open *opened
	defer func() {
		if open != nil {
			_ = open.file.abandon() // The error is another.
		}
	}()
	finish := func(last, own uint64) error {
		o := open
		open = nil
		if !a.options.Leads() {
			return errors.Join(errNotLeading, o.file.abandon())
		}
		if err := c.add(o, last, own, a.options, encoders.form); err != nil {
			return err
		}
		a.show(c)
		return nil
	}
	size, limit := int64(0), a.options.Place.rangeBytes(settings.RangeBytes)
	own, err := a.source.each(ctx, c.seen+1, to, func(r *Record) (err error) {
		a.tick()
		if open == nil {
			if open, err = c.begin(a.options, encoders, count); err != nil {
				return err
			}
			size = 0
		}
		if err := open.writer.Add(r); err != nil {
			return fmt.Errorf("write to the archive %s: %w", c.directory.Name(), err)
		}
		if size += r.size(); size < limit {
			return nil
		}
		return finish(r.Sequence, 0)
	})
	if err != nil {
		return err
	}
	if open != nil {
		if err := finish(to, own); err != nil {
			return err
		}
	}
	c.seen = max(c.seen, to)
	return nil
}

// errNotLeading says that another member leads now.
var errNotLeading = errors.New("another member leads the queue and archives it")

// opened is a range that is being written.
type opened struct {
	file   draft
	writer *Writer
	first  uint64
}

func (c *current) begin(o Options, encoders *Encoders, count func(meter.Outcome)) (*opened, error) {
	if !c.announced {
		// A release that does not know ranges of lines must not take what else is there for all, nor begin again.
		c.index.Version = linesVersion
		if err := c.writeIndex(o, encoders); err != nil {
			return nil, err
		}
	}
	file, err := c.directory.create(o.Member)
	if err != nil {
		return nil, err
	}
	first := c.index.To + 1
	w, err := NewWriter(file, encoders, Head{Queue: o.Stream, Life: c.life, First: first}, count)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("write to the archive %s: %w", c.directory.Name(), err), file.abandon())
	}
	return &opened{file: file, writer: w, first: first}, nil
}

// writeIndex replaces the index on the volume, as only the member does that leads.
func (c *current) writeIndex(o Options, encoders *Encoders) error {
	if !o.Leads() {
		return errNotLeading
	}
	c.index.Time = time.Now().UTC().Truncate(time.Second)
	if err := c.directory.writeIndex(&c.index, encoders, o.Member); err != nil {
		return err
	}
	c.announced = c.index.Version == linesVersion
	return nil
}

// add ends a range and gives it its name.
func (c *current) add(o *opened, last, own uint64, options Options, form cargo.Form) error {
	foot, index, err := o.writer.Close(last)
	if err != nil {
		return errors.Join(fmt.Errorf("write to the archive %s: %w", c.directory.Name(), err), o.file.abandon())
	}
	r := Range{First: o.first, Last: foot.Last, Size: o.writer.Written(), form: form, tag: newTag()}
	// A range that is there has its index.
	if err := c.directory.write(r.indexName(), index.Append(nil), options.Member+cargo.IndexSuffix); err != nil {
		return errors.Join(err, o.file.abandon())
	}
	// The index may have taken a while.
	if !options.Leads() {
		return errors.Join(errNotLeading, o.file.abandon(), c.directory.remove(r))
	}
	if err := o.file.commit(r.name()); err != nil {
		return err
	}
	c.took(r, foot, own)
	c.seen = max(c.seen, foot.Last)
	return nil
}

// took counts a range that is on the volume.
func (c *current) took(r Range, foot Foot, own uint64) {
	c.ranges = append(c.ranges, r)
	x := &c.index
	span := r.Last - x.To
	x.Passed += span - min(foot.Messages+own, span)
	x.To = r.Last
	x.Ranges++
	x.Bytes += uint64(r.Size)
	x.Messages += foot.Messages
	x.PlainBytes += foot.PlainBytes
	x.WrittenBytes += uint64(r.Size)
}

// left notes what has left the queue.
func (c *current) left(state *jetstream.StreamState) {
	c.index.Below, c.index.Left = state.FirstSeq, runs(state.Deleted, c.index.To)
}

// conclude writes down what has left the queue since, and deletes what is not to be kept any longer.
func (a *Archiver) conclude(c *current, info *jetstream.StreamInfo, settings Settings, encoders *Encoders) error {
	// An index that was written and is not there went together with what it counts.
	if c.state != nil {
		if err := c.directory.indexed(); err != nil {
			return err
		}
	}
	x := &c.index
	c.left(&info.State)
	var old []Range
	now := time.Now()
	for settings.Retention > 0 && len(old) < len(c.ranges) {
		r := c.ranges[len(old)]
		if r.Last >= x.Below {
			break
		}
		written, err := c.directory.written(r)
		if err != nil {
			return err
		}
		if now.Sub(written) < settings.Retention {
			break
		}
		old = append(old, r)
		x.From = max(x.From, r.Last+1)
		x.Ranges -= min(1, x.Ranges)
		x.Bytes -= min(uint64(r.Size), x.Bytes)
	}
	state := info.State
	if len(old) == 0 && c.state != nil && reflect.DeepEqual(*c.state, state) {
		return nil
	}
	// Who restores must not miss what was deleted, so it is written first.
	if err := c.writeIndex(a.options, encoders); err != nil {
		return err
	}
	c.state = &state
	for _, r := range old {
		if err := c.directory.remove(r); err != nil {
			return err
		}
	}
	c.ranges = c.ranges[len(old):]
	return nil
}
