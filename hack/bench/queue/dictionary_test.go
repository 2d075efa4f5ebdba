// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
)

// TestDictionaryTargets: each codec is judged by itself, by the interval of its rounds.
func TestDictionaryTargets(t *testing.T) {
	b := &bench{}
	for round, stored := range []float64{290, 310, 296, 288} { // more than 30 % once
		for _, id := range dictionaryCodecs {
			r := referred{
				codec: id, size: 1000, with: spent{plain: 1000, stored: 250, put: 6, get: 3},
				without: spent{plain: 1000, stored: 500, put: 8, get: 4},
			}
			if id == codec.Deflate {
				r.with.stored, r.with.put = stored, 8+float64(round)
			}
			b.referred = append(b.referred, r)
		}
	}
	verdicts := lines(b.dictionaryTargets())
	for name, want := range map[string]string{
		"dictionary-saved-zstd-1000":    "target dictionary-saved-zstd-1000 0.750 >=0.700 ok",
		"dictionary-cpu-zstd-1000":      "target dictionary-cpu-zstd-1000 0.75 <=1.00 ok",
		"dictionary-saved-deflate-1000": "target dictionary-saved-deflate-1000 0.707 >=0.700 miss",
		"dictionary-cpu-deflate-1000":   "target dictionary-cpu-deflate-1000 1.04 <=1.00 miss",
	} {
		if verdicts[name] != want {
			t.Errorf("got %q, want %q", verdicts[name], want)
		}
	}
	if len(verdicts) != 4 {
		t.Errorf("%d targets", len(verdicts))
	}
}

// TestRefer: messages of each codec are the shorter for their dictionary.
func TestRefer(t *testing.T) {
	for _, id := range dictionaryCodecs {
		r, err := refer(id, 1000, 1)
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		if r.codec != id || r.dictionary == 0 || r.with.stored >= r.without.stored || r.with.plain != r.without.plain {
			t.Errorf("%s: %+v", id, r)
		}
	}
}
