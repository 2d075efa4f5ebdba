// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package message_test

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/test/corpus"
)

// accelerator is an engine of class Hardware that says whether it was used.
type accelerator struct {
	codec.Engine
	used bool
}

func (accelerator) Name() string       { return "accelerator" }
func (accelerator) Class() codec.Class { return codec.Hardware }

func (a accelerator) NewEncoder(level codec.Level) (codec.Encoder, error) {
	e, err := a.Engine.NewEncoder(level)
	return struct {
		codec.Encoder
		witness
	}{e, witness(a.used)}, err
}

func (a accelerator) NewDecoder() (codec.Decoder, error) {
	d, err := a.Engine.NewDecoder()
	return struct {
		codec.Decoder
		witness
	}{d, witness(a.used)}, err
}

type witness bool

func (w witness) UsedHardware() bool { return bool(w) }

var (
	plainMachine = engines.Default()
	withHardware = codec.NewRegistry(append([]codec.Engine{accelerator{goflate.New(), true}}, engines.All()...)...)
)

func auto() policy.Settings {
	return policy.Settings{Mode: policy.Auto, Level: codec.Fast, HardwareMinSize: 20000, PreferHardware: true}
}

func always() policy.Settings {
	s := auto()
	s.Mode = policy.Always
	return s
}

func options(change func(*message.EncodingOptions)) message.EncodingOptions {
	o := message.EncodingOptions{
		Policy: auto(), Codecs: []codec.ID{codec.Deflate, codec.Zstd}, MinSize: 1, Engines: plainMachine,
	}
	if change != nil {
		change(&o)
	}
	return o
}

func encoder(t testing.TB, o message.EncodingOptions) *message.Encoder {
	t.Helper()
	encoding, err := message.NewEncoding(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(encoding.Close)
	e, err := encoding.Encoder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Release)
	return e
}

func decoder(t testing.TB, registry *codec.Registry) *message.Decoder {
	t.Helper()
	decoding, err := message.NewDecoding(registry)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(decoding.Close)
	d, err := decoding.Decoder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Release)
	return d
}

func data(t testing.TB, name string, n int) []byte {
	t.Helper()
	c, ok := corpus.ByName(name)
	if !ok {
		t.Fatalf("no corpus %q", name)
	}
	return c.Generate(n)
}

// TestRoundTrip: what is put is got, at every size at which something changes.
func TestRoundTrip(t *testing.T) {
	bound := message.HeaderBound
	sizes := []int{
		0, 1, 2, 100, bound - 1, bound, bound + 1, bound + 2, 999, 1000, 1024, 1025, 3000, 12000, 65535, 65536, 70000, 200000,
		1 << 20,
	}
	d := decoder(t, plainMachine)
	for _, id := range []codec.ID{codec.Deflate, codec.Zstd} {
		for _, settings := range []policy.Settings{auto(), always()} {
			e := encoder(t, options(func(o *message.EncodingOptions) { o.Codecs, o.Policy = []codec.ID{id}, settings }))
			for _, name := range []string{"xml", "zeros", "random"} {
				for _, n := range sizes {
					plain := data(t, name, n)
					before := []byte("before")
					out, form, outcome, err := e.Encode(before, plain)
					if err != nil || !bytes.HasPrefix(out, before) {
						t.Fatalf("%v %s %d: %q, %v", id, name, n, out[:min(len(out), 6)], err)
					}
					stored := out[len(before):]
					if form.Plain() != (outcome.Path == meter.Stored) || form.Plain() && len(stored) > 0 || outcome.PlainBytes != n ||
						outcome.WireBytes > max(n, 0) {
						t.Fatalf("%v %s %d: %+v, %+v, %d bytes", id, name, n, form, outcome, len(stored))
					}
					if name == "random" && !form.Plain() || name == "xml" && n >= 3000 && form.Plain() {
						t.Errorf("%v %s %d: %+v, %+v", id, name, n, form, outcome)
					}
					if form.Plain() {
						stored = plain
					} else if len(stored)+message.HeaderBound > n {
						t.Errorf("%v %s %d: longer in its form: %d", id, name, n, len(stored))
					}
					block := form.AppendBlock(nil, nil)
					parsed, err := message.ParseForm(block)
					if err != nil || parsed != form {
						t.Fatalf("%v %s %d: %q means %+v, %v", id, name, n, block, parsed, err)
					}
					got, after, err := d.Decode(before, parsed, stored, max(n, 1))
					if err != nil || !bytes.Equal(got[len(before):], plain) || after.PlainBytes != n {
						t.Fatalf("%v %s %d: %d bytes, %+v, %v", id, name, n, len(got), after, err)
					}
				}
			}
		}
	}
}

func TestOutcomes(t *testing.T) {
	type change = func(*message.EncodingOptions)
	hardware := func(o *message.EncodingOptions) { o.Engines, o.Accelerator = withHardware, policy.Verified }
	idle := func(o *message.EncodingOptions) {
		o.Engines = codec.NewRegistry(accelerator{goflate.New(), false}, goflate.New())
		o.Accelerator = policy.Verified
	}
	noSoftware := func(o *message.EncodingOptions) { o.Policy.SoftwareDisabled = true }
	xml, random := "xml", "random"
	for name, test := range map[string]struct {
		change []change
		corpus string
		size   int
		path   meter.Path
		reason policy.Reason
		read   meter.Path
	}{
		"no accelerator": {nil, xml, 12000, meter.Software, policy.NoAccelerator, meter.Software},
		"software by choice": {
			[]change{func(o *message.EncodingOptions) { o.Policy.PreferHardware = false }}, xml, 12000, meter.Software,
			policy.SoftwareUsed, meter.Software,
		},
		"hardware":               {[]change{hardware}, xml, 30000, meter.Hardware, policy.HardwareUsed, meter.Fallback},
		"too small for hardware": {[]change{hardware}, xml, 12000, meter.Software, policy.SoftwareUsed, meter.Software},
		"idle hardware":          {[]change{idle}, xml, 30000, meter.Software, policy.SelfTestFailed, meter.Software},
		"zstd": {
			[]change{hardware, func(o *message.EncodingOptions) { o.Codecs = []codec.ID{codec.Zstd} }}, xml, 30000,
			meter.Software, policy.CodecNotAccelerated, meter.Software,
		},
		"off": {
			[]change{hardware, func(o *message.EncodingOptions) { o.MinSize = 0 }}, xml, 30000, meter.Stored,
			message.CompressionOff, meter.Stored,
		},
		"below the queue's": {
			[]change{func(o *message.EncodingOptions) { o.MinSize = 12001 }}, xml, 12000, meter.Stored, policy.BelowMinimum,
			meter.Stored,
		},
		"at the queue's": {
			[]change{func(o *message.EncodingOptions) { o.MinSize = 12000 }}, xml, 12000, meter.Software, policy.NoAccelerator,
			meter.Software,
		},
		"below the policy's": {
			[]change{func(o *message.EncodingOptions) { o.Policy.SoftwareMinSize = 12001 }}, xml, 12000, meter.Stored,
			policy.BelowMinimum, meter.Stored,
		},
		"software disabled": {[]change{noSoftware}, xml, 12000, meter.Stored, policy.SoftwareDisabled, meter.Stored},
		"hardware only": {
			[]change{noSoftware, hardware}, xml, 30000, meter.Hardware, policy.HardwareUsed, meter.Fallback,
		},
		"never": {
			[]change{func(o *message.EncodingOptions) { o.Policy.Mode = policy.Never }}, xml, 12000, meter.Stored,
			policy.PolicyNever, meter.Stored,
		},
		"no codec": {
			[]change{func(o *message.EncodingOptions) { o.Codecs = []codec.ID{codec.None} }}, xml, 12000, meter.Stored,
			policy.PeerRefused, meter.Stored,
		},
		"noise": {nil, random, 12000, meter.Stored, policy.Incompressible, meter.Stored},
		"noise all the same": {
			[]change{func(o *message.EncodingOptions) { o.Policy.Mode = policy.Always }}, random, 12000, meter.Stored,
			policy.DidNotShrink, meter.Stored,
		},
		"empty": {nil, xml, 0, meter.Stored, policy.BelowMinimum, meter.Stored},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(nil)
			for _, change := range test.change {
				change(&o)
			}
			plain := data(t, test.corpus, test.size)
			out, form, outcome, err := encoder(t, o).Encode(nil, plain)
			if err != nil || outcome.Path != test.path || outcome.Reason != test.reason {
				t.Fatalf("got %+v, %v; want %v, %v", outcome, err, test.path, test.reason)
			}
			var m meter.Meter
			m.Add(outcome)
			worked := test.path != meter.Stored || test.corpus == random
			if message.Worked(outcome) != worked || (message.WorkedOn(m.Snapshot()) == 1) != worked {
				t.Errorf(
					"that an engine worked on it is said to be %v, of %d", message.Worked(outcome), message.WorkedOn(m.Snapshot()),
				)
			}
			if form.Plain() {
				out = plain
			}
			// A machine without the accelerator reads everything.
			got, read, err := decoder(t, plainMachine).Decode(nil, form, out, len(plain))
			if err != nil || !bytes.Equal(got, plain) || read.Path != test.read {
				t.Errorf("read %d bytes, %+v, %v; want %v", len(got), read, err, test.read)
			}
		})
	}
}

// TestTrust: after many messages that shrink the next ones are compressed without a look, until one does not shrink.
func TestTrust(t *testing.T) {
	e := encoder(t, options(nil))
	text, noise := data(t, "xml", 3000), data(t, "random", 3000)
	for i, test := range []struct {
		before int // messages that shrink
		want   policy.Reason
	}{
		{0, policy.Incompressible}, {10, policy.Incompressible}, {40, policy.DidNotShrink}, {0, policy.Incompressible},
		{31, policy.Incompressible},
		{33, policy.DidNotShrink}, {48, policy.Incompressible},
	} {
		for range test.before {
			if _, _, o, err := e.Encode(nil, text); err != nil || o.Path != meter.Software {
				t.Fatalf("%+v, %v", o, err)
			}
		}
		if _, _, o, err := e.Encode(nil, noise); err != nil || o.Reason != test.want {
			t.Errorf("%d: after %d messages that shrink: %+v, %v; want %v", i, test.before, o, err, test.want)
		}
	}
	// Much is never compressed in vain.
	long := data(t, "random", 64<<10)
	for range 40 {
		if _, _, _, err := e.Encode(nil, text); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, o, err := e.Encode(nil, long); err != nil || o.Reason != policy.Incompressible {
		t.Errorf("a long one: %+v, %v", o, err)
	}
}

// TestIdleHardware: software that is disabled does not go on in the name of hardware.
func TestIdleHardware(t *testing.T) {
	e := encoder(t, options(func(o *message.EncodingOptions) {
		o.Engines = codec.NewRegistry(accelerator{goflate.New(), false}, goflate.New())
		o.Accelerator, o.Policy.SoftwareDisabled = policy.Verified, true
	}))
	plain := data(t, "xml", 30000)
	for i, want := range []policy.Reason{policy.SelfTestFailed, policy.SoftwareDisabled, policy.SoftwareDisabled} {
		if _, _, o, err := e.Encode(nil, plain); err != nil || o.Reason != want {
			t.Errorf("message %d: %+v, %v; want %v", i, o, err, want)
		}
	}
}

func TestSkips(t *testing.T) {
	encoding, err := message.NewEncoding(options(func(o *message.EncodingOptions) { o.MinSize = 1000 }))
	if err != nil {
		t.Fatal(err)
	}
	defer encoding.Close()
	for n, want := range map[int]bool{
		0: true, 999: true, 1000: false, message.MaxLength: false, message.MaxLength + 1: true,
	} {
		if _, got := encoding.Skips(n); got != want {
			t.Errorf("%d bytes: %v", n, got)
		}
	}
}

// compressed returns a payload of zstd or deflate and its form.
func compressed(t testing.TB, id codec.ID, plain []byte) ([]byte, message.Form) {
	t.Helper()
	out, form, _, err := encoder(t, options(func(o *message.EncodingOptions) {
		o.Codecs, o.Policy = []codec.ID{id}, always()
	})).Encode(nil, plain)
	if err != nil || form.Plain() {
		t.Fatalf("%+v, %v", form, err)
	}
	return out, form
}

func TestDamage(t *testing.T) {
	d := decoder(t, plainMachine)
	plain := data(t, "xml", 5000)
	for _, id := range []codec.ID{codec.Deflate, codec.Zstd} {
		payload, form := compressed(t, id, plain)
		refused := func(what string, f message.Form, payload []byte, limit int, want error) {
			t.Helper()
			if out, _, err := d.Decode([]byte("x"), f, payload, limit); !errors.Is(err, want) ||
				!errors.Is(err, message.ErrCorrupt) || string(out) != "x" {
				t.Errorf("%v, %s: %d bytes, %v; want %v", id, what, len(out), err, want)
			}
		}
		for n := range payload {
			refused(fmt.Sprintf("cut to %d", n), form, payload[:n], 5000, message.ErrPayload)
		}
		refused("longer", form, append(bytes.Clone(payload), 0), 5000, message.ErrPayload)
		for i := 0; i < len(payload); i += 7 {
			bent := bytes.Clone(payload)
			bent[i] ^= 0x10
			if out, _, err := d.Decode(nil, form, bent, 5000); err == nil && !bytes.Equal(out, plain) ||
				err != nil && !errors.Is(err, message.ErrCorrupt) {
				t.Errorf("%v, byte %d bent: %d bytes, %v", id, i, len(out), err)
			}
		}
		change := func(f func(*message.Form)) message.Form {
			c := form
			f(&c)
			return c
		}
		refused("another checksum", change(func(f *message.Form) { f.Checksum++ }), payload, 5000, message.ErrChecksum)
		refused("too short a length", change(func(f *message.Form) { f.Length-- }), payload, 5000, message.ErrPayload)
		refused("too long a length", change(func(f *message.Form) { f.Length++ }), payload, 5001, message.ErrPayload)
		refused("beyond the limit", form, payload, 4999, message.ErrTooLong)
		refused("less than the payload", change(func(f *message.Form) {
			f.Length = len(payload)
		}), payload, 5000, message.ErrHeader)
		refused("no class", change(func(f *message.Form) { f.Class = codec.NoClass }), payload, 5000, message.ErrHeader)
		refused("the other codec", change(func(f *message.Form) {
			f.Codec = codec.Deflate + codec.Zstd - id
		}), payload, 5000, message.ErrPayload)
	}
	if _, _, err := d.Decode(nil, message.Form{}, plain, 4999); !errors.Is(err, message.ErrTooLong) {
		t.Errorf("a plain payload that is too long: %v", err)
	}
	var missing *message.CodecError
	payload, form := compressed(t, codec.Zstd, plain)
	if _, _, err := decoder(
		t, codec.NewRegistry(goflate.New()),
	).Decode(nil, form, payload, 5000); !errors.As(err, &missing) || missing.Codec != codec.Zstd {
		t.Errorf("a codec without an engine: %v", err)
	}
}

// TestBombs: a short payload allocates no more than its stated length, which the limit bounds.
func TestBombs(t *testing.T) {
	const size = 16 << 20
	d := decoder(t, plainMachine)
	for _, id := range []codec.ID{codec.Deflate, codec.Zstd} {
		payload, form := compressed(t, id, make([]byte, size))
		for _, stated := range []int{size, 100_000} {
			lie := form
			lie.Length = stated
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _, err := d.Decode(nil, lie, payload, 1<<20)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, message.ErrCorrupt) {
				t.Errorf("%v, %d bytes in %d, stated %d: %v", id, size, len(payload), stated, err)
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
				t.Errorf("%v, stated %d: allocated %d bytes", id, stated, grown)
			}
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for name, change := range map[string]func(*message.EncodingOptions){
		"mode":     func(o *message.EncodingOptions) { o.Policy.Mode = "Perhaps" },
		"min size": func(o *message.EncodingOptions) { o.MinSize = -1 },
	} {
		if _, err := message.NewEncoding(options(change)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestAllocations(t *testing.T) {
	e, d := encoder(t, options(nil)), decoder(t, plainMachine)
	plain := data(t, "xml", 12000)
	packed, expanded, headers := make([]byte, 0, 13000), make([]byte, 0, 13000), make([]byte, 0, 300)
	if n := codectest.Allocations(func() {
		payload, form, _, err := e.Encode(packed, plain)
		if err != nil {
			t.Fatal(err)
		}
		f, err := message.ParseForm(form.AppendBlock(headers, nil))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.Decode(expanded, f, payload, len(plain)); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("a message allocates %v objects", n)
	}
}

func FuzzDecode(f *testing.F) {
	d := decoder(f, plainMachine)
	plain := data(f, "xml", 3000)
	for _, id := range []codec.ID{codec.Deflate, codec.Zstd} {
		payload, form := compressed(f, id, plain)
		f.Add(form.AppendBlock(nil, nil), payload)
		f.Add(form.AppendBlock(nil, nil), payload[:len(payload)/2])
	}
	f.Add([]byte("NATS/1.0\r\nLighterage-Codec: zstd\r\n\r\n"), []byte("x"))
	const limit = 1 << 16
	f.Fuzz(func(t *testing.T, block, payload []byte) {
		form, err := message.ParseForm(block)
		if err != nil {
			if !errors.Is(err, message.ErrHeader) {
				t.Fatal(err)
			}
			return
		}
		out, o, err := d.Decode(nil, form, payload, limit)
		if err != nil {
			if !errors.Is(err, message.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if len(out) > limit || o.PlainBytes != len(out) || !form.Plain() && (len(out) != form.Length ||
			xxh3.Hash(out) != form.Checksum) {
			t.Fatalf("%d bytes of %+v, %+v", len(out), form, o)
		}
	})
}

// gated is an accelerator whose gate counts how often it is asked, and refuses who does not wait.
type gated struct {
	accelerator
	asked *int
}

func (g gated) Enter(patient bool) policy.Reason {
	if *g.asked++; patient {
		return ""
	}
	return policy.AcceleratorShare
}

// TestGate: the gate is asked once for a message that the accelerator is to compress, and for no other. One that no
// software may have waits.
func TestGate(t *testing.T) {
	asked := 0
	engine := gated{accelerator{goflate.New(), true}, &asked}
	for name, test := range map[string]struct {
		change func(*message.EncodingOptions)
		corpus string
		size   int
		reason policy.Reason
		asks   int
	}{
		"refused":   {nil, "xml", 30000, policy.AcceleratorShare, 1},
		"noise":     {nil, "random", 30000, policy.Incompressible, 0},
		"too small": {nil, "xml", 12000, policy.SoftwareUsed, 0},
		"below the queue's": {
			func(o *message.EncodingOptions) { o.MinSize = 30001 }, "xml", 30000, policy.BelowMinimum, 0,
		},
		"too small for software": {
			func(o *message.EncodingOptions) { o.Policy.SoftwareMinSize = 30001 }, "xml", 30000, policy.HardwareUsed, 1,
		},
		"no software": {
			func(o *message.EncodingOptions) { o.Engines = codec.NewRegistry(engine) }, "xml", 30000, policy.HardwareUsed, 1,
		},
	} {
		asked = 0
		o := options(func(o *message.EncodingOptions) {
			o.Engines, o.Accelerator = codec.NewRegistry(engine, goflate.New()), policy.Verified
		})
		if test.change != nil {
			test.change(&o)
		}
		_, _, outcome, err := encoder(t, o).Encode(nil, data(t, test.corpus, test.size))
		if err != nil || outcome.Reason != test.reason || asked != test.asks {
			t.Errorf("%s: asked %d times, %+v, %v", name, asked, outcome, err)
		}
	}
}
