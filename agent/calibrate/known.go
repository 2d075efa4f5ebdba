// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package calibrate

import (
	"context"
	"sync"

	"github.com/lighterage/lighterage/agent/codec"
)

// Known are figures of engines of this program on a machine like this one, by the names of the engines. They are in
// place of measurements.
type Known struct {
	Compress map[string]map[codec.Level]Figure
	Inflate  map[string]Figure
}

// measurer returns what measures: what the options say, or else a bench, which is not made where all is known.
func (o *Options) measurer(bench func() Measurer) Measurer {
	switch {
	case o.Measurer != nil:
		return o.Measurer
	case o.Known == nil:
		return bench()
	default:
		return known{o.Known, sync.OnceValue(bench)}
	}
}

// known measures nothing where figures of all engines are known. Known ones are never compared with measured ones:
// those are of other data.
type known struct {
	figures *Known
	rest    func() Measurer
}

// Compress implements Measurer.
func (k known) Compress(ctx context.Context, engines []codec.Engine, level codec.Level) []Figure {
	found := find(engines, func(name string) Figure { return k.figures.Compress[name][level] })
	if found == nil {
		return k.rest().Compress(ctx, engines, level)
	}
	return found
}

// Inflate implements Measurer.
func (k known) Inflate(ctx context.Context, engines []codec.Engine) []Figure {
	found := find(engines, func(name string) Figure { return k.figures.Inflate[name] })
	if found == nil {
		return k.rest().Inflate(ctx, engines)
	}
	return found
}

// find returns the figures of all engines, nil if one has none.
func find(engines []codec.Engine, figureOf func(name string) Figure) []Figure {
	found := make([]Figure, len(engines))
	for i, e := range engines {
		if found[i] = figureOf(e.Name()); !found[i].valid() {
			return nil
		}
		found[i].Engine = e.Name()
	}
	return found
}
