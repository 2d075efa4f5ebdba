// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package frame_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
)

// accelerator is an engine that claims to be hardware.
type accelerator struct {
	codec.Engine
	// used is what its encoders and decoders bear witness to.
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
	withHardware = codec.NewRegistry(accelerator{goflate.New(), true}, goflate.New())
)

func auto() policy.Settings {
	return policy.Settings{
		Mode: policy.Auto, Level: codec.Fast, HardwareMinSize: 20000, SoftwareMinSize: 100, PreferHardware: true,
	}
}

func newEncoder(t testing.TB, o frame.EncoderOptions) *frame.Encoder {
	t.Helper()
	e, err := frame.NewEncoder(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func newDecoder(t testing.TB, r *codec.Registry) *frame.Decoder {
	t.Helper()
	d, err := frame.NewDecoder(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func corpus(name string, n int) []byte {
	for _, c := range codectest.Corpora() {
		if c.Name == name {
			return c.Generate(n)
		}
	}
	panic("no corpus " + name)
}

// blocks encodes one stream of three blocks.
func blocks(t *testing.T) (plain, wire [][]byte) {
	e := newEncoder(t, frame.EncoderOptions{Engines: plainMachine, Codec: codec.Deflate, Policy: auto()})
	plain = [][]byte{corpus("source", 3000), corpus("random", 2000), corpus("xml", 50)}
	for i, p := range plain {
		b, _, err := e.Append(nil, p, i == len(plain)-1)
		if err != nil {
			t.Fatal(err)
		}
		wire = append(wire, b)
	}
	if _, _, err := e.Append(nil, nil, false); !errors.Is(err, frame.ErrEnded) {
		t.Fatalf("a block after the last one: %v", err)
	}
	return plain, wire
}

func TestStream(t *testing.T) {
	plain, wire := blocks(t)
	d := newDecoder(t, plainMachine)
	out := []byte("before")
	for i, b := range wire {
		if err := d.Finish(); !errors.Is(err, frame.ErrTruncated) {
			t.Fatalf("the stream is complete before block %d: %v", i, err)
		}
		var err error
		if out, _, err = d.Decode(out, b); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Finish(); err != nil {
		t.Error(err)
	}
	if want := append([]byte("before"), bytes.Join(plain, nil)...); !bytes.Equal(out, want) {
		t.Error("the stream came out different")
	}
}

// TestDisorder gives a decoder the wrong block after each prefix of a stream, and
// then the right one.
func TestDisorder(t *testing.T) {
	_, wire := blocks(t)
	d := newDecoder(t, plainMachine)
	for next := range len(wire) + 1 {
		for i, b := range wire {
			if i == next {
				continue
			}
			out, _, err := d.Decode([]byte("x"), b)
			var sequence *frame.SequenceError
			switch {
			case !errors.Is(err, frame.ErrCorrupt) || string(out) != "x":
				t.Errorf("block %d instead of %d: got %q, %v", i, next, out, err)
			case next == len(wire) && !errors.Is(err, frame.ErrTrailing):
				t.Errorf("block %d after the last: %v", i, err)
			case next < len(wire) && (!errors.As(err, &sequence) || sequence.Want != uint64(next) || sequence.Got != uint64(i)):
				t.Errorf("block %d instead of %d: %v", i, next, err)
			}
		}
		if next < len(wire) {
			if _, _, err := d.Decode(nil, wire[next]); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestDamage flips every bit of a block, cuts it everywhere and makes it longer;
// the decoder has to notice and to take the sound block afterwards. A flipped bit
// may change how deflate says the same, which is no damage.
func TestDamage(t *testing.T) {
	plain, wire := blocks(t)
	d := newDecoder(t, plainMachine)
	for i, b := range wire {
		refuse := func(what string, at int, damaged []byte) {
			t.Helper()
			h, err := frame.ParseHeader(damaged)
			if err != nil {
				return
			}
			out, _, err := d.DecodeBlock(nil, h, damaged[frame.HeaderSize:])
			same := len(damaged) == len(b) && bytes.Equal(out, plain[i])
			if err == nil && !same || err != nil && (len(out) != 0 || !errors.Is(err, frame.ErrCorrupt)) {
				t.Fatalf("block %d with %s %d gives %d bytes, %v", i, what, at, len(out), err)
			}
		}
		for bit := range 8 * len(b) {
			flipped := bytes.Clone(b)
			flipped[bit/8] ^= 1 << (bit % 8)
			refuse("flipped bit", bit, flipped)
		}
		for n := range b {
			refuse("length", n, b[:n])
		}
		refuse("bytes added", 1, append(bytes.Clone(b), 0))
		out, _, err := d.Decode(nil, b)
		if err != nil || !bytes.Equal(out, plain[i]) {
			t.Fatalf("block %d after the damaged ones: %d bytes, %v", i, len(out), err)
		}
	}
}

// TestLies checks blocks whose sound header does not describe the payload.
func TestLies(t *testing.T) {
	_, wire := blocks(t)
	truth, err := frame.ParseHeader(wire[0])
	if err != nil || truth.Codec != codec.Deflate {
		t.Fatal(truth, err)
	}
	payload := wire[0][frame.HeaderSize:]
	tests := []struct {
		name string
		lie  func(*frame.Header)
		want error
	}{
		{"shorter plain", func(h *frame.Header) { h.PlainLen-- }, frame.ErrPayload},
		{"longer plain", func(h *frame.Header) { h.PlainLen++ }, frame.ErrPayload},
		{"other checksum", func(h *frame.Header) { h.Checksum++ }, frame.ErrChecksum},
		{"shorter payload", func(h *frame.Header) { h.WireLen-- }, frame.ErrTrailing},
		{"longer payload", func(h *frame.Header) { h.WireLen++ }, frame.ErrTruncated},
		{"unchecked length", func(h *frame.Header) { h.PlainLen = 1 << 31 }, frame.ErrHeader},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			h := truth
			test.lie(&h)
			out, _, err := newDecoder(t, plainMachine).DecodeBlock([]byte("x"), h, payload)
			if !errors.Is(err, test.want) || !errors.Is(err, frame.ErrCorrupt) || string(out) != "x" {
				t.Errorf("got %q, %v; want %v", out, err, test.want)
			}
		})
	}
}

// TestGoldenBlock reads a block that is in no test written by the code it tests.
func TestGoldenBlock(t *testing.T) {
	block, err := hex.DecodeString(goldenBlock)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("lighters carry cargo; ", 8)
	d := newDecoder(t, plainMachine)
	out, outcome, err := d.Decode(nil, block)
	if err != nil || string(out) != want {
		t.Fatalf("got %q, %v", out, err)
	}
	if outcome.Path != meter.Fallback {
		t.Errorf("hardware wrote it, software read it: %+v", outcome)
	}
	if err := d.Finish(); err != nil {
		t.Error(err)
	}
}

const goldenBlock = "4c47424b010102020000000000000000000000b00000001c01111ee1bdf39d433680c9774fdbb05dcac94ccf28492d2a56484e2c2aaa54484e2c4acfb75618bca2800100"

func TestParallel(t *testing.T) {
	e := []*frame.Encoder{
		newEncoder(t, frame.EncoderOptions{Engines: plainMachine, Codec: codec.Deflate, Policy: auto()}),
		newEncoder(t, frame.EncoderOptions{Engines: withHardware, Codec: codec.Deflate, Policy: auto()}),
	}
	d := []*frame.Decoder{newDecoder(t, plainMachine), newDecoder(t, withHardware)}
	var sequence frame.Sequence
	for seq := range 6 {
		plain := corpus("json", 30000+seq)
		b, _, err := e[seq%2].AppendAt(nil, uint64(seq), plain, seq == 5)
		if err != nil {
			t.Fatal(err)
		}
		h, err := frame.ParseHeader(b)
		if err != nil {
			t.Fatal(err)
		}
		if sequence.Ended() {
			t.Fatal("ended early")
		}
		if err := sequence.Accept(h); err != nil {
			t.Fatal(err)
		}
		if err := sequence.Accept(h); !errors.Is(err, frame.ErrCorrupt) {
			t.Fatalf("the same block again: %v", err)
		}
		out, _, err := d[seq/2%2].DecodeBlock(nil, h, b[frame.HeaderSize:])
		if err != nil || !bytes.Equal(out, plain) {
			t.Fatalf("block %d: %d bytes, %v", seq, len(out), err)
		}
	}
	if err := sequence.Finish(); err != nil || !sequence.Ended() {
		t.Error(err)
	}
}
