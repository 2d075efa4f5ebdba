// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // ETags of stores are MD5 sums.
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"sync"

	"filippo.io/age"
	"github.com/klauspost/compress/gzip"
	"github.com/zeebo/xxh3"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/objectstore"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// archiveOut is an archive that is written, in parts that end with a block. When a part is there, the journal gets an
// object with the files that end in it.
type archiveOut struct {
	packer *packer
	name   string
	part   int64
	tally  *cargo.Tally
	// stored are the bytes in parts as they rest.
	stored int64
	// sealed encrypts what goes into the buffer, and sum is of that; nil: it is not encrypted.
	sealed io.WriteCloser
	sum    hash.Hash
	// plain is the length of its tar so far, in bytes.
	plain int64
	// blocks are those of its index; those from noted on are not in the journal.
	blocks []byte
	noted  int
	// before is of the blocks up to noted.
	before xxh3.Hasher
	// file of which a part is in the last block, but not the end; nil: none.
	file   *packing
	upload objectstore.Upload
	parts  []*archivePartOut
	// putting are parts on their way.
	putting sync.WaitGroup
	buffer  []byte
	// files are those that end in the part, as a compressed index.
	files  bytes.Buffer
	packed *gzip.Writer
}

// archivePartOut is a part that is there when putting has ended. exact: the store has the MD5 of what was sent.
type archivePartOut struct {
	objectstore.Part
	exact bool
	err   error
}

// create begins an archive for so many bytes at least.
func (p *packer) create(need int64) error {
	name, err := p.archives.name(p.form, p.encryption() != nil)
	if err != nil {
		return err
	}
	a := &archiveOut{packer: p, name: name, tally: cargo.NewTally(p.form)}
	a.part = min(max(p.options.CheckpointInterval, MinPart), archivePart)
	// A gzip member is a little longer than its content when nothing shrinks.
	if least := (max(need, p.limit)/objectstore.MaxParts*101/100 + 1<<20) &^ (1<<20 - 1); least > a.part {
		a.part = least
	}
	p.archive = a
	return nil
}

// append adds what rests of a block.
func (a *archiveOut) append(b *tarPiece) error {
	if a.buffer == nil {
		select {
		case buffer := <-a.packer.buffers:
			if buffer == nil {
				// The block that fills a part may exceed it. Memory that is not used is not touched.
				buffer = make([]byte, 0, a.part+archiveBlock+archiveBlock/64)
			}
			a.buffer = buffer[:0]
		case <-a.packer.ctx.Done():
			return context.Cause(a.packer.ctx)
		}
		if len(a.blocks) == 0 {
			if err := a.start(); err != nil {
				return err
			}
		}
	}
	if err := a.add(b.rest); err != nil {
		return err
	}
	a.tally.Add(b.block)
	a.blocks = b.block.Append(a.blocks)
	a.plain += b.length
	if len(a.blocks) > cargo.MaxBlocks*cargo.BlockSize {
		return fmt.Errorf("write the archive %s: %w", a.name, cargo.ErrTooLong)
	}
	return nil
}

// start adds what is in front of the first block.
func (a *archiveOut) start() (err error) {
	if e := a.packer.encryption(); e != nil {
		a.sum = sha256.New()
		if a.sealed, err = age.Encrypt((*archiveBuffer)(a), e.Recipients...); err != nil {
			return fmt.Errorf("encrypt the archive %s: %w", a.name, err)
		}
	}
	return a.add(a.tally.Begin())
}

// add adds bytes of the archive, which are encrypted first where it is.
func (a *archiveOut) add(b []byte) (err error) {
	if a.sealed == nil {
		a.buffer = append(a.buffer, b...)
	} else if _, err = a.sealed.Write(b); err != nil {
		err = fmt.Errorf("encrypt the archive %s: %w", a.name, err)
	}
	return err
}

// archiveBuffer is an archiveOut to which encrypted bytes are added.
type archiveBuffer archiveOut

// Write implements io.Writer.
func (a *archiveBuffer) Write(p []byte) (int, error) {
	a.sum.Write(p)
	a.buffer = append(a.buffer, p...)
	return len(p), nil
}

// record notes a file that is in the archive.
func (a *archiveOut) record(f *packing) error {
	f.record = record{entry: f.entry, archive: a.name, offset: f.offset, crc: f.crc}
	if a.packed == nil {
		a.packed, _ = gzip.NewWriterLevel(&a.files, gzip.BestSpeed) // The level exists.
		header := &wirev1.StoreIndexHeader{Version: indexVersionArchives}
		if _, err := protodelim.MarshalTo(a.packed, header); err != nil {
			return fmt.Errorf("note the files of %s: %w", a.name, err)
		}
	}
	if _, err := protodelim.MarshalTo(a.packed, f.record.toWire()); err != nil {
		return fmt.Errorf("note the files of %s: %w", a.name, err)
	}
	return nil
}

// note returns what the journal has of the part that ends here, but for what is known when it is there.
func (a *archiveOut) note() (note *wirev1.StoreArchivePart, files []byte, err error) {
	if a.packed == nil {
		a.packed, _ = gzip.NewWriterLevel(&a.files, gzip.BestSpeed)
		header := &wirev1.StoreIndexHeader{Version: indexVersionArchives}
		if _, err := protodelim.MarshalTo(a.packed, header); err != nil {
			return nil, nil, fmt.Errorf("note the files of %s: %w", a.name, err)
		}
	}
	if err := a.packed.Close(); err != nil {
		return nil, nil, fmt.Errorf("note the files of %s: %w", a.name, err)
	}
	note = &wirev1.StoreArchivePart{
		Number: uint32(len(a.parts) + 1), Size: uint64(len(a.buffer)), UploadId: a.upload.ID, UploadToken: a.upload.Token,
		Blocks: bytes.Clone(a.blocks[a.noted:]), Before: proto.Uint64(a.before.Sum64()),
	}
	_, _ = a.before.Write(note.Blocks) // never fails
	if f := a.file; f != nil {
		note.Open, note.OpenDone = f.entry.ToWire(), uint64(f.done)
		if f.failed.Load() {
			note.Open.Changed = neverChanged // Nobody goes on with it.
		}
		note.OpenAt = &wirev1.StoreArchived{Archive: a.name, Offset: uint64(f.offset), Crc32: f.crc}
	}
	files = bytes.Clone(a.files.Bytes())
	a.noted, a.packed = len(a.blocks), nil
	a.files.Reset()
	return note, files, nil
}

// begin begins the upload, if that has not been done.
func (a *archiveOut) begin() (err error) {
	if a.upload.ID == "" {
		// An upload whose id is lost with the answer is aborted by the next attempt.
		a.upload, err = a.packer.options.Store.Create(a.packer.ctx, archivesName+a.name, nil)
	}
	return err
}

// cut has what is in the buffer put as a part, when the archive before is complete.
func (a *archiveOut) cut() error {
	if err := a.packer.await(); err != nil {
		return err
	}
	if err := a.begin(); err != nil {
		return err
	}
	note, files, err := a.note()
	if err != nil {
		return err
	}
	part, data := &archivePartOut{}, a.buffer
	a.parts, a.buffer = append(a.parts, part), nil
	offset := a.stored
	a.stored += int64(len(data))
	a.putting.Add(1)
	a.packer.putting.Add(1)
	a.packer.group.Go(func() error {
		defer a.packer.putting.Done()
		defer a.putting.Done()
		defer func() { a.packer.buffers <- data }()
		if part.err = a.put(part, note, offset, data); part.err == nil {
			part.err = a.journal(note, files)
		}
		return part.err
	})
	return nil
}

// put puts a part.
func (a *archiveOut) put(
	part *archivePartOut, note *wirev1.StoreArchivePart, offset int64, data []byte,
) (err error) {
	p := a.packer
	part.Part, err = p.options.Store.PutPart(
		p.ctx, a.upload, int(note.GetNumber()), offset, bytesAt(data), int64(len(data)),
	)
	if err != nil {
		return err
	}
	if p.options.Verify && len(part.ETag) == hex.EncodedLen(md5.Size) {
		sum := md5.Sum(data) //nolint:gosec // See above.
		part.exact = hex.EncodeToString(sum[:]) == part.ETag
	}
	note.Etag, note.Exact = part.ETag, part.exact
	return nil
}

// journal writes what is known of a part.
func (a *archiveOut) journal(note *wirev1.StoreArchivePart, files []byte) error {
	var b bytes.Buffer
	packed, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if _, err := protodelim.MarshalTo(packed, note); err != nil {
		return fmt.Errorf("note a part of %s: %w", a.name, err)
	}
	if err := packed.Close(); err != nil {
		return fmt.Errorf("note a part of %s: %w", a.name, err)
	}
	return a.write(journalOf(a.name, int(note.GetNumber())), append(b.Bytes(), files...))
}

// neverChanged is no time at which a file changed.
const neverChanged = math.MinInt64

// journalOf is the object of the journal for a part of an archive.
func journalOf(name string, number int) string {
	return fmt.Sprintf("%s%s/%05d", journalName, name, number)
}

// write writes an object that is in memory.
func (a *archiveOut) write(name string, content []byte) (err error) {
	p := a.packer
	if e := p.encryption(); e != nil {
		if content, err = e.seal(name, content); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		if name == archiveIndex(a.name) {
			sum := sha256.Sum256(content)
			p.archives.sums.set(name, sum[:])
		}
	}
	_, err = p.options.Store.Put(p.ctx, name, bytesAt(content), int64(len(content)), objectstore.PutOptions{})
	return err
}

// end puts the last part and makes the archive of the parts. The index and the journal are there before it: the next
// attempt goes on from what it finds.
func (a *archiveOut) end() error {
	p := a.packer
	if err := a.add(a.tally.End()); err != nil {
		return err
	}
	if a.sealed != nil {
		if err := a.sealed.Close(); err != nil {
			return fmt.Errorf("encrypt the archive %s: %w", a.name, err)
		}
		p.archives.sums.set(archivesName+a.name, a.sum.Sum(nil))
	}
	if err := a.begin(); err != nil {
		return err
	}
	a.putting.Wait()
	for _, part := range a.parts {
		if part.err != nil {
			return part.err
		}
	}
	note, files, err := a.note()
	if err != nil {
		return err
	}
	note.Ended = true
	part, data := &archivePartOut{}, a.buffer
	a.parts, a.buffer = append(a.parts, part), nil
	offset := a.stored
	a.stored += int64(len(data))
	err = a.put(part, note, offset, data)
	p.buffers <- data
	if err != nil {
		return err
	}
	var index memory
	if _, err := a.tally.WriteIndex(&index, bytesAt(a.blocks)); err != nil {
		return err
	}
	if err := a.write(archiveIndex(a.name), index); err != nil {
		return err
	}
	if a.sealed != nil {
		note.Sha256, note.IndexSha256 = p.archives.sums.of(archivesName+a.name), p.archives.sums.of(archiveIndex(a.name))
	}
	if err := a.journal(note, files); err != nil {
		return err
	}
	exact := true
	parts := make([]objectstore.Part, len(a.parts))
	for i, part := range a.parts {
		parts[i], exact = part.Part, exact && part.exact
	}
	etag, err := p.options.Store.Complete(p.ctx, a.upload, parts, false)
	if err != nil {
		return err
	}
	p.archives.made = append(p.archives.made, madeArchive{a.name, len(a.parts)})
	if p.options.Verify {
		return a.verify(etag, index, exact)
	}
	return nil
}

// verify compares what the store has with what was sent. It reads that only from servers whose ETags are no MD5.
func (a *archiveOut) verify(etag string, content []byte, exact bool) error {
	p := a.packer
	object, err := p.rests.Head(p.ctx, archivesName+a.name)
	if err != nil {
		return err
	}
	if object.Size != a.stored || object.ETag != etag {
		return a.mismatch(fmt.Errorf("it has %d bytes instead of %d", object.Size, a.stored))
	}
	if exact {
		return nil
	}
	if a.sealed != nil {
		return a.verifySum(etag)
	}
	index, err := cargo.ParseIndex(content)
	if err != nil {
		return err
	}
	r, err := cargo.NewReader(objectFile{p.ctx, p.options.Store, archivesName + a.name, etag}, object.Size, index,
		p.options.Archive.Engines)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.CopyStored(p.ctx, io.Discard, true); err != nil {
		return a.mismatch(err)
	}
	return nil
}

// verifySum is verify for an archive that the writer cannot decrypt.
func (a *archiveOut) verifySum(etag string) error {
	p := a.packer
	sum, err := sumOf(p.ctx, p.rests, archivesName+a.name, etag, a.stored)
	if err != nil {
		return err
	}
	if !bytes.Equal(sum, a.sum.Sum(nil)) {
		return a.mismatch(errors.New("its SHA-256 is another one"))
	}
	return nil
}

func (a *archiveOut) mismatch(why error) error {
	return failure.New(wirev1.FailureReason_FAILURE_REASON_VERIFICATION_FAILED,
		"the store does not have of the archive %s what was sent to it (%w): suspect the memory of the node or the server, "+
			"or a fault of Lighterage (%s)", a.name, why, wirev1.Version)
}

// memory is an io.WriterAt of bytes.
type memory []byte

func (m *memory) WriteAt(p []byte, offset int64) (int, error) {
	if missing := int(offset) + len(p) - len(*m); missing > 0 {
		*m = append(*m, make([]byte, missing)...)
	}
	return copy((*m)[offset:], p), nil
}

// objectFile is an object that is read in parts.
type objectFile struct {
	ctx   context.Context //nolint:containedctx // It is that of who reads, for the duration of which it lives.
	store Store
	name  string
	etag  string
}

// ReadAt implements io.ReaderAt.
func (f objectFile) ReadAt(p []byte, offset int64) (int, error) {
	r, err := f.OpenRange(f.ctx, offset, int64(len(p)))
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return io.ReadFull(r, p)
}

// OpenRange implements cargo.RangeOpener.
func (f objectFile) OpenRange(ctx context.Context, offset, length int64) (io.ReadCloser, error) {
	return f.store.Get(ctx, f.name, f.etag, offset, length)
}
