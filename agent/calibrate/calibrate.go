// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package calibrate chooses among the engines of a build by measuring on the machine
// it runs on which of them compress and inflate fastest.
package calibrate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/codec/isal"
	"github.com/lighterage/lighterage/agent/codec/libzstd"
	"github.com/lighterage/lighterage/agent/codec/zlibng"
)

const (
	// DefaultBudget is about how much CPU time a measurement takes, half of it each
	// for compressing and inflating when both are asked for.
	DefaultBudget = 20 * time.Millisecond
	// sampleSize is several times deflate's window and takes each engine a millisecond
	// or two: an agent that moves a small tree has hardly more work than that.
	sampleSize = 256 << 10
)

// Measurer measures engines of one codec. A Bench is one.
type Measurer interface {
	// Compress and Inflate return a figure for each of the engines, in their order.
	Compress(ctx context.Context, engines []codec.Engine, level codec.Level) []Figure
	Inflate(ctx context.Context, engines []codec.Engine) []Figure
}

// Options say between what to choose.
type Options struct {
	// Engines in static order, the preferred ones of each codec first. Those of class
	// Hardware have to be proved; they are put first unmeasured.
	Engines []codec.Engine
	// Codecs to choose engines for. Those of other codecs keep their places. Empty: all.
	Codecs []codec.ID
	// Level is the one to compress at. 0: nothing is measured for compressing.
	Level codec.Level
	// Inflate says to measure inflating.
	Inflate bool
	// Prefer names the software engines that may be used, in order of preference,
	// instead of measuring, for the codecs of which it names one. Those that are not
	// there or lack the level are passed over. When none is left of such a codec, its
	// engine in Go is used.
	Prefer []string
	// Budget is about how much CPU time may be spent. 0: DefaultBudget.
	Budget time.Duration
	// Measurer defaults to a Bench with the built-in sample.
	Measurer Measurer
	// Known, if it is there, is what that Bench need not measure.
	Known *Known
}

// Why is the ground of a choice.
type Why string

// The grounds.
const (
	// Measured means: the figures decided.
	Measured Why = "measured"
	// Only means: there is no other engine.
	Only Why = "the only one"
	// Named means: the policy names it.
	Named Why = "named by the policy"
	// Fallback means: the policy names engines of the codec of which none is here.
	Fallback Why = "none that the policy names is here"
	// Unmeasured means: no engine could be measured, so the static order decided.
	Unmeasured Why = "could not be measured"
)

// Choice is which software engine works for a codec.
type Choice struct {
	Codec  codec.ID
	Engine string
	Why    Why
	// Figures are those of all engines that were measured, in static order.
	Figures []Figure
}

// Result is what was chosen.
type Result struct {
	// Encode and Decode hold the engines in the order in which to use them for
	// compressing and for inflating.
	Encode, Decode *codec.Registry
	// Compress and Inflate say why, one for each codec. They are empty when it was not
	// asked for.
	Compress, Inflate []Choice
}

// Run chooses. What cannot be measured, also because the context ends, does not stop
// it: engines that failed come after those that did not, and otherwise the static
// order holds.
func Run(ctx context.Context, o Options) Result {
	if o.Budget == 0 {
		o.Budget = DefaultBudget
	}
	o.Measurer = o.measurer(func() Measurer { return o.bench() })
	encode, decode := slices.Clone(o.Engines), slices.Clone(o.Engines)
	var r Result
	for _, id := range o.codecs() {
		if o.Level != 0 {
			choice, order := o.toCompress(ctx, id)
			r.Compress = append(r.Compress, choice)
			encode = reorder(encode, id, order)
		}
		if o.Inflate {
			choice, order := o.toInflate(ctx, id)
			r.Inflate = append(r.Inflate, choice)
			decode = reorder(decode, id, order)
		}
	}
	r.Encode, r.Decode = codec.NewRegistry(hardwareFirst(encode)...), codec.NewRegistry(hardwareFirst(decode)...)
	return r
}

// bench divides the budget among the measurements that there will be.
func (o *Options) bench() *Bench {
	measurements := 0
	for _, id := range o.codecs() {
		if o.prefers(id) {
			continue
		}
		if o.Level != 0 && len(o.candidates(id, o.Level)) > 1 {
			measurements++
		}
		if o.Inflate && len(o.candidates(id, 0)) > 1 {
			measurements++
		}
	}
	b := &Bench{Budget: o.Budget / time.Duration(max(measurements, 1))}
	if measurements > 0 {
		b.Sample = Sample(sampleSize)
	}
	return b
}

// codecs returns those that software engines execute and that are asked for.
func (o *Options) codecs() []codec.ID {
	var ids []codec.ID
	for _, e := range o.Engines {
		id := e.Codec()
		asked := len(o.Codecs) == 0 || slices.Contains(o.Codecs, id)
		if id != codec.None && asked && e.Class() == codec.Software && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// codecsOf are the codecs of the software engines of every build: a name is of its
// codec also where the engine is not.
var codecsOf = map[string]codec.ID{
	goflate.Name:        codec.Deflate,
	isal.Name:           codec.Deflate,
	zlibng.SoftwareName: codec.Deflate,
	gozstd.Name:         codec.Zstd,
	libzstd.Name:        codec.Zstd,
}

// prefers reports whether the policy names an engine of the codec.
func (o *Options) prefers(id codec.ID) bool {
	return slices.ContainsFunc(o.Prefer, func(name string) bool { return codecsOf[name] == id }) ||
		len(named(o.candidates(id, 0), o.Prefer)) > 0
}

// candidates returns the software engines of a codec that have a level; 0 is any.
func (o *Options) candidates(id codec.ID, level codec.Level) []codec.Engine {
	var found []codec.Engine
	for _, e := range o.Engines {
		if e.Codec() == id && e.Class() == codec.Software && (level == 0 || e.HasLevel(level)) {
			found = append(found, e)
		}
	}
	return found
}

func (o *Options) toCompress(ctx context.Context, id codec.ID) (Choice, []codec.Engine) {
	return o.choose(id, o.candidates(id, o.Level), ToCompress, func(engines []codec.Engine) []Figure {
		return o.Measurer.Compress(ctx, engines, o.Level)
	})
}

func (o *Options) toInflate(ctx context.Context, id codec.ID) (Choice, []codec.Engine) {
	return o.choose(id, o.candidates(id, 0), ToInflate, func(engines []codec.Engine) []Figure {
		return o.Measurer.Inflate(ctx, engines)
	})
}

// choose returns the choice among candidates and the order in which to use them.
func (o *Options) choose(
	id codec.ID, candidates []codec.Engine, pick func([]Figure) int, measure func([]codec.Engine) []Figure,
) (Choice, []codec.Engine) {
	choice := Choice{Codec: id}
	order := candidates
	switch {
	case len(candidates) == 0:
		return choice, nil
	case o.prefers(id):
		order, choice.Why = preferred(candidates, o.Prefer)
	case len(candidates) == 1:
		choice.Why = Only
	default:
		choice.Figures = measure(candidates)
		order, choice.Why = measured(candidates, choice.Figures, pick)
	}
	if len(order) > 0 {
		choice.Engine = order[0].Name()
	}
	return choice, order
}

// measured puts the engine that was picked first and those that failed last.
func measured(candidates []codec.Engine, figures []Figure, pick func([]Figure) int) ([]codec.Engine, Why) {
	best := pick(figures)
	if best < 0 {
		return candidates, Unmeasured
	}
	order := []codec.Engine{candidates[best]}
	for _, works := range []bool{true, false} {
		for i, e := range candidates {
			if i != best && figures[i].valid() == works {
				order = append(order, e)
			}
		}
	}
	return order, Measured
}

// preferred keeps the named ones in the order of their names.
func preferred(candidates []codec.Engine, names []string) ([]codec.Engine, Why) {
	if order := named(candidates, names); len(order) > 0 {
		return order, Named
	}
	return named(candidates, []string{goflate.Name, gozstd.Name}), Fallback
}

func named(candidates []codec.Engine, names []string) []codec.Engine {
	var order []codec.Engine
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			continue
		}
		for _, e := range candidates {
			if e.Name() == name {
				order = append(order, e)
			}
		}
	}
	return order
}

// reorder replaces the software engines of a codec by those given.
func reorder(engines []codec.Engine, id codec.ID, order []codec.Engine) []codec.Engine {
	rest := slices.DeleteFunc(slices.Clone(engines), func(e codec.Engine) bool {
		return e.Codec() == id && e.Class() == codec.Software
	})
	at := slices.IndexFunc(engines, func(e codec.Engine) bool { return e.Codec() == id && e.Class() == codec.Software })
	if at < 0 {
		return engines
	}
	return slices.Insert(rest, min(at, len(rest)), order...)
}

// hardwareFirst puts accelerators before software.
func hardwareFirst(engines []codec.Engine) []codec.Engine {
	slices.SortStableFunc(engines, func(a, b codec.Engine) int {
		if (a.Class() == codec.Hardware) == (b.Class() == codec.Hardware) {
			return 0
		}
		if a.Class() == codec.Hardware {
			return -1
		}
		return 1
	})
	return engines
}

// Describe says in a line for a log what was chosen and why.
func Describe(choices []Choice) string {
	var texts []string
	for _, c := range choices {
		text := fmt.Sprintf("%v: %s", c.Codec, c.Engine)
		if c.Engine == "" {
			text = fmt.Sprintf("%v: no engine", c.Codec)
		}
		if c.Why == Measured || c.Why == Unmeasured {
			var figures []string
			for _, f := range c.Figures {
				figures = append(figures, f.String())
			}
			text += fmt.Sprintf(" (%s: %s)", c.Why, strings.Join(figures, ", "))
		} else if c.Why != "" {
			text += fmt.Sprintf(" (%s)", c.Why)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// String returns the figure as a log shows it.
func (f Figure) String() string {
	switch {
	case f.Err != nil:
		return fmt.Sprintf("%s failed: %v", f.Engine, f.Err)
	case f.CompressedBytes > 0:
		return fmt.Sprintf("%s %.0f MB/s at ratio %.2f", f.Engine, f.BytesPerSecond/1e6, f.Ratio())
	default:
		return fmt.Sprintf("%s %.0f MB/s", f.Engine, f.BytesPerSecond/1e6)
	}
}
