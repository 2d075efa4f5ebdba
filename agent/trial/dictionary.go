// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lighterage/lighterage/agent/calibrate"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/dictionaries"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/message"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// trained is the dictionary of a codec, and the levels at which it was not measured yet.
type trained struct {
	content []byte
	used    int
	err     error
	levels  []codec.Level
}

// dictionaries measures what dictionaries do for messages that are short enough to refer to one in a Queue. For each
// codec one as long as those of Queues is trained on half of them, at most 4 MiB, and the other half is compressed with
// it and without, at each level by the first engine that has it. The messages of a sample are in a random order. It
// returns nil where there are no messages, or no engine has dictionaries.
func (o *Options) dictionaries(ctx context.Context) []*wirev1.TrialDictionary {
	if o.Sample.Unit != wirev1.TrialUnit_TRIAL_UNIT_MESSAGE {
		return nil
	}
	short := slices.DeleteFunc(slices.Clone(o.Sample.Items), func(m []byte) bool { return len(m) > message.MaxReferring })
	half := len(short) / 2
	training, measured := short[:half], short[half:]
	var plain uint64
	for _, item := range measured {
		plain += uint64(len(item))
	}
	var all []*wirev1.TrialDictionary
	made := make(map[codec.ID]*trained)
	for _, e := range o.Software {
		engine, ok := e.(codec.DictionaryEngine)
		format, err := dictionaries.Of(e.Codec())
		if !ok || err != nil || ctx.Err() != nil {
			continue
		}
		of := made[e.Codec()]
		if of == nil {
			o.Progress("a dictionary of "+e.Codec().String(), 0, 0)
			of = &trained{levels: codec.Levels()}
			of.content, of.used, of.err = format.Train(training, format.TrainingSize)
			made[e.Codec()] = of
		}
		levels := slices.DeleteFunc(slices.Clone(of.levels), func(l codec.Level) bool { return !engine.HasLevel(l) })
		if len(levels) == 0 {
			continue
		}
		of.levels = slices.DeleteFunc(of.levels, engine.HasLevel)
		d := &wirev1.TrialDictionary{
			Codec: e.Codec().String(), Engine: engine.Name(), Bytes: uint64(len(of.content)),
			TrainingItems: uint64(of.used), Items: uint64(len(measured)), PlainBytes: plain,
		}
		if err = of.err; err != nil {
			of.levels = nil // One entry says it.
		} else {
			err = o.compare(ctx, engine, of.content, levels, measured, d)
		}
		if err != nil {
			d.Rows, d.Problem = nil, failure.Shorten(err.Error(), maxProblem)
		}
		all = append(all, d)
	}
	return all
}

// compare fills in what an engine does at levels that it has.
func (o *Options) compare(
	ctx context.Context, engine codec.DictionaryEngine, dictionary []byte, levels []codec.Level, items [][]byte,
	to *wirev1.TrialDictionary,
) error {
	bench := &calibrate.Bench{
		Items: items, Overhead: o.Sample.Overhead,
		DictionaryOverhead: message.Form{Codec: engine.Codec(), Dictionary: 1}.Overhead(),
		Budget:             max(leastBudget, time.Duration(to.GetPlainBytes())*budget),
	}
	// They compress by turns, so that what else runs on the machine hits both alike. Inflating is measured one after the
	// other, on what each made at its lowest level.
	both := []codec.Engine{codec.WithDictionary(engine, dictionary), engine}
	var inflate [2]uint64
	for i, e := range both {
		// One at a time: the first of several compresses what all inflate.
		f := bench.Inflate(ctx, []codec.Engine{e})[0]
		if f.Err != nil {
			return f.Err
		}
		if f.BytesPerSecond <= 0 {
			return errNoFigures
		}
		inflate[i] = nanos(gib / f.BytesPerSecond)
	}
	for _, level := range levels {
		f := bench.Compress(ctx, both, level)
		if err := errors.Join(usable(f[0]), usable(f[1])); err != nil {
			return err
		}
		to.Rows = append(to.Rows, &wirev1.TrialDictionaryRow{
			Level: wireLevels[level], WireBytes: uint64(f[0].WireBytes), WireBytesWithout: uint64(f[1].WireBytes),
			CompressNanos: nanos(gib / f[0].BytesPerSecond), CompressNanosWithout: nanos(gib / f[1].BytesPerSecond),
			InflateNanos: inflate[0], InflateNanosWithout: inflate[1],
		})
	}
	return nil
}
