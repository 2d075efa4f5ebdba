// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"sync"

	"github.com/lighterage/lighterage/agent/transfer/protocol"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// askChunks is how many chunks of a file an ask is for.
const askChunks = protocol.MaxAskParts / protocol.PartsPerChunk

// ask is for the digests of a range of the version of a file that is at the destination.
type ask struct {
	index  uint64
	first  uint64 // part of the file
	count  int
	answer chan []protocol.Digest // fewer than count where the version ends
}

// asks are those that are under way, the oldest first.
type asks struct {
	mu  sync.Mutex
	all []*ask
}

// ask asks for the digests of a range of a file.
func (s *sender) ask(f *outFile, from, to int64) (*ask, error) {
	a := &ask{
		index: f.index, first: uint64(from / (protocol.ChunkSize / protocol.PartsPerChunk)), count: protocol.PartsOf(to-from, protocol.ChunkSize),
		answer: make(chan []protocol.Digest, 1),
	}
	s.asks.mu.Lock()
	s.asks.all = append(s.asks.all, a)
	s.asks.mu.Unlock()
	return a, s.send(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_AskOld{AskOld: &wirev1.AskOld{
		Index: a.index, First: a.first, Count: uint32(a.count),
	}}})
}

// answered takes an answer of the receiver's. Answers come in the order of what was asked.
func (s *sender) answered(m *wirev1.Old) error {
	s.asks.mu.Lock()
	defer s.asks.mu.Unlock()
	if len(s.asks.all) == 0 {
		return protocol.Invalid("the receiver sent digests that nobody asked for")
	}
	a, b := s.asks.all[0], m.GetDigests()
	if m.GetIndex() != a.index || m.GetFirst() != a.first || len(b)%protocol.DigestSize != 0 || len(b)/protocol.DigestSize > a.count {
		return protocol.Invalid("the receiver sent %d bytes of digests of entry %d from part %d on; %d digests of entry %d from "+
			"part %d on were asked for",
			len(b), m.GetIndex(), m.GetFirst(), a.count, a.index, a.first)
	}
	s.asks.all = s.asks.all[1:]
	digests := make([]protocol.Digest, 0, len(b)/protocol.DigestSize)
	for ; len(b) > 0; b = b[protocol.DigestSize:] {
		digests = append(digests, protocol.Digest(b))
	}
	a.answer <- digests
	return nil
}

// olds says of which needed files the receiver has another version.
func olds(need *wirev1.Need) (func(i int) bool, error) {
	old := need.GetOld()
	if len(old) > len(need.GetBitmap()) {
		return nil, protocol.Invalid("the receiver has other versions of more entries than it needs")
	}
	for i := range old {
		if old[i]&^need.GetBitmap()[i] != 0 {
			return nil, protocol.Invalid("the receiver has another version of an entry that it does not need")
		}
	}
	return func(i int) bool { return i/8 < len(old) && old[i/8]>>(i%8)&1 != 0 }, nil
}
