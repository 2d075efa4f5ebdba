// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package zstddict_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/cover"
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/codec/zstddict"
)

func TestTrain(t *testing.T) {
	samples := codectest.Orders(7, 300, 1000)
	for _, size := range []int{zstddict.MinSize, 8 << 10, zstddict.MaxSize} {
		one, used, err := zstddict.Train(samples, size)
		if err != nil {
			t.Fatal(err)
		}
		if used != len(samples) {
			t.Errorf("%d bytes: %d samples of %d", size, used, len(samples))
		}
		again, _, err := zstddict.Train(samples, size)
		if err != nil || !bytes.Equal(one, again) {
			t.Errorf("%d bytes: the same samples make another dictionary: %v", size, err)
		}
		if number, err := zstddict.Number(one); err != nil || number < 1<<16 || number >= 1<<31 {
			t.Errorf("number %d, %v", number, err)
		}
		if len(one) > size || len(one) < size/8 {
			t.Errorf("%d bytes of %d", len(one), size)
		}
		other, _, err := zstddict.Train(codectest.Orders(8, 300, 1000), size)
		if err != nil || bytes.Equal(one[:8], other[:8]) {
			t.Errorf("other samples have the same number: %v", err)
		}
	}
}

// TestTrainBounds: what is beyond 4 MiB is not looked at, nor are ends of long samples and samples without a word.
func TestTrainBounds(t *testing.T) {
	short, long := [][]byte{[]byte("1234567"), nil}, codectest.Orders(9, 4, 100_000)
	within := slices.Concat(short, slices.Repeat(long, cover.MaxSamples/cover.MaxSample/len(long)))
	bounded, used, err := zstddict.Train(within, 8<<10)
	if err != nil || used != cover.MaxSamples/cover.MaxSample {
		t.Fatalf("%d samples, %v", used, err)
	}
	cut := slices.Concat(within, codectest.Orders(10, 100, 1000))
	for i, s := range cut {
		cut[i] = s[:min(len(s), cover.MaxSample)]
	}
	again, more, err := zstddict.Train(cut, 8<<10)
	if err != nil || more != used || !bytes.Equal(bounded, again) {
		t.Errorf("%d samples, %v; same dictionary %v", more, err, bytes.Equal(bounded, again))
	}
}

func TestTrainRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		samples [][]byte
		want    error
	}{
		"nothing": {nil, cover.ErrTooFew}, "few": {codectest.Orders(1, 15, 500), cover.ErrTooFew},
		"short": {bytes.Split(bytes.Repeat([]byte("12345,"), 500), []byte(",")), cover.ErrTooFew},
		"zeros": {slices.Repeat([][]byte{make([]byte, 500)}, 100), cover.ErrTooLittle},
	} {
		if _, _, err := zstddict.Train(test.samples, zstddict.MaxSize); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	for _, size := range []int{0, zstddict.MinSize - 1, zstddict.MaxSize + 1} {
		if _, _, err := zstddict.Train(codectest.Orders(1, 50, 500), size); err == nil {
			t.Errorf("a dictionary of %d bytes", size)
		}
	}
}

// FuzzTrain has any samples make a dictionary that works, or an error that says why there is none.
func FuzzTrain(f *testing.F) {
	f.Add(bytes.Join(codectest.Orders(1, 40, 300), nil), uint16(300), uint16(4000))
	f.Add(bytes.Repeat([]byte("a"), 4000), uint16(100), uint16(2048))
	f.Add(bytes.Repeat([]byte("abcdefgh"), 400), uint16(8), uint16(2048))
	f.Add([]byte{}, uint16(1), uint16(0))
	engine := gozstd.New().(codec.DictionaryEngine)
	f.Fuzz(func(t *testing.T, data []byte, each, size uint16) {
		var samples [][]byte
		for rest := data; len(rest) > 0; {
			n := min(len(rest), int(each)+1)
			samples, rest = append(samples, rest[:n]), rest[n:]
		}
		dictionary, used, err := zstddict.Train(samples, int(size))
		if size < zstddict.MinSize {
			if err == nil {
				t.Fatalf("a dictionary of %d bytes", size)
			}
			return
		}
		if used > len(samples) {
			t.Fatalf("%d samples of %d", used, len(samples))
		}
		if err != nil {
			if !errors.Is(err, cover.ErrTooFew) && !errors.Is(err, cover.ErrTooLittle) &&
				!errors.Is(err, zstddict.ErrNoTables) {
				t.Fatal(err)
			}
			return
		}
		encoder, err := engine.NewDictionaryEncoder(codec.Fast, dictionary)
		if err != nil {
			t.Fatal(err)
		}
		defer encoder.Close()
		decoder, err := engine.NewDictionaryDecoder(dictionary)
		if err != nil {
			t.Fatal(err)
		}
		defer decoder.Close()
		packed, out := make([]byte, len(data)*2+600), make([]byte, len(data))
		n, err := encoder.Encode(packed, data)
		if err != nil {
			t.Fatal(err)
		}
		if n, err = decoder.Decode(out, packed[:n]); err != nil || !bytes.Equal(out[:n], data) {
			t.Fatalf("%d bytes come back as %d: %v", len(data), n, err)
		}
	})
}
