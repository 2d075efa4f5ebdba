// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package estimate_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"

	"github.com/klauspost/compress/gzip"

	"github.com/lighterage/lighterage/test/corpus"
)

// kind is a kind of data with how far a prediction may be from the truth, in percent of the block's length.
type kind struct {
	name      string
	tolerance int
	generate  func(n int) []byte
}

// kinds are what applications give us.
func kinds() []kind {
	all := []kind{
		{"records gzip'd one by one, 150 bytes each", 6, func(n int) []byte { return gzipped(n, 150) }},
		{"records gzip'd one by one, 300 bytes each", 7, func(n int) []byte { return gzipped(n, 300) }},
		{"records gzip'd one by one, 4000 bytes each", 2, func(n int) []byte { return gzipped(n, 4000) }},
		{"encrypted", 0, encrypted},
		{
			"half noise, half text", 5, func(n int) []byte { return append(generate("random", n/2), generate("xml", n-n/2)...) },
		},
		{
			"half text, half noise", 5, func(n int) []byte { return append(generate("xml", n/2), generate("random", n-n/2)...) },
		},
		{"pages of noise and of text", 5, func(n int) []byte { return interleaved(n, 4096) }},
		{"a tenth of text in noise", 6, func(n int) []byte {
			b := generate("random", n)
			copy(b[n/3:], generate("xml", n/10))
			return b
		}},
	}
	tolerance := map[string]int{"base64": 7, "random": 0, "gzip": 1, "zstd": 1, "packed": 2, "zeros": 1}
	for _, c := range corpus.All() {
		k := kind{c.Name, 6, c.Generate}
		if n, ok := tolerance[c.Name]; ok {
			k.tolerance = n
		}
		all = append(all, k)
	}
	return all
}

func generate(name string, n int) []byte {
	c, ok := corpus.ByName(name)
	if !ok {
		panic("no corpus " + name)
	}
	return c.Generate(n)
}

// gzipped is what an application leaves that compresses its records one by one.
func gzipped(n, record int) []byte {
	plain := generate("json", 4*n)
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	for b.Len() < n {
		w.Reset(&b)
		_, err := w.Write(plain[:record])
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			panic(err)
		}
		plain = plain[record:]
	}
	return b.Bytes()[:n:n]
}

func encrypted(n int) []byte {
	block, err := aes.NewCipher([]byte("0123456789abcdef"))
	if err != nil {
		panic(err)
	}
	b := generate("xml", n)
	cipher.NewCTR(block, make([]byte, aes.BlockSize)).XORKeyStream(b, b)
	return b
}

// interleaved is noise and text by turns.
func interleaved(n, page int) []byte {
	b, text := generate("random", n), generate("xml", n)
	for i := 0; i < n; i += 2 * page {
		copy(b[i:min(i+page, n)], text[i:])
	}
	return b
}
