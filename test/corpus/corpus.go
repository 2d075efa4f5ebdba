// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package corpus generates the named kinds of data that tests and benchmarks
// compress. The bytes are the same in every run and on every architecture: only
// integers decide them, and a test pins their digests.
//
// Package found beside it collects what every Debian machine has.
package corpus

import "math/rand/v2"

// Corpus is one kind of data.
type Corpus struct {
	Name string
	// About says in a few words what the data are and what they stand for.
	About string
	// Generate returns the first n bytes.
	Generate func(n int) []byte
	// Shrinks says whether any deflate engine makes 64 KiB of it smaller.
	Shrinks bool
	// Ordinary marks what compression is for. The others are the limits: nothing but
	// repetition, noise, and what was compressed before.
	Ordinary bool
}

// All returns every generated corpus, the ordinary ones first.
func All() []Corpus {
	return []Corpus{
		{Name: "xml", About: "payment messages of 1 to 2 KB", Generate: xml, Shrinks: true, Ordinary: true},
		{
			Name: "json", About: "log lines of a web service, with trace identifiers", Generate: json, Shrinks: true,
			Ordinary: true,
		},
		{
			Name: "records", About: "binary accounting records with fixed fields", Generate: records, Shrinks: true,
			Ordinary: true,
		},
		{Name: "csv", About: "a ledger of bookings with running balances", Generate: ledger, Shrinks: true, Ordinary: true},
		{Name: "source", About: "lines that resemble program text", Generate: source, Shrinks: true, Ordinary: true},
		{Name: "base64", About: "noise in base64: Huffman coding helps, matching does not", Generate: encoded},
		{Name: "rle", About: "records run-length coded one by one by an application", Generate: runLength, Shrinks: true},
		{Name: "packed", About: "xml messages deflated one by one by an application", Generate: packed},
		{Name: "gzip", About: "files of xml and json, compressed by gzip -6", Generate: gzipped},
		{Name: "zstd", About: "files of xml and json, compressed by zstd", Generate: zstandard},
		{Name: "random", About: "noise", Generate: random},
		{Name: "zeros", About: "zeros", Generate: func(n int) []byte { return make([]byte, n) }, Shrinks: true},
	}
}

// ByName returns the corpus of that name.
func ByName(name string) (Corpus, bool) {
	for _, c := range All() {
		if c.Name == name {
			return c, true
		}
	}
	return Corpus{}, false
}

// seeded returns the source of randomness of a corpus. stream tells apart those
// that are made of parts.
func seeded(stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(0x6c69676874657261, stream))
}

// fill calls add until n bytes are there.
func fill(n int, stream uint64, add func(r *rand.Rand, b []byte) []byte) []byte {
	r := seeded(stream)
	b := make([]byte, 0, n+4096)
	for len(b) < n {
		b = add(r, b)
	}
	return b[:n:n]
}

// skewed returns a number below n, small ones far more often, as words and
// customers occur in real data.
func skewed(r *rand.Rand, n int) int {
	return r.IntN(r.IntN(r.IntN(n)+1) + 1)
}
