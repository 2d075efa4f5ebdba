// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package message

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/lighterage/lighterage/agent/codec"
)

// Form says in which form a payload is. The zero value is a plain one.
type Form struct {
	// Codec is Deflate or Zstd; 0 for a plain payload.
	Codec codec.ID
	// Class of the engine that compressed the payload: Hardware or Software.
	Class codec.Class
	// Length of the plain payload in bytes, Checksum is XXH3-64 of it.
	Length   int
	Checksum uint64
	// Dictionary is the number of the dictionary of the queue that the payload refers to; 0: none. Class is Software then,
	// whatever compressed it.
	Dictionary uint32
}

// Plain reports whether the payload is plain.
func (f Form) Plain() bool { return f.Codec == 0 }

// What is between the values of the headers.
const (
	beforeEngine   = "\r\n" + EngineHeader + ": "
	beforeLength   = "\r\n" + LengthHeader + ": "
	beforeChecksum = "\r\n" + ChecksumHeader + ": "
)

// HeaderBound is the length in bytes that AppendHeaders adds at most.
const HeaderBound = len(
	CodecHeader+": deflate"+beforeEngine+"hardware"+beforeLength+beforeChecksum+"\r\n",
) + 8 + checksumDigits

const (
	checksumDigits = 16
	maxDigits      = 10 // of a length
)

// AppendHeaders appends the lines of the headers, each with its line end, as they stand
// in the header block of a message of NATS. A plain form has none.
func (f Form) AppendHeaders(dst []byte) []byte {
	if f.Plain() {
		return dst
	}
	dst = append(dst, CodecHeader+": "...)
	if f.Dictionary != 0 {
		return append(f.appendShort(dst), "\r\n"...)
	}
	dst = append(dst, f.Codec.String()...)
	dst = append(dst, beforeEngine...)
	dst = append(dst, f.Class.String()...)
	dst = append(dst, beforeLength...)
	dst = strconv.AppendInt(dst, int64(f.Length), 10)
	dst = append(dst, beforeChecksum...)
	var sum [checksumDigits / 2]byte
	for i := range sum {
		sum[i] = byte(f.Checksum >> (56 - 8*i))
	}
	dst = hex.AppendEncode(dst, sum[:])
	return append(dst, "\r\n"...)
}

// field is one of the headers, as a bit.
type field uint8

const (
	codecField field = 1 << iota
	engineField
	lengthField
	checksumField

	allFields = codecField | engineField | lengthField | checksumField
)

var (
	prefix   = []byte("Lighterage-")
	lineEnd  = []byte("\r\n")
	blockEnd = []byte("\r\n\r\n")
)

// fieldOf says which of the headers a line is, and its value; 0 if it is another.
func fieldOf(line []byte) (field, []byte) {
	if !bytes.HasPrefix(line, prefix) {
		return 0, nil
	}
	name, value, found := bytes.Cut(line, []byte(":"))
	if !found {
		return 0, nil
	}
	value = bytes.Trim(value, " \t")
	switch string(name) {
	case CodecHeader:
		return codecField, value
	case EngineHeader:
		return engineField, value
	case LengthHeader:
		return lengthField, value
	case ChecksumHeader:
		return checksumField, value
	default:
		return 0, nil
	}
}

// ParseForm reads the form of a message from its header block: what NATS sends before
// the payload, from "NATS/1.0" to the empty line; nil for a message without headers. A
// block without one of the headers is that of a plain payload. Some of them without the
// others, one twice, or a value without a meaning is an error that matches ErrHeader.
func ParseForm(block []byte) (Form, error) {
	if !bytes.Contains(block, prefix) {
		return Form{}, nil
	}
	var f Form
	var seen field
	for len(block) > 0 {
		var line []byte
		line, block, _ = bytes.Cut(block, lineEnd)
		which, value := fieldOf(line)
		if which == 0 {
			continue
		}
		if seen&which != 0 {
			return Form{}, fmt.Errorf("%w: a header stands there twice", ErrHeader)
		}
		seen |= which
		if err := f.set(which, value); err != nil {
			return Form{}, err
		}
	}
	if f.Dictionary != 0 && seen == codecField {
		return f, nil
	}
	if seen != 0 && (seen != allFields || f.Dictionary != 0) {
		return Form{}, fmt.Errorf(
			"%w: of %s, %s, %s and %s some are missing, or too many", ErrHeader, CodecHeader, EngineHeader, LengthHeader, ChecksumHeader,
		)
	}
	return f, nil
}

func (f *Form) set(which field, value []byte) error {
	switch which {
	case codecField:
		name, rest, short := bytes.Cut(value, []byte(";"))
		switch string(name) {
		case "deflate":
			f.Codec = codec.Deflate
		case "zstd":
			f.Codec = codec.Zstd
		default:
			return fmt.Errorf("%w: %s is %.20q: use deflate or zstd", ErrHeader, CodecHeader, value)
		}
		if short {
			return f.setShort(f.Codec, rest)
		}
	case engineField:
		switch string(value) {
		case "hardware":
			f.Class = codec.Hardware
		case "software":
			f.Class = codec.Software
		default:
			return fmt.Errorf("%w: %s is %.20q: use hardware or software", ErrHeader, EngineHeader, value)
		}
	case lengthField:
		n, ok := decimal(value)
		if !ok {
			return fmt.Errorf("%w: %s is %.20q: use a number of bytes up to %d", ErrHeader, LengthHeader, value, MaxLength)
		}
		f.Length = n
	case checksumField:
		var sum [checksumDigits / 2]byte
		if len(value) != checksumDigits || bytes.ContainsAny(value, "ABCDEF") {
			return fmt.Errorf("%w: %s is %.20q: use 16 lower-case hexadecimal digits", ErrHeader, ChecksumHeader, value)
		}
		if _, err := hex.Decode(sum[:], value); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrHeader, ChecksumHeader, err)
		}
		for _, b := range sum {
			f.Checksum = f.Checksum<<8 | uint64(b)
		}
	}
	return nil
}

// decimal reads a length without a sign or leading zeros.
func decimal(value []byte) (int, bool) {
	if len(value) == 0 || len(value) > maxDigits || value[0] == '0' {
		return 0, false
	}
	n := 0
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, n <= MaxLength
}

// AppendPlainBlock appends a header block without the headers of this package. Nothing
// is appended when no header is left and the block has no status.
func AppendPlainBlock(dst, block []byte) []byte {
	start := len(dst)
	kept := 0
	for first := true; len(block) > 0; first = false {
		line, rest, found := bytes.Cut(block, lineEnd)
		block = rest
		if len(line) == 0 && !first {
			break
		}
		if which, _ := fieldOf(line); which != 0 {
			continue
		}
		if !first || len(bytes.TrimRight(line, " ")) > len("NATS/1.0") {
			kept++
		}
		dst = append(dst, line...)
		dst = append(dst, lineEnd...)
		if !found {
			break
		}
	}
	if kept == 0 {
		return dst[:start]
	}
	return append(dst, lineEnd...)
}

// AppendBlock appends a header block with the headers of the form in addition to those
// of block, which is nil for a message that had none.
func (f Form) AppendBlock(dst, block []byte) []byte {
	if !bytes.HasSuffix(block, blockEnd) {
		block = []byte("NATS/1.0\r\n\r\n")
	}
	dst = append(dst, block[:len(block)-len(lineEnd)]...)
	dst = f.AppendHeaders(dst)
	return append(dst, lineEnd...)
}
