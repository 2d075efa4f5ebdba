// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ids

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
)

// digest stands for an id. That two of those that are known at a time share one is not to be expected.
type digest [16]byte

func digestOf(id []byte) digest {
	sum := sha256.Sum256(id)
	return digest(sum[:])
}

// A record is digest, sequence, seconds since 1970 and the CRC-32C of these.
const (
	recordLen  = 32
	sequenceAt = 16
	storedAt   = 24
	checksumAt = 28
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendRecord(b []byte, id digest, at place) []byte {
	start := len(b)
	b = append(b, id[:]...)
	b = binary.LittleEndian.AppendUint64(b, at.sequence)
	b = binary.LittleEndian.AppendUint32(b, uint32(at.stored))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// scan reads records up to the end, or up to one that was not written in full.
func scan(records []byte, found func(digest, place)) {
	for ; len(records) >= recordLen; records = records[recordLen:] {
		if binary.LittleEndian.Uint32(records[checksumAt:]) != crc32.Checksum(records[:checksumAt], castagnoli) {
			return
		}
		found(digest(records[:sequenceAt]), place{
			binary.LittleEndian.Uint64(records[sequenceAt:]), int64(binary.LittleEndian.Uint32(records[storedAt:])),
		})
	}
}
