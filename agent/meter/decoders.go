// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package meter

import "github.com/lighterage/lighterage/agent/codec"

// Decoders returns a registry of the same engines, whose decoders count in a meter what they expand. What compressed it
// is not known, so that nothing counts as Fallback.
func Decoders(engines *codec.Registry, m *Meter) *codec.Registry {
	var metered []codec.Engine
	for _, name := range engines.Names() {
		if e, ok := engines.ByName(name); ok {
			metered = append(metered, engine{e, m})
		}
	}
	return codec.NewRegistry(metered...)
}

type engine struct {
	codec.Engine
	meter *Meter
}

// NewDecoder returns one that counts.
func (e engine) NewDecoder() (codec.Decoder, error) {
	made, err := e.Engine.NewDecoder()
	if err != nil {
		return nil, err
	}
	d := &decoder{Decoder: made, meter: e.meter}
	if e.Class() == codec.Hardware {
		d.witness, _ = made.(codec.Witness)
	}
	return d, nil
}

type decoder struct {
	codec.Decoder
	meter *Meter
	// witness is that of class Hardware; nil: software does the work.
	witness codec.Witness
}

// Decode expands a block and counts it.
func (d *decoder) Decode(dst, src []byte) (n int, err error) {
	cpu := ThreadCPU(func() { n, err = d.Decoder.Decode(dst, src) })
	if err != nil {
		return n, err
	}
	o := Outcome{Path: Software, PlainBytes: n, WireBytes: len(src), CPU: cpu}
	if d.witness != nil && d.witness.UsedHardware() {
		o.Path = Hardware
	}
	d.meter.Add(o)
	return n, nil
}
