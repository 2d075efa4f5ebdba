// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lighterage/lighterage/agent/calibrate"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/identity"
	"github.com/lighterage/lighterage/agent/estimate"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/policy"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// budget is about the CPU time of measuring an engine at a level, for each byte of the sample and at least; each
	// takes one round in any case.
	budget, leastBudget = 3 * time.Nanosecond, 30 * time.Millisecond
	// near is by how much worse than the best a way may be that takes less CPU time and is therefore preferred: less
	// may be noise.
	near = 0.01
	// maxProblem, maxSilence and maxAccelerator bound texts in bytes, so that a result fits into a termination message.
	maxProblem, maxSilence, maxAccelerator = 96, 192, 256

	gib = 1 << 30
)

// Options say what to measure and for what.
type Options struct {
	Sample *Sample
	// Software engines in static order; engines of no codec are passed over.
	Software []codec.Engine
	// Accelerator is nil unless its use was proved, which Verdict tells of.
	Accelerator codec.Engine
	Verdict     hardware.Verdict
	// Setting has the objective, the prices and the cores; its Link is not used.
	Setting policy.Setting
	// Links are the networks to predict for, in bytes a second.
	Links []float64
	// Progress is told what is being measured, as the n-th of so many; nil: nobody is.
	Progress func(what string, n, of int)
	// Measurer defaults to a calibrate.Bench with the sample.
	Measurer calibrate.Measurer
}

// way is an engine at a level.
type way struct {
	engine codec.Engine
	level  codec.Level
}

func (w way) String() string { return fmt.Sprintf("%s at %v", w.engine.Name(), w.level) }

// Measure measures and predicts. Engines that cannot be measured have rows that say why. The error is that of a context
// which has ended. The accelerator of the result is for the caller to fill in.
func Measure(ctx context.Context, o Options) (*wirev1.TrialResult, error) {
	if o.Measurer == nil {
		o.Measurer = &calibrate.Bench{
			Sample: o.Sample.Bytes, Items: o.Sample.Items, Overhead: o.Sample.Overhead,
			Budget: max(leastBudget, time.Duration(o.Sample.size())*budget),
		}
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	ways, inflates := o.ways(), o.inflaters(ctx)
	r := &wirev1.TrialResult{
		Sample: &wirev1.TrialSample{
			Bytes: uint64(o.Sample.size()), Files: uint64(o.Sample.Files), ChangedFiles: uint64(o.Sample.Changed),
			BytesTotal: uint64(o.Sample.TotalBytes), FilesTotal: uint64(o.Sample.TotalFiles), HopelessBytes: o.hopeless(),
			Unit: o.Sample.Unit, Items: uint64(len(o.Sample.Items)), ItemsTotal: uint64(o.Sample.TotalItems),
			CutItems:        uint64(o.Sample.CutItems),
			UnreadableItems: uint64(o.Sample.UnreadableItems), Agents: uint64(o.Sample.Agents),
			SilentAgents: uint64(o.Sample.SilentAgents),
		},
		Cores: uint32(max(o.Setting.Cores, 1)),
	}
	if o.Sample.Silence != nil {
		r.Sample.Silence = failure.Shorten(o.Sample.Silence.Error(), maxSilence)
	}
	none := &wirev1.TrialRow{Codec: codec.None.String(), Engine: identity.Name, WireBytes: r.Sample.Bytes}
	forecasts := [][]policy.Forecast{o.predict(none, policy.Effect{Wire: 1})}
	r.Rows = append(r.Rows, none)
	// The model is linear in what goes over the wire, so one row says for all what waiting for a link takes.
	alone := o.forecast(0, policy.Effect{Wire: 1})
	for _, f := range forecasts[0] {
		r.WaitCpuNanos = append(r.WaitCpuNanos, nanos((f.CPU-alone.CPU)*gib))
		r.WaitCostNanos = append(r.WaitCostNanos, nanos((f.Money-alone.Money)*gib))
	}
	for i, w := range ways {
		o.Progress(w.String(), i+1, len(ways))
		row := &wirev1.TrialRow{Codec: w.engine.Codec().String(), Engine: w.engine.Name(), Level: wireLevels[w.level]}
		var forecast []policy.Forecast
		if err := o.measure(ctx, w, inflates[w.engine.Codec()], row, &forecast); err != nil {
			row.Problem = failure.Shorten(err.Error(), maxProblem)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		r.Rows, forecasts = append(r.Rows, row), append(forecasts, forecast)
	}
	for link := range o.Links {
		r.Best = append(r.Best, uint32(best(forecasts, link)))
	}
	r.Dictionaries = o.dictionaries(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return r, nil
}

var wireLevels = map[codec.Level]wirev1.CompressionLevel{
	codec.Fast:     wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
	codec.Balanced: wirev1.CompressionLevel_COMPRESSION_LEVEL_BALANCED,
	codec.High:     wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH,
}

// ways are the accelerator at the levels at which it was proved, and every engine in software at all that it has.
func (o *Options) ways() []way {
	var all []way
	for _, level := range codec.Levels() {
		if o.Accelerator != nil && slices.Contains(o.Verdict.Levels, level) {
			all = append(all, way{o.Accelerator, level})
		}
	}
	for _, e := range o.Software {
		for _, level := range codec.Levels() {
			if e.Codec() != codec.None && e.HasLevel(level) {
				all = append(all, way{e, level})
			}
		}
	}
	return all
}

// inflaters measures what inflating each codec takes in CPU seconds for a byte, by the engine that a receiver like this
// machine would inflate it with. A codec that nothing inflates is not in it.
func (o *Options) inflaters(ctx context.Context) map[codec.ID]float64 {
	engines := slices.Clone(o.Software)
	if o.Accelerator != nil && o.Verdict.InflateMinSize != hardware.NeverInflate {
		engines = append([]codec.Engine{o.Accelerator}, engines...)
	}
	cost := make(map[codec.ID]float64)
	for _, id := range []codec.ID{codec.Deflate, codec.Zstd} {
		of := slices.DeleteFunc(slices.Clone(engines), func(e codec.Engine) bool { return e.Codec() != id })
		if len(of) == 0 {
			continue
		}
		o.Progress("inflating "+id.String(), 0, 0)
		figures := o.Measurer.Inflate(ctx, of)
		if i := calibrate.ToInflate(figures); i >= 0 {
			cost[id] = 1 / figures[i].BytesPerSecond
		}
	}
	return cost
}

// measure fills in a row.
func (o *Options) measure(
	ctx context.Context, w way, inflate float64, row *wirev1.TrialRow, forecast *[]policy.Forecast,
) error {
	if inflate == 0 {
		return fmt.Errorf("no engine inflates %v here", w.engine.Codec())
	}
	f := o.Measurer.Compress(ctx, []codec.Engine{w.engine}, w.level)[0]
	if err := usable(f); err != nil {
		return err
	}
	if w.engine.Class() == codec.Hardware {
		if err := witness(w, o.Sample); err != nil {
			return err
		}
	}
	row.WireBytes = uint64(f.WireBytes)
	*forecast = o.predict(row, policy.Effect{
		Wire: float64(f.WireBytes) / float64(f.PlainBytes), Compress: 1 / f.BytesPerSecond, Inflate: inflate,
	})
	return nil
}

var errNoFigures = errors.New("the measurement has no figures")

// usable is the error of a figure of compressing that says nothing.
func usable(f calibrate.Figure) error {
	if f.Err == nil && (f.PlainBytes <= 0 || f.WireBytes <= 0 || f.BytesPerSecond <= 0) {
		return errNoFigures
	}
	return f.Err
}

// witness compresses the sample once more and has the accelerator say of every block whether it did it.
func witness(w way, sample *Sample) (err error) {
	encoder, err := w.engine.NewEncoder(w.level)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, encoder.Close()) }()
	out := make([]byte, 2*frame.DefaultBlock)
	without, blocks := 0, 0
	for block := range sample.pieces() {
		if _, err := encoder.Encode(out, block); err != nil {
			return err
		}
		blocks++
		if used, ok := encoder.(codec.Witness); !ok || !used.UsedHardware() {
			without++
		}
	}
	if without > 0 {
		return fmt.Errorf("software did %d of %d blocks", without, blocks)
	}
	return nil
}

// predict fills in what the effect of a way leads to, and returns the forecasts for the links.
func (o *Options) predict(row *wirev1.TrialRow, e policy.Effect) []policy.Forecast {
	row.CompressNanos, row.InflateNanos = nanos(e.Compress*gib), nanos(e.Inflate*gib)
	alone := o.forecast(0, e)
	row.CpuNanos, row.CostNanos = nanos(alone.CPU*gib), nanos(alone.Money*gib)
	var forecasts []policy.Forecast
	for _, link := range o.Links {
		f := o.forecast(link, e)
		row.ElapsedNanos = append(row.ElapsedNanos, nanos(f.Elapsed*gib))
		forecasts = append(forecasts, f)
	}
	return forecasts
}

// forecast of an effect over a link; 0: a link that nobody waits for.
func (o *Options) forecast(link float64, e policy.Effect) policy.Forecast {
	s := o.Setting
	s.Link = link
	return s.Forecast(e)
}

// nanos returns billionths of what is not negative, as many as there can be.
func nanos(amount float64) uint64 {
	return uint64(min(max(amount*1e9, 0), math.MaxInt64/2))
}

// best returns the row that the objective prefers over a link: of those that are about as good as the best, the one
// with the least CPU time there. The first row always has forecasts.
func best(rows [][]policy.Forecast, link int) int {
	least := math.Inf(1)
	for _, f := range rows {
		if link < len(f) {
			least = min(least, f[link].Value)
		}
	}
	found := -1
	for i, f := range rows {
		if link < len(f) && f[link].Value <= least*(1+near) && (found < 0 || f[link].CPU < rows[found][link].CPU) {
			found = i
		}
	}
	return max(found, 0)
}

// hopeless counts the bytes of blocks that mode Auto would not compress, because they look as if they did not shrink.
func (o *Options) hopeless() uint64 {
	i := slices.IndexFunc(o.Software, func(e codec.Engine) bool { return e.Codec() == codec.Deflate })
	if i < 0 {
		return 0
	}
	encoder, err := codec.NewLowestEncoder(o.Software[i])
	if err != nil {
		return 0
	}
	defer encoder.Close()
	scratch := make([]byte, frame.DefaultBlock)
	var bytes uint64
	for block := range o.Sample.pieces() {
		if !estimate.Judged(len(block)) {
			continue // what is so short is compressed without a look
		}
		if p, err := estimate.Predict(block, scratch[:len(block)], encoder); err == nil && !p.Worth {
			bytes += uint64(len(block))
		}
	}
	return bytes
}
