// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel

import (
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/queue/message"
)

// Work counts what the engines did for channels, and has their failures reported. The zero value is ready; it may be
// shared by several ends.
type Work struct {
	// Encoded are messages that were compressed for a channel, or by the receiving queue; those that did not shrink count
	// with their CPU time alone. Decoded are messages that were inflated for one, or to look whether they are sound.
	Encoded, Decoded meter.Meter
	// Failed is told why an engine failed to compress a message, which then stays plain; nil: nobody is.
	Failed func(error)
}

// encode is that of an encoder.
func (w *Work) encode(
	encode func() ([]byte, message.Form, meter.Outcome, error),
) (packed []byte, form message.Form, err error) {
	var o meter.Outcome
	spent := meter.ThreadCPU(func() { packed, form, o, err = encode() })
	if err != nil && w.Failed != nil {
		w.Failed(err)
	}
	if err != nil || form.Plain() {
		w.Encoded.AddCPU(spent)
		return packed, form, err
	}
	o.CPU = spent
	w.Encoded.Add(o)
	return packed, form, nil
}

// decode is that of a decoder.
func (w *Work) decode(
	d *message.Decoder, dst []byte, form message.Form, payload []byte, limit int,
) (plain []byte, err error) {
	var o meter.Outcome
	spent := meter.ThreadCPU(func() { plain, o, err = d.Decode(dst, form, payload, limit) })
	if err != nil {
		w.Decoded.AddCPU(spent)
		return plain, err
	}
	o.CPU = spent
	w.Decoded.Add(o)
	return plain, nil
}
