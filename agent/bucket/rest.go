// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"cmp"
	"context"
	"crypto/md5" //nolint:gosec // ETags are MD5. They find faults, not forgeries.
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Metadata of objects of files that rest in a form.
const (
	// restsKey has the version of the plain file.
	restsKey = "lighterage-rests"
	// pairKey has the same in an object and in its index. An object that was put in parts has the token of its upload in
	// its place.
	pairKey = "lighterage-pair"
	// recordsKey has the records that an index knows, as ParseRecords of cargo reads them. It is missing if there are
	// none.
	recordsKey = "lighterage-records"
)

// RestingOptions say how files are compressed, one by one.
type RestingOptions struct {
	// Form is Gzip or Zstd.
	Form cargo.Form
	// Records of which files consist, whose index is to know them; the zero value: only what rests at the origin has
	// records.
	Records     cargo.Records
	Policy      policy.Settings
	Engines     *codec.Registry
	Accelerator policy.Accelerator
}

// CargoOrigin is an Origin some of whose files rest in a form, and are put as they rest if it is that of the store.
type CargoOrigin interface {
	Origin
	Index(e *tree.Entry) (*cargo.Index, error)
	Rest(e *tree.Entry, index *cargo.Index, block int, buf []byte) ([]byte, error)
}

var (
	_ CargoOrigin = (*tree.Source)(nil)
	_ CargoOrigin = (*Source)(nil)
)

// form in which files rest; 0: as they are, or in archives.
func (w *writing) form() cargo.Form {
	if w.options.Resting == nil {
		return 0
	}
	return w.options.Resting.Form
}

// lister lists what is there, for who writes.
func (w *writing) lister() *lister {
	return &lister{store: w.options.Store, unfit: func(string) {}, form: w.form()}
}

// rest puts a file in a form, unless an attempt that wrote no index has done so.
func (w *writing) rest(ctx context.Context, j *job) error {
	r := &j.slot.record
	if r.entry.Size > cargo.MaxBlocks*frame.DefaultBlock {
		fix := "add it to spec.exclude, or use another spec.destination.form"
		if r.entry.Device {
			fix = "use spec.destination.form: Files, or a destination claim with volumeMode: Block"
		}
		return failure.New(wirev1.FailureReason_FAILURE_REASON_FORM_UNSUPPORTED,
			"%q has %d bytes, and a file of form %v has at most %d: %s", failure.Shorten(r.entry.Path, 256), r.entry.Size,
			w.form(), int64(cargo.MaxBlocks*frame.DefaultBlock), fix)
	}
	if j.before.resting() {
		there, err := w.rested(ctx, r)
		if err != nil {
			return err
		}
		if there {
			w.countRecords(r)
			w.count(&r.entry, true)
			return nil
		}
	}
	put := w.restWhole
	if r.entry.Size > MinPart {
		put = w.restParts
	}
	err := put(ctx, r)
	if errors.Is(err, objectstore.ErrOccupied) {
		if err := w.giveWay(ctx, w.form().Name(r.entry.Path), err); err != nil {
			return err
		}
		err = put(ctx, r)
	}
	if errors.Is(err, objectstore.ErrNoUpload) {
		err = put(ctx, r) // The server has lost it.
	}
	if err == nil {
		w.count(&r.entry, false)
	}
	return err
}

// rested reports whether what is there is this version of a file, whole and with its own index. If it is, the record
// gets it.
func (w *writing) rested(ctx context.Context, r *record) (there bool, err error) {
	object, err := w.options.Store.Head(ctx, w.form().Name(r.entry.Path))
	if errors.Is(err, objectstore.ErrNotFound) {
		return false, nil
	}
	if err != nil || object.Metadata[restsKey] != versionOf(&r.entry) || cut(object.Metadata, object.Size) {
		return false, err
	}
	index, err := w.options.Store.Head(ctx, w.form().IndexPath(r.entry.Path))
	if errors.Is(err, objectstore.ErrNotFound) {
		return false, nil
	}
	pair := cmp.Or(object.Metadata[pairKey], object.Metadata[objectstore.TokenKey])
	if err != nil || pair == "" || index.Metadata[pairKey] != pair || cut(index.Metadata, index.Size) {
		return false, err
	}
	r.etag, r.stored, r.index = object.ETag, object.Size, index.ETag
	r.records = cmp.Or(index.Metadata[recordsKey], cargo.Records{}.String())
	return true, nil
}

// restWhole puts a file with one request for what rests of it, and one for the index.
func (w *writing) restWhole(ctx context.Context, r *record) error {
	buffers := w.buffers
	if r.entry.Size <= SmallFile {
		buffers = w.small
	}
	buffer, err := buffers.take(ctx)
	if err != nil {
		return err
	}
	defer buffers.give(buffer)
	cut, err := w.cut(&r.entry)
	if err != nil {
		return err
	}
	cut.count(0, 0)
	tally := cut.tally(w.form())
	stored, blocks := append(buffer[:0], tally.Begin()...), []byte(nil)
	for offset := int64(0); offset < r.entry.Size; {
		c, err := w.compressors.take(ctx)
		if err != nil {
			return err
		}
		rest, b, m, err := c.block(ctx, w.options, cut, tally.Blocks(), offset)
		stored = append(stored, rest...)
		w.compressors.give(c)
		if err != nil {
			return err
		}
		if err := tally.AddMarked(b, m); err != nil {
			return err
		}
		offset += b.Plain()
		blocks = tally.Append(blocks, b, m)
	}
	return w.putResting(ctx, r, cut, tally, append(stored, tally.End()...), blocks)
}

// putResting puts the index of a file, and what rests of it.
func (w *writing) putResting(
	ctx context.Context, r *record, cut blocksOf, tally *cargo.Tally, stored, blocks []byte,
) error {
	pair := rand.Text()
	index, err := w.putIndex(ctx, r, cut, tally, blocks, pair)
	if err != nil {
		return err
	}
	e, size := &r.entry, int64(len(stored))
	metadata := map[string]string{
		mtimeKey: mtime(e), restsKey: versionOf(e), pairKey: pair, versionKey: versionOfResting(e, size),
	}
	etag, err := w.options.Store.Put(
		ctx, w.form().Name(e.Path), bytesAt(stored), size, objectstore.PutOptions{Metadata: metadata},
	)
	if err != nil {
		return err
	}
	r.etag, r.stored = etag, size
	w.countRecords(r)
	return w.verifyResting(ctx, r, index, w.options.Verify && md5Of(stored) == etag)
}

// countRecords counts a file that is there and whose index does not know its records, although it should. Entries of
// releases that did not say what an index knows are not counted: only all of these indexes would tell.
func (w *writing) countRecords(r *record) {
	if w.form() == 0 || !r.rests() || r.records == "" {
		return
	}
	if should := w.options.Resting.Records; should.Layout != cargo.NoRecords && r.records != should.String() {
		w.options.Origin.Omissions().Add(tree.OmittedRecords, r.entry.Path)
	}
}

// putIndex puts the index of a file, which comes before what rests, and notes its ETag. It returns the bytes.
func (w *writing) putIndex(
	ctx context.Context, r *record, cut blocksOf, tally *cargo.Tally, blocks []byte, pair string,
) (index memory, err error) {
	var known cargo.Records
	if cut.carried != nil && cut.records.Layout == cargo.NoRecords {
		index, known = cut.carried.Append(nil), cut.carried.Records()
	} else if _, err := tally.WriteIndex(&index, bytesAt(blocks)); err != nil {
		return nil, err
	} else if tally.KnowsRecords() {
		known = cut.records
	}
	name, size := w.form().IndexPath(r.entry.Path), int64(len(index))
	metadata := map[string]string{pairKey: pair, versionKey: versionOfResting(&r.entry, size)}
	if known.Layout != cargo.NoRecords {
		metadata[recordsKey] = known.String()
	}
	r.records = known.String()
	r.index, err = w.options.Store.Put(ctx, name, bytesAt(index), size, objectstore.PutOptions{Metadata: metadata})
	if err != nil || !w.options.Verify || md5Of(index) == r.index {
		return index, err
	}
	there, err := readAll(ctx, w.options.Store, name, r.index, size)
	if err == nil && string(there) != string(index) {
		err = mismatch(&r.entry)
	}
	return index, err
}

// verifyResting compares what the store has of a file with what was sent. It reads that only from servers whose ETags
// are no MD5.
func (w *writing) verifyResting(ctx context.Context, r *record, index []byte, exact bool) error {
	if exact || !w.options.Verify {
		return nil
	}
	parsed, err := cargo.ParseIndex(index)
	if err != nil {
		return err
	}
	file := objectFile{ctx, w.options.Store, w.form().Name(r.entry.Path), r.etag}
	c, err := cargo.NewReader(file, r.stored, parsed, w.options.Resting.Engines)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.CopyStored(ctx, io.Discard, true); errors.Is(err, cargo.ErrCorrupt) {
		return mismatch(&r.entry)
	} else if err != nil {
		return err
	}
	return nil
}

// paired reports whether an object that was listed alone is what rests of a file, or the index of that, and the other
// one is there: lists may lag.
func (w *writing) paired(ctx context.Context, path string) (bool, error) {
	form := w.form()
	if form == 0 {
		return false, nil
	}
	parent, name := tree.Split(path)
	plain, ok := form.PlainName(name)
	if !ok {
		return false, nil
	}
	plain = joined(parent, plain)
	for _, name := range []string{form.Name(plain), form.IndexPath(plain)} {
		if _, err := w.options.Store.Head(ctx, name); errors.Is(err, objectstore.ErrNotFound) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	return true, nil
}

// removeResting removes what rests of a file, and its index. It counts as one.
func (w *writing) removeResting(ctx context.Context, path string) error {
	if err := w.remove(ctx, w.form().Name(path)); err != nil {
		return err
	}
	return w.options.Store.Delete(ctx, w.form().IndexPath(path))
}

// versionOfResting is versionOf with the size of the object, which tells when that was cut short.
func versionOfResting(e *tree.Entry, size int64) string {
	return fmt.Sprintf("%d-%d-%d", size, e.Modified, e.Changed)
}

func md5Of(b []byte) string {
	sum := md5.Sum(b) //nolint:gosec // See above.
	return hex.EncodeToString(sum[:])
}

// readAll returns an object of a size.
func readAll(ctx context.Context, store Store, name, etag string, size int64) ([]byte, error) {
	r, err := store.Get(ctx, name, etag, 0, size)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // It was only read.
	b := make([]byte, size)
	_, err = io.ReadFull(r, b)
	return b, err //nolint:wrapcheck // It is that of the store.
}

// compressors compress blocks, as many at once as there are. They are made when they are needed first.
type compressors struct {
	options *RestingOptions
	free    chan *compressor
	zeros   zeroBlock
	// parts is held by the file that is put in parts.
	parts chan struct{}
}

// compressor makes what rests of one block after the other.
type compressor struct {
	options *RestingOptions
	zeros   *zeroBlock
	// encoder and packer are nil before there is something to compress.
	encoder     *frame.Encoder
	packer      *cargo.Packer
	plain, wire []byte
}

func newCompressors(o *RestingOptions, count int) *compressors {
	c := &compressors{options: o, free: make(chan *compressor, count), parts: make(chan struct{}, 1)}
	for range count {
		c.free <- nil
	}
	return c
}

// take waits for one that is free. It is to be given back.
func (c *compressors) take(ctx context.Context) (*compressor, error) {
	select {
	case free := <-c.free:
		if free != nil {
			return free, nil
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return &compressor{options: c.options, zeros: &c.zeros}, nil
}

func (c *compressors) count() int { return cap(c.free) }

func (c *compressors) give(one *compressor) { c.free <- one }

// close closes all, which have been given back.
func (c *compressors) close() (err error) {
	for range cap(c.free) {
		if one := <-c.free; one != nil && one.encoder != nil {
			err = errors.Join(err, one.encoder.Close())
		}
	}
	return err
}

// begin makes what it takes to compress, if that has not been done.
func (c *compressor) begin() (err error) {
	if c.encoder != nil {
		return nil
	}
	o := c.options
	c.encoder, err = frame.NewEncoder(frame.EncoderOptions{
		Engines: o.Engines, Accelerator: o.Accelerator, Codec: o.Form.Codec(), Policy: o.Policy,
		Joinable: o.Form == cargo.Gzip,
	})
	c.packer = cargo.NewPacker(o.Form)
	return err
}

// blocksOf says of which blocks a file rests.
type blocksOf struct {
	entry *tree.Entry
	// carried has those that rest at the origin, which are put as they are; nil: they are made of the plain file, each of
	// frame.DefaultBlock bytes but for the last one.
	carried *cargo.Index
	// records that the index is to know, and that the origin's does not; the zero value: none.
	records cargo.Records
	chain   *cargo.RecordChain // of records
}

// cut returns the blocks of a file.
func (w *writing) cut(e *tree.Entry) (blocksOf, error) {
	f := blocksOf{entry: e, records: w.options.Resting.Records}
	origin, ok := w.options.Origin.(CargoOrigin)
	if !ok || e.Form != w.form() {
		return f, nil
	}
	var err error
	if f.carried, err = origin.Index(e); err == nil && f.carried.Records() == f.records {
		f.records = cargo.Records{}
	}
	return f, err
}

// tally returns that of no block of the file.
func (f *blocksOf) tally(form cargo.Form) *cargo.Tally { return cargo.NewRecordTally(form, f.records) }

// count has the records counted of the blocks from an offset of the plain file on. latest is where a record begins, at
// or before that.
func (f *blocksOf) count(from, latest int64) {
	if f.records.Layout != cargo.NoRecords {
		f.chain = cargo.NewRecordChain(f.records, f.entry.Size, from, latest)
	}
}

// mark returns what an index is to have of the records of a block, whose turn it waits for.
func (f *blocksOf) mark(ctx context.Context, origin Origin, plain []byte, offset int64) (cargo.Mark, error) {
	return f.chain.Mark(ctx, offset, plain, func(p []byte, offset int64) error { //nolint:wrapcheck // It is the origin's.
		return origin.ReadAt(f.entry, p, offset)
	})
}

// length is that of a block which begins at an offset of the plain file; 0: there is no further one.
func (f *blocksOf) length(number int, offset int64) int64 {
	if f.carried == nil || offset == f.entry.Size {
		return min(frame.DefaultBlock, f.entry.Size-offset)
	}
	return f.carried.Block(number).Plain()
}

// fits reports whether a block that an earlier attempt put is the one which begins at an offset of the plain file.
func (f *blocksOf) fits(number int, offset int64, b cargo.Block) bool {
	return offset < f.entry.Size && f.length(number, offset) == b.Plain() &&
		(f.carried == nil || f.carried.Block(number) == b)
}

// block returns what rests of a block of a file, which is valid until the next call, and its records. Blocks are to be
// begun in their order. After an error nobody waits for the records of the block.
func (c *compressor) block(
	ctx context.Context, o *WriteOptions, of blocksOf, number int, offset int64,
) (rest []byte, b cargo.Block, m cargo.Mark, err error) {
	defer func() {
		if err != nil {
			of.chain.Stop()
		}
	}()
	length := of.length(number, offset)
	m, known := of.chain.MarkUnread(offset, length)
	var plain []byte
	if of.carried == nil || !known {
		c.plain = slices.Grow(c.plain[:0], int(length))
		plain = c.plain[:length]
		if err := o.Origin.ReadAt(of.entry, plain, offset); err != nil {
			return nil, b, m, err
		}
	}
	if !known {
		if m, err = of.mark(ctx, o.Origin, plain, offset); err != nil {
			return nil, b, m, err
		}
	}
	if of.carried != nil {
		rest, b, err = c.carry(o, of, number)
	} else {
		rest, b, err = c.compress(o, of, plain, offset)
	}
	return rest, b, m, err
}

// compress is block for plain bytes.
func (c *compressor) compress(
	o *WriteOptions, of blocksOf, plain []byte, offset int64,
) (rest []byte, b cargo.Block, err error) {
	if err := c.begin(); err != nil {
		return nil, b, err
	}
	zeros := c.zeros.takes(plain)
	if known := c.zeros.known.Load(); zeros && known != nil {
		o.Report.Blocks.Add(known.outcome)
		return known.rest, known.block, nil
	}
	wire, outcome, err := c.encoder.AppendAt(c.wire[:0], 0, plain, false)
	if err != nil {
		return nil, b, err
	}
	c.wire = wire
	header, err := frame.ParseHeader(wire)
	if err != nil {
		return nil, b, err
	}
	if rest, b, err = c.packer.Pack(header, wire[frame.HeaderSize:]); err != nil {
		return nil, b, fmt.Errorf("compress %q at %d: %w", failure.Shorten(of.entry.Path, 256), offset, err)
	}
	o.Report.Blocks.Add(outcome)
	if zeros && (outcome.Path != meter.Stored || c.options.Policy.Mode == policy.Never) { // Else the next may compress.
		c.zeros.keep(rest, b, outcome)
	}
	return rest, b, nil
}

// carry is block for one that rests at the origin.
func (c *compressor) carry(o *WriteOptions, of blocksOf, number int) (rest []byte, b cargo.Block, err error) {
	origin, ok := o.Origin.(CargoOrigin)
	if !ok {
		return nil, b, fmt.Errorf("blocks of an origin of type %T cannot be put as they rest", o.Origin)
	}
	if c.wire, err = origin.Rest(of.entry, of.carried, number, c.wire[:0]); err != nil {
		return nil, b, err
	}
	b = of.carried.Block(number)
	o.Report.Blocks.Add(meter.Outcome{
		Path: meter.Stored, Reason: policy.AlreadyCompressed, PlainBytes: int(b.Plain()), WireBytes: len(c.wire),
	})
	return c.wire, b, nil
}
