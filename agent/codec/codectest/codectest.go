// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package codectest is what every engine has to pass.
package codectest

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/frame"
)

// Sizes returns the lengths of blocks at which something changes in a codec, an
// engine or a frame.
func Sizes() []int {
	sizes := []int{0, 1, 2}
	for _, middle := range []int{16, 256, 4096, 32768, 65536, frame.DefaultBlock} {
		sizes = append(sizes, middle-1, middle, middle+1)
	}
	return append(sizes, frame.MaxPlain-1, frame.MaxPlain)
}

// levelsOf returns the levels that an engine has.
func levelsOf(e codec.Engine) []codec.Level {
	return slices.DeleteFunc(codec.Levels(), func(l codec.Level) bool { return !e.HasLevel(l) })
}

// Run runs the conformance suite on an engine. others are engines of the same
// codec, whose output it has to read and which have to read its own.
func Run(t *testing.T, engine codec.Engine, others ...codec.Engine) {
	s := suite{engine: engine, others: others}
	t.Run("RoundTrip", s.roundTrip)
	t.Run("Others", s.readsOthers)
	t.Run("EncodeBound", s.encodeBound)
	t.Run("DecodeBound", s.decodeBound)
	t.Run("Changing", s.changing)
	t.Run("Garbage", s.garbage)
	t.Run("BitFlips", s.bitFlips)
	t.Run("Touch", s.touch)
	if engine.Codec() != codec.None {
		// Plain bytes have no mark at their end; there the lengths in the frame's
		// header notice.
		t.Run("Truncation", s.truncation)
		t.Run("Trailing", s.trailing)
		t.Run("Bombs", s.bombs)
		t.Run("Stream", s.stream)
	}
	if engine.Codec() == codec.Deflate {
		t.Run("Joined", s.joined)
	}
	t.Run("Wire", s.wire)
	t.Run("Close", s.close)
	t.Run("UnknownLevel", s.unknownLevel)
	t.Run("Concurrency", s.concurrency)
	t.Run("Allocations", s.allocations)
}

type suite struct {
	engine codec.Engine
	others []codec.Engine
}

func encoderOf(t testing.TB, e codec.Engine, level codec.Level) codec.Encoder {
	t.Helper()
	encoder, err := e.NewEncoder(level)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := encoder.Close(); err != nil {
			t.Error(err)
		}
	})
	return encoder
}

func decoderOf(t testing.TB, e codec.Engine) codec.Decoder {
	t.Helper()
	decoder, err := e.NewDecoder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := decoder.Close(); err != nil {
			t.Error(err)
		}
	})
	return decoder
}

// bound is a length in which every engine's stream of n bytes fits. Codes for all symbols alone may take 289 bytes, and
// data that change after codes were made for them twice their length (codec.PartBound); an engine that would write that
// stores.
func bound(n int) int { return n + n/8 + 64 }

func encode(t testing.TB, e codec.Encoder, plain []byte) []byte {
	t.Helper()
	dst := guard(bound(len(plain)))
	n, err := e.Encode(dst.bytes, plain)
	dst.check(t)
	if err != nil {
		t.Fatalf("encode %d bytes: %v", len(plain), err)
	}
	return dst.bytes[:n]
}

func mustDecode(t testing.TB, d codec.Decoder, packed, want []byte) {
	t.Helper()
	dst := guard(len(want))
	n, err := d.Decode(dst.bytes, packed)
	dst.check(t)
	if err != nil {
		t.Fatalf("decode %d bytes to %d: %v", len(packed), len(want), err)
	}
	if !bytes.Equal(dst.bytes[:n], want) {
		t.Fatalf("decoded %d bytes differ from the %d that were encoded", n, len(want))
	}
}

// guarded is a buffer between bytes that nobody may write.
type guarded struct {
	all, bytes []byte
}

const (
	guardSize = 64
	guardByte = 0xa5
)

func guard(n int) guarded {
	all := bytes.Repeat([]byte{guardByte}, n+2*guardSize)
	return guarded{all: all, bytes: all[guardSize : guardSize+n]}
}

func (g guarded) check(t testing.TB) {
	t.Helper()
	end := len(g.all) - guardSize
	for i := range guardSize {
		if g.all[i] != guardByte {
			t.Fatalf("wrote %d bytes before the buffer", guardSize-i)
		}
		if g.all[end+i] != guardByte {
			t.Fatalf("wrote at byte %d after the buffer", i)
		}
	}
}

// tooLong leaves out what takes long and finds nothing: the longest blocks matter
// to buffers and counters, for which one kind of data that shrinks and one that
// does not are enough.
func tooLong(c Corpus, level codec.Level, size int) bool {
	return size > 1<<17 && (testing.Short() || level != codec.Fast || c.Name != "records" && c.Name != "random")
}

func (s suite) roundTrip(t *testing.T) {
	decoder := decoderOf(t, s.engine)
	for _, level := range levelsOf(s.engine) {
		encoder := encoderOf(t, s.engine, level)
		for _, corpus := range Corpora() {
			for _, size := range Sizes() {
				if tooLong(corpus, level, size) {
					continue
				}
				t.Run(fmt.Sprintf("%v/%s/%d", level, corpus.Name, size), func(t *testing.T) {
					plain := corpus.Generate(size)
					kept := bytes.Clone(plain)
					packed := encode(t, encoder, plain)
					if !bytes.Equal(plain, kept) {
						t.Fatal("Encode changed its source")
					}
					keptPacked := bytes.Clone(packed)
					mustDecode(t, decoder, packed, plain)
					if !bytes.Equal(packed, keptPacked) {
						t.Fatal("Decode changed its source")
					}
				})
			}
		}
	}
}

func (s suite) readsOthers(t *testing.T) {
	for _, other := range s.others {
		if other.Codec() != s.engine.Codec() {
			t.Fatalf("%s is of another codec", other.Name())
		}
		t.Run(other.Name(), func(t *testing.T) {
			reads(t, other, s.engine)
			reads(t, s.engine, other)
		})
	}
}

// reads checks that one engine reads what the other writes at each of its levels.
func reads(t *testing.T, reader, writer codec.Engine) {
	t.Helper()
	decoder := decoderOf(t, reader)
	for _, level := range levelsOf(writer) {
		encoder := encoderOf(t, writer, level)
		for _, corpus := range Corpora() {
			for _, size := range []int{0, 1, 300, 5000, 70000} {
				plain := corpus.Generate(size)
				mustDecode(t, decoder, encode(t, encoder, plain), plain)
			}
		}
	}
}

// encodeBound checks that a stream that fits does, that one that does not is
// reported, and that the encoder goes on working.
func (s suite) encodeBound(t *testing.T) {
	for _, level := range levelsOf(s.engine) {
		encoder, decoder := encoderOf(t, s.engine, level), decoderOf(t, s.engine)
		for _, corpus := range Corpora() {
			for _, size := range []int{1, 2, 300, 5000, 70000} {
				plain := corpus.Generate(size)
				want := len(encode(t, encoder, plain))
				for _, space := range []int{0, 1, want / 2, want - 1} {
					if space >= want {
						continue
					}
					dst := guard(space)
					if n, err := encoder.Encode(dst.bytes, plain); !errors.Is(err, codec.ErrDoesNotFit) {
						t.Fatalf("%s: %d bytes, %d encoded, into %d: got %d, %v", corpus.Name, size, want, space, n, err)
					}
					dst.check(t)
					// What did not fit leaves no trace in the next stream.
					mustDecode(t, decoder, encode(t, encoder, plain), plain)
				}
				dst := guard(want + codec.Slack)
				n, err := encoder.Encode(dst.bytes, plain)
				dst.check(t)
				if err != nil || n != want {
					t.Fatalf("%s: %d bytes, %d encoded, do not fit: got %d, %v", corpus.Name, size, want, n, err)
				}
				mustDecode(t, decoder, dst.bytes[:n], plain)
			}
		}
	}
}

// changing checks that data whose symbols change fit the bounds, at lengths from those at which a table of codes is
// longer than what it is for.
func (s suite) changing(t *testing.T) {
	for _, level := range levelsOf(s.engine) {
		encoder, decoder := encoderOf(t, s.engine, level), decoderOf(t, s.engine)
		for _, size := range []int{1, 9, 64, 250, 700, 3000, 40_000, 65_536, 65_537, 200_000} {
			plain := changingData(size)
			mustDecode(t, decoder, encode(t, encoder, plain), plain)
			stream, ok := encoder.(codec.StreamEncoder)
			if !ok {
				continue
			}
			if err := stream.Restart(); err != nil {
				t.Fatal(err)
			}
			parts := appendPart(t, stream, nil, plain, false)
			parts = appendPart(t, stream, parts, plain[:min(size, 20_000)], false)
			parts = appendPart(t, stream, parts, plain, true)
			want := slices.Concat(plain, plain[:min(size, 20_000)], plain)
			if got, whole := expand(t, s.engine.Codec(), parts); !whole || !bytes.Equal(got, want) {
				t.Errorf("%v: three parts of %d bytes expand to %d, whole: %v", level, size, len(got), whole)
			}
		}
	}
}

// changingData is noise of 64 symbols, and from half of it or 32 KiB on of the 192 others: codes that were made for its
// beginning are of no use for the rest.
func changingData(n int) []byte {
	plain := random(n)
	change := min(n/2, 32<<10)
	for i, b := range plain {
		if i < change {
			plain[i] = b % 64
		} else {
			plain[i] = 64 + b%192
		}
	}
	return plain
}

// wantCorrupt decodes something that is not a stream of at most space bytes.
func wantCorrupt(t *testing.T, d codec.Decoder, packed []byte, space int) {
	t.Helper()
	dst := guard(space)
	n, err := d.Decode(dst.bytes, packed)
	dst.check(t)
	if !errors.Is(err, codec.ErrCorrupt) {
		t.Fatalf("decoding %d bytes into %d gave %d, %v; want ErrCorrupt", len(packed), space, n, err)
	}
}

func (s suite) decodeBound(t *testing.T) {
	encoder, decoder := encoderOf(t, s.engine, codec.Fast), decoderOf(t, s.engine)
	for _, corpus := range Corpora() {
		for _, size := range []int{1, 2, 300, 5000, 70000} {
			plain := corpus.Generate(size)
			packed := encode(t, encoder, plain)
			for _, space := range []int{0, 1, size / 2, size - 1} {
				if space < size {
					wantCorrupt(t, decoder, packed, space)
				}
			}
			mustDecode(t, decoder, packed, plain)

			wide := guard(size + 1000)
			n, err := decoder.Decode(wide.bytes, packed)
			wide.check(t)
			if err != nil || !bytes.Equal(wide.bytes[:n], plain) {
				t.Fatalf("%s: %d bytes into a wider buffer: got %d, %v", corpus.Name, size, n, err)
			}
		}
	}
}

func (s suite) truncation(t *testing.T) {
	for _, level := range levelsOf(s.engine) {
		encoder, decoder := encoderOf(t, s.engine, level), decoderOf(t, s.engine)
		for _, corpus := range Corpora() {
			for _, size := range []int{0, 1, 40, 700} {
				plain := corpus.Generate(size)
				packed := encode(t, encoder, plain)
				for n := range packed {
					wantCorrupt(t, decoder, packed[:n], size)
				}
				mustDecode(t, decoder, packed, plain)
			}
		}
	}
}

func (s suite) trailing(t *testing.T) {
	for _, level := range levelsOf(s.engine) {
		encoder, decoder := encoderOf(t, s.engine, level), decoderOf(t, s.engine)
		for _, corpus := range Corpora() {
			for _, size := range []int{0, 1, 40, 700, 70000} {
				plain := corpus.Generate(size)
				packed := encode(t, encoder, plain)
				for _, tail := range [][]byte{{0}, {0xff}, packed} {
					for _, space := range []int{size, size + 100} {
						wantCorrupt(t, decoder, append(bytes.Clone(packed), tail...), space)
					}
				}
				mustDecode(t, decoder, packed, plain)
			}
		}
	}
}

// tolerate decodes bytes that may or may not be a stream.
func tolerate(t testing.TB, d codec.Decoder, packed []byte, space int) {
	t.Helper()
	dst := guard(space)
	n, err := d.Decode(dst.bytes, packed)
	dst.check(t)
	if err != nil && !errors.Is(err, codec.ErrCorrupt) {
		t.Fatalf("decoding %x: %v", packed, err)
	}
	if n < 0 || n > space {
		t.Fatalf("decoding %x into %d bytes gave %d", packed, space, n)
	}
}

func (s suite) bitFlips(t *testing.T) {
	for _, level := range levelsOf(s.engine) {
		encoder, decoder := encoderOf(t, s.engine, level), decoderOf(t, s.engine)
		for _, corpus := range Corpora() {
			for _, size := range []int{0, 1, 40, 700} {
				if raceEnabled && size > 100 {
					continue // takes seconds and finds no race
				}
				plain := corpus.Generate(size)
				packed := encode(t, encoder, plain)
				for bit := range 8 * len(packed) {
					flipped := bytes.Clone(packed)
					flipped[bit/8] ^= 1 << (bit % 8)
					tolerate(t, decoder, flipped, size)
				}
				mustDecode(t, decoder, packed, plain)
			}
		}
	}
}

func (s suite) garbage(t *testing.T) {
	decoder := decoderOf(t, s.engine)
	noise := random(4000)
	for size := range len(noise) / 2 {
		tolerate(t, decoder, noise[size:2*size], 4096)
	}
}

func (s suite) close(t *testing.T) {
	encoder, err := s.engine.NewEncoder(codec.Fast)
	if err != nil {
		t.Fatal(err)
	}
	decoder, err := s.engine.NewDecoder()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := encoder.Close(); err != nil {
			t.Error(err)
		}
		if err := decoder.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := encoder.Encode(make([]byte, 10), []byte("a")); !errors.Is(err, codec.ErrClosed) {
		t.Errorf("Encode after Close: %v", err)
	}
	if _, err := decoder.Decode(make([]byte, 10), []byte("a")); !errors.Is(err, codec.ErrClosed) {
		t.Errorf("Decode after Close: %v", err)
	}
}

func (s suite) unknownLevel(t *testing.T) {
	for _, level := range append(codec.Levels(), 0, codec.High+1, 255) {
		if s.engine.HasLevel(level) {
			if !slices.Contains(codec.Levels(), level) {
				t.Errorf("has %v", level)
			}
			continue
		}
		if encoder, err := s.engine.NewEncoder(level); err == nil {
			t.Errorf("%v is accepted", level)
			_ = encoder.Close()
		}
	}
}

func (s suite) concurrency(t *testing.T) {
	var wg sync.WaitGroup
	levels := levelsOf(s.engine)
	for i := range 4 {
		encoder, decoder := encoderOf(t, s.engine, levels[i%len(levels)]), decoderOf(t, s.engine)
		wg.Go(func() {
			for _, corpus := range Corpora() {
				plain := corpus.Generate(20000 + i)
				packed, out := make([]byte, bound(len(plain))), make([]byte, len(plain))
				for range 3 {
					n, err := encoder.Encode(packed, plain)
					if err != nil {
						t.Error(err)
						return
					}
					n, err = decoder.Decode(out, packed[:n])
					if err != nil || !bytes.Equal(out[:n], plain) {
						t.Errorf("%s: got %d bytes, %v", corpus.Name, n, err)
					}
				}
			}
		})
	}
	wg.Wait()
}

func (s suite) allocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, level := range levelsOf(s.engine) {
		encoder, decoder := encoderOf(t, s.engine, level), decoderOf(t, s.engine)
		for _, corpus := range Corpora() {
			plain := corpus.Generate(50000)
			packed, out := make([]byte, bound(len(plain))), make([]byte, len(plain))
			n := 0
			once := func() {
				var err error
				if n, err = encoder.Encode(packed, plain); err != nil {
					t.Fatal(err)
				}
				if _, err = decoder.Decode(out, packed[:n]); err != nil {
					t.Fatal(err)
				}
				if _, err = encoder.Encode(packed[:10], plain); err == nil {
					t.Fatal("50000 bytes in 10")
				}
				if _, err = decoder.Decode(out[:10], packed[:n]); err == nil {
					t.Fatal("50000 bytes in 10")
				}
			}
			if allocs := Allocations(once); allocs != 0 {
				t.Errorf("%v, %s: %v allocations a block", level, corpus.Name, allocs)
			}
		}
	}
}

// Allocations returns how many a function makes on average. The collector rests meanwhile: it empties pools, of
// libraries too, and filling them again is not the function's. Nor is what goroutines of others allocate, which are
// counted as well: it makes them every time.
func Allocations(f func()) float64 {
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	least := testing.AllocsPerRun(5, f)
	for range 2 {
		least = min(least, testing.AllocsPerRun(5, f))
	}
	return least
}
