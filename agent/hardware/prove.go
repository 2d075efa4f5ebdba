// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/meter"
)

// Engines are what a proof needs. All are of the same codec.
type Engines struct {
	// Hardware claims to use the accelerator, for blocks of every size. Its encoders
	// and decoders implement codec.Witness, and zlibng.Explained when they can.
	Hardware codec.Engine
	// Software is the same library, kept from using it.
	Software codec.Engine
	// Independent is other code, which inflates what both deflate.
	Independent codec.Engine
	// Stopwatch calls a function and returns the CPU time that it took, or 0 when that
	// cannot be told. Nil: meter.ThreadCPU.
	Stopwatch func(func()) time.Duration
}

// Prove compresses and expands a buffer with all engines. The verdict is Verified
// when at one level at least
//   - each call bore witness that the accelerator did all of it,
//   - the stream differs from software's, which a witness that errs cannot bring about,
//   - both streams were inflated by independent code to what was compressed,
//
// and NotUsed otherwise. A level that the library does not accelerate is left out. One
// wrong byte, or one call whose witness and bytes contradict each other, and nothing
// counts as proved. Neither does anything when the context ends first, which says
// nothing against the accelerator and has the reason Interrupted.
//
// The time it takes is bounded by the number of its calls; how fast they are has no
// influence on whether something is proved.
func Prove(ctx context.Context, e Engines) Verdict {
	p, err := newProof(e)
	if err != nil {
		return notUsed(selfTestFailed("%v", err))
	}
	verdict, failed := p.run(ctx)
	if err := p.close(); err != nil && failed == nil {
		failed = selfTestFailed("free the engines: %v", err)
	}
	switch {
	case failed == nil:
		return verdict
	case ctx.Err() != nil:
		return Verdict{State: NotUsed, Reason: Interrupted, InflateMinSize: NeverInflate,
			Message: "the self-test of the accelerator was interrupted, so that nothing was proved: it is made again when the " +
				"agent starts again"}
	default:
		return notUsed(failed)
	}
}

// proof is a proof under way.
type proof struct {
	engines     Engines
	hardware    codec.Decoder
	software    codec.Decoder
	independent codec.Decoder

	plain  []byte // what is compressed
	stream []byte // the accelerator's output
	other  []byte // software's
	out    []byte // where both are expanded
}

func newProof(e Engines) (*proof, error) {
	if e.Stopwatch == nil {
		e.Stopwatch = meter.ThreadCPU
	}
	p := &proof{
		engines: e,
		plain:   sample(sampleSize),
		stream:  make([]byte, sampleSize),
		other:   make([]byte, sampleSize),
		out:     make([]byte, sampleSize),
	}
	for _, d := range []struct {
		engine  codec.Engine
		decoder *codec.Decoder
	}{{e.Hardware, &p.hardware}, {e.Software, &p.software}, {e.Independent, &p.independent}} {
		decoder, err := d.engine.NewDecoder()
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		*d.decoder = decoder
	}
	return p, nil
}

func (p *proof) close() error {
	var errs []error
	for _, d := range []codec.Decoder{p.hardware, p.software, p.independent} {
		if d != nil {
			errs = append(errs, d.Close())
		}
	}
	return errors.Join(errs...)
}

func (p *proof) run(ctx context.Context) (Verdict, *failure) {
	v := Verdict{State: Verified, Reason: Proved}
	var lacking *failure // of the first level that is not accelerated
	for _, level := range codec.Levels() {
		speed, failed := p.level(ctx, level)
		switch {
		case failed == nil:
			v.Levels = append(v.Levels, level)
			v.Compress = append(v.Compress, speed)
		case failed.reason == SelfTestFailed:
			return Verdict{}, failed
		case lacking == nil:
			lacking = failed
		}
	}
	if len(v.Levels) == 0 {
		return Verdict{}, lacking
	}
	v.SlowerThanSoftware = v.Compress[0].Hardware < v.Compress[0].Software

	unused, failed := p.inflate(ctx, &v)
	if failed != nil {
		return Verdict{}, failed
	}
	v.Message = describe(v, lacking, unused)
	return v, nil
}

// level proves and measures compressing at one level.
func (p *proof) level(ctx context.Context, level codec.Level) (Speed, *failure) {
	what := fmt.Sprintf("compress at level %v", level)
	hardware, err := p.engines.Hardware.NewEncoder(level)
	if err != nil {
		return Speed{}, selfTestFailed("%s: %v", what, err)
	}
	defer hardware.Close()
	software, err := p.engines.Software.NewEncoder(level)
	if err != nil {
		return Speed{}, selfTestFailed("%s: %v", what, err)
	}
	defer software.Close()

	n, err := hardware.Encode(p.stream, p.plain)
	if err != nil {
		return Speed{}, selfTestFailed("%s: %v", what, err)
	}
	m, err := software.Encode(p.other, p.plain)
	if err != nil {
		return Speed{}, selfTestFailed("%s in software: %v", what, err)
	}
	same := bytes.Equal(p.stream[:n], p.other[:m])
	unused := idle(hardware, what)
	_, speaks := hardware.(codec.Witness)
	switch {
	case unused != nil && speaks && !same:
		return Speed{}, selfTestFailed(
			"%s: the library says that software did the work, but the output is not software's", what,
		)
	case unused != nil:
		return Speed{}, unused
	case same:
		return Speed{}, selfTestFailed(
			"%s: the library says that it used the accelerator, but the output is software's, byte for byte", what,
		)
	}
	if failed := p.expands(p.independent, p.stream[:n], len(p.plain), what); failed != nil {
		return Speed{}, failed
	}
	if failed := p.expands(p.independent, p.other[:m], len(p.plain), what+" in software"); failed != nil {
		return Speed{}, failed
	}
	for _, stream := range [][]byte{p.stream[:n], p.other[:m]} {
		if failed := p.expands(
			p.hardware, stream, len(p.plain), "inflate what was compressed at level "+level.String(),
		); failed != nil {
			return Speed{}, failed
		}
	}

	speed := Speed{
		Level:         level,
		HardwareRatio: float64(len(p.plain)) / float64(n),
		SoftwareRatio: float64(len(p.plain)) / float64(m),
	}
	for encoder, rate := range map[codec.Encoder]*float64{hardware: &speed.Hardware, software: &speed.Software} {
		cost, err := p.fastest(ctx, 1, func() error {
			_, err := encoder.Encode(p.out, p.plain)
			return err
		})
		if err != nil {
			return Speed{}, selfTestFailed("%s again: %v", what, err)
		}
		*rate = float64(len(p.plain)) / cost.Seconds()
	}
	if unused := idle(hardware, what+" again"); unused != nil {
		return Speed{}, selfTestFailed("%s: the accelerator did the first work and not what followed", what)
	}
	return speed, nil
}

// expands checks that a decoder expands a stream to the first n plain bytes.
func (p *proof) expands(decoder codec.Decoder, stream []byte, n int, what string) *failure {
	clear(p.out)
	got, err := decoder.Decode(p.out[:n], stream)
	if err != nil {
		return selfTestFailed("%s: its output does not inflate: %v", what, err)
	}
	if !bytes.Equal(p.out[:got], p.plain[:n]) {
		return selfTestFailed("%s: it inflates to other bytes than were compressed", what)
	}
	return nil
}
