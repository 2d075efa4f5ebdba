// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cargo_test

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/frame"
	"github.com/lighterage/lighterage/agent/policy"
)

// TestPackPlain: who has the plain block gets what Pack makes of the block that travels.
func TestPackPlain(t *testing.T) {
	noise := make([]byte, 200_000)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise) // never fails
	for _, form := range []cargo.Form{cargo.Gzip, cargo.Zstd, cargo.Plain} {
		e, err := frame.NewEncoder(frame.EncoderOptions{
			Engines: engines.Default(), Codec: form.Codec(), Joinable: form == cargo.Gzip,
			Policy: policy.Settings{Mode: policy.Always, Level: codec.Fast},
		})
		if err != nil {
			t.Fatal(err)
		}
		for what, plain := range map[string][]byte{
			"text": bytes.Repeat([]byte("a line of text\n"), 20_000), "noise": noise, "a byte": {1},
		} {
			wire, _, err := e.AppendAt(nil, 0, plain, false)
			if err != nil {
				t.Fatal(err)
			}
			header, err := frame.ParseHeader(wire)
			if err != nil {
				t.Fatal(err)
			}
			want, block, err := cargo.NewPacker(form).Pack(header, wire[frame.HeaderSize:])
			if err != nil {
				t.Fatal(err)
			}
			header, payload, _, err := e.Payload(nil, plain)
			if err != nil {
				t.Fatal(err)
			}
			packer := cargo.NewPacker(form)
			got, b, err := packer.PackPlain(header, payload, plain, crc32.ChecksumIEEE(plain))
			if err != nil || !bytes.Equal(got, want) || b != block {
				t.Errorf("%v, %s: %+v instead of %+v, %v", form, what, b, block, err)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}
