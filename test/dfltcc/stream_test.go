// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && dfltcc

package dfltcc_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/lighterage/lighterage/test/dfltcc"
)

var formats = map[string]dfltcc.Format{"raw": dfltcc.Raw, "zlib": dfltcc.Zlib, "gzip": dfltcc.Gzip}

// plain returns bytes of text, binary, noise and repetition in turn, the same in
// every run.
func plain(n int) []byte {
	b := make([]byte, 0, n+400)
	seed := uint32(n)*2654435761 + 1
	for len(b) < n {
		seed = seed*1664525 + 1013904223
		switch kind := len(b) / 3000 % 4; kind {
		case 0:
			b = fmt.Appendf(b, "<entry id=%q><amount>%d.%02d</amount></entry>\n", fmt.Sprint(seed%5000), seed>>20, seed>>8%100)
		case 1:
			b = append(b, 0, 0, byte(seed>>28), byte(seed>>20), 0, 0, 0, 7)
		case 2:
			b = append(b, byte(seed>>24), byte(seed>>16))
		default:
			b = append(b, bytes.Repeat([]byte{byte(seed >> 24)}, int(seed>>16%400))...)
		}
	}
	return b[:n]
}

// model sets the model's step and fault for one test.
func model(t testing.TB, step int, fault string) {
	t.Helper()
	dfltcc.SetStep(step)
	if err := dfltcc.SetFault(fault, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		dfltcc.SetStep(dfltcc.DefaultStep)
		_ = dfltcc.SetFault("", 0)
	})
}

// pieces is how a test cuts what it gives to a stream.
type pieces struct {
	in, out int
	flushes []dfltcc.Flush
}

var whole = pieces{in: 1 << 30, out: 1 << 30, flushes: []dfltcc.Flush{dfltcc.NoFlush}}

var errStuck = errors.New("a stream that does not go on")

// deflate compresses in pieces: each piece of the source with the next flush.
func deflate(s *dfltcc.Stream, src []byte, p pieces) ([]byte, error) {
	space := make([]byte, min(p.out, len(src)*2+1000))
	var packed []byte
	for i := 0; ; i++ {
		n := min(p.in, len(src))
		flush := p.flushes[i%len(p.flushes)]
		if n == len(src) {
			flush = dfltcc.Finish
		}
		piece := src[:n]
		src = src[n:]
		for stuck := 0; ; {
			written, read, status := s.Call(space, piece, flush)
			packed = append(packed, space[:written]...)
			piece = piece[read:]
			if status == dfltcc.End {
				return packed, nil
			}
			if status != dfltcc.OK && status != dfltcc.BufError {
				return packed, fmt.Errorf("deflate: status %d", status)
			}
			if written == 0 && read == 0 {
				if stuck++; stuck > 2 {
					return packed, errStuck
				}
			} else {
				stuck = 0
			}
			// zlib's rule: a flush is complete when space is left.
			if flush != dfltcc.Finish && len(piece) == 0 && written < len(space) {
				break
			}
		}
	}
}

// inflate expands at most limit bytes in pieces.
func inflate(s *dfltcc.Stream, packed []byte, limit int, p pieces) ([]byte, error) {
	space := make([]byte, min(p.out, limit+1))
	var out []byte
	for stuck := 0; ; {
		n := min(p.in, len(packed))
		written, read, status := s.Call(space, packed[:n], dfltcc.NoFlush)
		out = append(out, space[:written]...)
		packed = packed[read:]
		switch {
		case status == dfltcc.End:
			return out, nil
		case status != dfltcc.OK && status != dfltcc.BufError:
			return out, fmt.Errorf("inflate: status %d", status)
		case len(out) > limit:
			return out, errors.New("too long")
		}
		if written == 0 && read == 0 {
			if stuck++; stuck > 2 {
				return out, errStuck
			}
		} else {
			stuck = 0
		}
	}
}

func pack(t testing.TB, f dfltcc.Format, level int, reproducible bool, src []byte, p pieces) ([]byte, error) {
	t.Helper()
	s, err := dfltcc.NewDeflate(f, level, reproducible)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return deflate(s, src, p)
}

func unpack(t testing.TB, f dfltcc.Format, packed []byte, limit int, p pieces) ([]byte, error) {
	t.Helper()
	s, err := dfltcc.NewInflate(f)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return inflate(s, packed, limit, p)
}

// goUnpack expands with Go's library, which knows nothing of zlib-ng.
func goUnpack(f dfltcc.Format, packed []byte) ([]byte, error) {
	var r io.ReadCloser
	var err error
	switch f {
	case dfltcc.Zlib:
		r, err = zlib.NewReader(bytes.NewReader(packed))
	case dfltcc.Gzip:
		r, err = gzip.NewReader(bytes.NewReader(packed))
	default:
		r = flate.NewReader(bytes.NewReader(packed))
	}
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(r)
	if closeErr := r.Close(); err == nil {
		err = closeErr
	}
	return out, err
}

// goPack compresses with Go's library.
func goPack(t testing.TB, level int, src []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, level)
	if err == nil {
		if _, err = w.Write(src); err == nil {
			err = w.Close()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
