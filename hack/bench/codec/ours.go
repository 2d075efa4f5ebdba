// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/meter"
)

// space is how long a buffer must be for any engine to compress any block into it.
func space(block int) int { return 2*block + 1024 }

// timed measures f by the clocks of the wall and of the thread.
func timed(f func() error) (sample, error) {
	var s sample
	var err error
	start := time.Now()
	s.cpu = meter.ThreadCPU(func() { err = f() })
	s.wall = time.Since(start)
	return s, err
}

// compressing is an engine that compresses blocks one by one.
func compressing(s setting, plain []byte, block int) (contender, error) {
	encoder, err := s.engine.NewEncoder(s.level)
	if err != nil {
		return contender{}, err
	}
	dst := make([]byte, space(block))
	c := blockwise(s.name(), plain, block, func(b []byte) (int, error) { return encoder.Encode(dst, b) })
	c.close = encoder.Close
	return c, nil
}

// packed is one compressed block.
type packed struct {
	plain int
	bytes []byte
}

// pack compresses a corpus.
func pack(s setting, plain []byte, block int) ([]packed, error) {
	encoder, err := s.engine.NewEncoder(s.level)
	if err != nil {
		return nil, err
	}
	defer func() { _ = encoder.Close() }()
	dst := make([]byte, space(block))
	var all []packed
	for _, b := range split(plain, block) {
		n, err := encoder.Encode(dst, b)
		if err != nil {
			return nil, fmt.Errorf("compress with %s: %w", s.name(), err)
		}
		all = append(all, packed{len(b), bytes.Clone(dst[:n])})
	}
	return all, nil
}

// inflating is an engine that expands blocks one by one.
func inflating(e codec.Engine, blocks []packed, block int) (contender, error) {
	decoder, err := e.NewDecoder()
	if err != nil {
		return contender{}, err
	}
	dst := make([]byte, block)
	return contender{name: e.Name(), close: decoder.Close, pass: func(context.Context) (sample, error) {
		in, out := 0, 0
		sample, err := timed(func() error {
			for _, b := range blocks {
				n, err := decoder.Decode(dst[:b.plain], b.bytes)
				if err != nil {
					return err
				}
				if n != b.plain {
					return fmt.Errorf("a block of %d bytes became %d", b.plain, n)
				}
				in += len(b.bytes)
				out += n
			}
			return nil
		})
		sample.in, sample.out = int64(in), int64(out)
		return sample, err
	}}, nil
}
