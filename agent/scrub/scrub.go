// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scrub verifies data where they rest, by the checksums that are kept with them, and writes nothing.
//
// What is found wrong is looked at again, after a pause: somebody may be writing there. See Findings.
package scrub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// What can be found, besides tree.OmittedMissing. Drills judge by these names.
const (
	// Damaged: what rests is not what was written, or cannot be read.
	Damaged = "Damaged"
	// IndexMissing: there is no index beside a file, or in a prefix.
	IndexMissing = "IndexMissing"
	// IndexInvalid: an index is damaged, or it is not the file's, or it does not tell the truth.
	IndexInvalid = "IndexInvalid"
	// IndexTooLong: an index is longer than MaxIndex, and of a file of this length. Neither was verified.
	IndexTooLong = "IndexTooLong"
	// ObjectReplaced: an object is another one than the index of its prefix names, and Lighterage did not write it.
	ObjectReplaced = "ObjectReplaced"
	// NoChecksum: nothing says what the content should be.
	NoChecksum = "NoChecksum"
	// Changing: it was another one each time that it was looked at.
	Changing = "Changing"
)

// Options say what is compared.
type Options struct {
	// Inflate has everything expanded, by Engines, and the plain bytes compared as well.
	Inflate bool
	Engines *codec.Registry
	// Workers are how many things are verified, or blocks of one expanded, at once; at least 1.
	Workers int
	// Pauses are the waits before what was found is looked at again; nil: 1 s, then 5 s.
	Pauses []time.Duration
	Report *send.Report
}

// maxAgain is how many findings are looked at again. Further ones count as they are.
const maxAgain = 10_000

// Findings are what one scrub finds. It is safe for concurrent use, but for Run.
type Findings struct {
	report *send.Report
	counts *tree.Omissions

	mu sync.Mutex
	// only are the names that the present pass looks at, with what was found of them before; nil: all.
	only map[string]string
	// again are those that the next one is to look at.
	again map[string]string
}

// Run has pass look at everything, and then, after each of the pauses, at what was found until then. What is found
// twice counts, and what is not found again does not: it was replaced, or is gone. Counted is in counts.
func Run(
	ctx context.Context, o *Options, counts *tree.Omissions, pass func(ctx context.Context, f *Findings, first bool) error,
) error {
	pauses := o.Pauses
	if pauses == nil {
		pauses = []time.Duration{time.Second, 5 * time.Second}
	}
	f := &Findings{report: o.Report, counts: counts, again: make(map[string]string)}
	o.Report.Transferring(counts)
	if err := pass(ctx, f, true); err != nil {
		return err
	}
	o.Report.Update(func(p *wirev1.Progress) { p.Scanned = true })
	for _, pause := range pauses {
		if len(f.again) == 0 {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		f.only, f.again = f.again, make(map[string]string)
		if err := pass(ctx, f, false); err != nil {
			return err
		}
	}
	for name, what := range f.again {
		f.counts.Add(what, name)
	}
	return nil
}

// Wants reports whether a pass is to look at something.
func (f *Findings) Wants(name string) bool {
	if f.only == nil {
		return true
	}
	_, wanted := f.only[name]
	return wanted
}

// Everything has the present pass, which has not looked at anything yet, look at all things as the first one does: what
// that had to pass over, without an index, can be looked at now. What was counted until then is forgotten.
func (f *Findings) Everything() {
	f.only = nil
	f.counts.Reset()
	f.report.Update(func(p *wirev1.Progress) { p.Files, p.FilesTotal, p.Bytes, p.BytesTotal = 0, 0, 0, 0 })
}

// Found takes what was found of something that Wants has let through; empty: it is as it should be.
func (f *Findings) Found(name, what string) {
	if what == "" {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if what == NoChecksum || f.only[name] == what && what != Changing || len(f.again) == maxAgain {
		f.counts.Add(what, name)
		return
	}
	f.again[name] = what
}

// Total counts something that is to be looked at, with so many bytes that rest.
func (f *Findings) Total(size int64) {
	if f.only != nil {
		return
	}
	f.report.Update(func(p *wirev1.Progress) {
		p.FilesTotal++
		p.BytesTotal += uint64(size)
	})
}

// Verified counts something that is as it should be, with so many bytes that rest.
func (f *Findings) Verified(size int64) {
	f.report.Update(func(p *wirev1.Progress) {
		p.Files++
		p.Bytes += uint64(size)
	})
}

// Read counts bytes that were read to be compared, whatever came of it.
func (f *Findings) Read(bytes int64) {
	f.report.Blocks.Add(meter.Outcome{
		Path: meter.Stored, Reason: policy.StoredAsIs, PlainBytes: int(bytes), WireBytes: int(bytes),
	})
}

// MaxIndex is the length in bytes of the longest index that is verified; cargo.MaxIndex is that of any one. It is of
// 680 GiB in blocks of 1 MiB, each of which has 32 bytes with the numbers of records, or of 907 GiB without, with 24.
const MaxIndex = 680<<10*32 + 64

// LongIndex returns what is found of an index of more than MaxIndex bytes, and so many, by its beginning: IndexTooLong,
// if it can be that of a file of which so many bytes rest. Errors are those of the index that are no damage.
func LongIndex(form cargo.Form, index io.ReaderAt, size, stored int64) (what string, err error) {
	_, of, _, err := cargo.Sizes(form, index, size)
	switch {
	case errors.Is(err, cargo.ErrIndex), errors.Is(err, syscall.EIO):
		return IndexInvalid, nil
	case err != nil:
		return "", fmt.Errorf("scrub: %w", err)
	case of != stored:
		return Damaged, nil
	default:
		return IndexTooLong, nil
	}
}

// Resting compares a file of so many bytes with its index, and, with Inflate, writes its plain bytes to plain on the
// way. It returns what is wrong with it. Errors are those of the file that are no damage, and of plain.
func Resting(
	ctx context.Context, o *Options, file io.ReaderAt, size int64, index *cargo.Index, plain io.Writer,
) (what string, err error) {
	if size != index.StoredSize() {
		return rebuilt(ctx, o, file, size, index.Form())
	}
	r, err := cargo.NewReader(file, size, index, o.Engines)
	if err != nil {
		return "", fmt.Errorf("scrub: %w", err)
	}
	defer r.Close()
	switch {
	case !o.Inflate:
		err = r.CopyStored(ctx, io.Discard, true)
	case index.Records().Layout != cargo.NoRecords:
		err = r.Scrub(ctx, true)
	default:
		if err = index.CheckEnds(file); err == nil {
			err = r.WriteRange(ctx, plain, 0, index.Size(), o.Workers)
		}
	}
	switch {
	case err == nil:
		return "", nil
	case errors.Is(err, cargo.ErrIndex), errors.Is(err, cargo.ErrRecords):
		return IndexInvalid, nil
	case errors.Is(err, cargo.ErrCorrupt):
		return rebuilt(ctx, o, file, size, index.Form())
	case errors.Is(err, syscall.EIO):
		return Damaged, nil
	default:
		return "", fmt.Errorf("scrub: %w", err)
	}
}

// rebuilt tells whether a file or its index is wrong, where they do not fit together: one of form Gzip has a checksum
// of its own. That takes inflating.
func rebuilt(ctx context.Context, o *Options, file io.ReaderAt, size int64, form cargo.Form) (string, error) {
	if !o.Inflate || form != cargo.Gzip {
		return Damaged, nil
	}
	_, err := cargo.Rebuild(ctx, io.NewSectionReader(file, 0, size), o.Engines)
	switch {
	case err == nil:
		return IndexInvalid, nil
	case errors.Is(err, cargo.ErrCorrupt), errors.Is(err, cargo.ErrTooLong), errors.Is(err, syscall.EIO):
		return Damaged, nil
	default:
		return "", fmt.Errorf("scrub: %w", err)
	}
}
