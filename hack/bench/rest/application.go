// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
)

// application is how the application compresses each record by itself: all behind the header, if that makes it shorter.
type application struct {
	name     string
	compress func(dst, sections []byte) ([]byte, error)
	expand   func(dst, sections []byte) ([]byte, error)
}

func applications() []application {
	return []application{runLength(), deflate()}
}

var errExpand = errors.New("sections that the application did not compress")

// runLength counts runs of equal bytes, as CICS compresses its records: a byte below 128 and that many bytes and one,
// or 257 less the length of a run, of 3 to 129, and its byte.
func runLength() application {
	const least, most = 3, 129
	runAt := func(b []byte) int {
		n := 1
		for n < len(b) && n < most && b[n] == b[0] {
			n++
		}
		return n
	}
	return application{
		name: "run-length",
		compress: func(dst, b []byte) ([]byte, error) {
			for len(b) > 0 {
				if run := runAt(b); run >= least {
					dst = append(dst, byte(257-run), b[0])
					b = b[run:]
					continue
				}
				n := 1
				for n < len(b) && n < 128 && (len(b)-n < least || b[n] != b[n+1] || b[n] != b[n+2]) {
					n++
				}
				dst = append(append(dst, byte(n-1)), b[:n]...)
				b = b[n:]
			}
			return dst, nil
		},
		expand: func(dst, b []byte) ([]byte, error) {
			for len(b) > 0 {
				n := int(b[0])
				if n < 128 {
					if len(b) < n+2 {
						return dst, errExpand
					}
					dst = append(dst, b[1:n+2]...)
					b = b[n+2:]
					continue
				}
				if len(b) < 2 {
					return dst, errExpand
				}
				for range 257 - n {
					dst = append(dst, b[1])
				}
				b = b[2:]
			}
			return dst, nil
		},
	}
}

// deflate is Go's at its fastest, a stream for each record.
func deflate() application {
	var out bytes.Buffer
	var w *flate.Writer
	r, in := flate.NewReader(bytes.NewReader(nil)), new(bytes.Reader)
	return application{
		name: "deflate",
		compress: func(dst, b []byte) (_ []byte, err error) {
			out.Reset()
			if w == nil {
				if w, err = flate.NewWriter(&out, flate.BestSpeed); err != nil {
					return nil, err
				}
			}
			w.Reset(&out)
			if _, err := w.Write(b); err != nil {
				return nil, err
			}
			if err := w.Close(); err != nil {
				return nil, err
			}
			return append(dst, out.Bytes()...), nil
		},
		expand: func(dst, b []byte) ([]byte, error) {
			in.Reset(b)
			resetter, ok := r.(flate.Resetter)
			if !ok {
				return nil, errExpand
			}
			if err := resetter.Reset(in, nil); err != nil {
				return nil, err
			}
			for {
				if len(dst) == cap(dst) {
					dst = append(dst, 0)[:len(dst)]
				}
				n, err := r.Read(dst[len(dst):cap(dst)])
				dst = dst[:len(dst)+n]
				if errors.Is(err, io.EOF) {
					return dst, nil
				}
				if err != nil {
					return nil, fmt.Errorf("%w: %w", errExpand, err)
				}
			}
		},
	}
}

// shrink appends a record as the application keeps it.
func (a application) shrink(dst, record []byte) ([]byte, error) {
	start := len(dst)
	dst = append(dst, record[:headerLength]...)
	dst[start+flagAt] |= flagCompressed
	dst, err := a.compress(dst, record[headerLength:])
	if err != nil {
		return nil, fmt.Errorf("compress a record by %s: %w", a.name, err)
	}
	if len(dst)-start >= len(record) {
		return append(dst[:start], record...), nil
	}
	return describe(dst, start), nil
}

// restore returns a record, in buf if it was compressed.
func (a application) restore(buf, record []byte) ([]byte, error) {
	if record[flagAt]&flagCompressed == 0 {
		return record, nil
	}
	return a.expand(append(buf[:0], record[:headerLength]...), record[headerLength:])
}
