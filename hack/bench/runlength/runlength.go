// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runlength counts runs of equal bytes, as CICS compresses its monitoring records. Benchmarks compare with it:
// a byte below 128 and that many bytes and one, or 257 less the length of a run, of 3 to 129, and its byte.
package runlength

import "errors"

const least, most = 3, 129

var errCut = errors.New("run-length: the data end within a run")

func runAt(b []byte) int {
	n := 1
	for n < len(b) && n < most && b[n] == b[0] {
		n++
	}
	return n
}

// Append appends b compressed.
func Append(dst, b []byte) []byte {
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
	return dst
}

// Expand appends what Append compressed.
func Expand(dst, b []byte) ([]byte, error) {
	for len(b) > 0 {
		n := int(b[0])
		if n < 128 {
			if len(b) < n+2 {
				return dst, errCut
			}
			dst = append(dst, b[1:n+2]...)
			b = b[n+2:]
			continue
		}
		if len(b) < 2 {
			return dst, errCut
		}
		for range 257 - n {
			dst = append(dst, b[1])
		}
		b = b[2:]
	}
	return dst, nil
}
