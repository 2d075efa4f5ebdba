// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/message"
)

// worker transforms the messages of one part. It takes an encoder or decoder when the
// first message needs one, and counts all of them together where they do not differ.
type worker struct {
	front    *Front
	settings *generation
	encoder  *message.Encoder
	decoder  *message.Decoder
	scratch  *buffer
	stored   run
	// engine runs while messages are compressed, or inflated for clients, and checks while what clients compressed is
	// looked at. What is passed on beside does not count.
	engine, checks meter.Stopwatch
}

// run counts messages with one reason that were stored as they came.
type run struct {
	meter  *meter.Meter
	reason policy.Reason
	n      int
	bytes  int
}

func (r *run) add(reason policy.Reason, length int) {
	if reason != r.reason {
		r.flush()
	}
	r.reason = reason
	r.n++
	r.bytes += length
}

func (r *run) flush() {
	if r.n > 0 {
		r.meter.AddStored(r.reason, r.n, r.bytes)
	}
	r.n, r.bytes = 0, 0
}

// end gives back what the worker took.
func (w *worker) end() {
	w.stored.meter = &w.front.encoded
	w.stored.flush()
	if w.encoder != nil {
		w.encoder.Release()
	}
	if w.decoder != nil {
		w.decoder.Release()
	}
	if w.scratch != nil {
		w.scratch.release()
	}
}

// cpu counts what engines took.
func (w *worker) cpu(m *meter.Meter) {
	if spent := w.engine.Total(); spent > 0 {
		m.AddCPU(spent)
	}
	if spent := w.checks.Total(); spent > 0 {
		w.front.decoded.AddCPU(spent)
	}
}

// noHeaders is the block of a message without headers, to which those of the form are
// added.
var noHeaders = []byte("NATS/1.0\r\n\r\n")

const totalDigits = 9

// encode appends a put with its payload compressed, or as it is.
func (w *worker) encode(out []byte, op *operation) ([]byte, error) {
	if w.encoder == nil {
		var err error
		if w.encoder, err = w.settings.Encoding.Encoder(); err != nil {
			return out, err
		}
	}
	start := len(out)
	block := op.header
	if block == nil {
		block = noHeaders
	}
	// The lengths of line and headers are known before the payload is compressed, so it is
	// compressed to where it belongs. The server reads leading zeros.
	trial := message.Form{Codec: w.settings.Encoding.Codec(), Class: codec.Software, Length: len(op.payload)}
	headerLen := len(block) + len(trial.AppendHeaders(w.space()))
	out = append(out, "HPUB "...)
	out = append(out, op.subject...)
	out = append(out, ' ')
	if op.reply != nil {
		out = append(out, op.reply...)
		out = append(out, ' ')
	}
	out = strconv.AppendInt(out, int64(headerLen), 10)
	out = append(out, ' ')
	total := len(out)
	out = append(out, "000000000\r\n"...)
	headers := len(out)
	out = trial.AppendBlock(out, block)
	payload := len(out)
	out, form, outcome, err := w.encoder.Encode(out, op.payload)
	if err != nil {
		w.front.engineFailed(err)
	}
	w.front.encoded.Add(outcome)
	if form.Plain() {
		return append(out[:start], op.raw...), nil
	}
	form.AppendBlock(out[headers:headers], block)
	put(out[total:total+totalDigits], headerLen+len(out)-payload)
	return append(out, "\r\n"...), nil
}

// put writes a number with leading zeros.
func put(digits []byte, n int) {
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + n%10)
		n /= 10
	}
}

// space returns some bytes to write into.
func (w *worker) space() []byte {
	if w.scratch == nil {
		w.scratch = newBuffer(1)
	}
	return w.scratch.b[:0]
}

// verify appends a put of a client that compressed the payload itself if that is sound,
// and otherwise an answer that it is not.
func (w *worker) verify(out []byte, op *operation) ([]byte, error) {
	if hasHeaderOf(op.header, envelope.DeadPrefix) {
		return w.front.refusePut(
			out, op, "headers that begin with "+envelope.DeadPrefix+" are those of dead letters: put the message without them",
		), nil
	}
	form, err := message.ParseForm(op.header)
	if err != nil {
		return w.front.refusePut(out, op, err.Error()), nil
	}
	if form.Plain() { // another header with the prefix
		if reason, skips := w.settings.Encoding.Skips(len(op.payload)); skips {
			w.stored.add(reason, len(op.payload))
			return append(out, op.raw...), nil
		}
		w.engine.Start()
		return w.encode(out, op)
	}
	if err := w.needDecoder(); err != nil {
		return out, err
	}
	plain := newBuffer(min(form.Length, w.settings.MaxMessageSize))
	defer plain.release()
	w.checks.Start()
	_, _, err = w.decoder.Decode(plain.b[:0], form, op.payload, w.settings.MaxMessageSize)
	w.checks.Stop()
	if err != nil {
		return w.front.refusePut(out, op, err.Error()), nil
	}
	w.front.encoded.Add(
		meter.Outcome{
			Path: meter.Stored, Reason: message.AlreadyEncoded, PlainBytes: len(op.payload), WireBytes: len(op.payload),
		},
	)
	return append(out, op.raw...), nil
}

func (w *worker) needDecoder() error {
	if w.decoder != nil {
		return nil
	}
	var err error
	w.decoder, err = w.settings.Decoding.Decoder()
	return err
}

// plain appends a message to a client with the payload that was put.
func (w *worker) plain(out []byte, op *operation, withHeaders bool) ([]byte, error) {
	form, err := message.ParseForm(op.header)
	if err == nil && form.Plain() {
		return appendMessage(out, op, op.header, op.payload, withHeaders), nil
	}
	start := len(out)
	if err == nil && len(op.payload) == 0 && hasHeader(op.header, sizeHeader) {
		// A consumer of headers alone.
		block := w.sized(op.header, form.Length)
		return appendMessage(out, op, block, nil, withHeaders), nil
	}
	if err == nil {
		if err := w.needDecoder(); err != nil {
			return out, err
		}
		w.engine.Start()
		block := message.AppendPlainBlock(w.space(), op.header)
		out = appendLine(out, op, len(block), form.Length, withHeaders)
		if withHeaders {
			out = append(out, block...)
		}
		var outcome meter.Outcome
		// It was allowed when it was put.
		if out, outcome, err = w.decoder.Decode(out, form, op.payload, message.MaxLength); err == nil {
			w.front.decoded.Add(outcome)
			return append(out, "\r\n"...), nil
		}
		out = out[:start]
	}
	w.front.undecodable(err)
	block := append(w.space(), op.header[:len(op.header)-2]...)
	block = fmt.Appendf(block, "%s: %s\r\n\r\n", ErrorHeader, oneLine(err))
	return appendMessage(out, op, block, op.payload, withHeaders), nil
}

// ErrorHeader says of a message that is delivered as it is stored why it could not be made
// plain.
const ErrorHeader = "Lighterage-Error"

// sizeHeader has the length of the payload that a consumer of headers alone does not get.
const sizeHeader = "Nats-Msg-Size"

// sized returns a block without the form's headers, and with the plain length for the
// stored one.
func (w *worker) sized(block []byte, length int) []byte {
	out := w.space()
	for line := range bytes.SplitAfterSeq(message.AppendPlainBlock(nil, block), []byte("\r\n")) {
		if bytes.HasPrefix(line, []byte(sizeHeader+":")) {
			line = fmt.Appendf(nil, "%s: %d\r\n", sizeHeader, length)
		}
		out = append(out, line...)
	}
	return out
}

func oneLine(err error) []byte {
	return bytes.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, []byte(err.Error()))
}

// appendLine appends the line of a message.
func appendLine(out []byte, op *operation, header, payload int, withHeaders bool) []byte {
	name := "MSG "
	if withHeaders && header > 0 {
		name = "HMSG "
	}
	out = append(out, name...)
	out = append(out, op.subject...)
	out = append(out, ' ')
	out = append(out, op.sid...)
	out = append(out, ' ')
	if op.reply != nil {
		out = append(out, op.reply...)
		out = append(out, ' ')
	}
	if withHeaders && header > 0 {
		out = strconv.AppendInt(out, int64(header), 10)
		out = append(out, ' ')
		payload += header
	}
	out = strconv.AppendInt(out, int64(payload), 10)
	return append(out, "\r\n"...)
}

func appendMessage(out []byte, op *operation, block, payload []byte, withHeaders bool) []byte {
	out = appendLine(out, op, len(block), len(payload), withHeaders)
	if withHeaders {
		out = append(out, block...)
	}
	out = append(out, payload...)
	return append(out, "\r\n"...)
}

// engineFailed logs a fault of an engine, which costs the saving and nothing else.
func (f *Front) engineFailed(err error) {
	f.options.Log.Error("Engine failed, messages are stored as they are", "error", err.Error())
}

// undecodable counts and logs a stored message that cannot be made plain.
func (f *Front) undecodable(err error) {
	f.counters.undecodable.Add(1)
	var missing *message.CodecError
	f.options.Log.Error(
		"Message cannot be made plain and is delivered as it is stored", "error", err.Error(), "codecMissing",
		errors.As(err, &missing),
	)
}
