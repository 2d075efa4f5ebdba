// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
)

// maxLine bounds the line of a message: with its headers it has at most message.MaxLength bytes and some, which a line
// has as text of twice the length at most, and headers of which all are short of thrice.
const maxLine = 4 * message.MaxLength

// maxHeaderText bounds the headers in a line: each may take many times as much memory. A stream takes headers of
// 64 KiB, of which no line has more than some times as many bytes.
const maxHeaderText = 512 << 10

// messageLine is a message as a line has it. Of what is no text, or would be more than twice as long as one, it has the
// bytes, which are base64 in JSON.
type messageLine struct {
	Sequence uint64    `json:"sequence"`
	Time     time.Time `json:"time"`
	// Subject in the stream of the queue.
	Subject      string `json:"subject,omitempty"`
	SubjectBytes []byte `json:"subjectBytes,omitempty"`
	// Headers as they were put; HeaderBytes are lines as NATS has them.
	Headers     nats.Header `json:"headers,omitempty"`
	HeaderBytes []byte      `json:"headerBytes,omitempty"`
	// Payload as the queue stores it: with the headers of package message it is compressed.
	Text  string `json:"text,omitempty"`
	Bytes []byte `json:"bytes,omitempty"`
}

// appendLine appends the line of a message of a queue.
func appendLine(dst []byte, r *Record, queue string) ([]byte, error) {
	l := messageLine{Sequence: r.Sequence, Time: r.Time.UTC()}
	subject := queue + r.Suffix
	if r.Kind == DeadLetter {
		subject = store.DeadSubject(queue)
	}
	if utf8.ValidString(subject) {
		l.Subject = subject
	} else {
		l.SubjectBytes = []byte(subject)
	}
	if readable(r.Headers) {
		l.Headers = r.Headers
	} else {
		l.HeaderBytes = headerBytes(r.Headers)
	}
	b := bytes.NewBuffer(dst)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(&l); err != nil {
		return dst, fmt.Errorf("write message %d as a line: %w", r.Sequence, err)
	}
	dst = bytes.TrimSuffix(b.Bytes(), []byte("}\n"))
	// Payloads are most of a line. Package json would look at each byte several times.
	switch {
	case len(r.Payload) == 0:
		return append(dst, "}\n"...), nil
	case r.Form.Plain() && isText(r.Payload):
		dst = appendEscaped(append(dst, textField...), r.Payload)
	default:
		dst = base64.StdEncoding.AppendEncode(append(dst, bytesField...), r.Payload)
	}
	return append(dst, lineEnd+"\n"...), nil
}

// What is around a payload in a line. A quote within a string is escaped, and headers have lists, so that neither field
// begins anywhere else.
const (
	textField  = `,"text":"`
	bytesField = `,"bytes":"`
	lineEnd    = `"}`
)

// escapes are the bytes that JSON has in two.
const (
	escaped = "\"\\\n\r\t"
	escapes = "\"\\nrt"
)

// appendEscaped appends text as a string of JSON has it.
func appendEscaped(dst, text []byte) []byte {
	begin := 0
	for i, c := range text {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[begin:i]...)
		begin = i + 1
		if at := strings.IndexByte(escaped, c); at >= 0 {
			dst = append(dst, '\\', escapes[at])
			continue
		}
		dst = append(dst, `\u00`...)
		dst = hex.AppendEncode(dst, text[i:begin])
	}
	return append(dst, text[begin:]...)
}

// unescape returns the text of a string of JSON that appendEscaped made. Of others ok may be false.
func unescape(b []byte) (text []byte, ok bool) {
	const control = len(`\u0000`)
	text = make([]byte, 0, len(b))
	for {
		i := bytes.IndexByte(b, '\\')
		part := b
		if i >= 0 {
			part = b[:i]
		}
		for _, c := range part {
			if c < ' ' || c == '"' {
				return nil, false
			}
		}
		text = append(text, part...)
		if i < 0 {
			return text, true
		}
		if b = b[i:]; len(b) < len(`\n`) {
			return nil, false
		}
		if at := strings.IndexByte(escapes, b[1]); at >= 0 {
			text, b = append(text, escaped[at]), b[len(`\n`):]
			continue
		}
		if len(b) < control || string(b[:4]) != `\u00` {
			return nil, false
		}
		c, err := strconv.ParseUint(string(b[4:control]), 16, 8)
		if err != nil || c >= utf8.RuneSelf {
			return nil, false
		}
		text, b = append(text, byte(c)), b[control:]
	}
}

// cutPayload takes the payload off the end of a line, as appendLine puts it there. Without ok package json is to read
// the line.
func cutPayload(line []byte) (rest, payload []byte, ok bool) {
	body, ended := bytes.CutSuffix(line, []byte(lineEnd))
	if !ended {
		return line, nil, false
	}
	if before, after, found := bytes.Cut(body, []byte(textField)); found {
		payload, ok = unescape(after)
		return append(before[:len(before):len(before)], '}'), payload, ok
	}
	if before, after, found := bytes.Cut(body, []byte(bytesField)); found {
		payload, err := base64.StdEncoding.AppendDecode([]byte{}, after)
		return append(before[:len(before):len(before)], '}'), payload, err == nil && !bytes.ContainsAny(after, "\r\n")
	}
	return line, nil, false
}

// isText reports whether bytes are UTF-8 that JSON has in twice as many at most.
func isText(b []byte) bool {
	const control = 5 // more bytes of a control character
	more := 0
	for _, c := range b {
		switch {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			more++
		case c < ' ':
			more += control
		}
	}
	return more <= len(b) && utf8.Valid(b)
}

// readable reports whether all headers are text.
func readable(h nats.Header) bool {
	for name, values := range h {
		if !isText([]byte(name)) {
			return false
		}
		for _, value := range values {
			if !isText([]byte(value)) {
				return false
			}
		}
	}
	return true
}

// headerBytes are headers as NATS has them, in the order of their names.
func headerBytes(h nats.Header) []byte {
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, value := range h[name] {
			b = append(append(append(append(b, name...), ": "...), value...), "\r\n"...)
		}
	}
	return b
}

func parseHeaderBytes(b []byte) (nats.Header, bool) {
	h := make(nats.Header)
	for line := range strings.SplitSeq(strings.TrimSuffix(string(b), "\r\n"), "\r\n") {
		name, value, ok := strings.Cut(line, ": ")
		if !ok {
			return nil, false
		}
		h[name] = append(h[name], value)
	}
	return h, true
}

// parseLine reads the line of a message of a queue. Errors match ErrDamaged.
func parseLine(line []byte, queue string) (Record, error) {
	var l struct {
		messageLine
		Headers json.RawMessage `json:"headers"` // hides that of the other
	}
	if !utf8.Valid(line) {
		return Record{}, damaged("a line is no UTF-8")
	}
	rest, payload, cut := cutPayload(line)
	if !cut {
		rest = line
	}
	if err := parse(rest, &l); err != nil {
		return Record{}, err
	}
	if cut && (l.Text != "" || l.Bytes != nil) {
		return Record{}, damaged("the line of message %d has two payloads", l.Sequence)
	}
	r := Record{Sequence: l.Sequence, Time: l.Time.UTC(), Payload: l.Bytes}
	if max(len(l.Headers), len(l.HeaderBytes)) > maxHeaderText {
		return r, damaged("message %d has headers of more than %d bytes", r.Sequence, maxHeaderText)
	}
	if l.Headers != nil {
		if err := parse(l.Headers, &r.Headers); err != nil {
			return r, err
		}
	}
	if year := r.Time.Year(); year < 0 || year > 9999 {
		return r, damaged("message %d has a time of the year %d", r.Sequence, year)
	}
	if l.Sequence == 0 || l.Subject != "" && l.SubjectBytes != nil || r.Headers != nil && l.HeaderBytes != nil ||
		l.Text != "" && l.Bytes != nil {
		return r, damaged("the line of message %d has too little or too much", l.Sequence)
	}
	switch {
	case cut:
		r.Payload = payload
	case l.Bytes == nil:
		r.Payload = []byte(l.Text)
	}
	subject := l.Subject + string(l.SubjectBytes)
	suffix, own := strings.CutPrefix(subject, queue)
	switch {
	case subject == store.DeadSubject(queue):
		r.Kind = DeadLetter
	case own && soundSuffix(Ordinary, suffix):
		r.Suffix = suffix
	default:
		return r, fmt.Errorf("%w: message %d has the subject %.100q", ErrOther, r.Sequence, subject)
	}
	if l.HeaderBytes != nil {
		var ok bool
		if r.Headers, ok = parseHeaderBytes(l.HeaderBytes); !ok {
			return r, damaged("message %d has headers that cannot be read", r.Sequence)
		}
	}
	return r, r.check()
}

// check verifies headers and payload of a message that was read, and finds its form.
func (r *Record) check() error {
	size := 0
	for name, values := range r.Headers {
		for _, value := range values {
			size += len(name) + len(value)
		}
		if len(values) == 0 {
			delete(r.Headers, name)
		}
	}
	if len(r.Headers) == 0 {
		r.Headers = nil
	}
	switch {
	case size > maxHeaderBytes:
		return damaged("message %d has headers of more than %d bytes", r.Sequence, maxHeaderBytes)
	case len(r.Payload) > message.MaxLength:
		return damaged("message %d has %d bytes", r.Sequence, len(r.Payload))
	case !soundHeaders(r.Headers):
		return damaged("message %d has headers that NATS could not carry", r.Sequence)
	}
	var err error
	if r.Form, err = message.FormOf(r.Headers); err == nil && !r.Form.Plain() {
		err = r.Form.Check(len(r.Payload), message.MaxLength)
	}
	if err != nil {
		return damaged("message %d: %w", r.Sequence, err)
	}
	if r.Form.Dictionary != 0 {
		return damaged("message %d refers to a dictionary, which no archive has", r.Sequence)
	}
	return nil
}
