// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bucket

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/objectstore"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// resumption is what earlier attempts, which wrote no index, have packed.
type resumption struct {
	store Store
	// names are objects of the journal with files that are in archives, in the order of packing.
	names []string
	// open is the archive to go on with; nil: there is none.
	open *archiveOut

	reader *indexReader
	now    *record
}

// find returns the record of a file, if an earlier attempt has packed this version of it. Files come in the order of
// tree.Compare, as they did before; what was packed out of order, since it had changed, is not found.
func (r *resumption) find(ctx context.Context, e *tree.Entry) (*record, error) {
	for r.now == nil || tree.Compare(r.now.entry.Path, e.Path) < 0 {
		if err := r.advance(ctx); err != nil {
			return nil, err
		}
		if r.now == nil {
			return nil, nil
		}
	}
	if r.now.entry.Path != e.Path || versionOf(&r.now.entry) != versionOf(e) {
		return nil, nil
	}
	return r.now, nil
}

// advance goes on to the next record; nil: there is none.
func (r *resumption) advance(ctx context.Context) error {
	last := ""
	if r.now != nil {
		last = r.now.entry.Path
	}
	r.now = nil
	for {
		if r.reader == nil {
			if len(r.names) == 0 {
				return nil
			}
			name := r.names[0]
			r.names = r.names[1:]
			reader, err := openRecords(ctx, r.store, name, &wirev1.StoreArchivePart{})
			if errors.Is(err, errIndex) {
				continue
			}
			if err != nil {
				return err
			}
			reader.unfit, reader.unordered = func(string) {}, true
			r.reader = reader
		}
		found, err := r.reader.next()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, errIndex):
			_ = r.close() // It was only read.
		case err != nil:
			return err
		case last == "" || tree.Compare(last, found.entry.Path) < 0:
			r.now = found
			return nil
		}
	}
}

func (r *resumption) close() error {
	if r.reader == nil {
		return nil
	}
	err := r.reader.close()
	r.reader = nil
	return err
}

// journalled is an archive with its parts, as the journal has it.
type journalled struct {
	name  string
	notes []*wirev1.StoreArchivePart
	// blocks is of those of the notes.
	blocks xxh3.Hasher
}

// add adds the note of the next part, unless it was made behind other parts than those that the journal has: parts are
// put at once, so that of an attempt that broke a part may be there and the one before not, which the next attempt has
// filled with something else. Notes of releases that did not say what was before a part count for the first part only.
func (j *journalled) add(note *wirev1.StoreArchivePart) {
	if n := len(j.notes); n > 0 &&
		(j.notes[n-1].GetEnded() || note.Before == nil || note.GetBefore() != j.blocks.Sum64()) {
		return
	}
	j.notes = append(j.notes, note)
	_, _ = j.blocks.Write(note.GetBlocks()) // never fails
}

// resumeArchives finds out what earlier attempts have packed. What nobody can go on with is removed at the end, with what no
// index names.
func (w *writing) resumeArchives(ctx context.Context) (*resumption, error) {
	r := &resumption{store: w.options.Store}
	all, err := w.readJournal(ctx)
	if err != nil {
		return nil, err
	}
	for i, j := range all {
		form, _ := archiveForm(j.name)
		last := j.notes[len(j.notes)-1]
		complete := !w.archives.lacks(j.name)
		if !complete && last.GetEnded() {
			if complete, err = w.completeAgain(ctx, j); err != nil {
				return nil, err
			}
		}
		// One that is encrypted begins again: its key is in no journal.
		if !complete && !last.GetEnded() && i == len(all)-1 && form == w.options.Archive.form() &&
			w.encryption() == nil {
			if r.open, err = w.continued(ctx, j, form); err != nil {
				return nil, err
			}
		}
		if complete && w.encryption() != nil {
			w.archives.sums.set(archivesName+j.name, last.GetSha256())
			w.archives.sums.set(archiveIndex(j.name), last.GetIndexSha256())
		}
		if complete || r.open != nil {
			for n := range j.notes {
				r.names = append(r.names, journalOf(j.name, n+1))
			}
		}
	}
	keep := ""
	if r.open != nil {
		keep = r.open.upload.ID
	}
	return r, w.abortArchives(ctx, keep)
}

// abortArchives aborts the uploads of archives, but for one.
func (w *writing) abortArchives(ctx context.Context, keep string) error {
	var uploads []objectstore.Upload
	for u, err := range w.options.Store.Uploads(ctx, archivesName) {
		if err != nil {
			return err
		}
		if u.ID == keep {
			continue
		}
		if uploads = append(uploads, u); len(uploads) == maxAborted {
			break
		}
	}
	for _, u := range uploads {
		if err := w.options.Store.Abort(ctx, u); err != nil {
			return err
		}
	}
	return nil
}

// readJournal reads the journal. Of each archive it returns the parts that follow one another from the first one
// on, each made behind those before it.
func (w *writing) readJournal(ctx context.Context) (all []journalled, err error) {
	for _, object := range w.archives.journal {
		name, number, _ := strings.Cut(strings.TrimPrefix(object, journalName), "/")
		n, err := strconv.Atoi(number)
		form, ok := archiveForm(name)
		if !ok || err != nil || object != journalOf(name, n) {
			continue
		}
		w.archives.numbered(name)
		if sealedArchive(name) != (w.encryption() != nil) {
			continue
		}
		if len(all) == 0 || all[len(all)-1].name != name {
			all = append(all, journalled{name: name})
		}
		j := &all[len(all)-1]
		if len(j.notes) != n-1 {
			continue
		}
		note := &wirev1.StoreArchivePart{}
		reader, err := openRecords(ctx, w.options.Store, object, note)
		if errors.Is(err, errIndex) || errors.Is(err, objectstore.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		_ = reader.close() // It was only read.
		if int(note.GetNumber()) == n && checkBlocks(form, note.GetBlocks()) == nil {
			j.add(note)
		}
	}
	return slices.DeleteFunc(all, func(j journalled) bool { return len(j.notes) == 0 }), nil
}

// checkBlocks fails unless bytes are those of blocks.
func checkBlocks(form cargo.Form, blocks []byte) error {
	for b := range slices.Chunk(blocks, cargo.BlockSize) {
		if _, err := cargo.ParseBlock(form, b); err != nil {
			return err
		}
	}
	return nil
}

// matching returns the upload of an archive and its parts, as the journal and the store have them; nil unless they
// agree.
func (w *writing) matching(ctx context.Context, j journalled) (u objectstore.Upload, parts []objectstore.Part, err error) {
	first := j.notes[0]
	u = objectstore.Upload{Name: archivesName + j.name, ID: first.GetUploadId(), Token: first.GetUploadToken()}
	if u.ID == "" {
		return u, nil, nil
	}
	there, err := w.options.Store.Parts(ctx, u)
	if errors.Is(err, objectstore.ErrNoUpload) || errors.Is(err, objectstore.ErrNotFound) {
		return u, nil, nil
	}
	if err != nil {
		return u, nil, err
	}
	slices.SortFunc(there, func(a, b objectstore.Part) int { return cmp.Compare(a.Number, b.Number) })
	for i, note := range j.notes {
		part := objectstore.Part{Number: i + 1, Size: int64(note.GetSize()), ETag: note.GetEtag()}
		if note.GetUploadId() != u.ID || i >= len(there) || there[i].Number != part.Number ||
			there[i].Size != part.Size || there[i].ETag != part.ETag {
			return u, nil, nil
		}
		parts = append(parts, there[i])
	}
	return u, parts, nil
}

// completeAgain makes an archive of parts that are all there. It reports whether it did.
func (w *writing) completeAgain(ctx context.Context, j journalled) (bool, error) {
	u, parts, err := w.matching(ctx, j)
	if err != nil || parts == nil {
		return false, err
	}
	if !slices.Contains(w.archives.others, archiveIndex(j.name)) {
		return false, nil
	}
	_, err = w.options.Store.Complete(ctx, u, parts, false)
	if errors.Is(err, objectstore.ErrInvalid) || errors.Is(err, objectstore.ErrNoUpload) {
		return false, nil
	}
	if err == nil {
		w.archives.present[j.name] = 0
	}
	return err == nil, err
}

// continued returns an archive to go on with; nil if that is not possible: parts are missing, or the file that is in the
// midst of it is another one.
func (w *writing) continued(ctx context.Context, j journalled, form cargo.Form) (*archiveOut, error) {
	u, parts, err := w.matching(ctx, j)
	if err != nil || parts == nil {
		return nil, err
	}
	a := j.archive(form, parts)
	if a == nil {
		return nil, nil
	}
	a.upload = u
	last := j.notes[len(j.notes)-1]
	if last.GetOpen() == nil {
		return a, nil
	}
	if a.file = openFile(last, a.plain); a.file == nil {
		return nil, nil
	}
	now, err := w.options.Origin.Again(&a.file.entry)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, tree.ErrChanged):
		return nil, nil
	case err != nil:
		return nil, err
	case versionOf(now) != versionOf(&a.file.entry):
		return nil, nil
	}
	a.file.entry = *now
	return a, nil
}

// archive is one as its journal has it, with parts that are there; nil if its blocks are not those of the parts.
func (j *journalled) archive(form cargo.Form, parts []objectstore.Part) *archiveOut {
	a := &archiveOut{name: j.name, tally: cargo.NewTally(form)}
	size := a.tally.Next()
	for i, note := range j.notes {
		size -= int64(note.GetSize())
		for b := range slices.Chunk(note.GetBlocks(), cargo.BlockSize) {
			block, err := cargo.ParseBlock(form, b)
			if err != nil {
				return nil
			}
			a.tally.Add(block)
			a.plain += block.Plain()
			size += block.Stored()
			a.blocks = append(a.blocks, b...)
		}
		if size != 0 {
			return nil
		}
		a.parts = append(a.parts, &archivePartOut{Part: parts[i], exact: note.GetExact()})
		a.stored += int64(note.GetSize())
		// Longer ones where the file needs them.
		a.part = max(a.part, int64(note.GetSize())&^(1<<20-1))
	}
	a.noted = len(a.blocks)
	_, _ = a.before.Write(a.blocks) // never fails
	return a
}

// openFile is the file in the midst of an archive whose tar has so many bytes; nil if the note on it cannot be true.
func openFile(note *wirev1.StoreArchivePart, plain int64) *packing {
	e, err := tree.FromWire(note.GetOpen())
	at, done := note.GetOpenAt(), note.GetOpenDone()
	if err != nil || e.Type != tree.File || done >= uint64(e.Size) || at.GetOffset() > uint64(plain) ||
		at.GetOffset()+done != uint64(plain) {
		return nil
	}
	return &packing{entry: e, offset: int64(at.GetOffset()), done: int64(done), crc: at.GetCrc32()}
}
