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
	"github.com/lighterage/lighterage/agent/estimate"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

// EncodingOptions say how messages are put.
type EncodingOptions struct {
	Policy policy.Settings
	// Codecs in order of preference. The first for which there is an engine is used.
	Codecs []codec.ID
	// MinSize is the least length of a payload in bytes that is compressed; 0 turns
	// compression off. The least sizes of the policy hold as well.
	MinSize int64
	// Engines to compress with, the preferred ones first, and what is known of the
	// accelerator.
	Engines     *codec.Registry
	Accelerator policy.Accelerator
	// Dictionaries that short messages may refer to in mode Auto; nil: there are none.
	Dictionaries DictionarySource
}

// Encoding puts messages into their form. It is safe for concurrent use.
type Encoding struct {
	options     EncodingOptions
	codec       codec.ID // None when there is no engine for any
	accelerator policy.Accelerator
	hardware    codec.Engine // nil when there is none
	software    codec.Engine
	encoders    pool[*Encoder]
	trust       trust
	// idle says that the accelerator was not used when it should have been.
	idle atomic.Bool
}

// NewEncoding returns one, which must be closed. It fails when the settings are invalid
// or an engine does not work.
func NewEncoding(o EncodingOptions) (*Encoding, error) {
	if err := o.Policy.Validate(); err != nil {
		return nil, err
	}
	if o.MinSize < 0 {
		return nil, fmt.Errorf("least size to compress is %d: use 0 or more bytes", o.MinSize)
	}
	e := &Encoding{options: o, codec: codec.None, accelerator: o.Accelerator}
	for _, id := range o.Codecs {
		if id == codec.None {
			continue
		}
		hardware, hasHardware := o.Engines.Best(id, codec.Hardware, o.Policy.Level)
		software, hasSoftware := o.Engines.Best(id, codec.Software, o.Policy.Level)
		if !hasHardware && !hasSoftware {
			continue
		}
		e.codec = id
		switch {
		case hasHardware:
			e.hardware, e.accelerator = hardware, policy.Verified
		case id != codec.Deflate:
			e.accelerator = policy.LacksCodec
		case o.Accelerator == policy.Verified:
			e.accelerator = policy.LacksLevel
		}
		if hasSoftware {
			e.software = software
		}
		break
	}
	e.encoders.create = e.newEncoder
	first, err := e.newEncoder()
	if err != nil {
		return nil, err
	}
	e.encoders.put(first)
	return e, nil
}

// Encoder returns one to be used by one goroutine until it is given back by Release. It
// fails when there is no memory.
func (e *Encoding) Encoder() (*Encoder, error) {
	out, err := e.encoders.get()
	if err != nil {
		return nil, err
	}
	out.adopt(e.current())
	return out, nil
}

// Codec is what payloads are compressed with; None when no engine has one that the
// options name.
func (e *Encoding) Codec() codec.ID { return e.codec }

// Policy is what the options name.
func (e *Encoding) Policy() policy.Settings { return e.options.Policy }

// Options are those that the encoding was made with.
func (e *Encoding) Options() EncodingOptions { return e.options }

// Alike reports whether messages are compressed as by another one, by the same engines.
func (e *Encoding) Alike(o *Encoding) bool {
	name := func(e codec.Engine) string {
		if e == nil {
			return ""
		}
		return e.Name()
	}
	return e.codec == o.codec && e.options.Policy.Level == o.options.Policy.Level &&
		name(e.hardware) == name(o.hardware) && name(e.software) == name(o.software)
}

// Close frees the encoders. Those that are in use go on to work and are freed when they
// are released.
func (e *Encoding) Close() { e.encoders.close() }

// Skips reports whether a payload of a length is stored as it is whatever it holds, so
// that no encoder is needed to learn it, and the reason.
func (e *Encoding) Skips(length int) (policy.Reason, bool) {
	d := e.decide(length)
	return d.Reason, d.Class == codec.NoClass
}

func (e *Encoding) decide(length int) policy.Decision {
	if e.options.MinSize == 0 {
		return policy.Decision{Codec: codec.None, Reason: CompressionOff}
	}
	accelerator := e.accelerator
	if accelerator == policy.Verified && e.idle.Load() {
		accelerator = policy.NotUsed
	}
	d := policy.Decide(e.options.Policy, policy.Facts{Size: int64(length), Codec: e.codec, Accelerator: accelerator})
	switch {
	case d.Class == codec.NoClass:
	case int64(length) < e.options.MinSize || length <= HeaderBound:
		return policy.Decision{Codec: codec.None, Reason: policy.BelowMinimum}
	case length > MaxLength:
		return policy.Decision{Codec: codec.None, Reason: policy.PolicyNever}
	case d.Class == codec.Software && e.software == nil:
		// Its hardware has the codec at this level, and nothing else does.
		return policy.Decision{Codec: codec.None, Reason: policy.BelowMinimum}
	}
	return d
}

// engine of a class.
func (e *Encoding) engine(class codec.Class) codec.Engine {
	if class == codec.Hardware {
		return e.hardware
	}
	return e.software
}

// yield returns why the accelerator yields a payload to software. Where no software has the codec, it never does.
func (e *Encoding) yield(length int) policy.Reason {
	settings := e.options.Policy
	settings.SoftwareDisabled = settings.SoftwareDisabled || e.software == nil
	return policy.Yield(settings, e.hardware, int64(length))
}

// Encoder puts messages into their form. It is not safe for concurrent use.
type Encoder struct {
	encoding *Encoding
	encoders
	// dictionary is what short messages refer to if refers is set, which referring encodes; nil: none.
	dictionary *Dictionary
	referring  encoders
	refers     bool
}

// encoders of both classes, each nil where there is none.
type encoders struct{ hardware, software codec.Encoder }

// of a class.
func (e encoders) of(class codec.Class) codec.Encoder {
	if class == codec.Hardware {
		return e.hardware
	}
	return e.software
}

func (e *Encoding) newEncoder() (*Encoder, error) {
	out := &Encoder{encoding: e}
	level := e.options.Policy.Level
	var err error
	if e.hardware != nil {
		if out.hardware, err = e.hardware.NewEncoder(level); err != nil {
			return nil, err
		}
	}
	if software := e.usable(); software != nil {
		if out.software, err = software.NewEncoder(level); err != nil {
			return nil, errors.Join(err, out.Close())
		}
	}
	return out, nil
}

// Close frees the encoder, which is for who does not release it.
func (e *Encoder) Close() error {
	var errs []error
	for _, c := range []codec.Encoder{e.hardware, e.software, e.referring.hardware, e.referring.software} {
		if c != nil {
			errs = append(errs, c.Close())
		}
	}
	return errors.Join(errs...)
}

// Release gives the encoder back.
func (e *Encoder) Release() { e.encoding.encoders.put(e) }

// Encode appends the payload in the form in which it is to be stored to dst and returns
// the extended slice, the form, and what became of it, without the CPU time, which the
// caller takes for as many messages at a time as it likes. A payload that is stored as
// it is is not appended: dst comes back as it was, with the zero Form and the reason in
// the outcome. It allocates nothing when dst has space for another len(plain) bytes;
// plain must not overlap dst. WireBytes of the outcome includes the headers.
//
// An engine that fails costs nothing but the saving: the reason is EngineFailed then,
// and the error that of the engine.
func (e *Encoder) Encode(dst, plain []byte) ([]byte, Form, meter.Outcome, error) {
	d := e.encoding.decide(len(plain))
	if d.Class == codec.NoClass {
		return dst, Form{}, stored(plain, d.Reason), nil
	}
	all, dictionary := e.encoders, e.refersTo(len(plain))
	if dictionary != 0 {
		all = e.referring
	}
	engine, encoder := e.encoding.engine(d.Class), all.of(d.Class)
	e.encoding.offer(plain)
	form := Form{Codec: d.Codec, Class: codec.Software, Length: len(plain), Dictionary: dictionary}
	start := len(dst)
	dst = slices.Grow(dst, len(plain))
	judged := d.NeedsSample && estimate.Judged(len(plain))
	var expected estimate.Prediction
	var sampled meter.Estimate
	looked := judged && e.encoding.trust.looks(len(plain))
	if looked {
		var err error
		sampled.CPU = meter.ThreadCPU(func() {
			expected, err = estimate.Predict(plain, dst[start:start+len(plain)], encoder)
		})
		if err != nil {
			return dst[:start], Form{}, stored(plain, EngineFailed), fmt.Errorf(
				"look at a sample with engine %s: %w", engine.Name(), err,
			)
		}
		if !expected.Worth {
			e.encoding.trust.seen(len(plain), len(plain))
			o := stored(plain, policy.Incompressible)
			o.Estimate = sampled
			return dst[:start], Form{}, o, nil
		}
	}
	if d.Class == codec.Hardware {
		if reason := e.encoding.yield(len(plain)); reason != "" {
			d.Class, d.Reason = codec.Software, reason
			engine, encoder = e.encoding.software, all.software
		}
	}
	// What is not shorter with its headers than it was need not fit.
	n, err := encoder.Encode(dst[start:start+len(plain)-form.Overhead()], plain)
	if errors.Is(err, codec.ErrDoesNotFit) {
		e.encoding.trust.seen(len(plain), len(plain))
		o := stored(plain, policy.DidNotShrink)
		if o.Estimate = sampled; looked {
			o.Estimate.Found(len(plain), expected.Size, len(plain))
		}
		return dst[:start], Form{}, o, nil
	}
	if err != nil {
		return dst[:start], Form{}, stored(plain, EngineFailed), fmt.Errorf(
			"compress %d bytes with engine %s: %w", len(plain), engine.Name(), err,
		)
	}
	if judged {
		e.encoding.trust.seen(len(plain), n)
	}
	if form.Checksum = xxh3.Hash(plain); dictionary == 0 {
		form.Class = d.Class
	}
	path, reason := meter.Software, d.Reason
	if d.Class == codec.Hardware {
		path = meter.Hardware
		if w, ok := encoder.(codec.Witness); !ok || !w.UsedHardware() {
			form.Class, path, reason = codec.Software, meter.Software, policy.SelfTestFailed
			e.encoding.idle.Store(true)
		}
	}
	if looked {
		sampled.Found(len(plain), expected.Size, n)
	}
	if dictionary != 0 {
		e.encoding.options.Dictionaries.Used()
	}
	return dst[:start+n], form, meter.Outcome{
		Estimate: sampled, Path: path, Reason: reason, PlainBytes: len(plain), WireBytes: n + form.Overhead(),
		Use: meter.Use{Codec: d.Codec, Engine: engine.Name(), Level: d.Level},
	}, nil
}

// tries are the reasons of messages that an engine worked on and that are stored as they are nevertheless.
var tries = []policy.Reason{policy.Incompressible, policy.DidNotShrink, EngineFailed}

// Worked reports whether an engine worked on a message, whether it shrank or not.
func Worked(o meter.Outcome) bool { return o.Path != meter.Stored || slices.Contains(tries, o.Reason) }

// WorkedOn counts the messages that an engine worked on.
func WorkedOn(s meter.Snapshot) int64 {
	n := s.Hardware.Operations + s.Software.Operations
	for _, reason := range tries {
		n += s.Skipped[reason]
	}
	return n
}

func stored(plain []byte, reason policy.Reason) meter.Outcome {
	return meter.Outcome{Path: meter.Stored, Reason: reason, PlainBytes: len(plain), WireBytes: len(plain)}
}
