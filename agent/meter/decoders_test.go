// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package meter_test

import (
	"errors"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/meter"
)

// fakeEngine has decoders that copy, of which the accelerator does what is long enough.
type fakeEngine struct {
	codec.Engine
	class codec.Class
}

func (e fakeEngine) Name() string       { return "fake" }
func (e fakeEngine) Codec() codec.ID    { return codec.Deflate }
func (e fakeEngine) Class() codec.Class { return e.class }
func (e fakeEngine) NewDecoder() (codec.Decoder, error) {
	return &fakeDecoder{}, nil
}

type fakeDecoder struct{ last int }

func (d *fakeDecoder) Decode(dst, src []byte) (int, error) {
	if len(src) > len(dst) {
		return 0, codec.ErrTooLong
	}
	d.last = copy(dst, src)
	return d.last, nil
}
func (d *fakeDecoder) Close() error       { return nil }
func (d *fakeDecoder) UsedHardware() bool { return d.last > 4 }

// TestDecoders: calls that succeed are counted, by the witness of each, and only of class Hardware.
func TestDecoders(t *testing.T) {
	for class, want := range map[codec.Class]meter.Count{
		codec.Hardware: {Operations: 1, Bytes: 8}, codec.Software: {},
	} {
		var m meter.Meter
		found := meter.Decoders(codec.NewRegistry(fakeEngine{class: class}), &m).ForCodec(codec.Deflate)
		if len(found) != 1 || found[0].Name() != "fake" || found[0].Class() != class {
			t.Fatalf("%v", found)
		}
		d, err := found[0].NewDecoder()
		if err != nil {
			t.Fatal(err)
		}
		for _, length := range []int{8, 2, 99} {
			n, err := d.Decode(make([]byte, 10), make([]byte, length))
			if length < 99 && (n != length || err != nil) || length == 99 && !errors.Is(err, codec.ErrTooLong) {
				t.Errorf("%d: %d, %v", length, n, err)
			}
		}
		s := m.Snapshot()
		if s.Hardware != want || s.Hardware.Bytes+s.Software.Bytes != 10 || s.Fallback != (meter.Count{}) {
			t.Errorf("%v: %+v", class, s)
		}
	}
}
