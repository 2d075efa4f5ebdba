// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package zstdframe

import (
	"bytes"
	"encoding/binary"

	"github.com/lighterage/lighterage/agent/codec"
)

// leastRepeat is the shortest block that EncodeRepeat looks at: the frame of a shorter one saves next to nothing.
const leastRepeat = 4 << 10

// EncodeRepeat writes the frame of a block that is one byte over and over, as unwritten parts of disks and databases
// are. ok is false where the block is none. The error is codec.ErrDoesNotFit.
//
// libzstd compresses such a block before it looks whether it is one.
func EncodeRepeat(dst, src []byte) (n int, ok bool, err error) {
	if len(src) < leastRepeat || src[0] != src[len(src)-1] || !bytes.Equal(src[1:], src[:len(src)-1]) {
		return 0, false, nil
	}
	const header, singleSegment, size4 = 4 + 1 + 4, 0x20, 0x80
	left := len(src) - 1
	n = header + blockHeader + 1 + (left+maxBlock-1)/maxBlock*(blockHeader+1)
	if len(dst) < n {
		return 0, true, codec.ErrDoesNotFit
	}
	dst = binary.LittleEndian.AppendUint32(dst[:0], magic)
	dst = append(dst, singleSegment|size4)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(src)))
	// The program zstd up to 1.4.3 refuses a frame that begins with a repeated byte, so the first byte stands alone.
	dst = appendBlock(dst, typeRaw, 1, src[0], false)
	for left > 0 {
		length := min(left, maxBlock)
		left -= length
		dst = appendBlock(dst, typeRLE, length, src[0], left == 0)
	}
	return n, true, nil
}

func appendBlock(dst []byte, kind, length int, content byte, last bool) []byte {
	header := length<<3 | kind<<1
	if last {
		header |= 1
	}
	return append(dst, byte(header), byte(header>>8), byte(header>>16), content)
}
