// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// Reserved is the directory at the root of a prefix in which there is what is no file's. No entry at any depth may be
	// called so.
	Reserved    = ".lighterage"
	indexName   = Reserved + "/index"
	writerName  = Reserved + "/writer"
	uploadsName = Reserved + "/uploads/"

	indexVersion = 1
	// maxMessage bounds one message of an index in bytes: paths, targets and extended attributes have less.
	maxMessage = 1 << 20
	// indexPart is how much of an index is put at once.
	indexPart = 8 << 20
)

// record is an entry of an index.
type record struct {
	entry tree.Entry
	// etag of the object of a file.
	etag string
}

// errIndex says that an index cannot be used.
var errIndex = errors.New("the index is damaged")

// indexReader reads an index from its beginning to its end. The zero value is one of nothing.
type indexReader struct {
	object *objectstore.Reader
	plain  *bufio.Reader
	last   string
	// unfit is passed paths that are no entry's. It is set by newBoth.
	unfit func(path string)
}

// openIndex opens the index of a store; without one it is empty.
func openIndex(ctx context.Context, store *objectstore.Store) (*indexReader, error) {
	object, err := store.Head(ctx, indexName)
	if errors.Is(err, objectstore.ErrNotFound) {
		return &indexReader{}, nil
	}
	if err != nil {
		return nil, err
	}
	if object.Size == 0 {
		return nil, fmt.Errorf("%w: it is empty", errIndex)
	}
	content, err := store.Get(ctx, indexName, object.ETag, 0, object.Size)
	if err != nil {
		return nil, err
	}
	r := &indexReader{object: content}
	if err := r.begin(); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *indexReader) begin() error {
	plain, err := gzip.NewReader(bufio.NewReaderSize(r.object, 64<<10))
	if err != nil {
		return damaged(err)
	}
	r.plain = bufio.NewReader(plain)
	var header wirev1.StoreIndexHeader
	if err := r.read(&header); err != nil {
		return damaged(err)
	}
	if header.GetVersion() != indexVersion {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
			"the index %s has the format %d, and this agent (%s) reads %d: use the release that wrote it", indexName,
			header.GetVersion(), wirev1.Version, indexVersion)
	}
	return nil
}

func (r *indexReader) read(m proto.Message) error {
	return protodelim.UnmarshalOptions{MaxSize: maxMessage}.UnmarshalFrom(r.plain, m)
}

// damaged makes an error of reading an index one that says so, unless the store failed.
func damaged(err error) error {
	var known *objectstore.Error
	if errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", errIndex, err)
}

// next returns the next record, or io.EOF. Other errors are errIndex, or those of the store.
func (r *indexReader) next() (*record, error) {
	for {
		record, err := r.entry()
		if err != nil || !reservedPath(record.entry.Path) {
			return record, err
		}
		if reservedRoot(record.entry.Path) {
			r.unfit(record.entry.Path)
		}
	}
}

func (r *indexReader) entry() (*record, error) {
	if r.plain == nil {
		return nil, io.EOF
	}
	var m wirev1.StoreIndexEntry
	if err := r.read(&m); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, damaged(err)
	}
	entry, err := tree.FromWire(m.GetEntry())
	if err != nil {
		return nil, damaged(err)
	}
	if r.last != "" && tree.Compare(r.last, entry.Path) >= 0 {
		return nil, fmt.Errorf("%w: %q does not come after %q", errIndex, entry.Path, r.last)
	}
	r.last = entry.Path
	return &record{entry: entry, etag: m.GetEtag()}, nil
}

func (r *indexReader) close() error {
	if r.object == nil {
		return nil
	}
	return r.object.Close()
}

// indexWriter writes an index, which replaces the one before when it is complete.
type indexWriter struct {
	ctx    context.Context //nolint:containedctx // It is that of Write, for the duration of which an indexWriter lives.
	store  *objectstore.Store
	packed *gzip.Writer
	buffer []byte
	upload objectstore.Upload
	parts  []objectstore.Part
}

func newIndexWriter(ctx context.Context, store *objectstore.Store) (*indexWriter, error) {
	w := &indexWriter{ctx: ctx, store: store}
	var err error
	if w.packed, err = gzip.NewWriterLevel(w, gzip.BestSpeed); err != nil {
		return nil, fmt.Errorf("compress the index: %w", err)
	}
	_, err = protodelim.MarshalTo(w.packed, &wirev1.StoreIndexHeader{Version: indexVersion})
	return w, err
}

func (w *indexWriter) add(r *record) error {
	_, err := protodelim.MarshalTo(w.packed, &wirev1.StoreIndexEntry{Entry: r.entry.ToWire(), Etag: r.etag})
	return err
}

// Write takes compressed bytes. It is for the compressor.
func (w *indexWriter) Write(p []byte) (int, error) {
	w.buffer = append(w.buffer, p...)
	if len(w.buffer) < indexPart {
		return len(p), nil
	}
	return len(p), w.put()
}

// put writes what is in the buffer as a part.
func (w *indexWriter) put() error {
	if w.upload.ID == "" {
		var err error
		if w.upload, err = w.store.Create(w.ctx, indexName, nil); err != nil {
			return err
		}
	}
	part, err := w.store.PutPart(w.ctx, w.upload, len(w.parts)+1, bytesAt(w.buffer), int64(len(w.buffer)))
	if err != nil {
		return err
	}
	w.parts, w.buffer = append(w.parts, part), w.buffer[:0]
	return nil
}

// complete has the index take the place of the one before.
func (w *indexWriter) complete() error {
	if err := w.packed.Close(); err != nil {
		return err
	}
	if w.upload.ID == "" {
		_, err := w.store.Put(
			w.ctx, indexName, bytesAt(w.buffer), int64(len(w.buffer)), objectstore.PutOptions{},
		)
		return err
	}
	if err := w.put(); err != nil {
		return err
	}
	_, err := w.store.Complete(w.ctx, w.upload, w.parts, false)
	return err
}

// bytesAt is an io.ReaderAt of bytes.
type bytesAt []byte

func (b bytesAt) ReadAt(p []byte, offset int64) (int, error) {
	if offset >= int64(len(b)) {
		return 0, io.EOF
	}
	n := copy(p, b[offset:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
