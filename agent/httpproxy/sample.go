// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/sampling"
)

const (
	// sampledLength is how much of a body a sample has at most, in bytes: what is compressed in one piece.
	sampledLength = maxWhole
	// sampledAtOnce bounds what bodies on their way hold for a sample, in bytes.
	sampledAtOnce = 4 << 20
)

// collector has the bodies of a sample that is being taken.
type collector struct {
	drawn *sampling.Reservoir
	// held is what bodies on their way may take.
	held atomic.Int64
}

// Sample collects bodies that pass for the time of the request, before they are compressed, and gives those that were
// drawn. Those count that could be compressed: of the content types of the settings, and with nothing that forbids it.
// What the policy makes of them, and what clients accept, does not matter. Nothing is collected at other times, and
// nothing is kept. It implements sampling.Source.
func (s *Server) Sample(
	ctx context.Context, r sampling.Request, give func(sampling.Item) error,
) (sampling.Seen, error) {
	c, err := s.collect(r)
	if err != nil {
		return sampling.Seen{}, err
	}
	timer := time.NewTimer(r.Duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	items, seen := s.collected(c)
	if err != nil {
		return seen, err
	}
	for _, item := range items {
		if err := give(item); err != nil {
			return seen, fmt.Errorf("give out a sample: %w", err)
		}
	}
	return seen, nil
}

// collect begins to collect; collected has to follow.
func (s *Server) collect(r sampling.Request) (*collector, error) {
	c := &collector{drawn: sampling.NewReservoir(r.MaxBytes, r.MaxItems)}
	if !s.collecting.CompareAndSwap(nil, c) {
		return nil, sampling.ErrBusy
	}
	return c, nil
}

// collected ends it and returns what there is.
func (s *Server) collected(c *collector) ([]sampling.Item, sampling.Seen) {
	s.collecting.CompareAndSwap(c, nil)
	return c.drawn.Close()
}

// sample has a body noted, and kept if it is drawn. It returns nil if the body could not be compressed. Else end, when
// nothing reads the body any more, gives back what it holds for the sample.
func (x *exchange) sample(res *http.Response, c *collector) *sampled {
	if res.ContentLength == 0 || untouchable(x.r.Header, res.StatusCode, res.Header) != "" ||
		setsCrossSiteCookie(x.r.Header, res.Header) || !x.generation.types.Match(res.Header.Get("Content-Type")) {
		return nil
	}
	t := &sampled{ReadCloser: res.Body, to: c, expected: res.ContentLength, space: sampledLength}
	if t.expected >= 0 {
		t.space = int(min(t.expected, sampledLength))
	}
	if t.key, t.stays = c.drawn.Draw(); t.stays && c.held.Add(int64(t.space)) > sampledAtOnce {
		c.held.Add(-int64(t.space))
		t.stays = false
	}
	res.Body = t
	return t
}

// sampled is a body of which what is read is looked at.
type sampled struct {
	io.ReadCloser
	to       *collector
	expected int64 // length, negative where it is not known
	key      float64
	stays    bool // it is copied
	space    int  // of the copy
	copied   []byte
	length   int64
	done     bool
}

func (s *sampled) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.length += int64(n)
	if s.stays && !s.done && n > 0 && len(s.copied) < s.space {
		s.copied = append(s.copied, p[:min(n, s.space-len(s.copied))]...)
	}
	if errors.Is(err, io.EOF) || err == nil && s.length == s.expected {
		s.end(s.length > 0)
	} else if err != nil {
		s.end(false)
	}
	return n, err
}

// Ready reports whether a part has arrived.
func (s *sampled) Ready() bool {
	ready, ok := s.ReadCloser.(interface{ Ready() bool })
	return ok && ready.Ready()
}

// end notes a body that was read, if it is whole, and gives back what was held. It may be called again.
func (s *sampled) end(whole bool) {
	if s == nil || s.done {
		return
	}
	s.done = true
	if s.stays {
		s.to.held.Add(-int64(s.space))
	}
	switch {
	case !whole:
	case s.stays:
		s.to.drawn.Add(s.key, sampling.Item{Content: s.copied, Length: s.length})
	default:
		s.to.drawn.Pass(s.length)
	}
	s.copied = nil
}
