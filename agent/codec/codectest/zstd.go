// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package codectest

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
)

// rawBlocks is plain as the uncompressed blocks of a frame, of at most size bytes.
func rawBlocks(plain []byte, size int) []byte {
	var out []byte
	for chunk := range slices.Chunk(plain, size) {
		out = appendBlock(out, false, 0, len(chunk))
		out = append(out, chunk...)
	}
	return appendBlock(out, true, 0, 0)
}

func appendBlock(out []byte, last bool, kind, length int) []byte {
	header := uint32(length<<3 | kind<<1)
	if last {
		header |= 1
	}
	return append(out, byte(header), byte(header>>8), byte(header>>16))
}

// zstdFrame is a frame of a descriptor and what follows it.
func zstdFrame(descriptor byte, parts ...[]byte) []byte {
	return append([]byte{0x28, 0xb5, 0x2f, 0xfd, descriptor}, bytes.Join(parts, nil)...)
}

// The first 2,000 bytes of the corpus json, as the engines of an amd64 machine compressed them at level High.
const (
	madeByLibzstd = "KLUv/WDQBs0ZAEY7piEgT/MM9r/+B3Vchh+BrL93YLF+KG9a2KQuxFtUGBBAwHmkAJsAmAD/YGM2iW/d2YmRBF58iHMCTTwZIyACxhwC0FIQcYbBFU1CaqSdX/HESPOpBZtqarHUSL8bxzuJ8SaFlKnVSPrmxr5ODMZihI2kf1PUxFirNZJ+tm+dGOnNGSNDPCMsAsEPR1IjLdsfiZEaGBQWUiPdZtnPPI0D3ew5e4L0E5EaSdGOxEjYs/KcGsl5RWmYxEhNknFqJOYjnkkM6JZaVLJG0jtZBJ+grR9v/wXhBDlPs1i8aIVdWewXk3LNy6ij9eOVq/589+N0tr0om2wVOlZ/JU6+O+HDY8gBMSgg6wmI+Z0PEMGim52x9YTVFGNqTSgbW3CxuFh0EHEepcDgsYN+a6SxRrvJjF/0LNqB7dZY+zvo5t8IuwRynsc7ivJfnAS4SHfVK2FczCVRMhpTI2V/2Ep9/nN2Lvk1rlsprIwGjwJh3VGQA7sCYT9R7yjQJW/9L6vwJu5thc7JKKdkL3n3QvifuAmjY445rPEfqokwzmMnU6tB9xilEEq25KSI4xfPyC/a2Cty+GfE+DsK2rpZLGKarffTMA8EYbFvTZu0jiYUwhmdJ5Q9i/5mbDGRNNakUmotk3C5fcvdJ12qMfWQx94LRPNeU1Oq5iJkkMHpmHvSIfoxsz0K86j6aZz8Nj+WqDc/oyjPLFpvPu+rbrmXjf5KKqP+2pzyq7P1pLtV4UsehPFhdE4xpFEGdn7MLKgka20+uF5czTnYEOaxszX2iyCsJyh/BHKwW8Rgj0BbP40j40Xd/HixETIXmaNuzcShvIvSSpMI4YTJkk06ZildzVWWrOculZSqCJlykD72JKStTUkbcnOzaAj7LBblzwFDIOBCCUS4AxgeuHKdD0iwQ4GVSSQte/XSDJKN/Qvux6bxZeI0pDj018fFEAj1y7HQ0DZGVdhIPCI/FeS8svZS8jrkwh+L2G58ADbi48S15SzIkfX1ZA20PkLlxaAYvIdC2H/Bfl6aj8HL2m44rfaYcijsSFxtRoihC8PPrZyzGOTi5CDX52mCCyUvM4q9jZNBPtDJRjqDMNTc7oF2AQ=="
	madeByGo      = "KLUv/WDQBsUZADJ9qSIgTzQM9oNb0yRWttmx/SpwgOR7IF8oiiJ6Ib1FQgOADPgKGUcP47DuPJJyP8HRA92v961Eotx3mOW3Y/XmU3mJY+5lo8+WpKm/Nqf8xJs96Y4l8C0PwvgwOrcaeZiBfN86DC7Zrc0H2YusOQcb4ryFsn+TsHUlQVRf0v2IBFmvybEekTKOHse1zVLu26ZG2C62o47NxaFUWEKXCOGEC5NNuq6UsuaSXthzCpWUrgh7OUhfPwlpa1PShij3aTBEjZqa7t+IgagOMclhnYGov6yHmOWrv9IJVBb3NYHOySin7Lc8RYHwf3ETRteuHSbxH66JOFBUWy82e7EG3WtKIZTN5KSI4xu/yZWE/aFsPUkO/5scf4hJGT9NTc6TcY4e55EgqvWMaZPV0YVCOKPzhfZ39Ddji4ukMVkSSmttCZnXx9x9UrZar4c8cm4gnvfamnI1F2HDhtO1e9Ih+K2T/ZeU8dvs3yS7JCh6mmobvKwzrJ+1lGwqTR1NPiqSJT+f8nG62l6UTbYEuk6eLU4+ZcKH18khMSik6gnJ+XwPEkGDn3xt9QTWVvdiE8rWDLKOrKODCBQxBQZvofQZJ2xxys91XElRgx22ZmyxP5SU+zlZl0hQ9HiIWf6NkwAXSmGJImFk7ZYom0bVUNcfWDFUTajPf65OJj+JTEkoTJr+g63rEl811FeHsmIogRcf4pxIE9G1CImg2yEgsQURdxxb8SSohsr3GVcMNd9isK22WKuG+vw4HlKMNymkvVhDYeU+9bFidMcIGwp/pkgUg7HWUDjKnrFiqDdnjI34RToCsQ9HVEM12R+KoRoYFBZUQylPk9+hGMqJHkdSrt/rS8JRhGooBjsUQ1m/y69qKOgZ5nEUQz3LtaqhnI94RzGgY4tR2Q2Fs7IIPSDgAgghYB4YHrpPItPCppcWk2zsX3A/Nowvg9Mg5aFdn3Bx8lhoqI2lquRysM3xqPxUyHkFau8nSgBbrkMb/Ckt4sksP0Ab8XkiRoT8ric/ILUEIXD2EGSxGz7ATb4wf4OTtW44Ve0xcSiskbhuRohBF8DPLZx7MeTi5CDX52mCCxUvM4stk419yBw/GT4S"
)

// ZstdFrames checks that an engine of codec.Zstd reads frames of any shape that
// the codec allows, although its own encoder writes them differently, and refuses
// all others: those that programs elsewhere write, and those that only an
// attacker does.
func ZstdFrames(t *testing.T, engine codec.Engine) {
	const (
		single   = 0x20
		checksum = 0x04
		size4    = 0x80
		size8    = 0xc0
	)
	decoder, encoder := decoderOf(t, engine), encoderOf(t, engine, codec.Fast)
	plain := Corpora()[0].Generate(1000)
	raw := rawBlocks(plain, 500)
	length4 := binary.LittleEndian.AppendUint32(nil, 1000)
	length8 := binary.LittleEndian.AppendUint64(nil, 1000)
	length2 := binary.LittleEndian.AppendUint16(nil, 1000-256)
	window := func(log int) []byte { return []byte{byte(log-10) << 3} }
	ours := bytes.Clone(encode(t, encoder, plain))
	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'}
	repeated := append(appendBlock(nil, true, 1, 1000), 'x')

	for name, packed := range map[string][]byte{
		"size of 2 bytes": zstdFrame(single|0x40, length2, raw),
		"size of 4 bytes": zstdFrame(single|size4, length4, raw),
		"size of 8 bytes": zstdFrame(single|size8, length8, raw),
		"a window":        zstdFrame(size4, window(22), length4, raw),
	} {
		t.Run("Reads/"+name, func(t *testing.T) { mustDecode(t, decoder, packed, plain) })
	}
	t.Run("Reads/a repeated byte", func(t *testing.T) {
		mustDecode(t, decoder, zstdFrame(single|size4, length4, repeated), bytes.Repeat([]byte{'x'}, 1000))
	})

	for name, text := range map[string]string{"libzstd": madeByLibzstd, "Go": madeByGo} {
		t.Run("Reads/made on amd64 by "+name, func(t *testing.T) {
			packed, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			mustDecode(t, decoder, packed, named("json").Generate(2000))
		})
	}

	for name, test := range map[string]struct {
		packed []byte
		want   error
	}{
		"nothing":                {nil, codec.ErrTruncated},
		"two frames":             {slices.Concat(ours, ours), codec.ErrTrailing},
		"two, one empty":         {slices.Concat(ours, encode(t, encoder, nil)), codec.ErrTrailing},
		"a skippable frame":      {skippable, codec.ErrCorrupt},
		"one before":             {slices.Concat(skippable, ours), codec.ErrCorrupt},
		"one after":              {slices.Concat(ours, skippable), codec.ErrTrailing},
		"an older format":        {append([]byte{0x27, 0xb5, 0x2f, 0xfd}, ours[4:]...), codec.ErrCorrupt},
		"a dictionary":           {zstdFrame(single|size4|1, []byte{7}, length4, raw), codec.ErrCorrupt},
		"a dictionary's id of 0": {zstdFrame(single|size4|1, []byte{0}, length4, raw), codec.ErrCorrupt},
		"a checksum":             {zstdFrame(single|size4|checksum, length4, raw, make([]byte, 4)), codec.ErrCorrupt},
		"a reserved bit":         {zstdFrame(single|size4|8, length4, raw), codec.ErrCorrupt},
		"no content size":        {zstdFrame(0, window(20), raw), codec.ErrCorrupt},
		"a window of 8 MiB":      {zstdFrame(size4, window(23), length4, raw), codec.ErrCorrupt},
		"a window of 2 TiB":      {zstdFrame(size4, window(41), length4, raw), codec.ErrCorrupt},
		"a size of 2^64-1":       {zstdFrame(single|size8, bytes.Repeat([]byte{0xff}, 8), raw), codec.ErrTooLong},
		"more than its size":     {zstdFrame(single|size4, []byte{0xe7, 3, 0, 0}, raw), codec.ErrCorrupt},
		"less than its size":     {zstdFrame(single|size4, []byte{0xe9, 3, 0, 0}, raw), codec.ErrCorrupt},
		"a reserved block":       {zstdFrame(single|size4, length4, appendBlock(nil, true, 3, 0)), codec.ErrCorrupt},
		"a block too long": {
			zstdFrame(single|size4, length4, appendBlock(nil, true, 1, 1001), []byte{'x'}), codec.ErrCorrupt,
		},
		"no last block": {zstdFrame(single|size4, length4, raw[:len(raw)-3]), codec.ErrTruncated},
		"no blocks":     {zstdFrame(single|size4, length4), codec.ErrTruncated},
		"a cut block":   {zstdFrame(single|size4, length4, raw[:400]), codec.ErrTruncated},
		"a cut header":  {zstdFrame(size4, window(20), length4[:3]), codec.ErrTruncated},
		// 1 MiB in 40 bytes.
		"a bomb": {
			zstdFrame(single|size4, length4, bytes.Repeat(append(appendBlock(nil, false, 1, 1<<17), 'x'), 8)), codec.ErrCorrupt,
		},
		// Each block may be as long as the content; together they must not be.
		"a bomb of short blocks": {
			zstdFrame(single|size4, length4, bytes.Repeat(append(appendBlock(nil, false, 1, 1000), 'x'), 4096), repeated),
			codec.ErrCorrupt,
		},
	} {
		t.Run("Refuses/"+name, func(t *testing.T) {
			dst := guard(1100)
			n, err := decoder.Decode(dst.bytes, test.packed)
			dst.check(t)
			if !errors.Is(err, test.want) || !errors.Is(err, codec.ErrCorrupt) {
				t.Errorf("got %d, %v; want %v", n, err, test.want)
			}
			mustDecode(t, decoder, ours, plain)
		})
	}
}
