// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package message_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/dictionaries"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/message"
)

// kept are dictionaries of a queue.
type kept struct {
	current atomic.Pointer[message.Dictionary]
	used    atomic.Int64

	mu      sync.Mutex
	all     map[uint32][]byte
	failing error
	offered int
}

func (k *kept) Current() *message.Dictionary { return k.current.Load() }
func (k *kept) Used()                        { k.used.Add(1) }

func (k *kept) Offer([]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.offered++
}

func (k *kept) Dictionary(number uint32) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failing != nil {
		return nil, k.failing
	}
	if d, ok := k.all[number]; ok {
		return d, nil
	}
	return nil, fmt.Errorf("%w: number %d", message.ErrDictionary, number)
}

// train puts a dictionary of orders into use and returns it.
func (k *kept) train(t testing.TB, length, skip int) *message.Dictionary {
	t.Helper()
	return k.trainFor(t, codec.Zstd, length, skip)
}

func (k *kept) trainFor(t testing.TB, id codec.ID, length, skip int) *message.Dictionary {
	t.Helper()
	format, err := dictionaries.Of(id)
	if err != nil {
		t.Fatal(err)
	}
	content, _, err := format.Train(codectest.Orders(1, skip+400, length)[skip:], format.TrainingSize)
	if err != nil {
		t.Fatal(err)
	}
	number, err := format.Number(content)
	if err != nil {
		t.Fatal(err)
	}
	d := &message.Dictionary{Codec: id, Number: number, Content: content}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil {
		k.all = map[uint32][]byte{}
	}
	k.all[number] = content
	k.current.Store(d)
	return d
}

// referring are an encoding and a decoding of a queue with dictionaries.
func referring(t testing.TB, k *kept, change func(*message.EncodingOptions)) (*message.Encoding, *message.Decoding) {
	t.Helper()
	encoding, err := message.NewEncoding(options(func(o *message.EncodingOptions) {
		o.Codecs, o.Dictionaries = []codec.ID{codec.Zstd}, k
		if change != nil {
			change(o)
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(encoding.Close)
	decoding, err := message.NewDecoding(plainMachine)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(decoding.Close)
	decoding.Use(k)
	return encoding, decoding
}

// encode encodes a message with an encoder that is taken for it.
func encode(t testing.TB, e *message.Encoding, plain []byte) ([]byte, message.Form, meter.Outcome) {
	t.Helper()
	encoder, err := e.Encoder()
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Release()
	expected := encoder.Expected(len(plain))
	out, form, outcome, err := encoder.Encode(nil, plain)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(form.AppendHeaders(nil)), len(expected.AppendHeaders(nil)); !form.Plain() && got != want {
		t.Fatalf("%d bytes of headers, and %d were expected", got, want)
	}
	return out, form, outcome
}

func decode(t testing.TB, d *message.Decoding, form message.Form, payload []byte) ([]byte, error) {
	t.Helper()
	decoder, err := d.Decoder()
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Release()
	plain, _, err := decoder.Decode(nil, form, payload, message.MaxLength)
	return plain, err
}

// TestDictionaries: short messages refer to the dictionary in use, and all that refer to one are read, also through
// headers, when another or none has taken its place.
func TestDictionaries(t *testing.T) {
	for _, id := range []codec.ID{codec.Zstd, codec.Deflate} {
		t.Run(id.String(), func(t *testing.T) { dictionariesOf(t, id) })
	}
}

func dictionariesOf(t *testing.T, id codec.ID) {
	k := &kept{}
	e, d := referring(t, k, func(o *message.EncodingOptions) { o.Codecs = []codec.ID{id} })
	type stored struct {
		headers map[string][]string
		payload []byte
		plain   []byte
	}
	var all []stored
	put := func(plain []byte, want uint32) int {
		t.Helper()
		payload, form, outcome := encode(t, e, plain)
		if form.Codec != id || form.Dictionary != want || outcome.WireBytes < len(payload)+len(form.AppendHeaders(nil)) {
			t.Fatalf("%d bytes: %+v, %+v; want dictionary %d", len(plain), form, outcome, want)
		}
		headers := map[string][]string{"A": {"b"}}
		for name, value := range form.Fields() {
			headers[name] = []string{value}
		}
		if parsed, err := message.ParseForm(form.AppendBlock(nil, nil)); err != nil || parsed != form {
			t.Fatalf("%+v is read as %+v, %v", form, parsed, err)
		}
		all = append(all, stored{headers, payload, plain})
		return outcome.WireBytes
	}
	later := codectest.Orders(1, 3000, 1000)
	without := put(later[2000], 0)
	first := k.trainFor(t, id, 1000, 0)
	if with := put(later[2000], first.Number); with > 300 || with > without/2 {
		t.Errorf("1000 bytes take %d with a dictionary and %d without", with, without)
	}
	put(bytes.Repeat(later[2001], 20), 0) // too long
	second := k.trainFor(t, id, 1000, 900)
	if second.Number == first.Number {
		t.Fatal("other messages make the same dictionary")
	}
	put(later[2002], second.Number)
	k.current.Store(nil)
	put(later[2003], 0)
	if k.used.Load() != 2 || k.offered < 4 {
		t.Errorf("%d messages refer to dictionaries, %d were offered", k.used.Load(), k.offered)
	}
	for range 2 {
		for i, s := range all {
			form, err := message.FormOf(s.headers)
			if err != nil {
				t.Fatal(err)
			}
			if plain, err := decode(t, d, form, s.payload); err != nil || !bytes.Equal(plain, s.plain) {
				t.Errorf("message %d: %v", i, err)
			}
			headers, payload, err := d.Ordinary(s.headers, s.payload)
			if after, bad := message.FormOf(headers); err != nil || bad != nil || after.Dictionary != 0 ||
				form.Dictionary != 0 && !bytes.Equal(payload, s.plain) || headers["A"][0] != "b" {
				t.Errorf("message %d as an ordinary one: %v, %v, %v", i, headers, err, bad)
			}
			if _, there := s.headers[message.CodecHeader]; !there {
				t.Error("the headers were changed")
			}
		}
	}
}

// TestMoreDictionariesThanPrepared: a decoder keeps some of them, and reads all.
func TestMoreDictionariesThanPrepared(t *testing.T) {
	k := &kept{}
	e, d := referring(t, k, nil)
	plain := codectest.Orders(1, 1, 1000)[0]
	var payloads [][]byte
	var forms []message.Form
	for i := range 7 {
		k.train(t, 1000, 100*i)
		payload, form, _ := encode(t, e, plain)
		payloads, forms = append(payloads, payload), append(forms, form)
	}
	decoder, err := d.Decoder()
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Release()
	for i := range 21 {
		i %= 7
		got, _, err := decoder.Decode(nil, forms[i], payloads[i], message.MaxLength)
		if err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("with dictionary %d of 7: %v", i, err)
		}
	}
}

// TestUnusableDictionary: what an engine cannot use stops no message.
func TestUnusableDictionary(t *testing.T) {
	k := &kept{}
	k.current.Store(&message.Dictionary{
		Codec: codec.Zstd, Number: 7, Content: []byte("\x37\xa4\x30\xec\x07\x00\x00\x00 and no tables"),
	})
	encoding, decoding := referring(t, k, nil)
	plain := codectest.Orders(2, 1, 4000)[0]
	payload, form, _ := encode(t, encoding, plain)
	if form.Dictionary != 0 || form.Codec != codec.Zstd || k.used.Load() != 0 {
		t.Fatalf("put as %+v", form)
	}
	if got, err := decode(t, decoding, form, payload); err != nil || !bytes.Equal(got, plain) {
		t.Error(err)
	}
}

// TestNoDictionaries: there are none in other modes, or where an accelerator compresses that has none.
func TestNoDictionaries(t *testing.T) {
	for name, change := range map[string]func(*message.EncodingOptions){
		"Always":   func(o *message.EncodingOptions) { o.Policy = always() },
		"hardware": func(o *message.EncodingOptions) { o.Codecs, o.Engines = []codec.ID{codec.Deflate}, withHardware },
	} {
		k := &kept{}
		k.trainFor(t, codec.Deflate, 1000, 0)
		e, _ := referring(t, k, change)
		if _, form, _ := encode(t, e, codectest.Orders(1, 1, 1000)[0]); form.Dictionary != 0 || e.Referring() != nil {
			t.Errorf("%s: %+v", name, form)
		}
	}
}

// referringAccelerator has dictionaries.
type referringAccelerator struct{ accelerator }

func (a referringAccelerator) NewDictionaryEncoder(level codec.Level, dictionary []byte) (codec.Encoder, error) {
	e, err := a.Engine.(codec.DictionaryEngine).NewDictionaryEncoder(level, dictionary)
	return struct {
		codec.Encoder
		witness
	}{e, witness(a.used)}, err
}

func (a referringAccelerator) NewDictionaryDecoder(dictionary []byte) (codec.Decoder, error) {
	d, err := a.Engine.(codec.DictionaryEngine).NewDictionaryDecoder(dictionary)
	return struct {
		codec.Decoder
		witness
	}{d, witness(a.used)}, err
}

// wrapping is an engine around another one.
type wrapping struct{ codec.Engine }

func (w wrapping) Unwrap() codec.Engine { return w.Engine }

// TestDictionaryOnHardware: where an accelerator compresses that has dictionaries, short messages refer to one, from the
// least size for hardware on by the accelerator and below by software; another machine reads them.
func TestDictionaryOnHardware(t *testing.T) {
	for name, test := range map[string]struct {
		used, alone bool
		size        int
		path, read  meter.Path
	}{
		"by the accelerator":               {used: true, size: 3000, path: meter.Hardware, read: meter.Hardware},
		"by software below its least size": {used: true, size: 1000, path: meter.Software, read: meter.Hardware},
		"where it was not used":            {used: false, size: 3000, path: meter.Software, read: meter.Software},
		"without software":                 {used: true, alone: true, size: 3000, path: meter.Hardware, read: meter.Hardware},
	} {
		t.Run(name, func(t *testing.T) {
			engine := wrapping{referringAccelerator{accelerator{goflate.New(), test.used}}}
			all := codec.NewRegistry(engine, goflate.New())
			k := &kept{}
			d := k.trainFor(t, codec.Deflate, 3000, 0)
			e, other := referring(t, k, func(o *message.EncodingOptions) {
				o.Codecs, o.Engines, o.Accelerator = []codec.ID{codec.Deflate}, all, policy.Verified
				o.Policy.HardwareMinSize, o.Policy.SoftwareDisabled = 2000, test.alone
			})
			if e.Referring() == nil || (e.Referring().Class() == codec.Hardware) != test.alone {
				t.Errorf("dictionaries are measured with %v", e.Referring())
			}
			plain := codectest.Orders(1, 500, test.size)[499]
			payload, form, outcome := encode(t, e, plain)
			if form.Dictionary != d.Number || form.Class != codec.Software || outcome.Path != test.path {
				t.Fatalf("%+v, %+v", form, outcome)
			}
			if got, err := decode(t, other, form, payload); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("on another machine: %v", err)
			}
			own, err := message.NewDecoding(all)
			if err != nil {
				t.Fatal(err)
			}
			defer own.Close()
			own.Use(k)
			decoder, err := own.Decoder()
			if err != nil {
				t.Fatal(err)
			}
			defer decoder.Release()
			if got, o, err := decoder.Decode(nil, form, payload, message.MaxLength); err != nil || !bytes.Equal(got, plain) ||
				o.Path != test.read {
				t.Errorf("on this one: %+v, %v", o, err)
			}
		})
	}
}

// TestDictionaryOfAnotherCodec: messages of one codec refer to no dictionary of another.
func TestDictionaryOfAnotherCodec(t *testing.T) {
	k := &kept{}
	e, d := referring(t, k, func(o *message.EncodingOptions) { o.Codecs = []codec.ID{codec.Deflate} })
	zstd := k.train(t, 1000, 0)
	plain := codectest.Orders(1, 500, 1000)[499]
	if _, form, _ := encode(t, e, plain); form.Codec != codec.Deflate || form.Dictionary != 0 {
		t.Errorf("put as %+v", form)
	}
	k.trainFor(t, codec.Deflate, 1000, 0)
	payload, form, _ := encode(t, e, plain)
	form.Dictionary = zstd.Number
	if _, err := decode(t, d, form, payload); !errors.Is(err, message.ErrCorrupt) {
		t.Errorf("a message of deflate that names a dictionary of zstd: %v", err)
	}
}

// TestDictionaryErrors: a message without its dictionary is corrupt, and one whose dictionary is not known now is not.
func TestDictionaryErrors(t *testing.T) {
	k := &kept{}
	e, d := referring(t, k, nil)
	one := k.train(t, 1000, 0)
	plain := codectest.Orders(1, 500, 1000)[499]
	payload, form, _ := encode(t, e, plain)
	headers := map[string][]string{message.CodecHeader: {form.Fields()[message.CodecHeader]}}
	ordinary := func() error {
		h, p, err := d.Ordinary(headers, payload)
		if err != nil && (len(h) != 1 || &p[0] != &payload[0]) {
			t.Error("a message that cannot be read came back changed")
		}
		return err
	}

	k.failing = errors.New("nobody leads")
	_, err := decode(t, d, form, payload)
	var later *message.DictionaryError
	if !errors.As(err, &later) || later.Number != one.Number || errors.Is(err, message.ErrCorrupt) {
		t.Errorf("while it is not known: %v", err)
	}
	if err := ordinary(); !errors.As(err, &later) {
		t.Errorf("an ordinary one while it is not known: %v", err)
	}
	k.failing = nil

	delete(k.all, one.Number)
	if _, err := decode(t, d, form, payload); !errors.Is(err, message.ErrDictionary) ||
		!errors.Is(err, message.ErrCorrupt) {
		t.Errorf("without it: %v", err)
	}
	if err := ordinary(); !errors.Is(err, message.ErrCorrupt) {
		t.Errorf("an ordinary one without it: %v", err)
	}
	k.all[one.Number] = one.Content[:len(one.Content)/2]
	k.all[one.Number][7] ^= 0xff
	if _, err := decode(t, d, form, payload); !errors.Is(err, message.ErrCorrupt) {
		t.Errorf("with a damaged one: %v", err)
	}
	k.all[one.Number] = k.train(t, 1000, 500).Content
	if _, err := decode(t, d, form, payload); !errors.Is(err, message.ErrCorrupt) {
		t.Errorf("with another one under its number: %v", err)
	}
	bare, err := message.NewDecoding(plainMachine)
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Close()
	if _, err := decode(t, bare, form, payload); !errors.Is(err, message.ErrDictionary) {
		t.Errorf("where there are none: %v", err)
	}
	none, err := message.NewDecoding(codec.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	var missing *message.CodecError
	if _, err := decode(t, none, form, payload); !errors.As(err, &missing) {
		t.Errorf("without an engine: %v", err)
	}
}

// TestShortHeader: the header is what was written before, and a release without dictionaries finds it invalid.
func TestShortHeader(t *testing.T) {
	f := message.Form{
		Codec: codec.Zstd, Class: codec.Software, Length: 1000, Checksum: 0x0f1e2d3c4b5a6978, Dictionary: 0x00012abf,
	}
	const line = "Lighterage-Codec: zstd;1000;AAEqvw8eLTxLWml4\r\n"
	if got := string(f.AppendHeaders(nil)); got != line {
		t.Errorf("got %q", got)
	}
	deflated := f
	deflated.Codec = codec.Deflate
	if got := string(deflated.AppendHeaders(nil)); got != "Lighterage-Codec: deflate;1000;AAEqvw8eLTxLWml4\r\n" {
		t.Errorf("got %q", got)
	}
	longest := deflated
	longest.Length = message.MaxLength
	if got := len(longest.AppendHeaders(nil)); got != longest.Overhead() {
		t.Errorf("%d bytes; the bound is %d", got, longest.Overhead())
	}
	const sum = "AAEqvw8eLTxLWml4"
	for name, value := range map[string]string{
		"none": "zstd;", "no length": "zstd;;" + sum, "zero": "zstd;0;" + sum, "a leading zero": "zstd;01;" + sum,
		"short": "zstd;1000;" + sum[:15], "long": "zstd;1000;" + sum + "A", "padded": "zstd;1000;AAEqvw8eLTxLWm==",
		"another alphabet": "zstd;1000;AAEqvw8eLTxLWm+/", "number 0": "zstd;1000;AAAAAA8eLTxLWml4",
		"too long": "zstd;67108865;" + sum, "another codec": "brotli;1000;" + sum, "no codec": ";1000;" + sum,
		"more": "zstd;1000;" + sum + ";1",
	} {
		if f, err := message.ParseForm([]byte("NATS/1.0\r\nLighterage-Codec: " + value + "\r\n\r\n")); !errors.Is(
			err, message.ErrHeader,
		) {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	for name, lines := range map[string]string{
		"beside another header of the form": line + "Lighterage-Length: 1000\r\n", "twice": line + line,
		"behind another": "Lighterage-Checksum: 0f1e2d3c4b5a6978\r\n" + line,
	} {
		if f, err := message.ParseForm([]byte("NATS/1.0\r\n" + lines + "\r\n")); !errors.Is(err, message.ErrHeader) {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

// TestDictionariesInParallel: encoders and decoders of several goroutines follow changes.
func TestDictionariesInParallel(t *testing.T) {
	k := &kept{}
	e, d := referring(t, k, nil)
	messages := codectest.Orders(1, 600, 1000)
	one := k.train(t, 1000, 0)
	two := k.train(t, 1000, 200)
	var working, changing sync.WaitGroup
	stop := make(chan struct{})
	changing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				k.current.Store([]*message.Dictionary{one, nil, two}[i%3])
			}
		}
	})
	for range 4 {
		working.Go(func() {
			for _, plain := range messages {
				payload, form, _ := encode(t, e, plain)
				if got, err := decode(t, d, form, payload); err != nil || !bytes.Equal(got, plain) {
					t.Error(err)
					return
				}
			}
		})
	}
	working.Wait()
	close(stop)
	changing.Wait()
}

// FuzzShortHeader: whatever a header says, it is read as it is written or refused, and a message with it costs no more
// than it says.
func FuzzShortHeader(f *testing.F) {
	k := &kept{}
	e, d := referring(f, k, nil)
	k.train(f, 1000, 0)
	payload, form, _ := encode(f, e, codectest.Orders(1, 500, 1000)[499])
	f.Add(form.Fields()[message.CodecHeader], payload)
	f.Add("zstd;1000;AAEqvw8eLTxLWml4", []byte{0x28, 0xb5, 0x2f, 0xfd})
	f.Add("zstd;67108864;AAEqvw8eLTxLWml4", payload)
	deflate, _ := referring(f, k, func(o *message.EncodingOptions) { o.Codecs = []codec.ID{codec.Deflate} })
	k.trainFor(f, codec.Deflate, 1000, 0)
	payload, form, _ = encode(f, deflate, codectest.Orders(1, 500, 1000)[499])
	f.Add(form.Fields()[message.CodecHeader], payload)
	f.Fuzz(func(t *testing.T, value string, payload []byte) {
		parsed, err := message.FormOf(map[string][]string{message.CodecHeader: {value}})
		if err != nil {
			if !errors.Is(err, message.ErrHeader) {
				t.Fatal(err)
			}
			return
		}
		if parsed.Dictionary == 0 {
			t.Fatalf("one header %q is %+v", value, parsed)
		}
		if again, err := message.ParseForm(parsed.AppendBlock(nil, nil)); err != nil || again != parsed {
			t.Fatalf("%+v is written and read as %+v, %v", parsed, again, err)
		}
		parsed.Length = min(parsed.Length, 1<<20) // Time is for other things.
		plain, err := decode(t, d, parsed, payload)
		if err == nil && xxh3.Hash(plain) != parsed.Checksum {
			t.Fatal("what is not the message was taken for it")
		}
	})
}
