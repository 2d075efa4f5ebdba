// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package handoff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/lighterage/lighterage/agent/objectstore"
)

const (
	// MaxSegment is the most bytes of a segment, without the byte that says its kind.
	MaxSegment = 2 << 20
	// Window is how many segments of a stream may be in the store that the other side has not removed.
	Window = 8
	// gather is how long a segment that is not full waits for more.
	gather = 10 * time.Millisecond
)

// The kinds of segments, which is their first byte.
const (
	kindOpen byte = iota + 1 // number 0 of each stream, and no other
	kindData
	kindEnd // the last one
)

// errSegment says that an object is no segment.
var errSegment = errors.New("an object in the bucket is no segment of a connection: somebody else writes there")

// parseSegment takes a segment apart: whether it ends the stream, or else what it has.
func parseSegment(number uint64, segment []byte) (content []byte, end bool, err error) {
	if len(segment) == 0 || len(segment) > 1+MaxSegment {
		return nil, false, errSegment
	}
	kind, content := segment[0], segment[1:]
	switch {
	case kind == kindOpen && number == 0 && len(content) == 0:
		return nil, false, nil
	case kind == kindData && number > 0 && len(content) > 0:
		return content, false, nil
	case kind == kindEnd && number > 0 && len(content) == 0:
		return nil, true, nil
	}
	return nil, false, errSegment
}

func segmentName(directory string, number uint64) string {
	return directory + strconv.FormatUint(number, 10)
}

// writer is the stream that this side writes.
type writer struct {
	options   *Options
	directory string
	deadline  *deadline
	// failed is told why the stream fails.
	failed func(error)
	// next is the number of the next segment, oldest that of the first which may not have been removed. They belong to
	// run.
	next, oldest uint64

	mu     sync.Mutex
	buffer []byte // what waits to be put
	closed bool
	// gone: the other side has closed the connection.
	gone bool
	err  error
	// changed is closed and replaced when any of these change.
	changed chan struct{}
}

func newWriter(o *Options, directory string) *writer {
	return &writer{options: o, directory: directory, deadline: newDeadline(), changed: make(chan struct{})}
}

// change tells who waits. The caller holds mu.
func (w *writer) change() {
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *writer) write(p []byte) (int, error) {
	written := 0
	for {
		expired := w.deadline.done()
		select {
		case <-expired:
			return written, os.ErrDeadlineExceeded
		default:
		}
		w.mu.Lock()
		switch {
		case w.err != nil:
			err := w.err
			w.mu.Unlock()
			return written, err
		case w.closed || w.gone:
			w.mu.Unlock()
			return written, net.ErrClosed
		}
		if n := min(len(p), w.options.SegmentSize-len(w.buffer)); n > 0 {
			w.buffer = append(w.buffer, p[:n]...)
			p, written = p[n:], written+n
			w.change()
		}
		changed := w.changed
		w.mu.Unlock()
		if len(p) == 0 {
			return written, nil
		}
		select {
		case <-changed:
		case <-expired:
			return written, os.ErrDeadlineExceeded
		}
	}
}

// fail has writes fail with an error, unless they do already.
func (w *writer) fail(err error) {
	w.failed(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
		w.change()
	}
}

// discard has writes fail, since nobody reads them any more. The end of the stream is put still.
func (w *writer) discard() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone, w.buffer = true, w.buffer[:0]
	w.change()
}

// close has run put what is left, and end.
func (w *writer) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.closed = true
		w.change()
	}
}

// run puts segments until the stream was closed and the other side has removed all of it, or it is broken.
func (w *writer) run(ctx context.Context) {
	if err := w.open(ctx); err != nil {
		w.fail(err)
		return
	}
	var spare []byte
	for {
		content, last, err := w.take(ctx, spare)
		if err != nil {
			return
		}
		if len(content) > 0 {
			if err := w.segment(ctx, kindData, content); err != nil {
				w.fail(err)
				return
			}
			spare = content[:0]
		}
		if last {
			if err := w.segment(ctx, kindEnd, nil); err != nil {
				w.fail(err)
				return
			}
			w.drain(ctx)
			return
		}
	}
}

// open puts the first segment, unless that was done.
func (w *writer) open(ctx context.Context) error {
	if w.next > 0 {
		return nil
	}
	if err := w.segment(ctx, kindOpen, nil); err != nil {
		return err
	}
	w.oldest = w.next // it stays until the end
	return nil
}

// drain waits until the other side has removed everything.
func (w *writer) drain(ctx context.Context) {
	wait := pause{options: w.options}
	for w.oldest < w.next {
		removed, err := w.look(ctx)
		if err != nil || !removed && wait.wait(ctx) != nil {
			return // what is left is for Sweep
		}
	}
}

// take waits for something to put and takes it; the buffer goes on with the spare one.
func (w *writer) take(ctx context.Context, spare []byte) (content []byte, last bool, err error) {
	var patience <-chan time.Time
	for {
		w.mu.Lock()
		full := len(w.buffer) == w.options.SegmentSize
		switch {
		case w.err != nil:
			err := w.err
			w.mu.Unlock()
			return nil, false, err
		case w.closed || full:
			return w.grab(spare)
		case len(w.buffer) > 0 && patience == nil:
			patience = time.After(gather)
		}
		changed := w.changed
		w.mu.Unlock()
		select {
		case <-changed:
		case <-patience:
			w.mu.Lock()
			return w.grab(spare)
		case <-ctx.Done():
			w.fail(net.ErrClosed)
			return nil, false, ctx.Err()
		}
	}
}

// grab takes the buffer. The caller holds mu, which it gives up.
func (w *writer) grab(spare []byte) (content []byte, last bool, err error) {
	defer w.mu.Unlock()
	content, w.buffer = w.buffer, spare
	w.change()
	return content, w.closed, nil
}

// segment puts the next segment as soon as the window has a place.
func (w *writer) segment(ctx context.Context, kind byte, content []byte) error {
	wait := pause{options: w.options}
	for w.next-w.oldest >= Window {
		removed, err := w.look(ctx)
		if err != nil {
			return err
		}
		if removed {
			break
		}
		if err := wait.wait(ctx); err != nil {
			return err
		}
	}
	err := w.put(ctx, w.next, kind, content)
	if errors.Is(err, objectstore.ErrExists) {
		// The answer to a first try may have been lost, and the other side have removed what the second one found.
		if gone, other := w.removed(ctx, w.next); other == nil && gone {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	w.next++
	return nil
}

// look finds out what the other side has removed. It removes in order: if the newest segment is gone and the oldest is
// not, that was put again by a request that was tried twice, and nobody else removes it.
func (w *writer) look(ctx context.Context) (removed bool, err error) {
	for w.oldest < w.next {
		gone, err := w.removed(ctx, w.oldest)
		if err != nil {
			return removed, err
		}
		if !gone {
			break
		}
		w.oldest, removed = w.oldest+1, true
	}
	if removed || w.oldest+1 >= w.next {
		return removed, nil
	}
	if gone, err := w.removed(ctx, w.next-1); err != nil || !gone {
		return false, err
	}
	for ; w.oldest < w.next; w.oldest++ {
		if err := w.options.Store.Delete(ctx, segmentName(w.directory, w.oldest)); err != nil {
			return false, err
		}
	}
	return true, nil
}

// removed reports whether the other side has removed a segment that was put.
func (w *writer) removed(ctx context.Context, number uint64) (bool, error) {
	_, err := w.options.Store.Head(ctx, segmentName(w.directory, number))
	if errors.Is(err, objectstore.ErrNotFound) {
		return true, nil
	}
	return false, err
}

func (w *writer) put(ctx context.Context, number uint64, kind byte, content []byte) error {
	body := &segmentBody{kind: [1]byte{kind}, content: content}
	_, err := w.options.Store.Put(ctx, segmentName(w.directory, number), body, int64(len(content))+1,
		objectstore.PutOptions{IfAbsent: true})
	return err
}

// segmentBody is a segment, whose content is not copied.
type segmentBody struct {
	kind    [1]byte
	content []byte
}

// ReadAt implements io.ReaderAt.
func (b *segmentBody) ReadAt(p []byte, offset int64) (int, error) {
	n := 0
	if offset == 0 && len(p) > 0 {
		n, offset = copy(p, b.kind[:]), 1
	}
	m, err := bytes.NewReader(b.content).ReadAt(p[n:], offset-1)
	if n+m == len(p) {
		err = nil
	}
	return n + m, err
}

// reader is the stream that this side reads.
type reader struct {
	options   *Options
	directory string
	deadline  *deadline
	// failed is told why the stream ends.
	failed func(error)
	// segments are handed over one by one; ended is closed when there are no more, after err was set.
	segments chan []byte
	ended    chan struct{}
	err      error
	// closed is closed when this side has closed the connection: what comes is removed only.
	closed chan struct{}

	mu   sync.Mutex // one read at a time
	rest []byte
}

func newReader(o *Options, directory string) *reader {
	return &reader{
		options: o, directory: directory, deadline: newDeadline(), segments: make(chan []byte), ended: make(chan struct{}),
		closed: make(chan struct{}),
	}
}

func (r *reader) read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	expired := r.deadline.done()
	select {
	case <-expired:
		return 0, os.ErrDeadlineExceeded
	case <-r.closed:
		return 0, net.ErrClosed
	default:
	}
	if len(r.rest) == 0 && len(p) > 0 {
		select {
		case r.rest = <-r.segments:
		case <-r.ended:
			return 0, r.err
		case <-expired:
			return 0, os.ErrDeadlineExceeded
		case <-r.closed:
			return 0, net.ErrClosed
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// run gets segments and removes them when they were taken, and reports whether the other side has ended the stream.
func (r *reader) run(ctx context.Context) (end bool) {
	defer close(r.ended)
	if r.err == nil {
		r.err = r.follow(ctx)
	}
	r.failed(r.err)
	return errors.Is(r.err, io.EOF)
}

func (r *reader) follow(ctx context.Context) error {
	for n := uint64(0); ; n++ {
		content, end, err := r.next(ctx, n)
		if err != nil {
			return err
		}
		if len(content) > 0 {
			select {
			case r.segments <- content:
			case <-r.closed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if n == 0 {
			continue
		}
		if end {
			if err := r.options.Store.Delete(ctx, segmentName(r.directory, 0)); err != nil {
				return err
			}
		}
		if err := r.options.Store.Delete(ctx, segmentName(r.directory, n)); err != nil {
			return err
		}
		if end {
			return io.EOF
		}
	}
}

// await waits until the other side has opened the stream. What is no segment is left to the first read.
func (r *reader) await(ctx context.Context) error {
	_, _, err := r.next(ctx, 0)
	if errors.Is(err, errSegment) {
		r.err = err
	}
	return err
}

// next waits for a segment, and for the store, and returns what the segment has, or that it ends the stream.
func (r *reader) next(ctx context.Context, number uint64) (content []byte, end bool, err error) {
	wait := pause{options: r.options}
	for {
		segment, err := r.get(ctx, number)
		if err == nil {
			return parseSegment(number, segment)
		}
		if !errors.Is(err, objectstore.ErrNotFound) && !errors.Is(err, objectstore.ErrChanged) &&
			!errors.Is(err, objectstore.ErrUnavailable) {
			return nil, false, err
		}
		if err := wait.wait(ctx); err != nil {
			return nil, false, err
		}
	}
}

// get returns an object whole: ErrNotFound if it was not put yet.
func (r *reader) get(ctx context.Context, number uint64) ([]byte, error) {
	name := segmentName(r.directory, number)
	object, err := r.options.Store.Head(ctx, name)
	if err != nil {
		return nil, err
	}
	if object.Size < 1 || object.Size > 1+MaxSegment {
		return nil, fmt.Errorf("read %s: %w", name, errSegment)
	}
	body, err := r.options.Store.Get(ctx, name, object.ETag, 0, object.Size)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // It was only read.
	content := make([]byte, object.Size)
	if _, err := io.ReadFull(body, content); err != nil {
		return nil, err
	}
	return content, nil
}
