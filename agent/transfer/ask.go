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

// takeAsk passes an ask on to the goroutine that answers.
func (s *session) takeAsk(m *wirev1.AskOld) error {
	if n := m.GetCount(); n == 0 || n > protocol.MaxAskParts {
		return protocol.Invalid("the sender asks for %d digests; it may ask for 1 to %d", n, protocol.MaxAskParts)
	}
	f, err := s.file(m.GetIndex())
	if err != nil {
		return err
	}
	if f != nil {
		parts := uint64(f.entry.Size+f.chunk/protocol.PartsPerChunk-1) / uint64(f.chunk/protocol.PartsPerChunk)
		first, count := m.GetFirst(), uint64(m.GetCount())
		// What was asked for is not asked for again: an old version is read once.
		if !f.old || first < f.asked || first >= parts || count > parts-first {
			return protocol.Invalid("the sender asks for %d digests of %q from part %d on: there are %d parts, and %d were asked for",
				count, f.entry.Path, first, parts, f.asked)
		}
		f.asked = first + count
	}
	select {
	case s.questions <- question{f, m}:
		return nil
	default:
		return protocol.Invalid("the sender asks for more digests than it may at once")
	}
}

// question is an ask with the file that it is about; nil if that was taken back.
type question struct {
	file *inFile
	ask  *wirev1.AskOld
}

// answerAll answers questions until the session ends.
func (s *session) answerAll() {
	hash := protocol.NewPartHash(s.salt)
	for {
		select {
		case <-s.ctx.Done():
			return
		case q := <-s.questions:
			if !s.enter() {
				return
			}
			old, err := s.old(q, hash)
			s.leave()
			if err == nil {
				err = s.send(&wirev1.SessionResponse{Message: &wirev1.SessionResponse_Old{Old: old}})
			}
			if err != nil {
				s.fail(err)
				return
			}
		}
	}
}

// old reads the version of a file that is at the destination. What cannot be read is left out: it comes from the
// sender.
func (s *session) old(q question, hash *protocol.PartHash) (*wirev1.Old, error) {
	answer := &wirev1.Old{Index: q.ask.GetIndex(), First: q.ask.GetFirst()}
	if q.file == nil {
		return answer, nil
	}
	old, err := s.Destination.OpenOld(q.file.entry.Path)
	if old == nil || err != nil {
		return answer, err
	}
	defer old.Close()
	digests, err := old.Digests(s.ctx, hash.Digest, int(s.chunk/protocol.PartsPerChunk), int64(answer.First), int(q.ask.GetCount()))
	if err != nil && s.ctx.Err() != nil {
		return nil, err
	}
	for i := range digests {
		answer.Digests = append(answer.Digests, digests[i][:]...)
	}
	return answer, nil
}
