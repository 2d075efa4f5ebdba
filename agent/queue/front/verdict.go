// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"github.com/lighterage/lighterage/agent/queue/classes"
	"github.com/lighterage/lighterage/agent/queue/message"
)

// verdict is what becomes of an operation. A direction judges each operation once, where it is read, and worker.execute
// carries the verdict out.
type verdict uint8

const (
	pass           verdict = iota // the operation as it is
	compress                      // a put with its payload compressed
	verify                        // a put that claims to have the form of package message
	createConsumer                // a request for a consumer, confined to the queue
	listStreams                   // a request for a list of streams, confined to the queue's
	inflate                       // a message with the payload that was put
	damaged                       // a message as it is stored, and what is wrong with it: step.damage
	redact                        // a message without the subject for answers
	replace                       // step.instead, such as the answer to a rejected operation
)

// step is an operation with its verdict.
type step struct {
	operation
	verdict verdict
	// work is how many bytes have to be made for it; 0: it is passed on as it is.
	work    int
	instead []byte
	// form of a message that is inflated, or what is wrong with that.
	form   message.Form
	damage error
	// choice about a put that is compressed.
	choice classes.Choice
}

// becomes sets the verdict, with an estimate of the bytes that it makes.
func (s *step) becomes(v verdict, work int) { s.verdict, s.work = v, max(work, 1) }

// replaceWith has something else passed on, perhaps nothing.
func (s *step) replaceWith(b []byte) {
	s.instead = b
	s.becomes(replace, len(b))
}

// direction is one of a connection: what is done with what one side says before it goes to the other.
type direction interface {
	// judge reads the operation at the start of buf and decides what becomes of it. It is called once for each, in
	// their order. When the operation is not there in full, step.raw is empty, and need is how many bytes it has if
	// that is known.
	judge(buf []byte, g *generation, s *step) (need int, err error)
	// commit is called before operations that were judged are passed on.
	commit() error
	// execute appends what is passed on for some operations. It is called for several parts at once, in any order.
	execute(out []byte, g *generation, steps []step) ([]byte, error)
}
