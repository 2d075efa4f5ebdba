// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/lighterage/lighterage/agent/codec"
)

// encoders are those of one engine, made when they are needed and used again. It is
// safe for concurrent use.
type encoders struct {
	engine codec.Engine
	level  codec.Level
	// turns bounds how many compress at once to what the processors can do: others wait
	// for less than the time that they would lose by sharing.
	turns chan struct{}
	// streams bounds how many are held by streams, which may last.
	streams chan struct{}

	mu     sync.Mutex
	free   []codec.StreamEncoder
	closed bool
}

// maxStreams bounds the encoders that streams of one engine hold, each of which has some
// hundreds of KiB.
const maxStreams = 64

// newEncoders makes one encoder, to see that it can.
func newEncoders(engine codec.Engine, level codec.Level) (*encoders, error) {
	e := &encoders{
		engine: engine, level: level,
		turns: make(chan struct{}, 2*runtime.GOMAXPROCS(0)), streams: make(chan struct{}, maxStreams),
	}
	first, err := e.create()
	if err != nil {
		return nil, err
	}
	e.free = append(e.free, first)
	return e, nil
}

func (e *encoders) create() (codec.StreamEncoder, error) {
	encoder, err := e.engine.NewEncoder(e.level)
	if err != nil {
		return nil, err
	}
	stream, ok := encoder.(codec.StreamEncoder)
	if !ok {
		_ = encoder.Close()
		return nil, fmt.Errorf("engine %s makes no streams, which HTTP needs", e.engine.Name())
	}
	return stream, nil
}

// get returns an encoder, after waiting for a turn.
func (e *encoders) get() (codec.StreamEncoder, error) {
	e.turns <- struct{}{}
	encoder, err := e.take()
	if err != nil {
		<-e.turns
	}
	return encoder, err
}

// put gives back what get returned.
func (e *encoders) put(encoder codec.StreamEncoder) {
	e.keep(encoder)
	<-e.turns
}

// hold returns an encoder for a stream, or nil when too many are held.
func (e *encoders) hold() (codec.StreamEncoder, error) {
	select {
	case e.streams <- struct{}{}:
	default:
		return nil, nil
	}
	encoder, err := e.take()
	if err != nil {
		<-e.streams
	}
	return encoder, err
}

// release gives back what hold returned.
func (e *encoders) release(encoder codec.StreamEncoder) {
	e.keep(encoder)
	<-e.streams
}

func (e *encoders) take() (codec.StreamEncoder, error) {
	e.mu.Lock()
	if n := len(e.free); n > 0 {
		encoder := e.free[n-1]
		e.free = e.free[:n-1]
		e.mu.Unlock()
		return encoder, nil
	}
	e.mu.Unlock()
	return e.create()
}

func (e *encoders) keep(encoder codec.StreamEncoder) {
	e.mu.Lock()
	keep := !e.closed && len(e.free) < cap(e.turns)
	if keep {
		e.free = append(e.free, encoder)
	}
	e.mu.Unlock()
	if !keep {
		_ = encoder.Close()
	}
}

// close frees what is unused, and what is in use when that ends.
func (e *encoders) close() {
	e.mu.Lock()
	e.closed = true
	free := e.free
	e.free = nil
	e.mu.Unlock()
	for _, encoder := range free {
		_ = encoder.Close()
	}
}
