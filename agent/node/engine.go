// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lighterage/lighterage/agent/calibrate"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/frame"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// sampleSize is the length of the sample in bytes.
	sampleSize = 4 << 20
	// defaultBudget is for one engine in one direction at one level.
	defaultBudget = 150 * time.Millisecond
)

// levels are those of a policy, as they are reported.
var levels = map[codec.Level]wirev1.CompressionLevel{
	codec.Fast:     wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
	codec.Balanced: wirev1.CompressionLevel_COMPRESSION_LEVEL_BALANCED,
	codec.High:     wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH,
}

// Engines measures engines, at each of their levels and inflating, on one core with blocks of the usual size, and says
// which of them an agent that chooses by measurement takes. Those for which inflates is false are not used for
// inflating. The budget is about the CPU time for one engine in one direction at one level.
//
// The output of each is verified by inflating it with another engine of its codec; where there is no other it is not
// verified. What could be measured is returned with the errors of the rest.
func Engines(
	ctx context.Context, engines []codec.Engine, sample []byte, budget time.Duration, inflates func(codec.Engine) bool,
) ([]*wirev1.EngineMeasurement, error) {
	var failed []error
	measured := make(map[string]*wirev1.EngineMeasurement)
	for _, e := range engines {
		verified, err := verify(e, engines, sample)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		measured[e.Name()] = &wirev1.EngineMeasurement{
			Name: e.Name(), Codec: e.Codec().String(), Verified: verified, SampleBytes: uint64(len(sample)),
		}
	}
	engines = slices.DeleteFunc(slices.Clone(engines), func(e codec.Engine) bool { return measured[e.Name()] == nil })

	for _, group := range groups(engines) {
		bench := calibrate.Bench{Sample: sample, Budget: budget * time.Duration(len(group))}
		for _, level := range codec.Levels() {
			able := slices.DeleteFunc(slices.Clone(group), func(e codec.Engine) bool { return !e.HasLevel(level) })
			figures := bench.Compress(ctx, able, level)
			failed = append(failed, compressed(measured, figures, level)...)
		}
		able := slices.DeleteFunc(slices.Clone(group), func(e codec.Engine) bool { return !inflates(e) })
		figures := bench.Inflate(ctx, able)
		failed = append(failed, inflated(measured, figures)...)
	}

	var all []*wirev1.EngineMeasurement
	for _, e := range engines {
		if m := measured[e.Name()]; len(m.GetLevels()) > 0 {
			m.CompressBytesPerSecond = m.GetLevels()[0].GetCompressBytesPerSecond()
			m.SampleCompressedBytes = m.GetLevels()[0].GetSampleCompressedBytes()
			all = append(all, m)
		}
	}
	return all, errors.Join(failed...)
}

// groups are the engines among which an agent chooses: those of one codec and class.
func groups(engines []codec.Engine) [][]codec.Engine {
	var all [][]codec.Engine
	for _, e := range engines {
		i := slices.IndexFunc(all, func(g []codec.Engine) bool {
			return g[0].Codec() == e.Codec() && g[0].Class() == e.Class()
		})
		if i < 0 {
			all = append(all, []codec.Engine{e})
		} else {
			all[i] = append(all[i], e)
		}
	}
	return all
}

func compressed(
	measured map[string]*wirev1.EngineMeasurement, figures []calibrate.Figure, level codec.Level,
) (failed []error) {
	best := calibrate.ToCompress(figures)
	for i, f := range figures {
		if f.Err != nil {
			failed = append(failed, f.Err)
			continue
		}
		m := measured[f.Engine]
		m.Levels = append(m.Levels, &wirev1.LevelMeasurement{
			Level: levels[level], CompressBytesPerSecond: uint64(f.BytesPerSecond),
			SampleCompressedBytes: uint64(f.CompressedBytes), Selected: i == best,
		})
	}
	return failed
}

func inflated(measured map[string]*wirev1.EngineMeasurement, figures []calibrate.Figure) (failed []error) {
	best := calibrate.ToInflate(figures)
	for i, f := range figures {
		if f.Err != nil {
			failed = append(failed, f.Err)
			continue
		}
		measured[f.Engine].DecompressBytesPerSecond = uint64(f.BytesPerSecond)
		measured[f.Engine].Inflates = i == best
	}
	return failed
}

// verify reports whether another engine of the codec inflates what the engine made of the first block of the sample. It
// is an error when there are others and none of them does.
func verify(e codec.Engine, all []codec.Engine, sample []byte) (bool, error) {
	var failed []error
	for _, other := range all {
		if other.Name() == e.Name() || other.Codec() != e.Codec() {
			continue
		}
		err := verifyBy(e, other, sample[:min(len(sample), frame.DefaultBlock)])
		if err == nil {
			return true, nil
		}
		failed = append(failed, fmt.Errorf("verify engine %s by %s: %w", e.Name(), other.Name(), err))
	}
	return false, errors.Join(failed...)
}

func verifyBy(e, other codec.Engine, plain []byte) (err error) {
	encoder, err := codec.NewLowestEncoder(e)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, encoder.Close()) }()
	decoder, err := other.NewDecoder()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, decoder.Close()) }()

	packed, out := make([]byte, len(plain)), make([]byte, len(plain))
	n, err := encoder.Encode(packed, plain)
	if err != nil {
		return err
	}
	n, err = decoder.Decode(out, packed[:n])
	if err != nil {
		return err
	}
	if !bytes.Equal(out[:n], plain) {
		return errors.New("the output inflates to other bytes")
	}
	return nil
}
