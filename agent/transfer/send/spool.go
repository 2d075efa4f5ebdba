// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"container/list"
	"context"
	"slices"
	"sync"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/transfer/protocol"
)

// block is one that was encoded. It does not change.
type block struct {
	header  frame.Header // but for the number in a stream
	payload []byte
	digests []protocol.Digest // of its segments
	outcome meter.Outcome
	// stored: its maker stores all blocks, whatever is in them.
	stored bool
}

// size is how much memory it takes, about.
func (b *block) size() int64 {
	const fixed = 512
	return fixed + int64(len(b.payload)) + int64(len(b.digests))*protocol.DigestSize
}

// blockKey is a digest of what a block consists of: which ranges of which versions of which files.
type blockKey [32]byte

// spool keeps encoded blocks for receivers that have yet to come to them, the last ones up to a number of bytes.
type spool struct {
	budget int64

	mu     sync.Mutex
	blocks map[blockKey][]*spooled
	places map[*Place]struct{}
	used   int64
	order  list.List // of those that are kept, the oldest first
}

// spooled is a block that is kept, or being made.
type spooled struct {
	key blockKey
	// maker is whose block it is until it is ready.
	maker *Place
	ready chan struct{} // closed when it is made, or cannot be
	block *block        // nil until then
	// wanted is how many others are thought to need it; element is set while it is kept.
	wanted  int
	element *list.Element
}

func (s *spool) init(budget int64) {
	s.budget = budget
	s.blocks, s.places = make(map[blockKey][]*spooled), make(map[*Place]struct{})
}

func (s *spool) join(p *Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places[p] = struct{}{}
}

func (s *spool) leave(p *Place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.places, p)
	if len(s.places) == 0 {
		for s.order.Len() > 0 {
			s.drop(s.order.Front().Value.(*spooled))
		}
	}
}

// take returns a block: one that is there, or that another is about to have made, or what encode makes, which others
// may then have. at is where the block is in all that is at the source. made reports whether encode was called. An
// error is encode's, or the context's: where another could not make the block, encode is called.
func (s *spool) take(
	ctx context.Context, p *Place, key blockKey, at int64, encode func() (*block, error),
) (b *block, made bool, err error) {
	for {
		b, other, own := s.find(p, key, at)
		switch {
		case b != nil:
			return b, false, nil
		case own != nil:
			b, err := encode()
			s.made(own, b, at)
			return b, true, err
		}
		select {
		case <-other.ready:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
		// The one who made it wanted no more of it than those who wait: it is theirs, whether it is kept or not.
		if b := s.waited(other); b != nil && p.accepts(b) {
			return b, false, nil
		}
	}
}

// find returns a block, or one that is being made, or has the caller make it.
func (s *spool) find(p *Place, key blockKey, at int64) (b *block, other, own *spooled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.position = max(p.position, at)
	for _, k := range s.blocks[key] {
		switch {
		case k.block == nil && k.maker != p && p.acceptsAllOf(k.maker):
			return nil, k, nil
		case k.block != nil && p.accepts(k.block):
			s.taken(k)
			return k.block, nil, nil
		}
	}
	own = &spooled{key: key, maker: p, ready: make(chan struct{})}
	s.blocks[key] = append(s.blocks[key], own)
	return nil, nil, own
}

// waited returns what was waited for; nil if it could not be made.
func (s *spool) waited(k *spooled) *block {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.element != nil {
		s.taken(k)
	}
	return k.block
}

// taken notes that one less needs a block that is kept. The caller holds the lock.
func (s *spool) taken(k *spooled) {
	if k.wanted--; k.wanted <= 0 {
		s.drop(k)
	}
}

// made keeps a block, if there was no error and somebody may need it.
func (s *spool) made(k *spooled, b *block, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(k.ready)
	if b != nil {
		k.block = b
		for other := range s.places {
			if other != k.maker && other.position < at+behind {
				k.wanted++
			}
		}
	}
	if k.wanted == 0 || b.size() > s.budget {
		s.forget(k)
		return
	}
	k.element = s.order.PushBack(k)
	for s.used += b.size(); s.used > s.budget; {
		s.drop(s.order.Front().Value.(*spooled))
	}
}

// drop does not keep a block any longer. The caller holds the lock.
func (s *spool) drop(k *spooled) {
	s.order.Remove(k.element)
	k.element = nil
	s.used -= k.block.size()
	s.forget(k)
}

func (s *spool) forget(k *spooled) {
	left := slices.DeleteFunc(s.blocks[k.key], func(o *spooled) bool { return o == k })
	if len(left) == 0 {
		delete(s.blocks, k.key)
		return
	}
	s.blocks[k.key] = left
}

// stores reports whether the place stores all blocks of its own.
func (p *Place) stores() bool { return len(p.writes) == 1 }

// accepts reports whether the receiver reads a block, and it is as its own attempt may have made it: who reads codecs is
// not sent what is stored for those that do not.
func (p *Place) accepts(b *block) bool {
	if p.onlyJoinable && !b.header.Joinable && b.header.Codec != codec.None {
		return false
	}
	return slices.Contains(p.reads, b.header.Codec) && (p.joinable || !b.header.Joinable) && (!b.stored || p.stores())
}

// acceptsAllOf reports whether the receiver accepts whatever another's attempt may make.
func (p *Place) acceptsAllOf(other *Place) bool {
	if p.onlyJoinable && !other.joins || !p.joinable && other.joins || other.stores() && !p.stores() {
		return false
	}
	return !slices.ContainsFunc(other.writes, func(id codec.ID) bool { return !slices.Contains(p.reads, id) })
}
