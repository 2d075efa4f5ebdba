// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package vectors_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/test/vectors"
)

// text returns n bytes that shrink, without a random generator that might change.
func text(n int) []byte {
	var b []byte
	for i := 0; len(b) < n; i++ {
		b = fmt.Appendf(
			b, "<container id=\"%07d\" port=%q weight=\"%d.%d\"/>\n", i*i%9999991, []string{"east", "west", "north"}[i%3], i%37,
			i%10,
		)
	}
	return b[:n]
}

// A block as it is in block/NAME.bin.
type block struct {
	name  string
	codec codec.ID
	class codec.Class
	seq   uint64
	last  bool
	plain []byte
	// kept says that the file is not written again: the accelerator, or another program, may write such a
	// block, and the library as it is built here does not ask for it.
	kept bool
}

func blocks() []block {
	return []block{
		{"stored-small", codec.None, codec.NoClass, 0, false, []byte("cargo"), false},
		{"stored-last-empty", codec.None, codec.NoClass, 1<<40 + 7, true, nil, false},
		{"deflate-software", codec.Deflate, codec.Software, 1, false, text(5000), false},
		{"deflate-hardware", codec.Deflate, codec.Hardware, 2, false, text(40000), false},
		{"deflate-hardware-fixed", codec.Deflate, codec.Hardware, 2, false, text(40000), true},
		{"deflate-small", codec.Deflate, codec.Software, 3, false, bytes.Repeat([]byte{7}, 200), false},
		{"deflate-joinable", codec.Deflate, codec.Software, 6, false, text(5000), true},
		{"zstd-software", codec.Zstd, codec.Software, 4, false, text(6000), false},
		{"zstd-last", codec.Zstd, codec.Software, 5, true, text(70000), false},
	}
}

// compress is for new files alone.
func compress(t *testing.T, b block) []byte {
	t.Helper()
	engine, ok := codec.NewRegistry(append(engines.All(), hardware...)...).Best(b.codec, b.class, codec.Balanced)
	if !ok {
		t.Skipf("this program has no %v engine of %v; test/dfltcc/env.sh makes one", b.class, b.codec)
	}
	e, err := engine.NewEncoder(codec.Balanced)
	if err != nil {
		t.Fatal(err)
	}
	payload := make([]byte, len(b.plain)+64)
	n, err := e.Encode(payload, b.plain)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return payload[:n]
}

// TestBlocks: every architecture and engine reads the blocks, and writes their
// headers, and all of those that are stored, to the byte.
func TestBlocks(t *testing.T) {
	for _, b := range blocks() {
		t.Run(b.name, func(t *testing.T) {
			name := "block/" + b.name + ".bin"
			h := frame.Header{
				Last: b.last, Codec: b.codec, Class: b.class, Seq: b.seq, PlainLen: uint32(len(b.plain)),
				Checksum: xxh3.Hash(b.plain),
			}
			if b.name == "deflate-joinable" { // made by zlib, in Python
				h.Joinable, h.Checksum = true, uint64(crc32.ChecksumIEEE(b.plain))
			}
			var payload []byte
			switch {
			case b.codec == codec.None:
				payload = b.plain
			case vectors.Updating() && !b.kept:
				payload = compress(t, b)
			default:
				payload = vectors.Read(t, name)[frame.HeaderSize:]
			}
			h.WireLen = uint32(len(payload))
			vectors.Hold(t, name, append(h.Append(nil), payload...))
			if vectors.Updating() {
				return
			}

			file := vectors.Read(t, name)
			got, err := frame.ParseHeader(file)
			if err != nil || got != h {
				t.Fatalf("%+v, %v; want %+v", got, err, h)
			}
			for _, engine := range append(engines.All(), hardware...) {
				if engine.Codec() != b.codec {
					continue
				}
				plain, outcome := decode(t, engine, h, file[frame.HeaderSize:])
				if !bytes.Equal(plain, b.plain) {
					t.Errorf("%s: expands to other bytes", engine.Name())
				}
				if want := expandPath(b.class, engine); outcome.Path != want {
					t.Errorf("%s: %v, want %v", engine.Name(), outcome.Path, want)
				}
			}
		})
	}
}

// TestCodes: blocks of the accelerator are there with DEFLATE's fixed codes and with
// codes made for the data.
func TestCodes(t *testing.T) {
	for name, want := range map[string]byte{"deflate-hardware-fixed": 1, "deflate-hardware": 2} {
		if got := vectors.Read(t, "block/"+name+".bin")[frame.HeaderSize] >> 1 & 3; got != want {
			t.Errorf("%s: the first block of DEFLATE is of type %d, want %d", name, got, want)
		}
	}
}

func decode(t *testing.T, engine codec.Engine, h frame.Header, payload []byte) ([]byte, frame.Outcome) {
	t.Helper()
	d, err := frame.NewDecoder(codec.NewRegistry(engine))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	plain, outcome, err := d.DecodeBlock(nil, h, payload)
	if err != nil {
		t.Fatalf("%s: %v", engine.Name(), err)
	}
	return plain, outcome
}

// TestStoredStream holds a whole stream of the encoder that no engine has a part
// in.
func TestStoredStream(t *testing.T) {
	e, err := frame.NewEncoder(frame.EncoderOptions{
		Engines: engines.Default(), Codec: codec.None, Policy: policy.Settings{Mode: policy.Auto, Level: codec.Fast},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	var stream []byte
	for i, plain := range [][]byte{text(1), text(700), nil} {
		if stream, _, err = e.Append(stream, plain, i == 2); err != nil {
			t.Fatal(err)
		}
	}
	vectors.Hold(t, "block/stored-stream.bin", stream)
}
