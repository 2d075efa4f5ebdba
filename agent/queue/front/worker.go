// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/classes"
	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/message"
)

// worker carries out the verdicts on the operations of one part. It takes an encoder or decoder when the
// first message needs one, and counts all of them together where they do not differ.
type worker struct {
	front    *Front
	settings *generation
	headers  bool // the client understands them
	encoder  *message.Encoder
	decoder  *message.Decoder
	scratch  *buffer
	stored   run
	// What is passed on beside does not count.
	compressing, inflating meter.Stopwatch
}

// execute implements direction.
func (c *conn) execute(out []byte, g *generation, steps []step) ([]byte, error) {
	w := worker{front: c.front, settings: g, headers: c.headers, stored: run{meter: &c.front.encoded}}
	defer w.end()
	var err error
	meter.OnThread(func() {
		for i := 0; i < len(steps) && err == nil; i++ {
			out, err = w.execute(out, &steps[i])
		}
		w.compressing.Stop()
		w.inflating.Stop()
	})
	return out, err
}

// execute appends what is passed on for an operation.
func (w *worker) execute(out []byte, s *step) ([]byte, error) {
	if s.verdict != compress {
		w.compressing.Stop()
	}
	if s.verdict != inflate {
		w.inflating.Stop()
	}
	switch s.verdict {
	case pass:
		return append(out, s.raw...), nil
	case compress:
		return w.compress(out, &s.operation, s.choice)
	case verify:
		return w.verify(out, &s.operation)
	case createConsumer:
		return w.front.consumer(out, &s.operation), nil
	case listStreams:
		return w.front.list(out, &s.operation), nil
	case inflate:
		return w.inflate(out, s)
	case damaged:
		return w.undecodable(out, &s.operation, s.damage), nil
	case redact:
		return w.message(out, &s.operation, s.header, s.payload), nil
	case replace:
		return append(out, s.instead...), nil
	default:
		return out, fmt.Errorf("%w: verdict %d", errProtocol, s.verdict)
	}
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

// end gives back what the worker took, and counts what it did.
func (w *worker) end() {
	w.stored.flush()
	w.front.encoded.AddCPU(w.compressing.Total())
	w.front.decoded.AddCPU(w.inflating.Total())
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

// noHeaders is the block of a message without headers, to which those of the form are
// added.
var noHeaders = []byte("NATS/1.0\r\n\r\n")

const totalDigits = 9

// compress appends a put with its payload compressed, or as it is.
func (w *worker) compress(out []byte, op *operation, choice classes.Choice) ([]byte, error) {
	w.compressing.Start()
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
	trial := w.encoder.Expected(len(op.payload))
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
	out, form, outcome, err := w.front.classes.Encode(choice, w.encoder, out, op.payload)
	if err != nil {
		w.front.EngineFailed(err)
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
	form, err := message.ParseForm(op.header)
	if err == nil && form.Dictionary != 0 {
		err = envelope.ErrDictionary
	}
	if err == nil && form.Plain() { // another header with the prefix
		if reason, skips := w.settings.Encoding.Skips(len(op.payload)); skips {
			w.stored.add(reason, len(op.payload))
			return append(out, op.raw...), nil
		}
		choice := w.front.classes.Choose(w.settings.Encoding, op.subject, op.payload)
		if choice.Reason != "" {
			w.stored.add(choice.Reason, len(op.payload))
			return append(out, op.raw...), nil
		}
		return w.compress(out, op, choice)
	}
	if err == nil {
		if err := w.needDecoder(); err != nil {
			return out, err
		}
		plain := newBuffer(min(form.Length, w.settings.MaxMessageSize))
		defer plain.release()
		w.inflating.Start()
		_, _, err = w.decoder.Decode(plain.b[:0], form, op.payload, w.settings.MaxMessageSize)
		w.inflating.Stop()
	}
	if err != nil {
		return append(out, w.front.answer(op, &rejection{code: badRequest, why: err.Error()})...), nil
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

// inflate appends a message to a client with the payload that was put.
func (w *worker) inflate(out []byte, s *step) ([]byte, error) {
	op := &s.operation
	switch {
	case s.form.Plain():
		return w.message(out, op, op.header, op.payload), nil
	case len(op.payload) == 0 && hasHeader(op.header, sizeHeader):
		// A consumer of headers alone.
		return w.message(out, op, w.sized(op.header, s.form.Length), nil), nil
	}
	if err := w.needDecoder(); err != nil {
		return out, err
	}
	w.inflating.Start()
	start := len(out)
	out = w.appendHead(out, op, message.AppendPlainBlock(w.space(), op.header), s.form.Length)
	// It was allowed when it was put.
	out, outcome, err := w.decoder.Decode(out, s.form, op.payload, message.MaxLength)
	var later *message.DictionaryError
	if errors.As(err, &later) {
		// The client is disconnected, and the message is delivered again.
		return out[:start], err
	}
	if err != nil {
		return w.undecodable(out[:start], op, err), nil
	}
	w.front.decoded.Add(outcome)
	return append(out, "\r\n"...), nil
}

// undecodable appends a message as it is stored, and why.
func (w *worker) undecodable(out []byte, op *operation, err error) []byte {
	w.front.CountUndecodable(err)
	block := append(w.space(), op.header[:len(op.header)-2]...)
	block = fmt.Appendf(block, "%s: %s\r\n\r\n", ErrorHeader, oneLine(err))
	return w.message(out, op, block, op.payload)
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

// appendHead appends what comes before the payload of a message: its line, and its headers if the client understands
// them.
func (w *worker) appendHead(out []byte, op *operation, block []byte, payload int) []byte {
	if !w.headers {
		block = nil
	}
	if len(block) > 0 {
		out = append(out, 'H')
	}
	out = append(append(append(out, "MSG "...), op.subject...), ' ')
	out = append(append(out, op.sid...), ' ')
	if op.reply != nil {
		out = append(append(out, op.reply...), ' ')
	}
	if len(block) > 0 {
		out = append(strconv.AppendInt(out, int64(len(block)), 10), ' ')
	}
	out = append(strconv.AppendInt(out, int64(len(block)+payload), 10), "\r\n"...)
	return append(out, block...)
}

// message appends a message.
func (w *worker) message(out []byte, op *operation, block, payload []byte) []byte {
	out = append(w.appendHead(out, op, block, len(payload)), payload...)
	return append(out, "\r\n"...)
}
