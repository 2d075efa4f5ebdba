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
	"github.com/lighterage/lighterage/agent/estimate"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

// Outcome is what became of one block.
type Outcome = meter.Outcome

// EncoderOptions describe an encoder.
type EncoderOptions struct {
	// Engines to compress with. An engine of class Hardware in it counts as
	// verified.
	Engines *codec.Registry
	// Accelerator is why Engines has no engine of class Hardware; an encoder that
	// finds one does not ask.
	Accelerator policy.Accelerator
	// Codec is what the peer agreed to; None stores every block.
	Codec codec.ID
	// Policy says what to compress and how.
	Policy policy.Settings
	// Joinable says that the receiver reads joinable blocks: those of codec Deflate are, unless an engine's encoders
	// are no codec.StreamEncoder.
	Joinable bool
	// NoNetwork says that the blocks do not leave the process.
	NoNetwork bool
	// Chooser decides in mode Auto about every block that the policy allows to compress and
	// that promises to shrink, and of Codec it matters only whether it is None. Without one
	// they are compressed as Codec at the policy's level.
	Chooser Chooser
	// Ways are the engines that execute what Chooser may choose.
	Ways map[policy.Option]codec.Engine
	// Sample is told of each block that Chooser could decide about, and how it was, or was to be, compressed; nil: nobody
	// is.
	Sample func(plain []byte, chosen policy.Option)
}

// Encoder turns plain blocks into blocks that travel. It is not safe for
// concurrent use; to compress one stream on several processors, use an encoder for
// each and AppendAt.
type Encoder struct {
	codec       codec.ID
	policy      policy.Settings
	accelerator policy.Accelerator
	noNetwork   bool
	software    worker       // the zero value when the policy never needs it
	hardware    worker       // the zero value when there is none
	shared      codec.Engine // that of the accelerator, which may be a policy.Gate; nil when there is none
	tracker     estimate.Tracker
	likeness    likeness
	choosing    *choosing // nil: without a chooser

	next   uint64
	ended  bool
	joined bool         // the last block that an engine compressed is joinable
	digest xxh3.Uint128 // of the last block
}

// worker is an engine at a level.
type worker struct {
	encoder codec.Encoder
	stream  codec.StreamEncoder // the encoder, if its blocks are to be joinable
	witness codec.Witness       // of hardware; nil when it bears none
	use     meter.Use
}

func newWorker(engine codec.Engine, level codec.Level, joinable bool) (worker, error) {
	encoder, err := engine.NewEncoder(level)
	if err != nil {
		return worker{}, err
	}
	w := worker{encoder: encoder, use: meter.Use{Codec: engine.Codec(), Engine: engine.Name(), Level: level}}
	if joinable && engine.Codec() == codec.Deflate {
		w.stream, _ = encoder.(codec.StreamEncoder)
	}
	if engine.Class() == codec.Hardware {
		w.witness, _ = encoder.(codec.Witness)
	}
	return w, nil
}

// encode compresses a block. The blocks of a worker are all joinable, or none is.
func (w worker) encode(dst, src []byte) (int, error) {
	if w.stream != nil {
		return codec.EncodeJoinable(w.stream, dst, src)
	}
	return w.encoder.Encode(dst, src)
}

// NewEncoder returns an encoder, which must be closed.
func NewEncoder(o EncoderOptions) (*Encoder, error) {
	if err := o.Policy.Validate(); err != nil {
		return nil, fmt.Errorf("make a block encoder: %w", err)
	}
	if !o.Codec.Valid() {
		return nil, fmt.Errorf("make a block encoder: %w", &CodecError{Codec: o.Codec})
	}
	e := &Encoder{codec: o.Codec, policy: o.Policy, accelerator: accelerator(o), noNetwork: o.NoNetwork}
	if o.Codec == codec.None || o.Policy.Mode == policy.Never || o.Policy.Mode == policy.Auto && o.NoNetwork {
		return e, nil
	}
	if o.Policy.Mode == policy.Auto && o.Chooser != nil && len(o.Ways) > 0 {
		choosing, err := newChoosing(o)
		if err != nil {
			return nil, fmt.Errorf("make a block encoder: %w", err)
		}
		e.choosing, e.accelerator, e.shared = choosing, choosing.accelerator(o), choosing.shared()
		return e, nil
	}
	if engine, ok := o.Engines.Best(o.Codec, codec.Hardware, o.Policy.Level); ok {
		hardware, err := newWorker(engine, o.Policy.Level, o.Joinable)
		if err != nil {
			return nil, fmt.Errorf("make a block encoder: %w", err)
		}
		e.hardware, e.shared = hardware, engine
		e.accelerator = policy.Verified
	}
	if o.Policy.SoftwareDisabled {
		return e, nil
	}
	engine, ok := o.Engines.Best(o.Codec, codec.Software, o.Policy.Level)
	if !ok {
		return nil, errors.Join(fmt.Errorf("make a block encoder: %w", &CodecError{Codec: o.Codec}), e.Close())
	}
	software, err := newWorker(engine, o.Policy.Level, o.Joinable)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a block encoder: %w", err), e.Close())
	}
	e.software = software
	return e, nil
}

// accelerator returns what is known of the accelerator where no engine has the codec
// and the level.
func accelerator(o EncoderOptions) policy.Accelerator {
	for _, engine := range o.Engines.ForCodec(o.Codec) {
		if engine.Class() == codec.Hardware {
			return policy.LacksLevel
		}
	}
	switch {
	case o.Codec != codec.Deflate:
		return policy.LacksCodec // deflate is the only one
	case o.Accelerator == policy.Verified:
		return policy.Absent
	}
	return o.Accelerator
}

// Append appends the next block of the stream, with its header, to dst and
// returns the extended slice. It allocates nothing when dst has space for
// HeaderSize + len(plain) bytes. plain must not overlap dst.
//
// The errors are the caller's mistakes (ErrTooLarge, ErrEnded, codec.ErrClosed) or
// those of an engine that is broken; after one the stream goes on as if the call
// had not been made, and dst is returned as it was.
func (e *Encoder) Append(dst, plain []byte, last bool) ([]byte, Outcome, error) {
	if e.ended {
		return dst, Outcome{}, ErrEnded
	}
	dst, outcome, err := e.AppendAt(dst, e.next, plain, last)
	if err == nil {
		e.next++
		e.ended = last
	}
	return dst, outcome, err
}

// Next is Append without a copy where none is needed: it returns the block's header and its
// payload apart, which is plain itself when the block is stored. buf is memory that it
// may use and that the result may be in; it needs HeaderSize + len(plain) bytes for
// nothing to be allocated.
func (e *Encoder) Next(buf, plain []byte, last bool) (header, payload []byte, outcome Outcome, err error) {
	if e.ended {
		return nil, nil, Outcome{}, ErrEnded
	}
	h, payload, outcome, err := e.encode(buf, e.next, plain, last)
	if err != nil {
		return nil, nil, Outcome{}, err
	}
	e.next++
	e.ended = last
	return h.Append(buf[:0]), payload, outcome, nil
}

// Skip leaves the next number to a block that this encoder did not make.
func (e *Encoder) Skip() { e.next++ }

// Digest returns XXH3-128, big-endian, of the plain bytes of the block that was encoded last. Who wants it
// need not read them again.
func (e *Encoder) Digest() [16]byte { return e.digest.Bytes() }

// AppendAt is Append for a block whose number in the stream the caller keeps. It
// neither uses nor changes the encoder's place in a stream of its own.
func (e *Encoder) AppendAt(dst []byte, seq uint64, plain []byte, last bool) ([]byte, Outcome, error) {
	start := len(dst)
	if len(plain) <= MaxPlain {
		dst = slices.Grow(dst, HeaderSize+len(plain))
	}
	h, payload, outcome, err := e.encode(dst[start:], seq, plain, last)
	if err != nil {
		return dst, Outcome{}, err
	}
	block := h.Append(dst)
	if h.Codec == codec.None {
		return append(block, payload...), outcome, nil
	}
	return block[:start+h.BlockLen()], outcome, nil
}

// Payload is Next for who keeps checksums of its own: the header has none and no number, and Digest stays that of an
// earlier block. It may be called whatever the encoder's place in a stream is, and does not change it.
func (e *Encoder) Payload(buf, plain []byte) (h Header, payload []byte, outcome Outcome, err error) {
	return e.payload(buf, 0, plain, false)
}

// encode makes a block. The payload is plain itself or in buf, HeaderSize behind its start.
func (e *Encoder) encode(buf []byte, seq uint64, plain []byte, last bool) (Header, []byte, Outcome, error) {
	h, payload, outcome, err := e.payload(buf, seq, plain, last)
	if err == nil {
		e.digest = xxh3.Hash128(plain)
		h.Checksum = h.sum(plain, e.digest)
	}
	return h, payload, outcome, err
}

// payload is encode without checksums.
func (e *Encoder) payload(buf []byte, seq uint64, plain []byte, last bool) (Header, []byte, Outcome, error) {
	if len(plain) > MaxPlain {
		return Header{}, nil, Outcome{}, fmt.Errorf("encode block %d of %d bytes: %w", seq, len(plain), ErrTooLarge)
	}
	buf = slices.Grow(buf[:0], HeaderSize+len(plain))
	space := buf[HeaderSize : HeaderSize+len(plain)]

	var decision policy.Decision
	var use meter.Use
	var seen sample
	var n int
	var err error
	cpu := meter.ThreadCPU(func() {
		if e.choosing != nil {
			decision, use, seen, n, err = e.choose(space, plain)
		} else {
			decision, use, seen, n, err = e.compress(space, plain)
		}
	})
	if err != nil {
		return Header{}, nil, Outcome{}, fmt.Errorf("encode block %d of %d bytes: %w", seq, len(plain), err)
	}
	payload := plain
	if decision.Codec != codec.None {
		payload = space[:n]
	}

	h := Header{
		Last:     last,
		Codec:    decision.Codec,
		Class:    decision.Class,
		Seq:      seq,
		PlainLen: uint32(len(plain)),
		WireLen:  uint32(len(payload)),
		Joinable: decision.Codec == codec.Deflate && e.joined,
	}
	outcome := encodeOutcome(h, decision.Reason, cpu)
	outcome.Estimate = seen.counts
	if decision.Codec != codec.None {
		outcome.Use = use
	}
	return h, payload, outcome, nil
}

// compress writes the payload of a block that is worth compressing to space, which
// is as long as plain, and returns its length. The decision it returns is what
// was done in the end.
func (e *Encoder) compress(space, plain []byte) (policy.Decision, meter.Use, sample, int, error) {
	facts := policy.Facts{Size: int64(len(plain)), Codec: e.codec, Accelerator: e.accelerator, NoNetwork: e.noNetwork}
	decision := policy.Decide(e.policy, facts)
	var seen sample
	if decision.NeedsSample {
		var err error
		if seen, err = e.look(e.worker(decision.Class).encoder, space, plain); err != nil {
			return decision, meter.Use{}, seen, 0, fmt.Errorf("take a sample: %w", err)
		}
		facts.Sample = seen.finding()
		decision = policy.Decide(e.policy, facts)
	}
	if decision.Class == codec.Hardware {
		if facts.Yield = policy.Yield(e.policy, e.shared, facts.Size); facts.Yield != "" {
			decision = policy.Decide(e.policy, facts)
		}
	}
	if decision.Class == codec.NoClass {
		return decision, meter.Use{}, seen, 0, nil
	}
	return e.work(e.worker(decision.Class), decision, &seen, space, plain)
}

// work has a worker compress a block. The decision it returns is what was done in the
// end.
func (e *Encoder) work(
	w worker, decision policy.Decision, seen *sample, space, plain []byte,
) (policy.Decision, meter.Use, sample, int, error) {
	// One byte less than the plain block: what does not fit did not shrink.
	n, err := w.encode(space[:len(plain)-1], plain)
	if errors.Is(err, codec.ErrDoesNotFit) {
		e.learn(seen, len(plain), len(plain))
		return policy.Decision{Codec: codec.None, Reason: policy.DidNotShrink}, meter.Use{}, *seen, 0, nil
	}
	if err != nil {
		return decision, meter.Use{}, *seen, 0, err
	}
	e.joined = w.stream != nil
	e.learn(seen, len(plain), n)
	use := w.use
	if decision.Class == codec.Hardware && !used(w.witness) {
		// The engine was proved and works in software now. The block is good; those that
		// follow are not given to it, and their reason stays that of this one.
		decision.Class, decision.Reason = codec.Software, policy.SelfTestFailed
		e.accelerator = policy.NotUsed
		if e.software.encoder != nil {
			use = e.software.use // that of the blocks to come
		}
	}
	return decision, use, *seen, n, nil
}

// worker returns the one that does the work of a class.
func (e *Encoder) worker(class codec.Class) worker {
	if class == codec.Hardware {
		return e.hardware
	}
	return e.software
}

// used reports whether the accelerator did all of an engine's last call. An engine
// that bears no witness did not prove it.
func used(w codec.Witness) bool {
	return w != nil && w.UsedHardware()
}

func encodeOutcome(h Header, reason policy.Reason, cpu time.Duration) Outcome {
	o := Outcome{Reason: reason, PlainBytes: int(h.PlainLen), WireBytes: h.BlockLen(), CPU: cpu}
	switch h.Class {
	case codec.Software:
		o.Path = meter.Software
	case codec.Hardware:
		o.Path = meter.Hardware
	default:
		o.Path = meter.Stored
	}
	return o
}

// Close frees the engines' encoders. The Encoder must not be used afterwards.
func (e *Encoder) Close() error {
	var errs []error
	for _, w := range []worker{e.software, e.hardware} {
		if w.encoder != nil {
			errs = append(errs, w.encoder.Close())
		}
	}
	if e.choosing != nil {
		errs = append(errs, e.choosing.close())
	}
	return errors.Join(errs...)
}
