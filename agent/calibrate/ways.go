// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package calibrate

import (
	"context"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
)

// Plan is what a sender may compress with, block by block.
type Plan struct {
	Ways []policy.Way
	// Engines execute the ways.
	Engines map[policy.Option]codec.Engine
	// Chosen says why, level by level.
	Chosen map[codec.Level][]Choice
}

// Ways chooses an engine for each codec and each level up to Options.Level as Run does, and
// says what each did. An accelerator is taken at the least effort that it has: it makes no
// difference to it. Without a level only accelerators are.
func Ways(ctx context.Context, o Options) Plan {
	p := Plan{Engines: make(map[policy.Option]codec.Engine), Chosen: make(map[codec.Level][]Choice)}
	if o.Budget == 0 {
		o.Budget = DefaultBudget
	}
	levels := 0
	for _, level := range codec.Levels() {
		if level <= o.Level {
			levels++
		}
	}
	// At least two engines make a measurement, and levels and codecs share the budget. Codecs are
	// compared by these figures, so none must be of a first round.
	budget := o.Budget / time.Duration(max(levels*len(o.codecs()), 1))
	o.Measurer = o.measurer(func() Measurer { return &Bench{Sample: Sample(sampleSize), Budget: budget, Rounds: 2} })
	p.accelerators(ctx, &o)
	for _, level := range codec.Levels()[:levels] {
		at := o
		at.Level = level
		for _, id := range o.codecs() {
			choice, order := at.toCompress(ctx, id)
			p.Chosen[level] = append(p.Chosen[level], choice)
			if len(order) > 0 {
				p.add(ctx, &at, order[0], level, choice.Figures)
			}
		}
	}
	return p
}

// accelerators adds those of the options.
func (p *Plan) accelerators(ctx context.Context, o *Options) {
	for _, e := range o.Engines {
		if e.Class() != codec.Hardware {
			continue
		}
		for _, level := range codec.Levels() {
			if e.HasLevel(level) {
				p.add(ctx, o, e, level, nil)
				break
			}
		}
	}
}

// add adds a way with what its engine was measured to do, which is done now if it was not
// yet.
func (p *Plan) add(ctx context.Context, o *Options, e codec.Engine, level codec.Level, figures []Figure) {
	option := policy.Option{Codec: e.Codec(), Class: e.Class(), Level: level}
	if _, ok := p.Engines[option]; ok {
		return
	}
	way := policy.Way{Option: option}
	if figures == nil {
		figures = o.Measurer.Compress(ctx, []codec.Engine{e}, level)
	}
	for _, f := range figures {
		if f.Engine == e.Name() && f.valid() {
			way.CompressRate, way.Ratio = f.BytesPerSecond, f.Ratio()
		}
	}
	p.Ways = append(p.Ways, way)
	p.Engines[option] = e
}
