// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bytes"
	"compress/lzw"
	"context"
	"fmt"

	"github.com/lighterage/lighterage/hack/bench/runlength"
)

// olderNames are those of older. They are in the tables and not in the drawing, where they would be far from all others.
var olderNames = []string{"run-length", "LZW of Go"}

// older are the methods of programs from before deflate, which are not offered: the rows say why.
func older(plain []byte, block int) []contender {
	var buffer bytes.Buffer
	buffer.Grow(space(block))
	var dst []byte
	return []contender{
		blockwise(olderNames[0], plain, block, func(b []byte) (int, error) {
			dst = runlength.Append(dst[:0], b)
			return len(dst), nil
		}),
		blockwise(olderNames[1], plain, block, func(b []byte) (int, error) {
			buffer.Reset()
			w := lzw.NewWriter(&buffer, lzw.MSB, 8)
			if _, err := w.Write(b); err != nil {
				return 0, fmt.Errorf("compress by LZW: %w", err)
			}
			if err := w.Close(); err != nil {
				return 0, fmt.Errorf("compress by LZW: %w", err)
			}
			return buffer.Len(), nil
		}),
	}
}

// blockwise is a function that compresses blocks one by one.
func blockwise(name string, plain []byte, block int, compress func([]byte) (int, error)) contender {
	blocks := split(plain, block)
	return contender{name: name, close: func() error { return nil }, pass: func(context.Context) (sample, error) {
		out := 0
		s, err := timed(func() error {
			for _, b := range blocks {
				n, err := compress(b)
				if err != nil {
					return err
				}
				out += n
			}
			return nil
		})
		s.in, s.out = int64(len(plain)), int64(out)
		return s, err
	}}
}
