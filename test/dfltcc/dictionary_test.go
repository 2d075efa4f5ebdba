// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build cgo && dfltcc

package dfltcc_test

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/deflatedict"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/codec/zlibng"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/test/dfltcc"
)

// dictionaryEngine is zlib-ng, which inflates with the instruction whatever the size, or never uses it.
func dictionaryEngine(t *testing.T, hardware bool) codec.DictionaryEngine {
	t.Helper()
	engine, err := zlibng.New(zlibng.Options{Hardware: hardware, InflateMinSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	return engine.(codec.DictionaryEngine)
}

// referring returns an encoder and a decoder of an engine with a dictionary.
func referring(t *testing.T, e codec.DictionaryEngine, dictionary []byte) (codec.Encoder, codec.Decoder) {
	t.Helper()
	encoder, err := e.NewDictionaryEncoder(codec.Fast, dictionary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = encoder.Close() })
	decoder, err := e.NewDictionaryDecoder(dictionary)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = decoder.Close() })
	return encoder, decoder
}

// TestDictionary: with a preset dictionary the instruction does all of the work, both ways, and what it refers to is the
// dictionary: software with it reads the stream, Go's own library too, and none without it does. What software wrote the
// instruction expands.
func TestDictionary(t *testing.T) {
	messages := codectest.Orders(1, 400, 1000)
	for _, step := range []int{7, 100, dfltcc.DefaultStep} {
		for _, size := range []int{deflatedict.MinSize, 1000, 8 << 10, deflatedict.MaxSize} {
			t.Run(fmt.Sprintf("%d bytes, step %d", size, step), func(t *testing.T) {
				model(t, step, "")
				dictionary, _, err := deflatedict.Train(messages, size)
				if err != nil {
					t.Fatal(err)
				}
				withDictionary(t, dictionary, append(
					codectest.Orders(2, 5, 1000), dictionary, bytes.Repeat(dictionary[:64], 3), dictionary[:1], plain(40_000),
				))
			})
		}
	}
}

func withDictionary(t *testing.T, dictionary []byte, messages [][]byte) {
	t.Helper()
	encoder, decoder := referring(t, dictionaryEngine(t, true), dictionary)
	software, softwareDecoder := referring(t, dictionaryEngine(t, false), dictionary)
	_, goDecoder := referring(t, goflate.New().(codec.DictionaryEngine), dictionary)
	for i, message := range messages {
		packed, out := make([]byte, len(message)+len(message)/8+400), make([]byte, len(message))
		if _, err := encoder.Encode(packed[:1], message); err == nil {
			t.Fatal("a message in one byte")
		}
		before := dfltcc.Calls(dfltcc.Compress)
		n, err := encoder.Encode(packed, message)
		if err != nil || !encoder.(codec.Witness).UsedHardware() || dfltcc.Calls(dfltcc.Compress) == before {
			t.Fatalf("message %d: obstacle %d, %d executions, %v", i, encoder.(zlibng.Explained).Obstacle(),
				dfltcc.Calls(dfltcc.Compress)-before, err)
		}
		for name, d := range map[string]codec.Decoder{"zlib-ng": softwareDecoder, "go": goDecoder} {
			if m, err := d.Decode(out, packed[:n]); err != nil || !bytes.Equal(out[:m], message) {
				t.Errorf("message %d with %s: %d bytes of %d, %v", i, name, m, len(message), err)
			}
		}
		whole := bytes.NewReader(packed[:n])
		if got, err := io.ReadAll(flate.NewReaderDict(whole, dictionary)); err != nil || !bytes.Equal(got, message) {
			t.Errorf("message %d with Go's library: %d bytes of %d, %v", i, len(got), len(message), err)
		}
		whole.Reset(packed[:n])
		if got, err := io.ReadAll(flate.NewReader(whole)); i < 7 && err == nil && bytes.Equal(got, message) {
			t.Errorf("message %d does not refer to the dictionary", i)
		}
		expands(t, decoder, packed[:n], message)

		before = dfltcc.Calls(dfltcc.Compress)
		n, err = software.Encode(packed, message)
		if err != nil || dfltcc.Calls(dfltcc.Compress) != before {
			t.Fatalf("message %d in software: %d executions, %v", i, dfltcc.Calls(dfltcc.Compress)-before, err)
		}
		expands(t, decoder, packed[:n], message)
	}
}

// expands has the instruction expand a stream.
func expands(t *testing.T, decoder codec.Decoder, packed, message []byte) {
	t.Helper()
	out := make([]byte, len(message))
	before := dfltcc.Calls(dfltcc.Expand)
	n, err := decoder.Decode(out, packed)
	if err != nil || !bytes.Equal(out[:n], message) {
		t.Errorf("%d bytes expand to %d of %d, %v", len(packed), n, len(message), err)
	}
	if !decoder.(codec.Witness).UsedHardware() || dfltcc.Calls(dfltcc.Expand) == before {
		t.Errorf("the instruction was executed %d times; obstacle %d", dfltcc.Calls(dfltcc.Expand)-before,
			decoder.(zlibng.Explained).Obstacle())
	}
}

// TestDictionaryWithoutTheInstruction: where the instruction has no functions, software does what refers to a dictionary,
// and the witness says so. An instruction that loses its history is noticed.
func TestDictionaryWithoutTheInstruction(t *testing.T) {
	dictionary, _, err := deflatedict.Train(codectest.Orders(1, 400, 1000), 8<<10)
	if err != nil {
		t.Fatal(err)
	}
	message := codectest.Orders(2, 1, 1000)[0]
	packed, out := make([]byte, 2000), make([]byte, len(message))
	t.Run("no functions", func(t *testing.T) {
		model(t, dfltcc.DefaultStep, "no-functions")
		encoder, decoder := referring(t, dictionaryEngine(t, true), dictionary)
		n, err := encoder.Encode(packed, message)
		if err != nil || encoder.(codec.Witness).UsedHardware() {
			t.Fatalf("%v, used: %v", err, encoder.(codec.Witness).UsedHardware())
		}
		if n, err = decoder.Decode(out, packed[:n]); err != nil || !bytes.Equal(out[:n], message) ||
			decoder.(codec.Witness).UsedHardware() {
			t.Errorf("%d bytes, %v, used: %v", n, err, decoder.(codec.Witness).UsedHardware())
		}
	})
	t.Run("lost history", func(t *testing.T) {
		model(t, dfltcc.DefaultStep, "")
		encoder, decoder := referring(t, dictionaryEngine(t, true), dictionary)
		n, err := encoder.Encode(packed, message)
		if err != nil {
			t.Fatal(err)
		}
		model(t, 10, "lost-history")
		if n, err = decoder.Decode(out, packed[:n]); err == nil && bytes.Equal(out[:n], message) {
			t.Error("the fault has no effect")
		}
	})
}

// inUse is the one dictionary of a queue.
type inUse struct{ dictionary *message.Dictionary }

func (d inUse) Current() *message.Dictionary      { return d.dictionary }
func (inUse) Offer([]byte)                        {}
func (inUse) Used()                               {}
func (d inUse) Dictionary(uint32) ([]byte, error) { return d.dictionary.Content, nil }

// TestQueueDictionary: messages of a queue that refer to a dictionary are the work of the instruction from the least size
// for hardware on, and of software below.
func TestQueueDictionary(t *testing.T) {
	model(t, dfltcc.DefaultStep, "")
	engine, verdict := hardware.FindOn(t.Context(), z15)
	if engine == nil {
		t.Fatal(verdict.Message)
	}
	content, _, err := deflatedict.Train(codectest.Orders(1, 400, 3000), 8<<10)
	if err != nil {
		t.Fatal(err)
	}
	number, err := deflatedict.Number(content)
	if err != nil {
		t.Fatal(err)
	}
	dictionary := inUse{&message.Dictionary{Codec: codec.Deflate, Number: number, Content: content}}
	all := codec.NewRegistry(append([]codec.Engine{engine}, engines.All()...)...)
	encoding, err := message.NewEncoding(message.EncodingOptions{
		Policy: policy.Settings{Mode: policy.Auto, Level: codec.Fast, HardwareMinSize: 2000}, MinSize: 1,
		Codecs: []codec.ID{codec.Deflate}, Engines: all, Accelerator: verdict.Accelerator(codec.Fast),
		Dictionaries: dictionary,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer encoding.Close()
	decoding, err := message.NewDecoding(engines.Default())
	if err != nil {
		t.Fatal(err)
	}
	defer decoding.Close()
	decoding.Use(dictionary)
	encoder, err := encoding.Encoder()
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Release()
	decoder, err := decoding.Decoder()
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Release()
	for size, want := range map[int]meter.Path{1000: meter.Software, 3000: meter.Hardware} {
		plain := codectest.Orders(2, 1, size)[0]
		before := dfltcc.Calls(dfltcc.Compress)
		payload, form, outcome, err := encoder.Encode(nil, plain)
		if err != nil || form.Dictionary != number || outcome.Path != want ||
			(dfltcc.Calls(dfltcc.Compress) > before) != (want == meter.Hardware) {
			t.Errorf("%d bytes: %+v, %+v, %d executions, %v", size, form, outcome, dfltcc.Calls(dfltcc.Compress)-before, err)
			continue
		}
		if got, _, err := decoder.Decode(nil, form, payload, message.MaxLength); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%d bytes in software: %v", size, err)
		}
	}
}
