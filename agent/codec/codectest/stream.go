// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codectest

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/lighterage/lighterage/agent/codec"
)

// streamOf returns an encoder that makes streams in parts.
func streamOf(t testing.TB, e codec.Engine, level codec.Level) codec.StreamEncoder {
	t.Helper()
	encoder, ok := encoderOf(t, e, level).(codec.StreamEncoder)
	if !ok {
		t.Fatalf("the encoders of %s make no streams", e.Name())
	}
	return encoder
}

// appendPart compresses a part of a stream.
func appendPart(t testing.TB, e codec.StreamEncoder, stream, plain []byte, last bool) []byte {
	t.Helper()
	dst := guard(codec.PartBound(len(plain)))
	n, err := e.EncodePart(dst.bytes, plain, last)
	dst.check(t)
	if err != nil {
		t.Fatalf("encode a part of %d bytes, last %v: %v", len(plain), last, err)
	}
	return append(stream, dst.bytes[:n]...)
}

// expand reads a stream from its start with an implementation that is not under
// test. It returns what it gives up to where it ends or is cut.
func expand(t testing.TB, id codec.ID, stream []byte) (plain []byte, whole bool) {
	t.Helper()
	rest := bytes.NewReader(stream)
	var r io.Reader
	if id == codec.Zstd {
		d, err := zstd.NewReader(rest, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(8<<20))
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		r = d
	} else {
		r = flate.NewReader(rest)
	}
	plain, err := io.ReadAll(r)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatalf("after %d bytes: %v", len(plain), err)
	}
	if err == nil && rest.Len() > 0 {
		t.Fatalf("%d bytes follow the end of the stream", rest.Len())
	}
	return plain, err == nil
}

// stream checks that parts join to one stream, of which a receiver can expand at
// any time what was sent.
func (s suite) stream(t *testing.T) {
	for _, level := range levelsOf(s.engine) {
		encoder := streamOf(t, s.engine, level)
		for _, corpus := range Corpora() {
			if raceEnabled && corpus.Name != "json" {
				continue // takes seconds and finds no race
			}
			for _, sizes := range [][]int{
				{0},
				{1},
				{0, 0, 0},
				{1, 2, 3, 0, 4},
				{100, 5000, 1, 70000},
				{65536, 65535, 65537, 300},
				{30, 30, 30, 30, 30, 30, 0},
			} {
				t.Run(fmt.Sprintf("%v/%s/%v", level, corpus.Name, sizes), func(t *testing.T) {
					s.parts(t, encoder, corpus, sizes)
				})
			}
		}
	}
	t.Run("Alternating", s.streamAndBlocks)
	t.Run("Repetition", s.streamRefersBack)
	t.Run("Allocations", s.streamAllocations)
	t.Run("Closed", func(t *testing.T) {
		encoder := streamOf(t, s.engine, levelsOf(s.engine)[0])
		if err := encoder.Close(); err != nil {
			t.Fatal(err)
		}
		if err := encoder.Restart(); !errors.Is(err, codec.ErrClosed) {
			t.Errorf("Restart after Close: %v", err)
		}
		if _, err := encoder.EncodePart(make([]byte, 1000), nil, true); !errors.Is(err, codec.ErrClosed) {
			t.Errorf("EncodePart after Close: %v", err)
		}
	})
}

func (s suite) parts(t *testing.T, encoder codec.StreamEncoder, corpus Corpus, sizes []int) {
	total := 0
	for _, size := range sizes {
		total += size
	}
	plain := corpus.Generate(total)
	if err := encoder.Restart(); err != nil {
		t.Fatal(err)
	}
	var stream []byte
	at := 0
	for i, size := range sizes {
		last := i == len(sizes)-1
		stream = appendPart(t, encoder, stream, plain[at:at+size], last)
		at += size
		got, whole := expand(t, s.engine.Codec(), stream)
		// Nothing at all is no stream and yet no truncated one.
		if !bytes.Equal(got, plain[:at]) || whole != last && len(stream) > 0 {
			t.Fatalf("after part %d: %d bytes expand to %d, want %d; whole: %v", i, len(stream), len(got), at, whole)
		}
	}
}

// streamAndBlocks uses one encoder for both, leaving streams unfinished.
func (s suite) streamAndBlocks(t *testing.T) {
	plain := Corpora()[2].Generate(50000)
	for _, level := range levelsOf(s.engine) {
		encoder, decoder := streamOf(t, s.engine, level), decoderOf(t, s.engine)
		for i := range 6 {
			if err := encoder.Restart(); err != nil {
				t.Fatal(err)
			}
			stream := appendPart(t, encoder, nil, plain[:20000], false)
			switch i % 3 {
			case 0: // left unfinished
			case 1:
				if n, err := encoder.EncodePart(make([]byte, 10), random(5000), false); !errors.Is(err, codec.ErrDoesNotFit) {
					t.Fatalf("5000 bytes in 10: %d, %v", n, err)
				}
			case 2:
				stream = appendPart(t, encoder, stream, plain[20000:], true)
				if got, whole := expand(t, s.engine.Codec(), stream); !whole || !bytes.Equal(got, plain) {
					t.Fatalf("%d bytes expand to %d", len(stream), len(got))
				}
			}
			if i < 3 {
				mustDecode(t, decoder, encode(t, encoder, plain), plain)
			}
		}
	}
}

// streamRefersBack checks that short parts profit from what was sent before.
func (s suite) streamRefersBack(t *testing.T) {
	noise := random(400)
	for _, level := range levelsOf(s.engine) {
		encoder := streamOf(t, s.engine, level)
		if err := encoder.Restart(); err != nil {
			t.Fatal(err)
		}
		first := len(appendPart(t, encoder, nil, noise, false))
		if again := len(appendPart(t, encoder, nil, noise, false)); again > first/2 {
			t.Errorf("%v: the same 400 bytes take %d, then %d", level, first, again)
		}
	}
}

func (s suite) streamAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	plain := Corpora()[2].Generate(50000)
	dst := make([]byte, codec.PartBound(len(plain)))
	for _, level := range levelsOf(s.engine) {
		encoder := streamOf(t, s.engine, level)
		once := func() {
			if err := encoder.Restart(); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				if _, err := encoder.EncodePart(dst, plain, i == 2); err != nil {
					t.Fatal(err)
				}
			}
		}
		// One is Restart's in Go's zstd, and small.
		if allocs := Allocations(once); allocs > 1 {
			t.Errorf("%v: %v allocations a stream", level, allocs)
		}
	}
}
