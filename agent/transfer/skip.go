// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// skip says what a sender does not send of a file.
type skip struct {
	ranges []*wirev1.ChunkRange
	bytes  int64
}

// skips checks what the receiver says is safe of the needed files of a batch, and returns it by position.
func skips(b batch, need *wirev1.Need) (map[int]skip, error) {
	if len(need.GetSafe()) == 0 {
		return nil, nil
	}
	all, total, next := make(map[int]skip, len(need.GetSafe())), 0, 0
	for _, safe := range need.GetSafe() {
		position := int(safe.GetPosition())
		total += len(safe.GetRanges())
		if position < next || position >= len(b.entries) || total > protocol.MaxRanges || len(safe.GetRanges()) == 0 {
			return nil, protocol.Invalid("the receiver says that something is safe of an entry that is out of order")
		}
		next = position + 1
		size := b.entries[position].Size
		chunks, end := uint64((size+protocol.ChunkSize-1)/protocol.ChunkSize), uint64(0)
		s := skip{ranges: safe.GetRanges()}
		for _, r := range s.ranges {
			first, count := r.GetFirst(), r.GetCount()
			if first < end || count == 0 || first >= chunks || count > chunks-first {
				return nil, protocol.Invalid("the receiver says that chunks are safe that %q does not have", b.entries[position].Path)
			}
			end = first + count
			s.bytes += min(int64(end)*protocol.ChunkSize, size) - int64(first)*protocol.ChunkSize
		}
		if s.bytes >= size {
			return nil, protocol.Invalid("the receiver needs %q and says that all of it is safe", b.entries[position].Path)
		}
		all[position] = s
	}
	return all, nil
}

// next returns the offset of the first chunk from offset on that is to be sent.
func (s *skip) next(offset int64) int64 {
	for len(s.ranges) > 0 {
		first, end := int64(s.ranges[0].GetFirst())*protocol.ChunkSize, int64(s.ranges[0].GetFirst()+s.ranges[0].GetCount())*protocol.ChunkSize
		if offset < first {
			return offset
		}
		if offset < end {
			offset = end
		}
		s.ranges = s.ranges[1:]
	}
	return offset
}
