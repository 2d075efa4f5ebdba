// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"errors"
	"time"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
)

const (
	// groupChunks is how many chunks of a file of which little may have to be sent go to a worker together.
	groupChunks = 16
	// maxAhead bounds the files that are taken out of the queue to ask for digests before they are packed.
	maxAhead = 1024
	// farBlock is how much is put together for each stream at first on a long path, in bytes: all streams are to have
	// something in their first windows. Then it is twice as much each time.
	farBlock = 64 << 10
)

// errDrained ends next without an error.
var errDrained = errors.New("nothing is left")

// span is a range of a file, from a chunk's beginning to another's or to the end of the file.
type span struct {
	file     *outFile
	from, to int64
	ask      *ask // for the digests of it; nil if there are none to be had
}

// packer cuts files into chunks and puts what is shorter together.
type packer struct {
	queue    <-chan *outFile
	asks     *asks
	workload *workload
	retrier  *retrier
	changed  *changedFiles
	pauses   []time.Duration // before changed files are read again
	apart    bool            // every chunk is a block of its own
	alike    bool            // blocks are to be those of other receivers, too
	records  cargo.Records   // that files consist of

	ahead   []span
	waiting int // spans of ahead that have an ask
	drained bool
	pending []*outFile // to be packed when the queue is drained
	// asking is a file of which a part, up to offset, is in ahead; nil if there is none.
	asking *outFile
	offset int64
	skip   skip

	shared []piece
	filled int
	// most is how many bytes are put together now, of which so many streams get some before it grows.
	most, streams, put int
}

// run packs everything that is needed, and at the end once more what changed while it was read.
func (p *packer) run(ctx context.Context) error {
	defer close(p.workload.items)
	if err := p.spans(ctx); err != nil {
		return err
	}
	return p.again(ctx)
}

// again packs files that changed while they were read, after a pause and, if they change again, after the next one.
func (p *packer) again(ctx context.Context) error {
	for _, pause := range p.pauses {
		if err := p.workload.await(ctx); err != nil {
			return err
		}
		changed := p.changed.take()
		if len(changed) == 0 {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for len(changed) > 0 {
			needed, rest, err := p.retrier.retry(ctx, changed)
			if err != nil {
				return err
			}
			p.pending, changed = append(p.pending, needed...), rest
		}
		if err := p.spans(ctx); err != nil {
			return err
		}
	}
	return nil
}

// spans packs what is in the queue until it is closed.
func (p *packer) spans(ctx context.Context) error {
	for {
		s, err := p.next(ctx)
		if errors.Is(err, errDrained) {
			return p.flush(ctx)
		}
		if err != nil {
			return err
		}
		if err := p.cut(ctx, s); err != nil {
			return err
		}
	}
}

// cut makes pieces of a span.
func (p *packer) cut(ctx context.Context, s span) error {
	f := s.file
	digests, err := p.answer(ctx, s.ask)
	if err != nil {
		return err
	}
	if f.records == nil {
		f.records = newPieceRecords(p.records, f)
	}
	var group []piece
	for offset := f.skip.next(s.from); offset < s.to; offset = f.skip.next(offset + protocol.ChunkSize) {
		c := piece{file: f, offset: offset, length: int(min(protocol.ChunkSize, f.entry.Size-offset))}
		if first := (offset - s.from) / protocol.ChunkSize * protocol.PartsPerChunk; first < int64(len(digests)) {
			c.old = digests[first:min(first+protocol.PartsPerChunk, int64(len(digests)))]
		}
		switch {
		case c.length < protocol.ChunkSize && !p.apart && !f.carried:
			err = p.share(ctx, c)
		case (f.old || f.entry.Sparse && !f.carried) && !p.apart:
			if group = append(group, c); len(group) == groupChunks {
				err, group = p.workload.emit(ctx, group), nil
			}
		default:
			err = p.workload.emit(ctx, []piece{c})
		}
		if err != nil {
			return err
		}
	}
	return p.workload.emit(ctx, group)
}

// share puts a piece that is shorter than a chunk together with others.
func (p *packer) share(ctx context.Context, c piece) error {
	if p.filled+c.length > p.most || len(p.shared) == protocol.MaxSegments ||
		p.alike && len(p.shared) > 0 && c.file.apartFrom(p.shared[0].file) {
		if err := p.flush(ctx); err != nil {
			return err
		}
	}
	p.shared, p.filled = append(p.shared, c), p.filled+c.length
	return nil
}

func (p *packer) flush(ctx context.Context) error {
	item := p.shared
	if len(item) == 0 {
		return nil
	}
	p.shared, p.filled = nil, 0
	if p.put++; p.put >= p.streams {
		p.most, p.put = min(2*p.most, protocol.ChunkSize), 0
	}
	return p.workload.emit(ctx, item)
}

// next returns the next span. When it has to wait for one, what is packed goes first: it should not wait, too.
func (p *packer) next(ctx context.Context) (span, error) {
	if err := p.look(); err != nil {
		return span{}, err
	}
	if len(p.ahead) == 0 {
		if p.drained {
			return span{}, errDrained
		}
		if err := p.await(ctx); err != nil {
			return span{}, err
		}
	}
	s := p.ahead[0]
	p.ahead = p.ahead[1:]
	if s.ask != nil {
		p.waiting--
	}
	return s, nil
}

// await waits for a file, and what is packed does not, or not for long.
func (p *packer) await(ctx context.Context) error {
	later, err := p.flushSoon(ctx)
	for err == nil {
		select {
		case f, ok := <-p.queue:
			if !ok {
				p.drained = true
				return errDrained
			}
			return p.add(f)
		case <-later:
			later, err = nil, p.flush(ctx)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return err
}

// flushSoon has what is packed go, at once or, where blocks are to be alike, when the channel says so: by when others
// have come to wait does not matter then.
func (p *packer) flushSoon(ctx context.Context) (later <-chan time.Time, err error) {
	if p.alike && len(p.shared) > 0 {
		return time.After(grace), nil
	}
	return nil, p.flush(ctx)
}

// look takes what is in the queue, as far ahead as digests may be asked for.
func (p *packer) look() error {
	if p.asking != nil {
		if err := p.askMore(); err != nil {
			return err
		}
	}
	for p.asking == nil && p.waiting < protocol.MaxAsks && len(p.ahead) < maxAhead {
		if p.drained {
			if len(p.pending) == 0 {
				return nil
			}
			f := p.pending[0]
			p.pending = p.pending[1:]
			if err := p.add(f); err != nil {
				return err
			}
			continue
		}
		select {
		case f, ok := <-p.queue:
			if !ok {
				p.drained = true
				continue
			}
			if err := p.add(f); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// add appends a file to what is ahead.
func (p *packer) add(f *outFile) error {
	if !f.old {
		p.ahead = append(p.ahead, span{file: f, to: f.entry.Size})
		return nil
	}
	p.asking, p.offset, p.skip = f, 0, f.skip
	return p.askMore()
}

// askMore asks for digests of the file that is being asked for, as far as there is space for answers.
func (p *packer) askMore() error {
	f := p.asking
	for p.waiting < protocol.MaxAsks {
		from := p.skip.next(p.offset)
		if from >= f.entry.Size {
			p.asking = nil
			return nil
		}
		to := min(from+askChunks*protocol.ChunkSize, f.entry.Size)
		a, err := p.asks.ask(f, from, to)
		if err != nil {
			return err
		}
		p.ahead = append(p.ahead, span{file: f, from: from, to: to, ask: a})
		p.offset = to
		p.waiting++
	}
	return nil
}

// answer waits for the digests that were asked for.
func (p *packer) answer(ctx context.Context, a *ask) ([]protocol.Digest, error) {
	if a == nil {
		return nil, nil
	}
	select {
	case digests := <-a.answer:
		return digests, nil
	default:
	}
	later, err := p.flushSoon(ctx)
	for err == nil {
		select {
		case digests := <-a.answer:
			return digests, nil
		case <-later:
			later, err = nil, p.flush(ctx)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return nil, err
}
