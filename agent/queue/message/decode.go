// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package message

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/meter"
)

// Decoding makes messages plain. It is safe for concurrent use.
type Decoding struct {
	engines      *codec.Registry
	decoders     pool[*Decoder]
	dictionaries atomic.Pointer[Dictionaries]
}

// NewDecoding returns one, which must be closed. It uses the preferred engine of each
// codec in the registry, and fails when one does not work.
func NewDecoding(engines *codec.Registry) (*Decoding, error) {
	d := &Decoding{engines: engines}
	d.decoders.create = d.newDecoder
	first, err := d.newDecoder()
	if err != nil {
		return nil, err
	}
	d.decoders.put(first)
	return d, nil
}

// Decoder returns one to be used by one goroutine until it is given back by Release. It
// fails when there is no memory.
func (d *Decoding) Decoder() (*Decoder, error) { return d.decoders.get() }

// Close frees the decoders. Those that are in use go on to work and are freed when they
// are released.
func (d *Decoding) Close() { d.decoders.close() }

// Decoder makes messages plain. It is not safe for concurrent use.
type Decoder struct {
	decoding *Decoding
	engines  []engineDecoder
	// referring are decoders with a dictionary, the one that was used last at the end.
	referring []referringDecoder
}

type engineDecoder struct {
	codec   codec.ID
	decoder codec.Decoder
	// witness is that of a decoder of class Hardware; nil when it is not of the class
	// or bears none.
	witness codec.Witness
}

func (d *Decoding) newDecoder() (*Decoder, error) {
	out := &Decoder{decoding: d}
	for _, id := range d.engines.Codecs() {
		if id == codec.None {
			continue
		}
		engine := d.engines.ForCodec(id)[0]
		decoder, err := engine.NewDecoder()
		if err != nil {
			return nil, errors.Join(err, out.Close())
		}
		out.engines = append(out.engines, newEngineDecoder(engine, decoder))
	}
	return out, nil
}

func newEngineDecoder(engine codec.Engine, decoder codec.Decoder) engineDecoder {
	e := engineDecoder{codec: engine.Codec(), decoder: decoder}
	if engine.Class() == codec.Hardware {
		e.witness, _ = decoder.(codec.Witness)
	}
	return e
}

// Close frees the decoder, which is for who does not release it.
func (d *Decoder) Close() error {
	var errs []error
	for _, e := range d.engines {
		errs = append(errs, e.decoder.Close())
	}
	for _, r := range d.referring {
		errs = append(errs, r.decoder.Close())
	}
	return errors.Join(errs...)
}

// Release gives the decoder back.
func (d *Decoder) Release() { d.decoding.decoders.put(d) }

// Decode appends the plain payload to dst and returns the extended slice, and what
// became of it, without the CPU time. A plain payload of at most limit bytes is copied.
// What a message makes it allocate is at most limit bytes, and nothing when dst has space
// for form.Length bytes more. payload must not overlap dst. WireBytes of the outcome
// includes the headers.
//
// After an error, which matches ErrCorrupt, is a *CodecError, or is a *DictionaryError, dst comes back as it was.
func (d *Decoder) Decode(dst []byte, form Form, payload []byte, limit int) ([]byte, meter.Outcome, error) {
	if form.Plain() {
		if len(payload) > limit {
			return dst, meter.Outcome{}, fmt.Errorf("%w: %d bytes; the limit is %d", ErrTooLong, len(payload), limit)
		}
		return append(dst, payload...), meter.Outcome{
			Path: meter.Stored, PlainBytes: len(payload), WireBytes: len(payload),
		}, nil
	}
	if err := form.Check(len(payload), limit); err != nil {
		return dst, meter.Outcome{}, err
	}
	if form.Dictionary != 0 {
		decoder, err := d.refer(form.Codec, form.Dictionary)
		if err != nil {
			return dst, meter.Outcome{}, err
		}
		return decoder.decode(dst, form, payload)
	}
	for _, e := range d.engines {
		if e.codec == form.Codec {
			return e.decode(dst, form, payload)
		}
	}
	return dst, meter.Outcome{}, &CodecError{Codec: form.Codec}
}

// Check returns an error that matches ErrCorrupt unless the form of a compressed payload
// with so many bytes makes sense and the plain one has at most limit bytes. The form's
// length may be used to allocate then.
func (f Form) Check(payload, limit int) error {
	limit = min(limit, MaxLength)
	switch {
	case f.Class != codec.Hardware && f.Class != codec.Software:
		return fmt.Errorf("%w: engine of class %v", ErrHeader, f.Class)
	case f.Length > limit:
		return fmt.Errorf("%w: it expands to %d bytes; the limit is %d", ErrTooLong, f.Length, limit)
	case f.Length <= payload:
		return fmt.Errorf("%w: %d bytes in a compressed payload of %d", ErrHeader, f.Length, payload)
	}
	return nil
}

func (e engineDecoder) decode(dst []byte, form Form, payload []byte) ([]byte, meter.Outcome, error) {
	start := len(dst)
	dst = slices.Grow(dst, form.Length)
	plain := dst[start : start+form.Length]
	n, err := e.decoder.Decode(plain, payload)
	if errors.Is(err, codec.ErrCorrupt) {
		return dst[:start], meter.Outcome{}, fmt.Errorf("%w: %w", ErrPayload, err)
	}
	if err != nil {
		return dst[:start], meter.Outcome{}, fmt.Errorf("inflate a message: %w", err)
	}
	if n != len(plain) {
		return dst[:start], meter.Outcome{}, fmt.Errorf("%w: it expands to %d bytes instead of %d", ErrPayload, n, len(plain))
	}
	if xxh3.Hash(plain) != form.Checksum {
		return dst[:start], meter.Outcome{}, ErrChecksum
	}
	o := meter.Outcome{Path: meter.Software, PlainBytes: n, WireBytes: len(payload) + form.Overhead()}
	switch {
	case e.witness != nil && e.witness.UsedHardware():
		o.Path = meter.Hardware
	case form.Class == codec.Hardware:
		o.Path = meter.Fallback
	}
	return dst[:start+n], o, nil
}
