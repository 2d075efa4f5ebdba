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
	"github.com/lighterage/lighterage/agent/codec/zstddict"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/queue/message"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// dictionary measures what a dictionary does for messages: it is trained on half of the sample, at most 4 MiB of it,
// and the other half is compressed with it and without. The messages of a sample are in a random order. It returns nil
// where there are no messages, or no engine of zstd has dictionaries.
func (o *Options) dictionary(ctx context.Context) *wirev1.TrialDictionary {
	i := slices.IndexFunc(o.Software, func(e codec.Engine) bool {
		_, ok := e.(codec.DictionaryEngine)
		return ok && e.Codec() == codec.Zstd
	})
	if o.Sample.Unit != wirev1.TrialUnit_TRIAL_UNIT_MESSAGE || i < 0 {
		return nil
	}
	engine := o.Software[i].(codec.DictionaryEngine)
	o.Progress("a dictionary", 0, 0)
	half := len(o.Sample.Items) / 2
	training, measured := o.Sample.Items[:half], o.Sample.Items[half:]
	d := &wirev1.TrialDictionary{Engine: engine.Name(), Items: uint64(len(measured))}
	for _, item := range measured {
		d.PlainBytes += uint64(len(item))
	}
	dictionary, used, err := zstddict.Train(training, zstddict.MaxSize)
	d.TrainingItems = uint64(used)
	if err == nil {
		d.Bytes = uint64(len(dictionary))
		err = o.compare(ctx, engine, dictionary, measured, d)
	}
	if err != nil {
		d.Rows, d.Problem = nil, failure.Shorten(err.Error(), maxProblem)
	}
	return d
}

// compare fills in what an engine does at each level.
func (o *Options) compare(
	ctx context.Context, engine codec.DictionaryEngine, dictionary []byte, items [][]byte, to *wirev1.TrialDictionary,
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
	for _, level := range codec.Levels() {
		if !engine.HasLevel(level) {
			continue
		}
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
