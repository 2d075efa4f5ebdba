// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/queue/classes"
	"github.com/lighterage/lighterage/agent/queue/message"
)

// compressor puts plain messages into a form, one at a time: at the sending end that of the channel, at the receiving
// one that in which the queue has what is put.
type compressor struct {
	encoding *message.Encoding
	encoder  *message.Encoder
	classes  *classes.Classes // nil: all messages are compressed
	work     *Work
	workers  int // that compress messages of the same batch
}

// newCompressor returns one, which must be released.
func newCompressor(
	encoding *message.Encoding, decides *classes.Classes, work *Work, workers int,
) (*compressor, error) {
	encoder, err := encoding.Encoder()
	if err != nil {
		return nil, err
	}
	return &compressor{encoding: encoding, encoder: encoder, classes: decides, work: work, workers: workers}, nil
}

// compress returns the payload of a message as it came, and the zero form, if it does not pay to compress it.
func (c *compressor) compress(subject string, plain []byte) ([]byte, message.Form) {
	choice := c.choose(subject, plain)
	if choice.Reason != "" {
		return plain, message.Form{}
	}
	packed, form, err := c.work.encode(func() ([]byte, message.Form, meter.Outcome, error) {
		if c.classes == nil {
			return c.encoder.Encode(nil, plain)
		}
		return c.classes.Encode(choice, c.encoder, nil, plain)
	})
	// An engine that fails leaves the message plain, and Work has it reported.
	if err != nil || form.Plain() {
		return plain, message.Form{}
	}
	return packed, form
}

// choose decides about a message that comes to be compressed.
func (c *compressor) choose(subject string, plain []byte) classes.Choice {
	if c.classes == nil {
		return classes.Choice{}
	}
	if _, skips := c.encoding.Skips(len(plain)); skips {
		return classes.Choice{}
	}
	choice := c.classes.Choose(c.encoding, []byte(subject), plain)
	choice.Workers = c.workers
	return choice
}

func (c *compressor) release() { c.encoder.Release() }
