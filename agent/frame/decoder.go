// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/meter"
)

// Decoder turns blocks that travelled into plain ones. It is not safe for
// concurrent use; to expand one stream on several processors, use a Sequence for
// the stream and a decoder's DecodeBlock on each.
type Decoder struct {
	engines  []engineDecoder
	sequence Sequence
	digest   xxh3.Uint128 // of the last block
}

type engineDecoder struct {
	codec   codec.ID
	decoder codec.Decoder
	// witness is that of a decoder of class Hardware; nil when it is not of the class
	// or bears none.
	witness codec.Witness
}

// NewDecoder returns a decoder, which must be closed. It uses the preferred engine
// of each codec in the registry. Codec None needs no engine.
func NewDecoder(engines *codec.Registry) (*Decoder, error) {
	d := &Decoder{}
	for _, id := range engines.Codecs() {
		if id == codec.None {
			continue
		}
		engine := engines.ForCodec(id)[0]
		decoder, err := engine.NewDecoder()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("make a block decoder: %w", err), d.Close())
		}
		e := engineDecoder{codec: id, decoder: decoder}
		if engine.Class() == codec.Hardware {
			e.witness, _ = decoder.(codec.Witness)
		}
		d.engines = append(d.engines, e)
	}
	return d, nil
}

// Decode appends the plain bytes of the stream's next block to dst and returns the
// extended slice. block is exactly one block. It allocates nothing when dst has
// space for the plain block; what a block makes it allocate is at most MaxPlain
// bytes. block must not overlap dst.
//
// After an error dst is returned as it was, and the stream goes on as if the call
// had not been made.
func (d *Decoder) Decode(dst, block []byte) ([]byte, Outcome, error) {
	h, err := ParseHeader(block)
	if err != nil {
		return dst, Outcome{}, fmt.Errorf("decode block %d: %w", d.sequence.next, err)
	}
	if err := d.sequence.check(h); err != nil {
		return dst, Outcome{}, err
	}
	dst, outcome, err := d.DecodeBlock(dst, h, block[HeaderSize:])
	if err == nil {
		d.sequence.advance(h)
	}
	return dst, outcome, err
}

// Finish returns an error unless the stream's last block was decoded.
func (d *Decoder) Finish() error {
	return d.sequence.Finish()
}

// DecodeBlock is Decode for a block whose header ParseHeader returned and whose
// place in the stream the caller checks. payload is what follows the header.
func (d *Decoder) DecodeBlock(dst []byte, h Header, payload []byte) ([]byte, Outcome, error) {
	start := len(dst)
	if h.check() == nil {
		dst = slices.Grow(dst, int(h.PlainLen))
	}
	plain, outcome, err := d.View(dst[start:], h, payload)
	if err != nil {
		return dst, Outcome{}, err
	}
	if h.Codec == codec.None {
		return append(dst, plain...), outcome, nil
	}
	return dst[:start+len(plain)], outcome, nil
}

// View is DecodeBlock without a copy where none is needed: the plain bytes are those of
// the payload when the block is stored, and otherwise in buf, or in new memory if buf is
// too small.
func (d *Decoder) View(buf []byte, h Header, payload []byte) ([]byte, Outcome, error) {
	plain, outcome, err := d.expand(buf, h, payload)
	if err != nil {
		return nil, Outcome{}, fmt.Errorf("decode block %d: %w", h.Seq, err)
	}
	return plain, outcome, nil
}

// Digest returns XXH3-128, big-endian, of the plain bytes of the block that was decoded last. Who wants it
// need not read them again.
func (d *Decoder) Digest() [16]byte { return d.digest.Bytes() }

func (d *Decoder) expand(buf []byte, h Header, payload []byte) ([]byte, Outcome, error) {
	// A header that did not come from ParseHeader must not decide how much is
	// allocated either.
	if err := h.check(); err != nil {
		return nil, Outcome{}, err
	}
	switch {
	case len(payload) < int(h.WireLen):
		return nil, Outcome{}, fmt.Errorf("%w: %d bytes of a payload of %d", ErrTruncated, len(payload), h.WireLen)
	case len(payload) > int(h.WireLen):
		return nil, Outcome{}, fmt.Errorf("%w: %d bytes after the payload", ErrTrailing, len(payload)-int(h.WireLen))
	case h.Joinable && !codec.EndsJoinable(payload):
		return nil, Outcome{}, fmt.Errorf("%w: it cannot be joined", ErrPayload)
	}
	engine, err := d.engine(h.Codec)
	if err != nil {
		return nil, Outcome{}, err
	}

	plain := payload
	var cpu time.Duration
	if h.Codec != codec.None {
		plain = slices.Grow(buf[:0], int(h.PlainLen))[:h.PlainLen]
		var n int
		cpu = meter.ThreadCPU(func() {
			n, err = engine.decoder.Decode(plain, payload)
		})
		if errors.Is(err, codec.ErrCorrupt) {
			return nil, Outcome{}, fmt.Errorf("%w: %w", ErrPayload, err)
		}
		if err != nil {
			return nil, Outcome{}, err
		}
		if n != len(plain) {
			return nil, Outcome{}, fmt.Errorf("%w: it expands to %d bytes instead of %d", ErrPayload, n, len(plain))
		}
	}
	if d.digest = xxh3.Hash128(plain); h.sum(plain, d.digest) != h.Checksum {
		return nil, Outcome{}, ErrChecksum
	}
	return plain, Outcome{
		Path:       decodePath(h.Class, used(engine.witness)),
		PlainBytes: len(plain),
		WireBytes:  h.BlockLen(),
		CPU:        cpu,
	}, nil
}

func (d *Decoder) engine(id codec.ID) (engineDecoder, error) {
	if id == codec.None {
		return engineDecoder{codec: id}, nil
	}
	for _, e := range d.engines {
		if e.codec == id {
			return e, nil
		}
	}
	return engineDecoder{}, &CodecError{Codec: id}
}

// decodePath names the way of a block that a class of engine compressed and that the
// accelerator expanded or did not.
func decodePath(compressed codec.Class, hardware bool) meter.Path {
	switch {
	case compressed == codec.NoClass:
		return meter.Stored
	case hardware:
		return meter.Hardware
	case compressed == codec.Hardware:
		return meter.Fallback
	default:
		return meter.Software
	}
}

// Close frees the engines' decoders. The Decoder must not be used afterwards.
func (d *Decoder) Close() error {
	var errs []error
	for _, e := range d.engines {
		errs = append(errs, e.decoder.Close())
	}
	return errors.Join(errs...)
}
