// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package corpus_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/lighterage/lighterage/test/corpus"
)

// digests are those of the first MiB. Results of benchmarks are comparable as long as they stay the same, on every
// architecture. Those of gzip, zstd and packed also depend on the compressors of klauspost/compress.
var digests = map[string]string{
	"xml":     "31e185dcd9a78792",
	"json":    "9ac7586f57ff525e",
	"records": "7eb9c24cd7dff768",
	"csv":     "d4885bb4f8cb98df",
	"source":  "d3f95d3b5bac459e",
	"base64":  "cda0a1c96ffaa509",
	"rle":     "1b7815c10adb5544",
	"packed":  "7716e3376c3c68bb",
	"gzip":    "938ffe655ef88410",
	"zstd":    "b72756638951fc70",
	"random":  "8e6668067f4a5489",
	"zeros":   "30e14955ebf13522",
}

func TestDigests(t *testing.T) {
	for _, c := range corpus.All() {
		sum := sha256.Sum256(c.Generate(1 << 20))
		if got := hex.EncodeToString(sum[:8]); got != digests[c.Name] {
			t.Errorf("%q: %q, // was %s: the data changed, so earlier measurements do not compare", c.Name, got, digests[c.Name])
		}
	}
	if len(digests) != len(corpus.All()) {
		t.Errorf("%d digests of %d corpora", len(digests), len(corpus.All()))
	}
}

func TestPrefix(t *testing.T) {
	for _, c := range corpus.All() {
		long := c.Generate(200_000)
		for _, n := range []int{0, 1, 1000, 65_537} {
			short := c.Generate(n)
			if len(short) != n || cap(short) != n {
				t.Errorf("%s: %d bytes with capacity %d, asked for %d", c.Name, len(short), cap(short), n)
			}
			if !bytes.HasPrefix(long, short) {
				t.Errorf("%s: %d bytes are not a prefix of more", c.Name, n)
			}
		}
	}
}

func TestByName(t *testing.T) {
	for _, c := range corpus.All() {
		if got, ok := corpus.ByName(c.Name); !ok || got.About != c.About || c.About == "" {
			t.Errorf("%s: found %v, about %q", c.Name, ok, got.About)
		}
	}
	if _, ok := corpus.ByName("none"); ok {
		t.Error("found a corpus that is not there")
	}
}
