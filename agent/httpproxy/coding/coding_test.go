// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package coding_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/httpproxy/coding"
	"github.com/lighterage/lighterage/agent/httpproxy/negotiate"
	"github.com/lighterage/lighterage/test/corpus"
)

var codings = []negotiate.Coding{negotiate.Gzip, negotiate.Deflate, negotiate.Zstd}

// expand reads a body as a client does that uses the standard library. A cut one gives what is there.
func expand(t *testing.T, c negotiate.Coding, body []byte) (plain []byte, whole bool) {
	t.Helper()
	rest := bytes.NewReader(body)
	var r io.Reader
	var err error
	switch c {
	case negotiate.Gzip:
		var g *gzip.Reader
		if g, err = gzip.NewReader(rest); err == nil {
			g.Multistream(false)
			r = g
		}
	case negotiate.Deflate:
		r, err = zlib.NewReader(rest)
	case negotiate.Zstd:
		var d *zstd.Decoder
		if d, err = zstd.NewReader(rest, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20)); err == nil {
			defer d.Close()
			r = d
		}
	}
	if err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	plain, err = io.ReadAll(r)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("%v, after %d bytes: %v", c, len(plain), err)
	}
	if err == nil && rest.Len() > 0 {
		t.Fatalf("%v: %d bytes follow the end", c, rest.Len())
	}
	return plain, err == nil
}

// eachEncoder runs a test for every coding and engine of it.
func eachEncoder(t *testing.T, test func(*testing.T, negotiate.Coding, codec.StreamEncoder)) {
	registry := engines.Default()
	for _, c := range codings {
		for _, engine := range registry.ForCodec(coding.Codec(c)) {
			t.Run(fmt.Sprintf("%v/%s", c, engine.Name()), func(t *testing.T) {
				e, err := codec.NewLowestEncoder(engine)
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				test(t, c, e.(codec.StreamEncoder))
			})
		}
	}
}

func json(t *testing.T, n int) []byte {
	t.Helper()
	c, ok := corpus.ByName("json")
	if !ok {
		t.Fatal("no corpus")
	}
	return c.Generate(n)
}

func TestWhole(t *testing.T) {
	eachEncoder(t, func(t *testing.T, c negotiate.Coding, e codec.StreamEncoder) {
		for _, n := range []int{0, 1, 300, 9000} {
			plain, bare := json(t, n), 0
			for _, padding := range []int{0, 1, 2, 100} {
				dst := make([]byte, coding.Bound(n, padding))
				length, err := coding.Whole(e, c, dst, plain, padding)
				if err != nil {
					t.Fatalf("%d bytes, padding %d: %v", n, padding, err)
				}
				if got, whole := expand(t, c, dst[:length]); !whole || !bytes.Equal(got, plain) {
					t.Fatalf("%d bytes, padding %d: expand to %d", n, padding, len(got))
				}
				if padding == 0 {
					bare = length
				} else if length < bare+padding || length > bare+padding+10 {
					t.Errorf("padding %d makes %d bytes of %d", padding, length, bare)
				}
				for space := range min(length, 40) {
					if n, err := coding.Whole(e, c, dst[:space], plain, padding); !errors.Is(err, codec.ErrDoesNotFit) {
						t.Errorf("%d bytes in %d: %d, %v", length, space, n, err)
					}
				}
			}
		}
	})
}

func TestStream(t *testing.T) {
	eachEncoder(t, func(t *testing.T, c negotiate.Coding, e codec.StreamEncoder) {
		for _, lone := range []bool{false, true} {
			if lone && c == negotiate.Zstd {
				continue
			}
			for _, padding := range []int{0, 77} {
				for _, sizes := range [][]int{{0}, {10}, {0, 100, 0}, {5000, 3, 20000, 1}} {
					total := 0
					for _, n := range sizes {
						total += n
					}
					plain := json(t, total)
					s := coding.NewStream(c, padding)
					part := s.Part
					if lone {
						part = s.LonePart
					}
					var body []byte
					at := 0
					for i, n := range sizes {
						dst := make([]byte, coding.Bound(n, padding))
						length, err := part(e, dst, plain[at:at+n], i == len(sizes)-1)
						if err != nil {
							t.Fatalf("%v, part %d: %v", sizes, i, err)
						}
						body, at = append(body, dst[:length]...), at+n
						if got, whole := expand(t, c, body); !bytes.Equal(got, plain[:at]) ||
							whole != (i == len(sizes)-1) && len(body) > 0 {
							t.Fatalf("%v, lone %v, part %d: expand to %d bytes, want %d; whole %v", sizes, lone, i, len(got), at, whole)
						}
					}
				}
			}
		}
	})
}

func TestRefusals(t *testing.T) {
	e, err := codec.NewLowestEncoder(engines.Default().ForCodec(codec.Zstd)[0])
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := coding.Whole(e, negotiate.Identity, make([]byte, 100), nil, 0); err == nil {
		t.Error("identity is a coding")
	}
	if _, err := coding.NewStream(negotiate.Identity, 0).Part(
		e.(codec.StreamEncoder), make([]byte, 1000), nil, true,
	); err == nil {
		t.Error("identity is a stream")
	}
	if _, err := coding.NewStream(negotiate.Zstd, 0).LonePart(
		e.(codec.StreamEncoder), make([]byte, 1000), nil, true,
	); err == nil {
		t.Error("frames of zstd are joined")
	}
	if coding.Codec(negotiate.Identity) != codec.None {
		t.Error("identity has a codec")
	}
}
