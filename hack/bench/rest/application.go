// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"

	"github.com/lighterage/lighterage/hack/bench/runlength"
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

// runLength is that of CICS.
func runLength() application {
	return application{
		name:     "run-length",
		compress: func(dst, b []byte) ([]byte, error) { return runlength.Append(dst, b), nil },
		expand:   runlength.Expand,
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
