// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package engines_test

import (
	"slices"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/codec/isal"
	"github.com/lighterage/lighterage/agent/codec/libzstd"
	"github.com/lighterage/lighterage/agent/codec/zlibng"
)

func TestDefault(t *testing.T) {
	var want []string
	if isal.Available() {
		want = append(want, "isa-l")
	}
	if zlibng.Available() {
		want = append(want, "zlib-ng")
	}
	want = append(want, "go")
	if libzstd.Available() {
		want = append(want, "libzstd")
	}
	want = append(want, "go-zstd", "none")
	r := engines.Default()
	if got := r.Names(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, level := range codec.Levels() {
		for _, id := range []codec.ID{codec.None, codec.Deflate, codec.Zstd} {
			class := codec.Software
			if id == codec.None {
				class = codec.NoClass
			}
			if _, ok := r.Best(id, class, level); !ok {
				t.Errorf("no engine for %v at level %v", id, level)
			}
		}
	}
	if e, ok := r.Best(codec.Deflate, codec.Hardware, codec.Fast); ok {
		t.Errorf("%s is taken for hardware without proof", e.Name())
	}
}
