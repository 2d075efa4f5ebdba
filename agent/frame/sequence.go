// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import "fmt"

// Sequence checks that the blocks of a stream come in order, that the last one
// says so, and that none follows. The zero value expects block 0.
type Sequence struct {
	next  uint64
	ended bool
}

// Accept takes the next block's header. After an error it is as before.
func (s *Sequence) Accept(h Header) error {
	if err := s.check(h); err != nil {
		return err
	}
	s.advance(h)
	return nil
}

func (s *Sequence) check(h Header) error {
	if s.ended {
		return fmt.Errorf("%w: block %d after the last one", ErrTrailing, h.Seq)
	}
	if h.Seq != s.next {
		return &SequenceError{Want: s.next, Got: h.Seq}
	}
	return nil
}

func (s *Sequence) advance(h Header) {
	s.next++
	s.ended = h.Last
}

// Ended reports whether the last block was accepted.
func (s *Sequence) Ended() bool { return s.ended }

// Finish returns an error unless the last block was accepted.
func (s *Sequence) Finish() error {
	if !s.ended {
		return fmt.Errorf("%w: the stream stops before block %d without a last one", ErrTruncated, s.next)
	}
	return nil
}
