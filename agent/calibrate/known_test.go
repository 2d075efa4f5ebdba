// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package calibrate_test

import (
	"testing"

	"github.com/lighterage/lighterage/agent/calibrate"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
)

// rate is a figure that no machine has.
func rate(mega float64, compressed int64) calibrate.Figure {
	return calibrate.Figure{BytesPerSecond: mega * 1e12, PlainBytes: 1000, CompressedBytes: compressed}
}

// TestKnown: what is known decides without a measurement, and as a measurement would; where one engine of several has
// no figure all are measured.
func TestKnown(t *testing.T) {
	engines := []codec.Engine{deflate("slow"), deflate("fast"), deflate("large")}
	known := &calibrate.Known{
		Compress: map[string]map[codec.Level]calibrate.Figure{
			"slow":  {codec.Fast: rate(6, 300), codec.Balanced: rate(1, 250)},
			"fast":  {codec.Fast: rate(9, 310), codec.Balanced: rate(2, 260)},
			"large": {codec.Fast: rate(11, 700)},
		},
		Inflate: map[string]calibrate.Figure{"slow": rate(6, 0), "fast": rate(5, 0), "large": rate(9, 0)},
	}
	r := calibrate.Run(t.Context(), calibrate.Options{Engines: engines, Level: codec.Fast, Inflate: true, Known: known})
	if c := r.Compress[0]; c.Engine != "fast" || c.Why != calibrate.Measured || c.Figures[0] != named("slow", rate(6, 300)) {
		t.Errorf("to compress: %+v", c)
	}
	if c := r.Inflate[0]; c.Engine != "large" || c.Figures[2] != named("large", rate(9, 0)) {
		t.Errorf("to inflate: %+v", c)
	}

	plan := calibrate.Ways(t.Context(), calibrate.Options{Engines: engines[:2], Level: codec.Balanced, Known: known})
	for _, way := range plan.Ways {
		want := known.Compress["fast"][way.Option.Level]
		if way.Option.Class != codec.Software || way.CompressRate != want.BytesPerSecond || way.Ratio != want.Ratio() {
			t.Errorf("%+v, want the rate of %+v", way, want)
		}
	}
	if got, ok := plan.Engines[policy.Option{Codec: codec.Deflate, Class: codec.Software, Level: codec.Balanced}]; !ok ||
		got.Name() != "fast" || len(plan.Ways) != 2 {
		t.Errorf("%d ways, Balanced by %v", len(plan.Ways), got)
	}

	// One has no figure at that level: no figure that is known may take part.
	r = calibrate.Run(t.Context(), calibrate.Options{Engines: engines, Level: codec.Balanced, Known: known})
	for _, f := range r.Compress[0].Figures {
		if f.Err != nil || f.BytesPerSecond >= 1e12 || f.BytesPerSecond <= 0 {
			t.Errorf("%+v was not measured", f)
		}
	}
	// Nor may one that cannot be.
	known.Inflate["slow"] = calibrate.Figure{}
	r = calibrate.Run(t.Context(), calibrate.Options{Engines: engines, Inflate: true, Known: known})
	for _, f := range r.Inflate[0].Figures {
		if f.Err != nil || f.BytesPerSecond >= 1e12 || f.BytesPerSecond <= 0 {
			t.Errorf("%+v was not measured", f)
		}
	}
}

func named(name string, f calibrate.Figure) calibrate.Figure {
	f.Engine = name
	return f
}
