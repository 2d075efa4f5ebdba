// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Sample is a part of a source.
type Sample struct {
	// Bytes are blocks of the usual size, one after the other; the last one may be shorter. There are none where there
	// are Items.
	Bytes []byte
	// Items are bodies or messages, as Unit says, of which TotalItems were there to choose from. Each is compressed in
	// one piece, with Overhead bytes beside it.
	Items    [][]byte
	Unit     wirev1.TrialUnit
	Overhead func(codec.ID) int
	// CutItems are in the sample with their beginnings only, UnreadableItems could not be inflated and are not in it.
	TotalItems, CutItems, UnreadableItems int64
	// Agents gave the items, SilentAgents were asked and gave nothing; Silence is why the first of those did not, nil
	// where all answered.
	Agents, SilentAgents int64
	Silence              error
	// Files are how many the bytes are of, Changed how many could not be read because they changed meanwhile.
	Files, Changed int64
	// TotalBytes and TotalFiles are those of the whole source. Holes of sparse files, which are not sent, do not count.
	TotalBytes, TotalFiles int64
}

// size of the sample in bytes.
func (s *Sample) size() int {
	size := len(s.Bytes)
	for _, item := range s.Items {
		size += len(item)
	}
	return size
}

// pieces are what is compressed in one piece each.
func (s *Sample) pieces() iter.Seq[[]byte] {
	if len(s.Items) > 0 {
		return slices.Values(s.Items)
	}
	return slices.Chunk(s.Bytes, frame.DefaultBlock)
}

// Take takes a sample of about size bytes, or the whole source if it has no more. The files of the source, in the order
// in which they are sent, are one row of blocks; of as many equal parts of it as there are blocks in the sample, each
// gives one at random. So large files are met in many places, small files many together, as they are sent, and every
// byte of the source has the same chance. Equal seeds take equal samples of a source that has not changed.
//
// The source is walked twice, and nothing is kept of it in memory but the sample. An empty source is an error for which
// failure.Is finds SOURCE_EMPTY.
func Take(ctx context.Context, source *tree.Source, size int64, seed uint64) (*Sample, error) {
	s := &Sample{}
	err := source.Walk(ctx, func(e *tree.Entry) error {
		if e.Type != tree.File {
			return nil
		}
		s.TotalFiles++
		return s.ranges(source, e, func(_ *tree.SourceFile, _, length int64) error {
			s.TotalBytes += length
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	if s.TotalBytes == 0 {
		return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_EMPTY,
			"the source has %d files and no byte in them to sample: check spec.source.persistentVolumeClaim.path, "+
				"spec.include and spec.exclude, or fill the claim",
			s.TotalFiles)
	}
	s.Changed = 0 // Those of the first walk are met again.
	chosen := choose(s.TotalBytes, size, seed)
	t := taker{sample: s, chosen: chosen}
	s.Bytes = make([]byte, 0, min(int64(len(chosen))*frame.DefaultBlock, s.TotalBytes))
	if err := source.Walk(ctx, func(e *tree.Entry) error { return t.file(source, e) }); err != nil &&
		!errors.Is(err, errEnough) {
		return nil, err
	}
	if len(s.Bytes) == 0 {
		return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_SOURCE_CHANGED,
			"nothing could be sampled: the files changed or went while they were read; try again when less is written")
	}
	return s, nil
}

// choose returns the numbers of the blocks to take, in ascending order.
func choose(total, size int64, seed uint64) []int64 {
	blocks := (total + frame.DefaultBlock - 1) / frame.DefaultBlock
	parts := min(max(size/frame.DefaultBlock, 1), blocks)
	random := rand.New(rand.NewPCG(seed, 0x7472_6961_6c))
	chosen := make([]int64, parts)
	for i := range chosen {
		// Whole quotients and remainders, so that nothing overflows.
		q, r := blocks/parts, blocks%parts
		low := int64(i)*q + int64(i)*r/parts
		high := int64(i+1)*q + int64(i+1)*r/parts
		chosen[i] = low + random.Int64N(high-low)
	}
	return chosen
}

// ranges calls visit for every range of a file that has data. The file is open only where that takes it to know, for
// sparse files; it is nil otherwise. A file that is another one by now has none, and is counted.
func (s *Sample) ranges(
	source *tree.Source, e *tree.Entry, visit func(f *tree.SourceFile, offset, length int64) error,
) error {
	if !e.Sparse {
		if e.Size == 0 {
			return nil
		}
		return visit(nil, 0, e.Size)
	}
	f, err := source.Open(e)
	if errors.Is(err, tree.ErrChanged) {
		s.Changed++
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for offset := int64(0); offset < e.Size; {
		start, end, err := f.Data(offset)
		if err != nil {
			return err
		}
		if start < end {
			if err := visit(f, start, end-start); err != nil {
				return err
			}
		}
		offset = max(end, offset+1)
		if start >= e.Size {
			break
		}
	}
	return nil
}

// errEnough ends a walk when every block has been read.
var errEnough = errors.New("the sample is complete")

// taker reads the chosen blocks in a second walk.
type taker struct {
	sample *Sample
	chosen []int64
	// at is how many bytes of the source are behind.
	at int64
}

func (t *taker) file(source *tree.Source, e *tree.Entry) error {
	if e.Type != tree.File {
		return nil
	}
	before := len(t.sample.Bytes)
	err := t.sample.ranges(source, e, func(f *tree.SourceFile, offset, length int64) error {
		defer func() { t.at += length }()
		if !t.wants(length) {
			return nil
		}
		if f == nil {
			opened, err := source.Open(e)
			if err != nil {
				return err
			}
			defer opened.Close()
			f = opened
		}
		return t.read(f, offset, length)
	})
	if errors.Is(err, tree.ErrChanged) {
		t.sample.Changed++
		err = nil
	}
	if len(t.sample.Bytes) > before {
		t.sample.Files++
	}
	if err == nil && len(t.chosen) == 0 {
		return errEnough
	}
	return err
}

// wants reports whether any of the next bytes of the source are in the sample, and forgets blocks that are behind.
func (t *taker) wants(length int64) bool {
	for len(t.chosen) > 0 && (t.chosen[0]+1)*frame.DefaultBlock <= t.at {
		t.chosen = t.chosen[1:]
	}
	return len(t.chosen) > 0 && t.chosen[0]*frame.DefaultBlock < t.at+length
}

// read appends those of the next bytes of the source that are in the sample, which are a file's from offset on.
func (t *taker) read(f *tree.SourceFile, offset, length int64) error {
	for _, block := range t.chosen {
		start := max(block*frame.DefaultBlock, t.at)
		end := min((block+1)*frame.DefaultBlock, t.at+length)
		if start >= end {
			return nil
		}
		had := len(t.sample.Bytes)
		if int64(cap(t.sample.Bytes)-had) < end-start {
			return nil // The source has grown.
		}
		t.sample.Bytes = t.sample.Bytes[:had+int(end-start)]
		if err := f.ReadAt(t.sample.Bytes[had:], offset+start-t.at); err != nil {
			t.sample.Bytes = t.sample.Bytes[:had]
			return err
		}
	}
	return nil
}
