// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zeebo/xxh3"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/pipeline"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// partsName is the directory of the journals of files that are put in parts in a form. There is a note of the upload as
// long as there is one.
const partsName = Reserved + "/parts/"

// journalSum is the length in bytes of the XXH3-64 behind what a journal has of a part: a checksum of a block that is
// wrong would be in the index of the file.
const journalSum = 8

// partsOf is the directory of the journal of an object.
func partsOf(name string) string {
	return partsName + strings.TrimPrefix(noteName(name), uploadsName) + "/"
}

func partOf(name string, number int) string { return fmt.Sprintf("%s%05d", partsOf(name), number) }

// restingOut is a file that is put in parts which end with a block. When a part is there, the journal gets an object
// with its blocks. The next attempt goes on behind the last part that the journal has, and expands nothing.
type restingOut struct {
	*writing
	record *record
	// cut says of which blocks it is.
	cut blocksOf
	// at is the file under the name of its object.
	at    tree.Entry
	tally *cargo.Tally
	// plain is how far blocks were taken, and begun where the part begins.
	plain, begun int64
	// blocks are those of the index; those from noted on are not in a part yet.
	blocks []byte
	noted  int
	// upload has an ID when it has begun. Its parts are at least part bytes long, but for the last one.
	upload objectstore.Upload
	part   int64
	parts  []*restingPart
	buffer []byte
	free   chan []byte
}

// restingPart is a part on its way, or that is there. exact: the store has the MD5 of what was sent.
type restingPart struct {
	objectstore.Part
	exact bool
}

// restingBlock is a block on its way.
type restingBlock struct {
	number         int
	offset, length int64
	rest           []byte
	block          cargo.Block
	mark           cargo.Mark
}

// restParts puts a file in parts. If all that rests fits in one, that is put as a whole. One file is put at a time:
// workers compress its blocks at once.
func (w *writing) restParts(ctx context.Context, r *record) error {
	select {
	case w.compressors.parts <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-w.compressors.parts }()
	cut, err := w.cut(&r.entry)
	if err != nil {
		return err
	}
	o := &restingOut{
		writing: w, record: r, cut: cut, at: r.entry, tally: cut.tally(w.form()), part: w.part,
		free: make(chan []byte, partsAtOnce+1),
	}
	for range cap(o.free) {
		o.free <- nil
	}
	o.at.Path = w.form().Name(r.entry.Path)
	if err := o.resume(ctx); err != nil {
		return err
	}
	o.count()
	cut = o.cut
	arrived := o.plain
	w.arrive(arrived)
	defer func() { w.arrive(-arrived) }() // It is complete, or comes again.
	g, gctx := errgroup.WithContext(ctx)
	next, number := o.plain, o.tally.Blocks()
	err = pipeline.Run(gctx, w.compressors.count(),
		func(b *restingBlock) (bool, error) {
			b.number, b.offset, b.length = number, next, cut.length(number, next)
			next, number = next+b.length, number+1
			return b.length > 0, nil
		},
		func(_ int, b *restingBlock) error {
			c, err := w.compressors.take(gctx)
			if err != nil {
				return err
			}
			defer w.compressors.give(c)
			rest, block, mark, err := c.block(gctx, w.options, cut, b.number, b.offset)
			b.rest, b.block, b.mark = append(b.rest[:0], rest...), block, mark
			return err
		},
		func(b *restingBlock) error {
			w.arrive(b.length)
			arrived += b.length
			return o.take(gctx, g, b)
		},
	)
	if waited := g.Wait(); waited != nil { // It has ended the rest.
		err = waited
	}
	if err == nil {
		err = o.end(ctx)
	}
	if err != nil && o.upload.ID != "" {
		err = errors.Join(err, w.forsake(ctx, o.upload, err))
	}
	return err
}

// take adds a block, and has a part put when it is long enough.
func (o *restingOut) take(ctx context.Context, g *errgroup.Group, b *restingBlock) error {
	if o.buffer == nil {
		select {
		case buffer := <-o.free:
			o.buffer = append(buffer[:0], o.before()...)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	o.buffer = append(o.buffer, b.rest...)
	if err := o.tally.AddMarked(b.block, b.mark); err != nil {
		return err
	}
	o.blocks = o.tally.Append(o.blocks, b.block, b.mark)
	if o.plain += b.length; int64(len(o.buffer)) < o.part {
		return nil
	}
	if err := o.begin(ctx); err != nil {
		return err
	}
	if int64(len(o.buffer)) < o.part {
		return nil // The upload that was found has longer parts.
	}
	part, note, data := &restingPart{}, o.note(), o.buffer
	offset := o.tally.Next() - int64(len(data))
	o.parts, o.buffer = append(o.parts, part), nil
	g.Go(func() error {
		defer func() { o.free <- data }()
		if err := o.put(ctx, part, note, offset, data); err != nil {
			return err
		}
		b, err := proto.Marshal(note)
		if err != nil {
			return fmt.Errorf("note a part of %s: %w", o.at.Path, err)
		}
		b = binary.BigEndian.AppendUint64(b, xxh3.Hash(b))
		_, err = o.options.Store.Put(
			ctx, partOf(o.at.Path, int(note.GetNumber())), bytesAt(b), int64(len(b)), objectstore.PutOptions{},
		)
		return err
	})
	return nil
}

// count has records counted of the blocks that are not there yet.
func (o *restingOut) count() {
	latest, known := o.tally.LatestRecord()
	if o.cut.count(o.plain, latest); !known {
		o.cut.chain.Stop() // An earlier attempt has found out that there are none.
	}
}

// before is what a file has in front of its first block, if that comes next.
func (o *restingOut) before() []byte {
	if o.tally.Blocks() > 0 {
		return nil
	}
	return o.tally.Begin()
}

// begin begins the upload, if that has not been done.
func (o *restingOut) begin(ctx context.Context) (err error) {
	if o.upload.ID != "" {
		return nil
	}
	metadata := map[string]string{mtimeKey: mtime(&o.at), restsKey: versionOf(&o.at)}
	o.upload, o.part, _, err = o.writing.upload(ctx, &o.at, metadata)
	return err
}

// note returns what the journal has of the part that ends here, but for what is known when it is there.
func (o *restingOut) note() *wirev1.StoreRestingPart {
	note := &wirev1.StoreRestingPart{
		Number: uint32(len(o.parts) + 1), Size: uint64(len(o.buffer)), UploadId: o.upload.ID, Offset: uint64(o.begun),
		Blocks: slices.Clone(o.blocks[o.noted:]), Records: protocol.RecordsToWire(o.cut.records),
	}
	o.noted, o.begun = len(o.blocks), o.plain
	return note
}

// put puts a part.
func (o *restingOut) put(
	ctx context.Context, part *restingPart, note *wirev1.StoreRestingPart, offset int64, data []byte,
) (err error) {
	part.Part, err = o.options.Store.PutPart(
		ctx, o.upload, int(note.GetNumber()), offset, bytesAt(data), int64(len(data)),
	)
	if err != nil {
		return err
	}
	part.exact = o.options.Verify && md5Of(data) == part.ETag
	note.Etag, note.Exact = part.ETag, part.exact
	return nil
}

// end puts what is left, and makes the object of the parts.
func (o *restingOut) end(ctx context.Context) error {
	data := o.buffer
	if data == nil {
		data = o.before()
	}
	data = append(data, o.tally.End()...)
	if o.upload.ID == "" {
		return o.putResting(ctx, o.record, o.cut, o.tally, data, o.blocks)
	}
	if len(data) > 0 {
		part, note := &restingPart{}, o.note()
		note.Size = uint64(len(data))
		o.parts = append(o.parts, part)
		if err := o.put(ctx, part, note, o.tally.Size()-int64(len(data)), data); err != nil {
			return err
		}
	}
	index, err := o.putIndex(ctx, o.record, o.cut, o.tally, o.blocks, o.upload.Token)
	if err != nil {
		return err
	}
	parts, exact := make([]objectstore.Part, len(o.parts)), true
	sums := newPartSums(o.part)
	for i, part := range o.parts {
		parts[i], exact = part.Part, exact && part.exact
		sums.add(part.ETag)
	}
	etag, err := o.options.Store.Complete(ctx, o.upload, parts, false)
	if err != nil {
		return err
	}
	if err := removeAll(ctx, o.options.Store, partsOf(o.at.Path)); err != nil {
		return err
	}
	if err := o.options.Store.Delete(ctx, noteName(o.at.Path)); err != nil {
		return err
	}
	o.record.etag, o.record.stored = etag, o.tally.Size()
	o.countRecords(o.record)
	return o.verifyResting(ctx, o.record, index, exact && sums.etag() == etag)
}

// resume goes on with what an earlier attempt has put, if there is something of this version of the file.
func (o *restingOut) resume(ctx context.Context) error {
	note := o.notes.take(o.at.Path)
	if note == nil {
		return nil
	}
	u, have, err := o.writing.resume(ctx, &o.at, note)
	if err != nil || have == nil {
		return err
	}
	o.upload, o.part = u, int64(note.GetPartSize())
	for n := 1; ; n++ {
		journal, err := o.journal(ctx, n)
		if err != nil || journal == nil {
			return err
		}
		part, there := have[n]
		if !there || journal.GetUploadId() != u.ID || int(journal.GetNumber()) != n || part.ETag != journal.GetEtag() ||
			uint64(part.Size) != journal.GetSize() || journal.GetOffset() != uint64(o.plain) {
			return nil // That part, and those behind it, come again.
		}
		if !o.adopt(journal, part) {
			return nil
		}
	}
}

// journal returns what there is of a part; nil: nothing that can be used.
func (o *restingOut) journal(ctx context.Context, number int) (*wirev1.StoreRestingPart, error) {
	name := partOf(o.at.Path, number)
	object, err := o.options.Store.Head(ctx, name)
	switch {
	case errors.Is(err, objectstore.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case object.Size <= journalSum || object.Size > maxPartMessage:
		return nil, nil
	}
	b, err := readAll(ctx, o.options.Store, name, object.ETag, object.Size)
	if err != nil {
		return nil, err
	}
	return parseRestingPart(b), nil
}

// parseRestingPart reads what a journal has of a part, of more than journalSum bytes; nil if it is damaged.
func parseRestingPart(b []byte) *wirev1.StoreRestingPart {
	note := &wirev1.StoreRestingPart{}
	b, sum := b[:len(b)-journalSum], binary.BigEndian.Uint64(b[len(b)-journalSum:])
	if sum != xxh3.Hash(b) || proto.Unmarshal(b, note) != nil {
		return nil
	}
	return note
}

// adopt takes a part of an earlier attempt. It returns false if the blocks are not those of the part.
func (o *restingOut) adopt(journal *wirev1.StoreRestingPart, part objectstore.Part) bool {
	if !proto.Equal(journal.GetRecords(), protocol.RecordsToWire(o.cut.records)) {
		return false // Its blocks have other bytes.
	}
	size, plain, tally := int64(len(o.before())), o.plain, *o.tally
	for e := range slices.Chunk(journal.GetBlocks(), tally.EntrySize()) {
		block, mark, err := tally.ParseEntry(e)
		if err != nil || !o.cut.fits(tally.Blocks(), plain, block) || tally.AddMarked(block, mark) != nil {
			return false
		}
		size, plain = size+block.Stored(), plain+block.Plain()
	}
	if tally.Blocks() == o.tally.Blocks() || size != part.Size || size < objectstore.MinPart {
		return false
	}
	*o.tally = tally
	o.options.Report.Update(func(p *wirev1.Progress) { p.ResumedBytes += uint64(plain - o.plain) })
	o.blocks = append(o.blocks, journal.GetBlocks()...)
	o.plain, o.begun, o.noted = plain, plain, len(o.blocks)
	o.parts = append(o.parts, &restingPart{part, journal.GetExact()})
	return true
}

// removeAll removes all objects whose names begin so.
func removeAll(ctx context.Context, store Store, begin string) error {
	var names []string
	for object, err := range store.List(ctx, begin) {
		if err != nil {
			return err
		}
		names = append(names, object.Name)
	}
	for _, name := range names {
		if err := store.Delete(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
