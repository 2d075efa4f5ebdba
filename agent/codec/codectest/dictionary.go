// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codectest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/dictionaries"
	"github.com/lighterage/lighterage/agent/codec/zstddict"
	"github.com/lighterage/lighterage/agent/meter"
)

// referring are engines with a dictionary.
func referring(t testing.TB, dictionary []byte, engines ...codec.Engine) []codec.Engine {
	t.Helper()
	out := make([]codec.Engine, len(engines))
	for i, e := range engines {
		of, ok := e.(codec.DictionaryEngine)
		if !ok {
			t.Fatalf("%s has no dictionaries", e.Name())
		}
		out[i] = codec.WithDictionary(of, dictionary)
	}
	return out
}

func trained(t testing.TB, id codec.ID, samples [][]byte) []byte {
	t.Helper()
	format, err := dictionaries.Of(id)
	if err != nil {
		t.Fatal(err)
	}
	dictionary, _, err := format.Train(samples, format.TrainingSize)
	if err != nil {
		t.Fatal(err)
	}
	return dictionary
}

// RunDictionary runs what of the conformance suite is about blocks on an engine with a dictionary, and with others that
// have the same one.
func RunDictionary(t *testing.T, engine codec.Engine, others ...codec.Engine) {
	dictionary := trained(t, engine.Codec(), Orders(1, 400, 1000))
	another := trained(t, engine.Codec(), Orders(2, 400, 1000))
	all := referring(t, dictionary, append([]codec.Engine{engine}, others...)...)
	s := suite{engine: all[0], others: all[1:]}
	t.Run("RoundTrip", s.roundTrip)
	t.Run("Others", s.readsOthers)
	t.Run("EncodeBound", s.encodeBound)
	t.Run("DecodeBound", s.decodeBound)
	t.Run("Changing", s.changing)
	t.Run("Garbage", s.garbage)
	t.Run("BitFlips", s.bitFlips)
	t.Run("Touch", s.touch)
	t.Run("Truncation", s.truncation)
	t.Run("Trailing", s.trailing)
	t.Run("Close", s.close)
	t.Run("UnknownLevel", s.unknownLevel)
	t.Run("Concurrency", s.concurrency)
	t.Run("Allocations", s.allocations)

	message := Orders(3, 1, 1000)[0]
	packed := encode(t, encoderOf(t, s.engine, codec.Fast), message)
	plainly := encode(t, encoderOf(t, engine, codec.Fast), message)
	if len(packed) >= len(plainly)*2/3 {
		t.Errorf("%d bytes with a dictionary, %d without", len(packed), len(plainly))
	}
	for name, wrong := range map[string]struct {
		decoder codec.Decoder
		packed  []byte
	}{
		"no dictionary":              {decoderOf(t, engine), packed},
		"another dictionary":         {decoderOf(t, referring(t, another, engine)[0]), packed},
		"a frame without dictionary": {decoderOf(t, s.engine), plainly},
	} {
		n, err := wrong.decoder.Decode(make([]byte, 2000), wrong.packed)
		if err == nil && engine.Codec() == codec.Deflate {
			continue // Its streams name no dictionary, and one of other bytes is found by a checksum alone.
		}
		if !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	t.Run("Invalid", func(t *testing.T) { invalidDictionaries(t, engine.(codec.DictionaryEngine), dictionary) })
}

func invalidDictionaries(t *testing.T, engine codec.DictionaryEngine, valid []byte) {
	numbered := func(n uint32) []byte {
		b := bytes.Clone(valid)
		binary.LittleEndian.PutUint32(b[4:], n)
		return b
	}
	invalid := map[string][]byte{
		"nothing": nil, "a beginning": valid[:40],
		"more than the limit": append(bytes.Clone(valid), make([]byte, zstddict.MaxSize)...),
	}
	if engine.Codec() == codec.Zstd {
		maps.Copy(invalid, map[string][]byte{
			"text": bytes.Repeat([]byte("text "), 100), "a registered number": numbered(7),
			"a reserved number": numbered(1 << 31), "no number": numbered(0), "a number in 2 bytes": numbered(1<<16 - 1),
		})
	}
	for name, d := range invalid {
		if e, err := engine.NewDictionaryEncoder(codec.Fast, d); !errors.Is(err, codec.ErrDictionary) {
			t.Errorf("%s: encoder %v, %v", name, e, err)
		}
		if e, err := engine.NewDictionaryDecoder(d); !errors.Is(err, codec.ErrDictionary) {
			t.Errorf("%s: decoder %v, %v", name, e, err)
		}
	}
	// Damage that the number does not tell of either is found or gives other bytes, and does no harm.
	message := Orders(3, 1, 1000)[0]
	for at := 8; at < min(len(valid), 600); at += 3 {
		damaged := bytes.Clone(valid)
		damaged[at] ^= 0x55
		tryDictionary(t, engine, damaged, message)
	}
}

// tryDictionary makes an encoder and a decoder with what may be a dictionary. If it is one, messages come back.
func tryDictionary(t testing.TB, engine codec.DictionaryEngine, dictionary, message []byte) {
	t.Helper()
	encoder, err := engine.NewDictionaryEncoder(codec.Fast, dictionary)
	if err != nil {
		return
	}
	defer encoder.Close()
	decoder, err := engine.NewDictionaryDecoder(dictionary)
	if err != nil {
		return
	}
	defer decoder.Close()
	mustDecode(t, decoder, encode(t, encoder, message), message)
}

// FuzzDictionary fuzzes what comes in with a dictionary: frames, which others read alike if they read them, and
// dictionaries themselves.
func FuzzDictionary(f *testing.F, engine codec.Engine, others ...codec.Engine) {
	dictionary := trained(f, engine.Codec(), Orders(1, 400, 1000))
	all := referring(f, dictionary, append([]codec.Engine{engine}, others...)...)
	encoder := encoderOf(f, all[0], codec.Fast)
	var decoders []codec.Decoder
	for _, e := range all {
		decoders = append(decoders, decoderOf(f, e))
	}
	for _, message := range append(Orders(3, 3, 1000), nil) {
		f.Add(dictionary, bytes.Clone(encode(f, encoder, message)))
		f.Add(dictionary[:2000], message)
	}
	const space = 1 << 16
	f.Fuzz(func(t *testing.T, asDictionary, data []byte) {
		mustDecode(t, decoders[0], encode(t, encoder, data), data)
		var first []byte
		for i, decoder := range decoders {
			out := guard(space)
			n, err := decoder.Decode(out.bytes, data)
			out.check(t)
			switch {
			case err != nil && !errors.Is(err, codec.ErrCorrupt):
				t.Fatal(err)
			case err != nil:
			case first != nil && !bytes.Equal(first, out.bytes[:n]):
				t.Fatalf("%s and another engine expand the same bytes differently", all[i].Name())
			default:
				first = out.bytes[:n]
			}
		}
		tryDictionary(t, engine.(codec.DictionaryEngine), asDictionary, data[:min(len(data), space)])
	})
}

// BenchmarkDictionary measures an engine with and without a dictionary on messages of 1,000 and 3,000 bytes that came
// after those which it was trained on. Beside the time it reports what share of the bytes is saved, by the CPU time of
// the thread for a message.
func BenchmarkDictionary(b *testing.B, engine codec.Engine) {
	const samples, measured = 2000, 500
	for _, length := range []int{1000, 3000} {
		messages := Orders(5, samples+measured, length)
		dictionary, after := trained(b, engine.Codec(), messages[:samples]), messages[samples:]
		for name, e := range map[string]codec.Engine{
			"with": referring(b, dictionary, engine)[0], "without": engine,
		} {
			for _, level := range levelsOf(e) {
				encoder, decoder := encoderOf(b, e, level), decoderOf(b, e)
				packed := make([][]byte, measured)
				plain, wire := 0, 0
				for i, m := range after {
					packed[i] = bytes.Clone(encode(b, encoder, m))
					plain, wire = plain+len(m), wire+len(packed[i])
				}
				out, i := make([]byte, 2*bound(length)), 0
				run := func(what string, f func(i int) error) {
					b.Run(fmt.Sprintf("%s/%d/%v/%s", what, length, level, name), func(b *testing.B) {
						var cpu time.Duration
						for b.Loop() {
							cpu += meter.ThreadCPU(func() {
								for range 20 { // of which one takes less than the clock
									if err := f(i % measured); err != nil {
										b.Fatal(err)
									}
									i++
								}
							})
						}
						b.ReportMetric(100*(1-float64(wire)/float64(plain)), "%saved")
						b.ReportMetric(float64(cpu.Nanoseconds())/float64(20*b.N), "cpu-ns/message")
					})
				}
				run("Encode", func(i int) error { _, err := encoder.Encode(out, after[i]); return err })
				run("Decode", func(i int) error { _, err := decoder.Decode(out, packed[i]); return err })
			}
		}
	}
}

var (
	carriers = []string{"Nordwind Logistik", "Compagnie du Rhin", "Baltic Lines", "Adria Cargo", "Meridian Freight"}
	places   = []string{
		"Rotterdam", "Hamburg", "Antwerpen", "Gdansk", "Le Havre", "Genova", "Piraeus", "Valencia", "Bremerhaven", "Koper",
		"Felixstowe", "Marseille", "Trieste", "Dublin", "Riga", "Basel",
	}
	goods = []string{
		"steel coils", "coffee beans", "machine parts", "paper rolls", "ceramic tiles", "frozen fish", "bicycles", "timber",
		"spare parts for pumps", "cotton", "wine in bottles", "solar panels", "tyres", "printing ink", "seeds", "glass",
	}
)

// Orders are n messages in XML of about so many bytes each, of one sender, as a queue has them.
func Orders(seed uint64, n, length int) [][]byte {
	r := rand.New(rand.NewPCG(seed, 0x6f72_6465_7273))
	all := make([][]byte, n)
	for i := range all {
		all[i] = order(r, 48_000_000+uint64(i), length)
	}
	return all
}

func order(r *rand.Rand, number uint64, length int) []byte {
	pick := func(of []string) string { return of[r.IntN(len(of))] }
	b := fmt.Appendf(nil, `<?xml version="1.0" encoding="UTF-8"?>
<ShipmentOrder xmlns="urn:example:freight:2" number="%d" issued="2026-%02d-%02dT%02d:%02d:%02dZ">
  <Carrier>%s</Carrier><From>%s</From><To>%s</To><Consignee account="%08d"><City>%s</City></Consignee>
  <Items>
`, number, 1+r.IntN(12), 1+r.IntN(28), r.IntN(24), r.IntN(60), r.IntN(60), pick(carriers), pick(places), pick(places),
		r.IntN(1e8), pick(places))
	const end = "  </Items>\n  <Terms>DAP</Terms>\n</ShipmentOrder>\n"
	for i := 1; len(b)+200 < length; i++ {
		b = fmt.Appendf(b, `    <Item line="%d"><Description>%s</Description><Container>%s%07d</Container>`+
			`<Packages>%d</Packages><GrossWeight unit="kg">%d.%d</GrossWeight></Item>`+"\n",
			i, pick(goods), []string{"MSKU", "TCLU", "HLXU", "CMAU"}[r.IntN(4)], r.IntN(1e7), 1+r.IntN(400), r.IntN(28000),
			r.IntN(10))
	}
	return append(b, end...)
}
