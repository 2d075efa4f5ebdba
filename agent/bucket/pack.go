// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"errors"
	"hash/crc32"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/pipeline"
	"github.com/lighterage/lighterage/agent/tree"
)

// packing is a file on its way into an archive.
type packing struct {
	entry tree.Entry
	// offset of the content in the tar.
	offset int64
	// failed: it changed while it was read. What is left of it is zeros then, which no index names.
	failed atomic.Bool
	// done are the bytes that were taken out of blocks, with the CRC-32 crc.
	done int64
	crc  uint32
	// partial of these are reported until all is there.
	partial int64
	// record of it, when it is in the archive.
	record record

	// job is nil if an earlier attempt began with it and none has come.
	job *job
	// finished: all of it is in blocks.
	finished bool
}

// span is a part of a block of a tar: bytes, zeros or those of a file.
type span struct {
	head   []byte
	file   *packing
	from   int64 // in the file
	length int64
	crc    uint32
}

// tarPiece is a block of a tar on its way.
type tarPiece struct {
	archive *archiveOut
	spans   []span
	length  int64
	// last of its archive.
	last bool

	plain, wire []byte
	// rest is what rests of it, in plain, in wire or in the packer.
	rest   []byte
	packer *cargo.Packer
	block  cargo.Block
}

// packer packs files into archives, one after the other. Where everything is in a tar follows from the lengths of files,
// so that workers read and compress blocks at once.
type packer struct {
	*writing
	ctx   context.Context //nolint:containedctx // It is that of the group, for the duration of which a packer lives.
	group *errgroup.Group
	// incoming are the jobs of the writing; nil: no more will come.
	incoming <-chan *job
	limit    int64
	form     cargo.Form
	buffers  chan []byte
	// archive to which files are added; nil: none. at is where the next one begins.
	archive *archiveOut
	at      int64
	// file of which the bytes from from on are to come, and then zeros.
	file  *packing
	from  int64
	zeros int64
	// ending: the archive ends behind them.
	ending bool
	// cut: the block ends here.
	cut bool
	// pending is to be taken up next.
	pending *job
	// early are the headers of what is no file and came while there was no archive. It has none for itself: no index
	// would name that.
	early []byte
	// shared are the files in the archive that have further names.
	shared map[string]bool
	// continued is the file with which an earlier attempt began.
	continued *packing
	encoders  []*frame.Encoder // of the workers

	// putting are all parts and ends on their way.
	putting sync.WaitGroup
	// ended says once how the archive before ended; nil: there is none. Meanwhile the next one is packed, but nothing of
	// it is put, so that an attempt that breaks leaves one archive to go on with.
	ended chan error

	mu sync.Mutex
	// open are the files that neither are in an archive nor were given up.
	open int
	due  []retry
}

// retry is a file that is to be read again.
type retry struct {
	job *job
	at  time.Time
}

func newPacker(ctx context.Context, g *errgroup.Group, w *writing) *packer {
	p := &packer{
		writing: w, ctx: ctx, group: g, incoming: w.jobs, limit: w.options.Archive.Size, form: w.options.Archive.form(),
		buffers: make(chan []byte, partsAtOnce+1),
	}
	if p.limit == 0 {
		p.limit = ArchiveSize
	}
	for range cap(p.buffers) {
		p.buffers <- nil
	}
	return p
}

// run packs what comes, and ends with the last archive.
func (p *packer) run() (err error) {
	defer func() {
		for _, e := range p.encoders {
			err = errors.Join(err, e.Close())
		}
	}()
	o := p.options.Archive
	for range max(p.options.Streams, 1) {
		encoder, err := frame.NewEncoder(frame.EncoderOptions{
			Engines: o.Engines, Accelerator: o.Accelerator, Codec: p.form.Codec(), Policy: o.Policy,
			Joinable: p.form == cargo.Gzip,
		})
		if err != nil {
			return err
		}
		p.encoders = append(p.encoders, encoder)
	}
	if r := p.resumed.open; r != nil {
		p.continueWith(r)
	}
	// What waits for more to pack ends when the packing of something fails.
	ctx, fail := context.WithCancelCause(p.ctx)
	defer fail(nil)
	p.ctx = ctx
	failing := func(err error) error {
		if err != nil {
			fail(err)
		}
		return err
	}
	err = pipeline.Run(ctx, len(p.encoders), p.fill,
		func(worker int, b *tarPiece) error { return failing(p.pack(worker, b)) },
		func(b *tarPiece) error { return failing(p.take(b)) },
	)
	p.putting.Wait() // They use the context.
	return err
}

// continueWith goes on with an archive of an earlier attempt.
func (p *packer) continueWith(r *archiveOut) {
	r.packer = p
	p.archive, p.shared = r, make(map[string]bool)
	p.at = padded(r.plain)
	p.zeros = p.at - r.plain
	if f := r.file; f != nil {
		p.continued, p.file, p.from, p.zeros = f, f, f.done, 0
		p.at = f.offset + padded(f.entry.Size)
	}
}

// fill fills a block. It returns false when nothing is left.
func (p *packer) fill(b *tarPiece) (more bool, err error) {
	b.spans, b.length, b.last, b.archive = b.spans[:0], 0, false, p.archive
	for b.length < archiveBlock {
		space := archiveBlock - b.length
		switch {
		case p.file != nil:
			n := min(space, p.file.entry.Size-p.from)
			b.add(span{file: p.file, from: p.from, length: n})
			if p.from += n; p.from == p.file.entry.Size {
				p.zeros, p.file = padded(p.from)-p.from, nil
			}
		case p.zeros > 0:
			n := min(space, p.zeros)
			b.add(span{length: n})
			p.zeros -= n
		case p.ending:
			p.ending, p.archive, b.last = false, nil, true
			return true, nil
		case p.cut:
			p.cut = false
			if b.length > 0 {
				return true, nil
			}
		default:
			j, err := p.next(b.length > 0)
			switch {
			case errors.Is(err, errPartial):
				return true, nil
			case err != nil:
				return false, err
			case j == nil && p.archive == nil:
				return false, nil
			case j == nil:
				p.end()
				continue
			}
			if err := p.begin(j, b); err != nil {
				return false, err
			}
		}
	}
	if p.ending && p.zeros == 0 {
		p.ending, p.archive, b.last = false, nil, true // There is no block without bytes.
	}
	return true, nil
}

func (b *tarPiece) add(s span) {
	b.spans = append(b.spans, s)
	b.length += s.length
}

// end has the archive end.
func (p *packer) end() { p.zeros, p.ending = tarEnd, true }

// errPartial says that a block should not wait for more.
var errPartial = errors.New("others wait for what is in this block")

// next returns what is to be packed next; nil: nothing is left. With partial there is a block that waits.
func (p *packer) next(partial bool) (*job, error) {
	if j := p.pending; j != nil {
		p.pending = nil
		return j, nil
	}
	for {
		if p.pressed.Swap(false) && partial {
			return nil, errPartial
		}
		p.mu.Lock()
		open := p.open
		var after <-chan time.Time
		if len(p.due) > 0 {
			first := p.due[0]
			wait := time.Until(first.at)
			if wait <= 0 {
				p.due = p.due[1:]
				p.mu.Unlock()
				return first.job, nil
			}
			after = time.After(wait)
		}
		p.mu.Unlock()
		switch {
		case p.incoming == nil && open == 0:
			return nil, nil
		case p.incoming == nil && partial:
			return nil, errPartial
		}
		select {
		case j, ok := <-p.incoming:
			if !ok {
				p.incoming = nil
				continue
			}
			if j.slot.done != nil {
				p.mu.Lock()
				p.open++
				p.mu.Unlock()
			}
			return j, nil
		case <-p.wake:
		case <-after:
		case <-p.ctx.Done():
			return nil, context.Cause(p.ctx)
		}
	}
}

// begin plans where an entry is.
func (p *packer) begin(j *job, b *tarPiece) error {
	if j.tries > 0 && !j.looked {
		if gone, err := p.again(j); gone || err != nil {
			return err
		}
	}
	e := &j.slot.record.entry
	if p.attached(j) {
		return nil
	}
	header, err := tarHeader(e)
	if err != nil {
		return err
	}
	need := int64(len(header)) + padded(e.Size)
	if p.archive != nil && p.at > 0 && p.at+need+tarEnd > p.limit {
		p.pending = j
		p.end()
		return nil
	}
	if e.Type == tree.HardLink && (p.archive == nil || !p.shared[e.Target]) {
		return nil // Only with its file a tar can name it again.
	}
	if p.archive == nil && e.Type != tree.File {
		if len(p.early)+len(header) <= maxEarly {
			p.early = append(p.early, header...)
		}
		return nil
	}
	if p.archive == nil {
		if err := p.create(need); err != nil {
			return err
		}
		p.shared, b.archive = make(map[string]bool), p.archive
		b.add(span{head: p.early, length: int64(len(p.early))})
		p.at, p.early = int64(len(p.early)), nil
	}
	if b.length > 0 && b.length+int64(len(header)) > archiveBlock {
		p.pending, p.cut = j, true // A header is in one block, so that an archive can be continued behind any block.
		return nil
	}
	b.add(span{head: header, length: int64(len(header))})
	if e.Type == tree.File {
		f := &packing{entry: *e, offset: p.at + int64(len(header)), job: j}
		b.add(span{file: f})
		if e.Size > 0 {
			p.file, p.from = f, 0
		}
		if e.Shared() && len(p.shared) < maxShared {
			p.shared[e.Path] = true
		}
		p.cut = j.tries > 0 // Others wait for it.
	}
	p.at += need
	return nil
}

// maxEarly bounds the headers of what is no file and comes before an archive begins, in bytes.
const maxEarly = archiveBlock / 2

// maxShared bounds the files of an archive that a tar can name again.
const maxShared = 1 << 16

// again looks at a file that changed. It returns true if there is none any more.
func (p *packer) again(j *job) (gone bool, err error) {
	j.looked = true
	now, err := p.options.Origin.Again(&j.slot.record.entry)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		j.slot.dropped = true
		p.done(j)
		return true, nil
	case err == nil:
		j.slot.record.entry = *now
		return false, nil
	case errors.Is(err, tree.ErrChanged):
		return false, nil
	default:
		return false, err
	}
}

// attached reports whether a file is the one that an earlier attempt began with.
func (p *packer) attached(j *job) bool {
	f, e := p.continued, &j.slot.record.entry
	if f == nil || j.slot.done == nil || f.entry.Path != e.Path || versionOf(&f.entry) != versionOf(e) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f.job != nil || f.finished && f.failed.Load() {
		return false
	}
	f.job = j
	if f.finished {
		p.completed(f)
	}
	return true
}

// pack reads and compresses a block.
func (p *packer) pack(worker int, b *tarPiece) error {
	if b.plain == nil {
		b.plain, b.packer = make([]byte, 0, archiveBlock), cargo.NewPacker(p.form)
		b.wire = make([]byte, 0, frame.HeaderSize+archiveBlock)
	}
	b.plain = b.plain[:b.length]
	rest := b.plain
	for i := range b.spans {
		s := &b.spans[i]
		part := rest[:s.length]
		rest = rest[s.length:]
		switch {
		case s.head != nil:
			copy(part, s.head)
		case s.file == nil || s.file.failed.Load():
			clear(part)
		case s.length > 0:
			err := p.options.Origin.ReadAt(&s.file.entry, part, s.from)
			if errors.Is(err, tree.ErrChanged) {
				s.file.failed.Store(true)
				clear(part)
			} else if err != nil {
				return err
			}
		}
		s.crc = crc32.ChecksumIEEE(part)
	}
	header, payload, outcome, err := p.encoders[worker].Payload(b.wire, b.plain)
	if err != nil {
		return err
	}
	if b.rest, b.block, err = b.packer.PackPlain(header, payload, b.plain, b.crc()); err != nil {
		return err
	}
	p.options.Report.Blocks.Add(outcome)
	return nil
}

// crc returns the CRC-32 of the block. Those of a few spans are combined faster than calculated again.
func (b *tarPiece) crc() (sum uint32) {
	const few = 16
	if len(b.spans) > few {
		return crc32.ChecksumIEEE(b.plain)
	}
	for _, s := range b.spans {
		sum = cargo.CombineCRC32(sum, s.crc, s.length)
	}
	return sum
}

// take adds a block to its archive.
func (p *packer) take(b *tarPiece) error {
	a := b.archive
	if err := a.append(b); err != nil {
		return err
	}
	for i := range b.spans {
		s := &b.spans[i]
		f := s.file
		if f == nil {
			continue
		}
		f.crc, f.done = cargo.CombineCRC32(f.crc, s.crc, s.length), f.done+s.length
		if a.file = f; f.done < f.entry.Size || s.length == 0 && f.entry.Size > 0 {
			f.partial += s.length
			p.arrive(s.length)
			continue
		}
		a.file = nil
		if err := p.finish(f, a); err != nil {
			return err
		}
		p.arrive(-f.partial)
	}
	if b.last {
		return p.endLater(a)
	}
	if int64(len(a.buffer)) >= a.part {
		return a.cut()
	}
	return nil
}

// endLater ends an archive while the next one is packed.
func (p *packer) endLater(a *archiveOut) error {
	if err := p.await(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	p.ended = ended
	p.putting.Add(1)
	p.group.Go(func() error {
		defer p.putting.Done()
		err := a.end()
		ended <- err
		return err
	})
	return nil
}

// await waits for the end of the archive before.
func (p *packer) await() error {
	if p.ended == nil {
		return nil
	}
	select {
	case err := <-p.ended:
		p.ended = nil
		return err
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}

// finish is called for a file of which all is in blocks.
func (p *packer) finish(f *packing, a *archiveOut) error {
	if !f.failed.Load() {
		if err := a.record(f); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f.finished = true
	if f.job != nil {
		p.completed(f)
	}
	return nil
}

// completed completes the job of a file, or has it packed again. The mutex is held.
func (p *packer) completed(f *packing) {
	j := f.job
	if !f.failed.Load() {
		r := &j.slot.record
		r.archive, r.offset, r.crc = f.record.archive, f.offset, f.crc
		p.count(&r.entry, false)
		p.doneLocked(j)
		return
	}
	if j.tries == len(p.options.ChangedPauses) {
		p.giveUp(j)
		p.doneLocked(j)
		return
	}
	p.due = append(p.due, retry{j, time.Now().Add(p.options.ChangedPauses[j.tries])})
	j.tries, j.looked = j.tries+1, false
	p.awake()
}

// done completes a job.
func (p *packer) done(j *job) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doneLocked(j)
}

func (p *packer) doneLocked(j *job) {
	close(j.slot.done)
	p.open--
	p.awake()
}

func (w *writing) awake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
