// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package estimate

import (
	"math/rand/v2"
	"testing"
)

// TestEntropy pins what is decided by, which has to be the same on every architecture although the table is made by
// floating point.
func TestEntropy(t *testing.T) {
	sum := 0
	for n, m := range more {
		sum += n * int(m)
	}
	var zeros, each, random, text [sliceSize]byte
	r := rand.New(rand.NewPCG(1, 2))
	for i := range sliceSize {
		each[i], random[i], text[i] = byte(i), byte(r.Uint32()), "etaoin shrdlu"[i%13]
	}
	got := [5]int{sum, entropy(&zeros), entropy(&each), entropy(&random), entropy(&text)}
	if want := [5]int{16077908, 0, 896, 845, 474}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestLook(t *testing.T) {
	random := make([]byte, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(r.Uint32())
	}
	half := make([]byte, 1<<20)
	copy(half, random[:1<<19])
	for _, test := range []struct {
		name            string
		block           []byte
		ordinary, noise int
	}{
		{"noise", random, 0, slices},
		{"zeros", make([]byte, 1<<20), firstSlices, 0},
		{"half noise", half, slices / 2, slices / 2},
		{"few bytes", random[:1025], 0, 8},
		{"two slices", random[:2*sliceSize], 0, 2},
	} {
		var space places
		if v := look(test.block, &space); len(v.ordinary) != test.ordinary || len(v.noise) != test.noise {
			t.Errorf("%s: %d ordinary slices, %d of noise", test.name, len(v.ordinary), len(v.noise))
		}
	}
}

func TestNoise(t *testing.T) {
	noise := make([]byte, 64<<10)
	r := rand.New(rand.NewPCG(3, 4))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	mixed := append([]byte(nil), noise...)
	clear(mixed[len(mixed)-sliceSize:])
	for _, test := range []struct {
		name  string
		block []byte
		want  bool
	}{
		{"noise", noise, true},
		{"zeros", make([]byte, 64<<10), false},
		{"noise that ends in zeros", mixed, false},
		{"a slice", noise[:sliceSize], true},
		{"less than a slice", noise[:sliceSize-1], false},
		{"nothing", nil, false},
	} {
		if got := Noise(test.block); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}
