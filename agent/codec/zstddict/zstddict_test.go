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
	"github.com/lighterage/lighterage/agent/codec/gozstd"
	"github.com/lighterage/lighterage/agent/codec/zstddict"
)

func TestTrain(t *testing.T) {
	samples := codectest.Orders(7, 300, 1000)
	for _, size := range []int{zstddict.MinSize, 8 << 10, zstddict.MaxSize} {
		one, err := zstddict.Train(samples, size)
		if err != nil {
			t.Fatal(err)
		}
		again, err := zstddict.Train(samples, size)
		if err != nil || !bytes.Equal(one, again) {
			t.Errorf("%d bytes: the same samples make another dictionary: %v", size, err)
		}
		if number, err := zstddict.Number(one); err != nil || number < 1<<15 || number >= 1<<31 {
			t.Errorf("number %d, %v", number, err)
		}
		if len(one) > size || len(one) < size/8 {
			t.Errorf("%d bytes of %d", len(one), size)
		}
		other, err := zstddict.Train(codectest.Orders(8, 300, 1000), size)
		if err != nil || bytes.Equal(one[:8], other[:8]) {
			t.Errorf("other samples have the same number: %v", err)
		}
	}
}

func TestTrainRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		samples [][]byte
		want    error
	}{
		"nothing": {nil, zstddict.ErrTooFew}, "few": {codectest.Orders(1, 15, 500), zstddict.ErrTooFew},
		"short": {bytes.Split(bytes.Repeat([]byte("12345,"), 500), []byte(",")), zstddict.ErrTooFew},
		"zeros": {slices.Repeat([][]byte{make([]byte, 500)}, 100), zstddict.ErrTooLittle},
	} {
		if _, err := zstddict.Train(test.samples, zstddict.MaxSize); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	for _, size := range []int{0, zstddict.MinSize - 1, zstddict.MaxSize + 1} {
		if _, err := zstddict.Train(codectest.Orders(1, 50, 500), size); err == nil {
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
		dictionary, err := zstddict.Train(samples, int(size))
		if size < zstddict.MinSize {
			if err == nil {
				t.Fatalf("a dictionary of %d bytes", size)
			}
			return
		}
		if err != nil {
			if !errors.Is(err, zstddict.ErrTooFew) && !errors.Is(err, zstddict.ErrTooLittle) {
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
