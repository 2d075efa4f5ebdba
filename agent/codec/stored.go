// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import "encoding/binary"

const (
	// maxStored is how many bytes a stored block of DEFLATE has at most, storedHeader the length of its header where it
	// begins at a boundary of bytes: 3 bits of type, 5 of padding, two lengths.
	maxStored    = 1<<16 - 1
	storedHeader = 5
)

// StoredLen returns the length of n plain bytes as Store writes them.
func StoredLen(n int, last bool) int {
	length := n + (n+maxStored-1)/maxStored*storedHeader
	if last {
		return length + len(JoinEnd)
	}
	return length + 1 + len(flushed)
}

// Store writes src to dst as stored blocks of DEFLATE and returns the length written. They end in JoinEnd if they are
// the last, and as a flush does if not. Dst must hold StoredLen(len(src), last) bytes.
func Store(dst, src []byte, last bool) int {
	at := 0
	for len(src) > 0 {
		n := min(len(src), maxStored)
		dst[at] = 0
		binary.LittleEndian.PutUint16(dst[at+1:], uint16(n))
		binary.LittleEndian.PutUint16(dst[at+3:], ^uint16(n))
		at += storedHeader
		at += copy(dst[at:], src[:n])
		src = src[n:]
	}
	if last {
		return at + copy(dst[at:], JoinEnd)
	}
	return at + copy(dst[at:], "\x00"+flushed)
}
