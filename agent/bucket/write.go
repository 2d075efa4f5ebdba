// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"filippo.io/age"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/filter"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// MinPart is the least that is put at once, in bytes, but for the end of a file. Parts are longer where an upload
	// would have too many.
	MinPart = 8 << 20
	// MaxPart is the most that is put at once, in bytes.
	MaxPart = 64 << 20

	// entriesAtStake bounds the entries whose upload has not ended, in bytes.
	entriesAtStake = 32 << 20
	// bufferSize is how much of a source is read at once.
	bufferSize = 4 << 20
	// SmallFile is the most bytes of a file of which SmallStreams are put at once: what waiting for answers costs more
	// than sending.
	SmallFile = 256 << 10
	// maxChangedNames bounds the files that a message names.
	maxChangedNames = 5
)

// Origin is what Write reads, for example a tree.Source or a Source. See tree.Source for what the methods promise.
type Origin interface {
	Walk(ctx context.Context, visit func(*tree.Entry) error) error
	Again(*tree.Entry) (*tree.Entry, error)
	ReadAt(e *tree.Entry, p []byte, offset int64) error
	Omissions() *tree.Omissions
}

// WriteOptions describe one attempt to write.
type WriteOptions struct {
	Origin Origin
	Store  Store
	// Transfer is unique in all clusters: another one may not write below the same prefix at the same time.
	Transfer string
	RunID    string
	Attempt  uint32
	// Delete removes objects that the origin does not have and the filter does not exclude. Unless AllowEmpty, Write
	// fails instead when the origin has nothing but directories. Objects in the place of what is no file are removed in
	// any case. Nothing is removed before everything is there.
	Delete, AllowEmpty bool
	Filter             *filter.Filter
	// Archive, unless nil, has files packed into archives.
	Archive *ArchiveOptions
	// Resting, unless nil, has each file compressed in a form, with an index beside it. There is no Archive then.
	Resting *RestingOptions
	// Image: the origin is a block volume, which needs a prefix of its own. There are neither Archive nor Delete then.
	Image bool
	// Verify compares what the store says that it has with what was read.
	Verify bool
	// CheckpointInterval is how many bytes are put at once at most, from MinPart to MaxPart.
	CheckpointInterval int64
	// Streams is how many requests with data there are at once, but for files of up to SmallFile bytes. Of those there
	// are SmallStreams, and no fewer than Streams.
	Streams, SmallStreams int
	Report                *send.Report
	// ChangedPauses are how long to wait before a file that changed while it was read is read again. nil is the default:
	// 1 s, then 5 s.
	ChangedPauses []time.Duration
}

// Write makes the store's prefix hold what the origin has. It returns nil when everything is there; any other end has a
// reason (see package failure) or is an error of this side. What fails for a moment is tried again by the store, and
// nothing else.
func Write(ctx context.Context, o WriteOptions) (err error) {
	if o.ChangedPauses == nil {
		o.ChangedPauses = []time.Duration{time.Second, 5 * time.Second}
	}
	o.Report.Transferring(o.Origin.Omissions())
	held, err := claim(ctx, &o)
	if err != nil {
		return err
	}
	defer func() { _ = held.release(ctx) }() // What is left the next attempt of this Transfer takes over.
	rests := o.Store
	if o.Archive != nil && o.Archive.Encryption != nil {
		o.Store = &decrypted{Store: rests, identities: []age.Identity{o.Archive.Encryption.Key}, writer: true}
	}
	w := &writing{
		options: &o, rests: rests, hold: held, part: min(max(o.CheckpointInterval, MinPart), MaxPart) &^ (1<<20 - 1),
		buffers: newBuffers(o.Streams, bufferSize), small: newBuffers(max(o.SmallStreams, o.Streams), SmallFile),
		stake: semaphore.NewWeighted(entriesAtStake),
		jobs:  make(chan *job), slots: make(chan *slot, 1<<16), wake: make(chan struct{}, 1),
		lost: make(map[string]bool),
	}
	if o.Resting != nil {
		w.part = min(w.part, archivePart) // They are held in memory.
		w.compressors = newCompressors(o.Resting, max(o.Streams, 1))
		defer func() { err = errors.Join(err, w.compressors.close()) }()
	}
	if w.archives, err = listArchives(ctx, o.Store); err != nil {
		return err
	}
	if err := w.legible(ctx); err != nil {
		return err
	}
	var former []string
	if o.Image {
		if former, err = w.checkImage(ctx); err != nil {
			return err
		}
	}
	if w.notes, err = readNotes(ctx, o.Store); err != nil {
		return err
	}
	if o.Archive == nil { // Else names are in archives.
		w.folds, err = held.folds(ctx)
	}
	switch {
	case err != nil:
		return err
	case w.folds && o.Delete:
		return failure.New(wirev1.FailureReason_FAILURE_REASON_STORE_UNFIT,
			"the store takes upper and lower case for one, so that spec.delete could remove what the source has under a name "+
				"in another case: set spec.delete: false, or use a store that tells them apart")
	}
	if err := w.prepareArchives(ctx); err != nil {
		return err
	}
	if err := w.run(ctx); err != nil {
		return err
	}
	if w.changed.total == 0 {
		// Whatever is noted still is of files that are gone or complete.
		if err := held.check(ctx); err != nil {
			return err
		}
		if err := w.notes.abandon(ctx); err != nil {
			return err
		}
		if o.Delete || w.displaced {
			if err := w.sweep(ctx); err != nil {
				return err
			}
		}
		if err := w.removeFormer(ctx, former); err != nil {
			return err
		}
		return w.sweepArchives(ctx)
	}
	return w.changed.outcome()
}

// writing is a Write under way.
type writing struct {
	options *WriteOptions
	// rests is the store as everything rests. That of the options has indexes as they were before they were encrypted.
	rests Store
	hold  *hold
	part  int64
	notes *notes
	// folds: the server takes A and a for one.
	folds bool
	// buffers and small are for as many requests with data as there may be at once, small for those of small files.
	buffers, small *buffers
	// stake bounds slots that are not in the index yet.
	stake *semaphore.Weighted
	jobs  chan *job
	slots chan *slot

	// compressors are for files that rest in a form; nil: none does.
	compressors *compressors

	archives *archives
	// indexNeeded: the index names archives, so that a run without it would remove files.
	indexNeeded bool
	// resumed is what earlier attempts have packed.
	resumed *resumption
	// wake tells the packer to look again, and pressed that others wait for its block.
	wake    chan struct{}
	pressed atomic.Bool
	// lost are files that are not in the new index. It is for the goroutine that writes it.
	lost map[string]bool

	changed changedFiles
	// displaced: something that is no file has an object in its place. It is set by walk.
	displaced bool
}

// buffers are those of requests that run at once. They are made when they are needed first.
type buffers struct {
	free chan []byte
	size int
}

func newBuffers(count, size int) *buffers {
	b := &buffers{free: make(chan []byte, count), size: size}
	for range count {
		b.free <- nil
	}
	return b
}

func (b *buffers) count() int { return cap(b.free) }

// take waits for one that is free. It is to be given back.
func (b *buffers) take(ctx context.Context) ([]byte, error) {
	select {
	case buffer := <-b.free:
		if buffer == nil {
			buffer = make([]byte, b.size)
		}
		return buffer, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (b *buffers) give(buffer []byte) { b.free <- buffer }

// slot is an entry's place in the index.
type slot struct {
	record record
	weight int64
	// done is closed when the record is complete; nil: it always was. dropped: it is not to be in the index.
	done    chan struct{}
	dropped bool
}

// job is a file to be put.
type job struct {
	slot   *slot
	before *found
	// tries is how often it changed while it was packed. looked: it was looked at since the last time.
	tries  int
	looked bool
}

// run puts what differs, and then the index.
func (w *writing) run(parent context.Context) error {
	g, ctx := errgroup.WithContext(parent)
	g.Go(func() error {
		defer close(w.jobs)
		defer close(w.slots)
		return w.walk(ctx)
	})
	if w.options.Archive != nil {
		p := newPacker(ctx, g, w)
		g.Go(p.run)
	} else {
		w.putFiles(ctx, g)
	}
	var index *indexWriter
	g.Go(func() error {
		var err error
		if index, err = newIndexWriter(ctx, w.options.Store, w.header(), w.encryption()); err != nil {
			return err
		}
		// It outlives the group's context.
		index.ctx = parent
		for s := range w.slots {
			if s.done != nil {
				select {
				case <-s.done:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			if w.indexed(s) {
				if err := index.add(&s.record); err != nil {
					return err
				}
			}
			w.stake.Release(s.weight)
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		if parent.Err() != nil {
			return context.Cause(parent)
		}
		return err
	}
	if err := w.hold.check(parent); err != nil {
		return err
	}
	if err := index.end(); err != nil {
		return err
	}
	if w.encryption() != nil {
		return w.archives.sums.replace(parent, w.rests, index.sum.Sum(nil), w.archives.used, index.complete)
	}
	return index.complete()
}

// putFiles has files put as objects.
func (w *writing) putFiles(ctx context.Context, g *errgroup.Group) {
	for range w.small.count() {
		g.Go(func() error {
			for j := range w.jobs {
				if err := w.file(ctx, j); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// walk takes the origin beside what is there.
func (w *writing) walk(ctx context.Context) error {
	index, err := openIndex(ctx, w.options.Store)
	if errors.Is(err, errIndex) && !w.indexNeeded {
		index, err = &indexReader{}, nil // What it said is found out of objects, or put again.
	}
	if err != nil {
		return w.needed(err)
	}
	if w.indexNeeded && index.object == nil {
		return w.needed(errNoIndex) // It was there before.
	}
	index.lacks = w.archives.gone
	lenient := isDamaged
	if w.indexNeeded {
		lenient = nil
	}
	there, err := newBoth(ctx, w.lister(), index, lenient)
	if err != nil {
		return w.needed(err)
	}
	defer func() { _ = there.close() }() // It was only read.
	m := &merger{writing: w, there: there}
	if w.folds {
		m.folding = &folding{left: make(map[string]bool)}
	}
	if err := w.options.Origin.Walk(ctx, func(e *tree.Entry) error { return m.visit(ctx, e) }); err != nil {
		return err
	}
	if err := m.others(ctx, ""); err != nil {
		return err
	}
	if gone := w.options.Origin.Omissions().Count(tree.OmittedMissing); gone > 0 && w.options.Delete {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED,
			"the source has no more %d objects that its index names, and spec.delete would remove the copies: nothing was "+
				"removed; restore the objects, or run the Transfer that writes there", gone)
	}
	if m.superfluous != "" && !m.content && !w.options.AllowEmpty {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_EMPTY,
			"the source has no files that spec.include and spec.exclude let through, and spec.delete would remove all that the "+
				"destination has, such as %q: nothing was removed; check the source, the path and the patterns, or set "+
				"spec.allowEmptySource: true to empty the destination", failure.Shorten(m.superfluous, 256))
	}
	w.options.Report.Update(func(p *wirev1.Progress) { p.Scanned = true })
	return nil
}

// add gives a record its place in the index.
func (w *writing) add(ctx context.Context, s *slot) error {
	s.weight = min(int64(s.record.entry.Weight())+256, entriesAtStake)
	if !w.stake.TryAcquire(s.weight) {
		w.pressed.Store(true)
		w.awake()
		if err := w.stake.Acquire(ctx, s.weight); err != nil {
			return context.Cause(ctx)
		}
	}
	select {
	case w.slots <- s:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// count notes that a file is at the destination.
func (w *writing) count(e *tree.Entry, unchanged bool) {
	size := uint64(e.Size)
	w.options.Report.Update(func(p *wirev1.Progress) {
		p.Files++
		p.Bytes += size
		if unchanged {
			p.UnchangedFiles++
			p.UnchangedBytes += size
		}
	})
}

// arrive counts bytes of a file that is not complete yet. Less than 0 takes back what was counted.
func (w *writing) arrive(bytes int64) {
	if bytes == 0 {
		return // Most files arrive at once.
	}
	w.options.Report.Update(func(p *wirev1.Progress) { p.PartialBytes += uint64(bytes) })
}

// sent counts bytes that were put.
func (w *writing) sent(bytes int64) {
	w.options.Report.Blocks.Add(meter.Outcome{
		Path: meter.Stored, Reason: policy.StoredAsIs, PlainBytes: int(bytes), WireBytes: int(bytes),
	})
}

// changedFiles are those that changed each time they were read.
type changedFiles struct {
	mu    sync.Mutex
	names []string
	total int
}

func (c *changedFiles) add(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.total++; len(c.names) < maxChangedNames {
		c.names = append(c.names, strconv.Quote(failure.Shorten(path, failure.MaxMessage/2/maxChangedNames)))
	}
}

func (c *changedFiles) outcome() error {
	if c.total == 0 {
		return nil
	}
	return failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED,
		"%d files changed each time they were read, among them %s; everything else is at the destination: run again when "+
			"they are at rest, snapshot the claim, or leave them out with spec.exclude", c.total, strings.Join(c.names, ", "))
}
