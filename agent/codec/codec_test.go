// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/identity"
)

// TestNumbers pins what is on the wire and on disks.
func TestNumbers(t *testing.T) {
	if codec.None != 1 || codec.Deflate != 2 || codec.Zstd != 3 {
		t.Errorf("codecs are %d, %d, %d", codec.None, codec.Deflate, codec.Zstd)
	}
	if codec.NoClass != 0 || codec.Software != 1 || codec.Hardware != 2 {
		t.Errorf("classes are %d, %d, %d", codec.NoClass, codec.Software, codec.Hardware)
	}
}

func TestIDs(t *testing.T) {
	for id, name := range map[codec.ID]string{codec.None: "none", codec.Deflate: "deflate", codec.Zstd: "zstd"} {
		if got, err := codec.ParseID(name); got != id || err != nil {
			t.Errorf("ParseID(%q) = %v, %v", name, got, err)
		}
		if id.String() != name || !id.Valid() {
			t.Errorf("%d is %v, valid %v", id, id, id.Valid())
		}
	}
	for _, id := range []codec.ID{0, 4, 255} {
		if id.Valid() {
			t.Errorf("%v is valid", id)
		}
		if _, err := codec.ParseID(id.String()); err == nil {
			t.Errorf("%q names a codec", id)
		}
	}
}

func TestLevels(t *testing.T) {
	for _, level := range codec.Levels() {
		if got, err := codec.ParseLevel(level.String()); got != level || err != nil {
			t.Errorf("ParseLevel(%q) = %v, %v", level, got, err)
		}
	}
	if levels := codec.Levels(); !slices.Equal(levels, []codec.Level{codec.Fast, codec.Balanced, codec.High}) ||
		!slices.IsSorted(levels) {
		t.Errorf("levels are %v", levels)
	}
	for _, name := range []string{"", "fast", "9", "level 0"} {
		if _, err := codec.ParseLevel(name); err == nil {
			t.Errorf("%q names a level", name)
		}
	}
}

// only is an engine with one level.
type only struct {
	codec.Engine
	level codec.Level
}

func (o only) HasLevel(level codec.Level) bool { return level == o.level }

func (o only) NewEncoder(level codec.Level) (codec.Encoder, error) {
	if level != o.level {
		return nil, fmt.Errorf("asked for %v", level)
	}
	return o.Engine.NewEncoder(level)
}

func TestNewLowestEncoder(t *testing.T) {
	for _, level := range codec.Levels() {
		encoder, err := codec.NewLowestEncoder(only{goflate.New(), level})
		if err != nil {
			t.Errorf("an engine with %v alone: %v", level, err)
			continue
		}
		if err := encoder.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := codec.NewLowestEncoder(only{goflate.New(), 0}); err == nil {
		t.Error("an engine without levels has an encoder")
	}
}

func TestClasses(t *testing.T) {
	for class, name := range map[codec.Class]string{
		codec.NoClass: "none", codec.Software: "software", codec.Hardware: "hardware", 3: "class 3",
	} {
		if class.String() != name {
			t.Errorf("class %d is %q", uint8(class), class)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, err := range []error{codec.ErrTruncated, codec.ErrTrailing, codec.ErrTooLong} {
		if !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%v does not match ErrCorrupt", err)
		}
	}
}

type renamed struct {
	codec.Engine
	name  string
	class codec.Class
}

func (r renamed) Name() string       { return r.name }
func (r renamed) Class() codec.Class { return r.class }

func TestRegistry(t *testing.T) {
	first := renamed{goflate.New(), "first", codec.Hardware}
	second := renamed{goflate.New(), "second", codec.Software}
	third := renamed{goflate.New(), "third", codec.Software}
	r := codec.NewRegistry(first, identity.New(), second, third)

	if got := r.Names(); !slices.Equal(got, []string{"first", "none", "second", "third"}) {
		t.Errorf("names: %q", got)
	}
	if got := r.Codecs(); !slices.Equal(got, []codec.ID{codec.Deflate, codec.None}) {
		t.Errorf("codecs: %v", got)
	}
	if got := r.ForCodec(codec.Deflate); !slices.Equal(got, []codec.Engine{first, second, third}) {
		t.Errorf("engines of deflate: %v", got)
	}
	if got := r.ForCodec(3); len(got) != 0 {
		t.Errorf("engines of codec 3: %v", got)
	}
	if e, ok := r.ByName("second"); !ok || e != second {
		t.Errorf("by name: %v, %v", e, ok)
	}
	if e, ok := r.ByName("fourth"); ok {
		t.Errorf("an unknown name: %v", e)
	}
	if e, ok := r.Best(codec.Deflate, codec.Software, codec.Fast); !ok || e != second {
		t.Errorf("best software: %v, %v", e, ok)
	}
	if e, ok := r.Best(codec.Deflate, codec.Hardware, codec.Fast); !ok || e != first {
		t.Errorf("best hardware: %v, %v", e, ok)
	}
	if _, ok := r.Best(codec.None, codec.Hardware, codec.Fast); ok {
		t.Error("hardware for none")
	}
}

func TestRegistryDuplicate(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("two engines of one name are accepted")
		}
	}()
	codec.NewRegistry(goflate.New(), goflate.New())
}
