// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"context"

	"github.com/lighterage/lighterage/agent/transfer/protocol"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// maxChunks bounds the bookkeeping of one file: 16 TiB with chunks of 1 MiB.
	maxChunks = 1 << 24
	// comparedSize is how large a file, and the version of it that is at the destination, must be to be compared.
	// Smaller ones are sent sooner than asked for.
	comparedSize = 256 << 10
)

// matcher compares what the sender announces with what is at the destination. Only the goroutine that reads the session
// uses it.
type matcher struct {
	destination Destination
	terms       *terms
	report      *Report
	checkpoints *checkpoints
	expected    *expected
	resumer     *resumer

	manifest manifest
	// numbers is how many numbers staged files have got, retried how many files were announced again.
	numbers uint64
	retried uint64
}

// announce takes a part of the manifest and says what is needed of it.
func (m *matcher) announce(ctx context.Context, w *wirev1.Manifest) (*wirev1.Need, error) {
	if n := len(w.GetEntries()); n == 0 || n > protocol.MaxEntries {
		return nil, protocol.Invalid("a manifest of %d entries; it must have 1 to %d", n, protocol.MaxEntries)
	}
	a := m.newAnswer(len(w.GetEntries()))
	for i, w := range w.GetEntries() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		index := m.manifest.next
		e, err := m.manifest.add(w)
		if err != nil {
			return nil, protocol.Invalid("%w", err)
		}
		if err := a.consider(ctx, i, index, &e, m.destination.Look); err != nil {
			return nil, err
		}
	}
	return a.finish(), nil
}

// end takes the end of the manifest.
func (m *matcher) end(w *wirev1.ManifestEnd) error {
	if err := m.manifest.end(w); err != nil {
		return err
	}
	m.report.Update(func(p *wirev1.Progress) { p.Scanned = true })
	return nil
}

// takeBack gives up a file that changed while the sender read it.
func (m *matcher) takeBack(index uint64) error {
	f, err := m.expected.takeBack(index)
	if err != nil {
		return err
	}
	return m.checkpoints.discard(f)
}

// retry takes what became of files that were taken back and says what is needed of it.
func (m *matcher) retry(ctx context.Context, w *wirev1.Retry) (*wirev1.Need, error) {
	if n := len(w.GetFiles()) + len(w.GetGone()); n == 0 || n > protocol.MaxEntries {
		return nil, protocol.Invalid("a retry of %d files; it must have 1 to %d", n, protocol.MaxEntries)
	}
	if !m.manifest.ended {
		return nil, protocol.Invalid("a retry before the end of the manifest")
	}
	for _, index := range w.GetGone() {
		t, err := m.expected.resolve(index)
		if err != nil {
			return nil, err
		}
		m.destination.Forget(t.path)
		m.manifest.files--
		m.manifest.bytes -= uint64(t.size)
	}
	a := m.newAnswer(len(w.GetFiles()))
	for i, r := range w.GetFiles() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t, err := m.expected.resolve(r.GetIndex())
		if err != nil {
			return nil, err
		}
		e, err := tree.FromWire(r.GetEntry())
		if err != nil {
			return nil, protocol.Invalid("%w", err)
		}
		if e.Type != tree.File || e.Path != t.path {
			return nil, protocol.Invalid("%q is announced again as something else", t.path)
		}
		m.manifest.bytes += uint64(e.Size) - uint64(t.size)
		if err := a.consider(ctx, i, protocol.FirstRetried+m.retried, &e, m.destination.LookAgain); err != nil {
			return nil, err
		}
		m.retried++
	}
	return a.finish(), nil
}

// answer is a Need in the making.
type answer struct {
	matcher      *matcher
	need         *wirev1.Need
	ranges       int
	emptyFiles   uint64
	resumedBytes uint64
}

func (m *matcher) newAnswer(entries int) *answer {
	return &answer{matcher: m, need: &wirev1.Need{Bitmap: make([]byte, (entries+7)/8), Old: make([]byte, (entries+7)/8)}}
}

// consider looks at an entry and answers whether its content is needed.
func (a *answer) consider(
	ctx context.Context, i int, index uint64, e *tree.Entry, look func(*tree.Entry) (bool, error),
) error {
	chunk := a.matcher.terms.chunk
	if e.Type == tree.File && e.Size/chunk >= maxChunks {
		return protocol.Invalid(
			"file %q: %d bytes are more than this version moves with chunks of %d", e.Path, e.Size, chunk,
		)
	}
	if form := a.matcher.terms.form; form != 0 {
		if err := checkResting(form, e, chunk); err != nil {
			return err
		}
		e.Sparse = false // Its sender reads holes as zeros.
	}
	needed, err := look(e)
	switch {
	case err != nil:
		return err
	case needed && e.Size == 0:
		a.emptyFiles++
		return a.matcher.name(a.matcher.newFile(index, e))
	case needed:
		return a.require(ctx, i, index, e)
	case e.Type == tree.File:
		a.need.UnchangedFiles++
		a.need.UnchangedBytes += uint64(e.Size)
	}
	return nil
}

// require asks for what is not there of a file.
func (a *answer) require(ctx context.Context, i int, index uint64, e *tree.Entry) error {
	f := a.matcher.newFile(index, e)
	safe, err := a.matcher.resumer.resume(ctx, f, protocol.MaxRanges-a.ranges)
	if err != nil {
		return err
	}
	if f.whole() {
		a.need.ResumedFiles++
		a.need.ResumedBytes += uint64(e.Size)
		return a.matcher.name(f)
	}
	if f.rest == nil {
		if f.old, err = hasOld(a.matcher.destination, e); err != nil {
			return err
		}
	}
	a.need.Bitmap[i/8] |= 1 << (i % 8)
	if f.old {
		a.need.Old[i/8] |= 1 << (i % 8)
	}
	if len(safe) > 0 {
		a.ranges += len(safe)
		a.need.Safe = append(a.need.Safe, f.safeRanges(i, safe))
		a.resumedBytes += uint64(f.safe)
	}
	return a.matcher.expected.add(ctx, f)
}

// hasOld reports whether there is another version of a file that is worth comparing.
func hasOld(d Destination, e *tree.Entry) (bool, error) {
	if e.Size < comparedSize {
		return false, nil
	}
	old, err := d.OpenOld(e.Path)
	if old == nil || err != nil {
		return false, err
	}
	defer old.Close()
	return old.Size() >= comparedSize, nil
}

// finish returns the answer and counts what is in it.
func (a *answer) finish() *wirev1.Need {
	need, m := a.need, a.matcher
	m.expected.addEmpty(a.emptyFiles)
	m.report.Update(func(p *wirev1.Progress) {
		p.FilesTotal, p.BytesTotal = m.manifest.files, m.manifest.bytes
		p.UnchangedFiles += need.UnchangedFiles
		p.UnchangedBytes += need.UnchangedBytes
		p.Files += need.UnchangedFiles + a.emptyFiles + need.ResumedFiles
		p.Bytes += need.UnchangedBytes + need.ResumedBytes
		p.ResumedBytes += a.resumedBytes + need.ResumedBytes
		p.ResentBytes = m.checkpoints.resentBytes()
	})
	return need
}

// newFile returns a file with a number of its own.
func (m *matcher) newFile(index uint64, e *tree.Entry) *inFile {
	f := newInFile(index, *e, m.terms.chunk)
	f.number = m.checkpoints.base + m.numbers
	m.numbers += numbers(m.terms.form)
	if m.terms.form != 0 {
		f.rest = newResting(m.terms)
	}
	return f
}

// name gives a file its name whose content is all there, or that has none.
func (m *matcher) name(f *inFile) error {
	staged, err := m.destination.Stage(f.number, &f.entry)
	if err != nil {
		return err
	}
	defer staged.Close()
	return m.checkpoints.name(staged, f)
}
