// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/gzip"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/agefile"
	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// Reserved is the directory at the root of a prefix in which there is what is no file's. No entry at any depth may be
	// called so.
	Reserved = ".lighterage"
	// IndexName is the object that has the index.
	IndexName   = Reserved + "/index"
	writerName  = Reserved + "/writer"
	uploadsName = Reserved + "/uploads/"

	indexVersion = 1
	// indexVersionArchives is that of an index which may have files in archives.
	indexVersionArchives = 2
	// indexVersionResting is that of an index which may have files that rest in a form, too.
	indexVersionResting = 3
	// maxMessage bounds one message of an index in bytes: paths, targets and extended attributes have less.
	maxMessage = 1 << 20
	// indexPart is how much of an index is put at once.
	indexPart = 8 << 20
)

// record is an entry of an index.
type record struct {
	entry tree.Entry
	// etag of the object of a file. Where it is known to be an MD5, part is the length of the parts that it is of; else
	// 0.
	etag string
	part int64
	// archive that has the content of a file, from offset on, with the CRC-32 crc; empty: it has an object.
	archive string
	offset  int64
	crc     uint32
	// linked: it is a further name of a file in an archive.
	linked bool
	// index is the ETag of the index beside the object of a file that rests in a form, which has stored bytes then; else
	// empty.
	index  string
	stored int64
	// records that this index knows, as cargo.ParseRecords reads them; empty: nobody has said.
	records string
}

// rests reports whether the object has the file in a form.
func (r *record) rests() bool { return r.index != "" }

// size of the object of a file in bytes.
func (r *record) size() int64 {
	if r.rests() {
		return r.stored
	}
	return r.entry.Size
}

// isObject reports whether there is to be an object of the entry.
func (r *record) isObject() bool { return r.entry.Type == tree.File && r.archive == "" }

// errIndex says that an index cannot be used.
var errIndex = errors.New("the index is damaged")

// isDamaged reports whether an index cannot be used, whoever reads it.
func isDamaged(err error) bool { return errors.Is(err, errIndex) }

// indexReader reads an index from its beginning to its end. The zero value is one of nothing.
type indexReader struct {
	object objectstore.Content
	// written is when the object was; zero without one.
	written time.Time
	plain   *bufio.Reader
	last    string
	// unfit is passed paths that are no entry's. It is set by newBoth.
	unfit func(path string)
	// lacks reports whether an archive is missing, whose files are then left out; nil: nobody knows.
	lacks func(archive string) bool
	// unordered: its records may be in any order.
	unordered bool
	// archives: it may have files in archives.
	archives bool
	// form of the files that rest in one; 0: none does.
	form cargo.Form
}

// openIndex opens the index of a store; without one it is empty.
func openIndex(ctx context.Context, store Store) (*indexReader, error) {
	return openRecords(ctx, store, IndexName, nil)
}

// openRecords opens an object that has records as an index has. before, unless nil, is read in front of that.
func openRecords(
	ctx context.Context, store Store, name string, before *wirev1.StoreArchivePart,
) (*indexReader, error) {
	object, err := store.Head(ctx, name)
	if errors.Is(err, objectstore.ErrNotFound) {
		return &indexReader{}, nil
	}
	if errors.Is(err, cargo.ErrCorrupt) { // It is encrypted.
		return nil, damaged(err)
	}
	if err != nil {
		return nil, err
	}
	if object.Size == 0 {
		return nil, fmt.Errorf("%w: it is empty", errIndex)
	}
	content, err := store.Get(ctx, name, object.ETag, 0, object.Size)
	if err != nil {
		return nil, err
	}
	r := &indexReader{object: content, written: object.Modified}
	if err := r.begin(content, before); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *indexReader) begin(content io.Reader, before *wirev1.StoreArchivePart) error {
	stored := bufio.NewReaderSize(content, 64<<10)
	if beginning, err := stored.Peek(len(agefile.Magic)); err == nil && string(beginning) == agefile.Magic {
		return errEncrypted()
	}
	plain, err := gzip.NewReader(stored)
	if err != nil {
		return damaged(err)
	}
	r.plain = bufio.NewReader(plain)
	if before != nil {
		if err := r.read(before, maxPartMessage); err != nil {
			return damaged(err)
		}
	}
	var header wirev1.StoreIndexHeader
	if err := r.read(&header, maxMessage); err != nil {
		return damaged(err)
	}
	if header.GetVersion() < indexVersion || header.GetVersion() > indexVersionResting {
		return failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_DATA,
			"the index %s has the format %d, and this agent (%s) reads %d to %d: use the release that wrote it", IndexName,
			header.GetVersion(), wirev1.Version, indexVersion, indexVersionResting)
	}
	r.archives = header.GetVersion() >= indexVersionArchives
	if header.GetVersion() == indexVersionResting {
		var err error
		if r.form, err = protocol.FormOf(header.GetForm()); err != nil || r.form == 0 {
			return fmt.Errorf("%w: it has files in form %d", errIndex, int32(header.GetForm()))
		}
	}
	return nil
}

func (r *indexReader) read(m proto.Message, most int64) error {
	return protodelim.UnmarshalOptions{MaxSize: most}.UnmarshalFrom(r.plain, m)
}

// damaged makes an error of reading an index one that says so, unless the store failed.
func damaged(err error) error {
	var known *objectstore.Error
	var volume *fs.PathError // of a claim
	var explained *failure.Error
	if errors.As(err, &known) || errors.As(err, &volume) || errors.As(err, &explained) ||
		errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w: %w", errIndex, err)
}

// next returns the next record, or io.EOF. Other errors are errIndex, or those of the store.
func (r *indexReader) next() (*record, error) {
	for {
		record, err := r.entry()
		switch {
		case err != nil:
			return nil, err
		case reservedRoot(record.entry.Path):
			r.unfit(record.entry.Path)
		case reservedPath(record.entry.Path), record.archive != "" && r.lacks != nil && r.lacks(record.archive):
		default:
			return record, nil
		}
	}
}

func (r *indexReader) entry() (*record, error) {
	if r.plain == nil {
		return nil, io.EOF
	}
	var m wirev1.StoreIndexEntry
	if err := r.read(&m, maxMessage); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, damaged(err)
	}
	entry, err := tree.FromWire(m.GetEntry())
	if err != nil {
		return nil, damaged(err)
	}
	if r.last != "" && !r.unordered && tree.Compare(r.last, entry.Path) >= 0 {
		return nil, fmt.Errorf("%w: %q does not come after %q", errIndex, entry.Path, r.last)
	}
	r.last = entry.Path
	found := &record{entry: entry, etag: m.GetEtag(), part: int64(min(m.GetDigestPart(), objectstore.MaxPut))}
	if at := m.GetResting(); at != nil && r.form != 0 {
		if entry.Type != tree.File || at.GetIndexEtag() == "" || at.GetSize() > math.MaxInt64 {
			return nil, fmt.Errorf("%w: %.200q rests in %d bytes", errIndex, entry.Path, at.GetSize())
		}
		found.index, found.stored = at.GetIndexEtag(), int64(at.GetSize())
		if _, err := cargo.ParseRecords(at.GetRecords()); err == nil {
			found.records = at.GetRecords()
		}
	}
	if at := m.GetArchived(); at != nil && r.archives {
		if err := found.place(at); err != nil {
			return nil, damaged(err)
		}
	}
	return found, nil
}

// place takes where the content of a record is.
func (r *record) place(at *wirev1.StoreArchived) error {
	if r.entry.Type == tree.HardLink && at.GetArchive() == "" {
		r.linked = true
		return nil
	}
	_, ok := archiveForm(at.GetArchive())
	if r.entry.Type != tree.File || r.rests() || !ok || at.GetOffset() > uint64(math.MaxInt64-r.entry.Size) {
		return fmt.Errorf("entry %.200q is at %d in the archive %.200q", r.entry.Path, at.GetOffset(), at.GetArchive())
	}
	r.archive, r.offset, r.crc = at.GetArchive(), int64(at.GetOffset()), at.GetCrc32()
	return nil
}

// toWire returns the record as an index has it.
func (r *record) toWire() *wirev1.StoreIndexEntry {
	m := &wirev1.StoreIndexEntry{Entry: r.entry.ToWire(), Etag: r.etag, DigestPart: uint64(r.part)}
	if r.archive != "" || r.linked {
		m.Archived = &wirev1.StoreArchived{Archive: r.archive, Offset: uint64(r.offset), Crc32: r.crc}
	}
	if r.rests() {
		m.Resting = &wirev1.StoreResting{Size: uint64(r.stored), IndexEtag: r.index, Records: r.records}
	}
	return m
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
	store  Store
	packed *gzip.Writer
	// sealed encrypts what was compressed, and sum is of that; nil: it is not encrypted.
	sealed io.WriteCloser
	sum    hash.Hash
	buffer []byte
	upload objectstore.Upload
	parts  []objectstore.Part
	// written are the bytes in parts.
	written int64
}

// newIndexWriter returns one whose index is encrypted, unless that is nil.
func newIndexWriter(
	ctx context.Context, store Store, header *wirev1.StoreIndexHeader, encrypted *Encryption,
) (*indexWriter, error) {
	w := &indexWriter{ctx: ctx, store: store}
	var err error
	to := io.Writer(w)
	if encrypted != nil {
		w.sum = sha256.New()
		if w.sealed, err = age.Encrypt(w, encrypted.readers()...); err != nil {
			return nil, fmt.Errorf("encrypt the index: %w", err)
		}
		to = w.sealed
	}
	if w.packed, err = gzip.NewWriterLevel(to, gzip.BestSpeed); err != nil {
		return nil, fmt.Errorf("compress the index: %w", err)
	}
	_, err = protodelim.MarshalTo(w.packed, header)
	return w, err
}

func (w *indexWriter) add(r *record) error {
	_, err := protodelim.MarshalTo(w.packed, r.toWire())
	return err
}

// Write takes compressed bytes, or encrypted ones. It is for the compressor.
func (w *indexWriter) Write(p []byte) (int, error) {
	if w.sum != nil {
		w.sum.Write(p)
	}
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
		if w.upload, err = w.store.Create(w.ctx, IndexName, nil); err != nil {
			return err
		}
	}
	size := int64(len(w.buffer))
	part, err := w.store.PutPart(w.ctx, w.upload, len(w.parts)+1, w.written, bytesAt(w.buffer), size)
	if err != nil {
		return err
	}
	w.written += size
	w.parts, w.buffer = append(w.parts, part), w.buffer[:0]
	return nil
}

// end ends what is written. The sum is that of the index then.
func (w *indexWriter) end() error {
	if err := w.packed.Close(); err != nil || w.sealed == nil {
		return err
	}
	return w.sealed.Close()
}

// complete has the index, which has ended, take the place of the one before.
func (w *indexWriter) complete() error {
	if w.upload.ID == "" {
		_, err := w.store.Put(
			w.ctx, IndexName, bytesAt(w.buffer), int64(len(w.buffer)), objectstore.PutOptions{},
		)
		return err
	}
	if err := w.put(); err != nil {
		return err
	}
	_, err := w.store.Complete(w.ctx, w.upload, w.parts, false)
	return err
}

// bytesAt is what is put of bytes.
type bytesAt = objectstore.Bytes
