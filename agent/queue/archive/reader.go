// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/frame"
)

// Reader reads one range of blocks. It is for one goroutine. What a file makes it allocate is in proportion to what was
// read of it and found to be sound, and bounded. Errors match ErrDamaged or ErrVersion, or are those of the io.Reader.
type Reader struct {
	from     io.Reader
	decoder  *frame.Decoder
	sequence frame.Sequence
	head     Head
	foot     Foot
	read     int64
	block    []byte // as it was read
	plain    []byte // of the block; until the next one is read
	expanded []byte // buffer for it

	fields, payloads fieldReader
	left             uint32 // messages of the group
	before           place
	last             uint64 // sequence of the last message
	messages, bytes  uint64
}

// NewReader reads the head of a range. The decoder is free to be used for another one afterwards.
func NewReader(from io.Reader, decoder *frame.Decoder) (*Reader, error) {
	r := &Reader{from: from, decoder: decoder}
	if err := r.advance(); err != nil {
		return nil, err
	}
	if r.sequence.Ended() {
		return nil, damaged("it ends where it begins")
	}
	if err := parse(r.plain, &r.head); err != nil {
		return nil, fmt.Errorf("head: %w", err)
	}
	if r.head.Version != blocksVersion {
		return nil, fmt.Errorf("%w: version %d", ErrVersion, r.head.Version)
	}
	return r, nil
}

// parse reads JSON. What it does not know is of no importance, or the version is another. Errors of package json may
// repeat any length of it.
func parse(text []byte, to any) error {
	if err := json.Unmarshal(text, to); err != nil {
		return damaged("%.200s", err.Error())
	}
	return nil
}

// Head is what the range begins with.
func (r *Reader) Head() Head { return r.head }

// Foot is what it ends with, known after Next has returned io.EOF.
func (r *Reader) Foot() Foot { return r.foot }

// BytesRead is the length of what was read.
func (r *Reader) BytesRead() int64 { return r.read }

// Next returns the next message, io.EOF after the last one of a range that is whole. The record is the caller's to
// keep.
func (r *Reader) Next() (Record, error) {
	for r.left == 0 {
		if err := r.group(); err != nil {
			return Record{}, err
		}
	}
	record, err := r.fields.record(&r.payloads, &r.before)
	if err != nil {
		return Record{}, err
	}
	if record.Sequence <= r.last || record.Sequence < r.head.First {
		return Record{}, damaged("message %d comes after message %d", record.Sequence, r.last)
	}
	r.last = record.Sequence
	r.messages++
	r.bytes += uint64(record.PlainLength())
	if r.left--; r.left == 0 && len(r.fields.rest)+len(r.payloads.rest) > 0 {
		return Record{}, damaged("bytes follow message %d", record.Sequence)
	}
	return record, nil
}

// group reads the next group of messages, or the foot.
func (r *Reader) group() error {
	if r.foot.Last != 0 {
		return io.EOF
	}
	if err := r.advance(); err != nil {
		return err
	}
	if r.sequence.Ended() {
		return r.end()
	}
	if len(r.plain) < groupHead {
		return damaged("a group of %d bytes", len(r.plain))
	}
	fields, payloads := binary.BigEndian.Uint32(r.plain), binary.BigEndian.Uint32(r.plain[4:])
	r.left = binary.BigEndian.Uint32(r.plain[8:])
	if fields > maxSection || payloads > maxSection || r.left == 0 || r.left > fields {
		return damaged("a group of %d messages in %d and %d bytes", r.left, fields, payloads)
	}
	own := append([]byte(nil), r.plain[groupHead:]...)
	var err error
	if r.fields.rest, err = r.section(own, int(fields)); err != nil {
		return err
	}
	if r.payloads.rest, err = r.section(nil, int(payloads)); err != nil {
		return err
	}
	r.before = place{}
	return nil
}

// section reads blocks until there are so many bytes.
func (r *Reader) section(have []byte, want int) ([]byte, error) {
	for len(have) < want {
		if err := r.advance(); err != nil {
			return nil, err
		}
		if r.sequence.Ended() || len(r.plain) == 0 {
			return nil, damaged("a group of messages is cut short")
		}
		have = append(have, r.plain...)
	}
	if len(have) != want {
		return nil, damaged("a group of messages has %d bytes in place of %d", len(have), want)
	}
	return have, nil
}

// end reads the foot and makes sure that nothing follows.
func (r *Reader) end() error {
	if err := parse(r.plain, &r.foot); err != nil {
		return fmt.Errorf("foot: %w", err)
	}
	if r.foot.Last < max(r.last, r.head.First) || r.foot.Last == 0 || r.foot.Messages != r.messages ||
		r.foot.PlainBytes != r.bytes {
		return damaged("the foot does not describe what was read")
	}
	switch _, err := io.ReadFull(r.from, make([]byte, 1)); {
	case err == nil:
		return damaged("bytes follow the end")
	case !errors.Is(err, io.EOF):
		return err
	}
	return io.EOF
}

// advance reads the next block into plain.
func (r *Reader) advance() error {
	if cap(r.block) < frame.HeaderSize {
		r.block = make([]byte, frame.HeaderSize)
	}
	if err := r.fill(r.block[:frame.HeaderSize]); err != nil {
		return err
	}
	h, err := frame.ParseHeader(r.block[:frame.HeaderSize])
	if err == nil {
		err = r.sequence.Accept(h)
	}
	if err != nil {
		return broken(err)
	}
	if cap(r.block) < int(h.WireLen) {
		r.block = make([]byte, h.WireLen)
	}
	if err := r.fill(r.block[:h.WireLen]); err != nil {
		return err
	}
	if r.plain, _, err = r.decoder.View(r.expanded, h, r.block[:h.WireLen]); err != nil {
		return broken(err)
	}
	if h.Codec != codec.None {
		r.expanded = r.plain[:0]
	}
	return nil
}

// broken says what an error of a block means.
func broken(err error) error {
	var version *frame.VersionError
	var unknown *frame.CodecError
	if errors.As(err, &version) || errors.As(err, &unknown) {
		return fmt.Errorf("%w: %w", ErrVersion, err)
	}
	return damaged("%w", err)
}

func (r *Reader) fill(b []byte) error {
	n, err := io.ReadFull(r.from, b)
	r.read += int64(n)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged("it ends after %d bytes", r.read)
	}
	return err
}

// NewDecoder returns what readers need, which must be closed.
func NewDecoder(engines *codec.Registry) (*frame.Decoder, error) {
	d, err := frame.NewDecoder(engines)
	if err != nil {
		return nil, fmt.Errorf("read an archive: %w", err)
	}
	return d, nil
}
