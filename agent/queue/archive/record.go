// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/queue/message"
)

// Kind says what a message is in its stream.
type Kind uint8

const (
	// Ordinary messages are those that were put.
	Ordinary Kind = 0
	// DeadLetter was given out too often.
	DeadLetter Kind = 1
)

// Record is a message of an archive.
type Record struct {
	// Sequence in the stream, from 1, and the time at which it was stored.
	Sequence uint64
	Time     time.Time
	Kind     Kind
	// Suffix is what follows the queue's name in the subject, with its dot.
	Suffix string
	// Headers as they were put.
	Headers nats.Header
	Payload []byte
	// Form of the payload.
	Form message.Form
}

// size of the message in bytes, with what its line has around it: of many without a payload, that is most. The line has
// at most four times as many.
func (r *Record) size() int64 {
	const around, aroundHeader = 128, 8
	n := around + len(r.Suffix) + len(r.Payload)
	for name, values := range r.Headers {
		for _, value := range values {
			n += aroundHeader + len(name) + len(value)
		}
	}
	return int64(n)
}

// PlainLength is that of the payload as it was put, in bytes.
func (r *Record) PlainLength() int {
	if r.Form.Plain() {
		return len(r.Payload)
	}
	return r.Form.Length
}

// Where a payload is.
const (
	inFields byte = 0
	beside   byte = 1
)

// place is the message before one in a group.
type place struct {
	sequence uint64
	time     int64
}

// fieldReader takes fields from the front of a slice. After a failure it yields zeros.
type fieldReader struct {
	rest   []byte
	failed bool
}

func (f *fieldReader) uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(f.rest)
	if n <= 0 || v > most {
		f.failed, f.rest = true, nil
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

func (f *fieldReader) varint() int64 {
	v, n := binary.Varint(f.rest)
	if n <= 0 {
		f.failed, f.rest = true, nil
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

func (f *fieldReader) bytes(n uint64) []byte {
	if uint64(len(f.rest)) < n {
		f.failed, f.rest = true, nil
		return nil
	}
	b := f.rest[:n:n]
	f.rest = f.rest[n:]
	return b
}

func (f *fieldReader) byte() byte {
	if b := f.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

// record takes the next record, whose payload shares memory with the sections.
func (f *fieldReader) record(payloads *fieldReader, before *place) (Record, error) {
	var r Record
	step := f.uvarint(math.MaxUint64 - before.sequence)
	r.Sequence = before.sequence + step
	at := before.time + f.varint()
	r.Time = time.Unix(0, at).UTC()
	r.Kind = Kind(f.byte())
	r.Suffix = string(f.bytes(f.uvarint(maxSuffix)))
	headers, size := f.uvarint(maxHeaderBytes), 0
	for i := uint64(0); i < headers && !f.failed; i++ {
		name := string(f.bytes(f.uvarint(maxHeaderBytes)))
		value := string(f.bytes(f.uvarint(maxHeaderBytes)))
		if size += len(name) + len(value); size > maxHeaderBytes {
			return r, damaged("message %d has headers of more than %d bytes", r.Sequence, maxHeaderBytes)
		}
		if r.Headers == nil {
			r.Headers = make(nats.Header)
		}
		r.Headers[name] = append(r.Headers[name], value)
	}
	from := f.byte()
	length := f.uvarint(message.MaxLength)
	if from == beside {
		r.Payload = payloads.bytes(length)
	} else {
		r.Payload = f.bytes(length)
	}
	if f.failed || payloads.failed || step == 0 || from > beside || r.Kind > DeadLetter ||
		!soundSuffix(r.Kind, r.Suffix) || !soundHeaders(r.Headers) {
		return r, damaged("the message after %d cannot be read", before.sequence)
	}
	form, err := message.FormOf(r.Headers)
	if err != nil {
		return r, damaged("message %d: %w", r.Sequence, err)
	}
	if form.Dictionary != 0 {
		return r, damaged("message %d refers to a dictionary, which no archive has", r.Sequence)
	}
	if form.Plain() != (from == inFields) {
		return r, damaged("message %d is not where its form says", r.Sequence)
	}
	if !form.Plain() {
		if err := form.Check(len(r.Payload), message.MaxLength); err != nil {
			return r, damaged("message %d: %w", r.Sequence, err)
		}
	}
	r.Form = form
	*before = place{r.Sequence, at}
	return r, nil
}
