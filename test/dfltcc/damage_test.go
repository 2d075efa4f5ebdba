// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && dfltcc

package dfltcc_test

import (
	"bytes"
	"compress/flate"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/lighterage/lighterage/test/dfltcc"
)

// same holds the model to Go's library: what one expands the other does, to the
// same bytes, and what one refuses the other does not take either.
func same(t *testing.T, packed []byte, what string, at int) {
	t.Helper()
	const limit = 1 << 17
	r := bytes.NewReader(packed)
	want, wantErr := io.ReadAll(io.LimitReader(flate.NewReader(r), limit+1))
	if len(want) > limit {
		return // longer than is compared
	}
	got, err := unpack(t, dfltcc.Raw, packed, limit, whole)
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("%s, %d: the model gives %d bytes, %v; Go %d bytes, %v", what, at, len(got), err, len(want), wantErr)
	}
	if err == nil && !bytes.Equal(got, want) {
		t.Fatalf("%s, %d: the model and Go give other bytes", what, at)
	}
}

// TestDamage cuts and changes streams of the model, of zlib-ng's software and of
// Go's, in which there are blocks of all types.
func TestDamage(t *testing.T) {
	src := plain(9000)
	cuts, flips := 300, 1
	if testing.Short() {
		cuts, flips = 60, 11
	}
	for _, step := range []int{100, dfltcc.DefaultStep} {
		model(t, step, "")
		streams := map[string][]byte{"stored": goPack(t, 0, src[:300]), "go": goPack(t, 6, src)}
		for name, reproducible := range map[string]bool{"model": false, "software": true} {
			packed, err := pack(
				t, dfltcc.Raw, 4, reproducible, src, pieces{in: 4000, out: 1 << 30, flushes: []dfltcc.Flush{dfltcc.SyncFlush}},
			)
			if err != nil {
				t.Fatal(err)
			}
			streams[name] = packed
		}
		for name, packed := range streams {
			same(t, packed, name, -1)
			for n := 0; n < len(packed); n += 1 + len(packed)/cuts {
				same(t, packed[:n], name+" cut", n)
			}
			// Every bit of the first bytes, where the tables are, and some of the rest.
			for bit := 0; bit < 8*len(packed); bit += flips + bit/1000*17 {
				flipped := bytes.Clone(packed)
				flipped[bit/8] ^= 1 << (bit % 8)
				same(t, flipped, name+" flipped", bit)
			}
		}
	}
}

// TestGarbage expands noise.
func TestGarbage(t *testing.T) {
	model(t, 1000, "")
	//nolint:gosec // The same bytes in every run are the point.
	random := rand.New(rand.NewPCG(1, 2))
	for size := range 1500 {
		b := make([]byte, size%100+1)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		same(t, b, "garbage", size)
	}
}
