// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

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
	session *session

	mu  sync.Mutex
	all []*ask
}

// ask asks for the digests of a range of a file.
func (a *asks) ask(f *outFile, from, to int64) (*ask, error) {
	q := &ask{
		index: f.index, first: uint64(from / (protocol.ChunkSize / protocol.PartsPerChunk)),
		count: protocol.PartsOf(to-from, protocol.ChunkSize), answer: make(chan []protocol.Digest, 1),
	}
	a.mu.Lock()
	a.all = append(a.all, q)
	a.mu.Unlock()
	return q, a.session.send(&wirev1.SessionRequest{Message: &wirev1.SessionRequest_AskOld{AskOld: &wirev1.AskOld{
		Index: q.index, First: q.first, Count: uint32(q.count),
	}}})
}

// answered takes an answer of the receiver's. Answers come in the order of what was asked.
func (a *asks) answered(m *wirev1.Old) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) == 0 {
		return protocol.Invalid("the receiver sent digests that nobody asked for")
	}
	q, b := a.all[0], m.GetDigests()
	if m.GetIndex() != q.index || m.GetFirst() != q.first || len(b)%protocol.DigestSize != 0 ||
		len(b)/protocol.DigestSize > q.count {
		return protocol.Invalid("the receiver sent %d bytes of digests of entry %d from part %d on; %d digests of entry %d "+
			"from part %d on were asked for",
			len(b), m.GetIndex(), m.GetFirst(), q.count, q.index, q.first)
	}
	a.all = a.all[1:]
	digests := make([]protocol.Digest, 0, len(b)/protocol.DigestSize)
	for ; len(b) > 0; b = b[protocol.DigestSize:] {
		digests = append(digests, protocol.Digest(b))
	}
	q.answer <- digests
	return nil
}
