// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package calibrate_test

import (
	"testing"

	"github.com/lighterage/lighterage/agent/calibrate"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
)

// TestWays: for each codec and level the engine that proves best there, with what it did; the accelerator once.
func TestWays(t *testing.T) {
	measured := rates{"isa-l": 500, "zlib-ng": 100, "go": 150, "libzstd": 400, "go-zstd": 500, "dfltcc": 3000}
	got := calibrate.Ways(t.Context(), calibrate.Options{Engines: build(), Level: codec.Balanced, Measurer: measured})
	want := map[policy.Option]string{
		{Codec: codec.Deflate, Class: codec.Hardware, Level: codec.Fast}:     "dfltcc",
		{Codec: codec.Deflate, Class: codec.Software, Level: codec.Fast}:     "isa-l",
		{Codec: codec.Deflate, Class: codec.Software, Level: codec.Balanced}: "go",
		{Codec: codec.Zstd, Class: codec.Software, Level: codec.Fast}:        "go-zstd",
		{Codec: codec.Zstd, Class: codec.Software, Level: codec.Balanced}:    "go-zstd",
	}
	if len(got.Ways) != len(want) || len(got.Engines) != len(want) {
		t.Errorf("%d ways and %d engines: %+v", len(got.Ways), len(got.Engines), got.Ways)
	}
	for _, w := range got.Ways {
		name := want[w.Option]
		if e := got.Engines[w.Option]; e == nil || e.Name() != name || w.CompressRate != measured[name]*1e6 || w.Ratio != 4 {
			t.Errorf("%+v by %v, want %s", w, e, name)
		}
	}
	if len(got.Chosen[codec.Fast]) != 2 || len(got.Chosen[codec.Balanced]) != 2 || len(got.Chosen[codec.High]) != 0 {
		t.Errorf("chosen: %+v", got.Chosen)
	}
}

// TestWaysWithoutSoftware: without a level there is the accelerator alone; what could not be measured is a way all the
// same.
func TestWaysWithoutSoftware(t *testing.T) {
	got := calibrate.Ways(t.Context(), calibrate.Options{Engines: build(), Measurer: rates{}})
	if len(got.Ways) != 1 || got.Ways[0].Class != codec.Hardware || got.Ways[0].CompressRate != 0 {
		t.Errorf("%+v", got.Ways)
	}
}

// TestWaysNamed: engines that the policy names are measured too, to know what they do.
func TestWaysNamed(t *testing.T) {
	got := calibrate.Ways(t.Context(), calibrate.Options{
		Engines: build(), Codecs: []codec.ID{codec.Deflate}, Level: codec.Fast, Prefer: []string{"zlib-ng"},
		Measurer: rates{"zlib-ng": 100, "isa-l": 500},
	})
	for _, w := range got.Ways {
		if w.Class == codec.Software && (got.Engines[w.Option].Name() != "zlib-ng" || w.CompressRate != 100e6) {
			t.Errorf("%+v by %s", w, got.Engines[w.Option].Name())
		}
	}
}
