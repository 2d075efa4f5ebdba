// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"crypto/md5" //nolint:gosec // ETags are MD5. They find faults, not forgeries.
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Metadata of objects. Other tools, for example rclone, read the time of modification, in seconds.
const (
	versionKey = "lighterage-version"
	mtimeKey   = "mtime"
)

// file puts a file, again after a pause if it changes meanwhile, and completes its slot.
func (w *writing) file(ctx context.Context, j *job) error {
	defer close(j.slot.done)
	for n := 0; ; n++ {
		err := w.once(ctx, j)
		if !errors.Is(err, tree.ErrChanged) {
			return err
		}
		if n == len(w.options.ChangedPauses) {
			break
		}
		select {
		case <-time.After(w.options.ChangedPauses[n]):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		now, err := w.options.Origin.Again(&j.slot.record.entry)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			j.slot.dropped = true
			return nil
		case err == nil:
			j.slot.record.entry = *now
		case !errors.Is(err, tree.ErrChanged):
			return err
		}
	}
	w.giveUp(j)
	return nil
}

// giveUp leaves the version before in the index, if there is one, of a file that changed each time.
func (w *writing) giveUp(j *job) {
	w.changed.add(j.slot.record.entry.Path)
	if j.slot.dropped = !j.before.known(); !j.slot.dropped {
		j.slot.record = *j.before.record // It is still there.
	}
}

// once puts a file, unless an attempt that wrote no index has done so.
func (w *writing) once(ctx context.Context, j *job) error {
	if w.form() != 0 {
		return w.rest(ctx, j)
	}
	e := &j.slot.record.entry
	metadata := map[string]string{
		versionKey: versionOf(e),
		mtimeKey:   mtime(e),
	}
	if object := j.before.object(); object != nil && object.Size == e.Size {
		present, err := w.options.Store.Head(ctx, e.Path)
		if err != nil && !errors.Is(err, objectstore.ErrNotFound) {
			return err
		}
		if err == nil && present.Size == e.Size && present.Metadata[versionKey] == metadata[versionKey] {
			j.slot.record.etag = present.ETag
			w.count(e, true)
			return nil
		}
	}
	put := w.whole
	if e.Size > w.part {
		put = w.parts
	}
	at, err := put(ctx, e, metadata)
	if errors.Is(err, objectstore.ErrOccupied) {
		if err := w.giveWay(ctx, e.Path, err); err != nil {
			return err
		}
		at, err = put(ctx, e, metadata)
	}
	if errors.Is(err, objectstore.ErrNoUpload) {
		at, err = put(ctx, e, metadata) // The server has lost it.
	}
	if err != nil {
		return err
	}
	j.slot.record.etag, j.slot.record.part = at.etag, at.part
	w.count(e, false)
	return nil
}

// mtime is the time of modification in seconds, for other tools.
func mtime(e *tree.Entry) string {
	return fmt.Sprintf("%d.%09d", e.Modified/1e9, max(e.Modified%1e9, 0))
}

// versionOf is what tells a version of a file from others.
func versionOf(e *tree.Entry) string { return fmt.Sprintf("%d-%d-%d", e.Size, e.Modified, e.Changed) }

// cut reports whether an object is a part of the file that was sent, by its metadata: versitygw 1.8.0 keeps what it has
// got when a client dies in mid-put.
func cut(metadata map[string]string, size int64) bool {
	text, _, ok := strings.Cut(metadata[versionKey], "-")
	whole, err := strconv.ParseInt(text, 10, 64)
	return ok && err == nil && whole != size
}

// placed is the object that a file was put as. part is that of a record.
type placed struct {
	etag string
	part int64
}

// whole puts a file with one request.
func (w *writing) whole(ctx context.Context, e *tree.Entry, metadata map[string]string) (placed, error) {
	var etag string
	sum, err := w.read(ctx, e, 0, w.options.Verify, func(ctx context.Context, body io.ReaderAt) error {
		var err error
		etag, err = w.options.Store.Put(ctx, e.Path, body, e.Size, objectstore.PutOptions{Metadata: metadata})
		return err
	})
	if err != nil {
		return placed{}, err
	}
	w.sent(e.Size)
	switch {
	case w.options.Verify && etag == sum:
		return placed{etag, e.Size}, nil
	case w.options.Verify && e.Size > 0:
		return placed{etag: etag}, w.compare(ctx, e, etag)
	}
	return placed{etag: etag}, nil
}

// read has a request read a range of a file, and returns the MD5 of it if that is asked for. The error of the origin
// counts before that of the request.
func (w *writing) read(
	ctx context.Context, e *tree.Entry, offset int64, digest bool, request func(context.Context, io.ReaderAt) error,
) (sum string, err error) {
	buffers := w.buffers
	if e.Size <= SmallFile {
		buffers = w.small
	}
	buffer, err := buffers.take(ctx)
	if err != nil {
		return "", err
	}
	defer buffers.give(buffer)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &rangeReader{origin: w.options.Origin, entry: e, begin: offset, buffer: buffer, failed: cancel}
	if digest {
		r.sum = md5.New() //nolint:gosec // See above.
	}
	err = request(ctx, r)
	if r.err != nil {
		return "", r.err
	}
	if err != nil || r.sum == nil {
		return "", err
	}
	return hex.EncodeToString(r.sum.Sum(nil)), nil
}

// rangeReader reads a file from begin on, in large steps. Requests that are tried again begin at 0 again.
type rangeReader struct {
	origin Origin
	entry  *tree.Entry
	begin  int64
	buffer []byte
	// held is how much of buffer is that of the file from from on.
	from, held int64
	// sum of what was read up to summed; nil if none is asked for.
	sum    hash.Hash
	summed int64
	err    error
	// failed ends the request.
	failed func(error)
}

// ReadAt implements io.ReaderAt, for one goroutine after another: see the bodies of objectstore.
func (r *rangeReader) ReadAt(p []byte, offset int64) (int, error) {
	if offset == 0 && r.sum != nil {
		r.sum.Reset()
		r.summed = 0
	}
	done := 0
	for done < len(p) {
		at := offset + int64(done)
		if at < r.from || at >= r.from+r.held {
			if err := r.fill(at); err != nil {
				return done, err
			}
		}
		done += copy(p[done:], r.buffer[at-r.from:r.held])
	}
	if r.sum != nil && offset == r.summed {
		r.sum.Write(p)
		r.summed += int64(len(p))
	}
	return done, nil
}

func (r *rangeReader) fill(at int64) error {
	if r.err != nil {
		return r.err
	}
	r.from, r.held = at, min(int64(len(r.buffer)), r.entry.Size-r.begin-at)
	if r.held <= 0 {
		r.held = 0
		return io.EOF
	}
	if err := r.origin.ReadAt(r.entry, r.buffer[:r.held], r.begin+at); err != nil {
		r.held, r.err = 0, err
		r.failed(err)
		return err
	}
	return nil
}

// parts puts a file in parts, those that an earlier attempt has put excepted.
func (w *writing) parts(ctx context.Context, e *tree.Entry, metadata map[string]string) (placed, error) {
	u, size, have, err := w.upload(ctx, e, metadata)
	if err != nil {
		return placed{}, err
	}
	count := int((e.Size + size - 1) / size)
	all := make([]objectstore.Part, count)
	exact := make([]bool, count)
	var arrived atomic.Int64
	arrive := func(length int64) {
		arrived.Add(length)
		w.arrive(length)
	}
	defer func() { w.arrive(-arrived.Load()) }() // It is complete, or comes again.
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(w.options.Streams)
	for i := range count {
		offset := int64(i) * size
		length := min(size, e.Size-offset)
		g.Go(func() error {
			if part, ok := have[i+1]; ok && part.Size == length {
				proven, err := w.proven(gctx, e, offset, part)
				if err != nil {
					return err
				}
				if all[i], exact[i] = part, true; proven {
					w.options.Report.Update(func(p *wirev1.Progress) { p.ResumedBytes += uint64(length) })
					arrive(length)
					return nil
				}
				w.options.Report.Update(func(p *wirev1.Progress) { p.ResentBytes += uint64(length) })
			}
			sum, err := w.read(gctx, e, offset, w.options.Verify, func(ctx context.Context, body io.ReaderAt) error {
				var err error
				all[i], err = w.options.Store.PutPart(ctx, u, i+1, offset, body, length)
				return err
			})
			exact[i] = err == nil && sum == all[i].ETag
			if err == nil {
				w.sent(length)
				arrive(length)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return placed{}, errors.Join(err, w.forsake(ctx, u, err))
	}
	etag, err := w.options.Store.Complete(ctx, u, all, false)
	if err != nil {
		return placed{}, errors.Join(err, w.forsake(ctx, u, err))
	}
	if err := w.options.Store.Delete(ctx, noteName(u.Name)); err != nil {
		return placed{}, err
	}
	at := placed{etag: etag}
	if !w.options.Verify {
		return at, nil
	}
	sums := newPartSums(size)
	for i, ok := range exact {
		if !ok {
			return at, w.compare(ctx, e, etag)
		}
		sums.add(all[i].ETag)
	}
	if sums.etag() == etag {
		at.part = size
	}
	object, err := w.options.Store.Head(ctx, e.Path)
	if err == nil && (object.Size != e.Size || object.ETag != etag) {
		err = mismatch(e)
	}
	return at, err
}

// proven reports whether a part that an earlier attempt has put is of what the file has now. Where ETags are no MD5
// nothing is. There are servers that list a part with its full length of which a client that died had sent a half.
func (w *writing) proven(ctx context.Context, e *tree.Entry, offset int64, part objectstore.Part) (bool, error) {
	sum, err := w.read(ctx, e, offset, true, func(_ context.Context, body io.ReaderAt) error {
		_, err := io.Copy(io.Discard, io.NewSectionReader(body, 0, part.Size))
		return err
	})
	return sum == part.ETag, err
}

// forsake aborts an upload with which no attempt can go on: the file is another one, or the server does not take the
// parts.
func (w *writing) forsake(ctx context.Context, u objectstore.Upload, why error) error {
	if !errors.Is(why, tree.ErrChanged) && !errors.Is(why, objectstore.ErrInvalid) &&
		!errors.Is(why, objectstore.ErrNoUpload) {
		return nil
	}
	return w.notes.drop(ctx, &wirev1.StoreUpload{Name: u.Name, Id: u.ID})
}

// upload returns an upload for a file, the length of its parts, and those that it has.
func (w *writing) upload(ctx context.Context, e *tree.Entry, metadata map[string]string) (
	u objectstore.Upload, size int64, have map[int]objectstore.Part, err error,
) {
	size = w.part
	if least := (e.Size + objectstore.MaxParts - 1) / objectstore.MaxParts; least > size {
		size = (least + 1<<20 - 1) &^ (1<<20 - 1)
	}
	fresh := &wirev1.StoreUpload{Name: e.Path, Version: versionOf(e), PartSize: uint64(size)}
	for before, tries := w.notes.take(e.Path), 0; before != nil || tries == 0; tries++ {
		if before != nil {
			if u, have, err = w.resume(ctx, e, before); err != nil || have != nil {
				return u, int64(before.GetPartSize()), have, err
			}
		}
		if tries == maxBegins {
			return u, 0, nil, w.hold.superseded()
		}
		if before, err = w.notes.begin(ctx, fresh); err != nil {
			return u, 0, nil, err
		}
	}
	if u, err = w.options.Store.Create(ctx, e.Path, metadata); err != nil {
		return u, 0, nil, err
	}
	if u.Retried { // The answer to a request that began one may have been lost.
		if err := w.notes.abortAll(ctx, e.Path, u.ID); err != nil {
			return u, 0, nil, err
		}
	}
	fresh.Id, fresh.Token = u.ID, u.Token
	return u, size, nil, putNote(ctx, w.options.Store, noteName(e.Path), fresh, false)
}

// resume returns the upload that a note is of, and the parts that it has. They are nil if nobody can go on with it:
// then it is aborted, and the note is removed.
func (w *writing) resume(ctx context.Context, e *tree.Entry, note *wirev1.StoreUpload) (
	u objectstore.Upload, have map[int]objectstore.Part, err error,
) {
	u = uploadOf(note)
	size := int64(note.GetPartSize())
	if note.GetVersion() == versionOf(e) && size >= objectstore.MinPart && size <= objectstore.MaxPut &&
		(e.Size+size-1)/size <= objectstore.MaxParts {
		parts, err := w.options.Store.Parts(ctx, u)
		if err == nil {
			have = make(map[int]objectstore.Part, len(parts))
			for _, part := range parts {
				have[part.Number] = part
			}
			return u, have, nil
		}
		if !errors.Is(err, objectstore.ErrNoUpload) && !errors.Is(err, objectstore.ErrNotFound) {
			return u, nil, err
		}
	}
	return u, nil, w.notes.drop(ctx, note)
}

// compare reads an object back. It is for servers whose ETags are no MD5.
func (w *writing) compare(ctx context.Context, e *tree.Entry, etag string) error {
	r, err := w.options.Store.Get(ctx, e.Path, etag, 0, e.Size)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // It was only read.
	there, here := make([]byte, 1<<20), make([]byte, 1<<20)
	for offset := int64(0); offset < e.Size; {
		n := min(int64(len(there)), e.Size-offset)
		if _, err := io.ReadFull(r, there[:n]); err != nil {
			return err
		}
		if err := w.options.Origin.ReadAt(e, here[:n], offset); err != nil {
			return err
		}
		if string(there[:n]) != string(here[:n]) {
			return mismatch(e)
		}
		offset += n
	}
	return nil
}

func mismatch(e *tree.Entry) error {
	return failure.New(wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED,
		"the store does not have of %q what was sent to it: suspect the memory of the node or the server, or a fault of "+
			"Lighterage (%s)", failure.Shorten(e.Path, 256), wirev1.Version)
}
