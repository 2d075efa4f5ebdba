// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package estimate predicts from a part of a block to what length it compresses,
// and keeps account of how well the predictions hold.
package estimate

import (
	"errors"

	"github.com/lighterage/lighterage/agent/codec"
)

const (
	// Blocks up to this length are not judged: trying costs less than guessing.
	tooSmall = 1024
	// Blocks from this length on have a trial of their ordinary parts. In smaller
	// ones it would cost a good part of what it predicts.
	trialFrom = 64 << 10

	// Compression pays when it saves one byte in so many.
	worthShare = 32

	// A trial takes pieces from all over the block and compresses them as one: of
	// ordinary data short ones, of what looks like noise long ones, because what
	// repeats in it, such as the headers of records that were compressed one by one,
	// repeats at a distance.
	ordinaryPieces, noisePieces = 4, 2
	// The pieces of ordinary data are together a 256th of the block, those of noise a
	// 43rd, but no more than these shares of 1 MiB, and no less than trialMin or half of
	// the block.
	ordinaryShare, noiseShare = 256, 43
	trialMax                  = 1 << 20
	trialMin                  = 2 << 10
)

// Trial compresses samples. A codec.Encoder is one; the prediction is for what it
// compresses.
type Trial interface {
	// Encode is that of a codec.Encoder.
	Encode(dst, src []byte) (n int, err error)
}

// Prediction is what is expected of compressing a block.
type Prediction struct {
	// Size is the length in bytes after compression: from 0 to the block's length,
	// which it has when the block does not shrink.
	Size int
	// Worth is false when the block is expected to shrink by less than a 32nd, for
	// which the effort does not pay.
	Worth bool
}

// Judged reports whether blocks of a length are predicted at all. Shorter ones are
// compressed in less time than it takes to look at them.
func Judged(length int) bool { return length > tooSmall }

// Predict predicts to what length a block compresses. The trial may overwrite
// scratch, which has to be as long as the block and must not overlap it. It
// allocates nothing.
//
// A look at slices of 128 bytes tells ordinary data from noise. Of ordinary data 4 KiB
// are compressed, of what looks like noise 24 KiB: an application that compressed
// records one by one leaves something that looks like noise and often shrinks again.
// Compressing a block of 1 MiB takes about 70 times as long in the first case and 15
// to 50 times in the second. A prediction is wrong at times, in either direction.
//
// An error is one of the trial's other than codec.ErrDoesNotFit.
func Predict(block, scratch []byte, trial Trial) (Prediction, error) {
	if !Judged(len(block)) {
		return Prediction{Size: len(block), Worth: true}, nil
	}
	var space places
	seen := look(block, &space)
	saved, err := seen.ordinarySavings(block, scratch, trial)
	if err != nil {
		return Prediction{}, err
	}
	if len(seen.noise) > len(seen.ordinary) || !worth(saved, len(block)) {
		more, err := seen.noiseSavings(block, scratch, trial)
		if err != nil {
			return Prediction{}, err
		}
		saved += more
	}
	return Prediction{Size: len(block) - saved, Worth: worth(saved, len(block))}, nil
}

// worth reports whether a saving pays.
func worth(saved, length int) bool { return saved >= (length+worthShare-1)/worthShare }

// ordinarySavings predicts how many bytes are saved in those parts of a block that do
// not look like noise.
func (v *view) ordinarySavings(block, scratch []byte, trial Trial) (int, error) {
	if len(v.ordinary) == 0 {
		return 0, nil
	}
	part := v.part(block, v.ordinary)
	if len(block) < trialFrom {
		// Frequencies alone, of which repetition leaves three quarters.
		return part - int(int64(part)*int64(v.bits)*3/4/int64(len(v.ordinary)*sliceSize*8)), nil
	}
	total := max(min(len(block), trialMax)/ordinaryShare, trialMin)
	sample := gather(block, scratch, v.ordinary, ordinaryPieces, total/ordinaryPieces)
	size, err := try(trial, scratch[len(sample):], sample)
	if err != nil {
		return 0, err
	}
	saved := share(len(sample)-size, len(sample), part)
	// A sample has less to refer back to than the block has. It shows where matching
	// gains something but not everything: two fifths more in the middle between nothing
	// and all.
	return saved + share(part-saved, part, saved)*2/5, nil
}

// noiseSavings predicts how many bytes are saved in those parts of a block that look
// like noise.
func (v *view) noiseSavings(block, scratch []byte, trial Trial) (int, error) {
	if len(v.noise) == 0 {
		return 0, nil
	}
	total, pieces := min(len(block), trialMax)/noiseShare, noisePieces
	if total < trialMin {
		total, pieces = min(trialMin, len(block)/2), 1
	}
	sample := gather(block, scratch, v.noise, pieces, total/pieces)
	size, err := try(trial, scratch[len(sample):], sample)
	if err != nil {
		return 0, err
	}
	return share(len(sample)-size, len(sample), v.part(block, v.noise)), nil
}

// gather copies pieces of n bytes to scratch: those around slices in the middles of
// equal parts of the slices that start at the places.
func gather(block, scratch []byte, places []int, pieces, n int) []byte {
	sample := scratch[:0]
	for i := range pieces {
		middle := places[(2*i+1)*len(places)/(2*pieces)] + sliceSize/2
		at := min(max(middle-n/2, 0), len(block)-n)
		sample = append(sample, block[at:at+n]...)
	}
	return sample
}

// try returns the length to which a sample compresses, at most its own.
func try(trial Trial, scratch, sample []byte) (int, error) {
	n, err := trial.Encode(scratch[:min(len(sample), len(scratch))], sample)
	if errors.Is(err, codec.ErrDoesNotFit) {
		return len(sample), nil
	}
	if err != nil {
		return 0, err
	}
	return min(max(n, 0), len(sample)), nil
}

// share returns the same share of whole as part is of total.
func share(part, total, whole int) int { return int(int64(whole) * int64(part) / int64(max(total, 1))) }
