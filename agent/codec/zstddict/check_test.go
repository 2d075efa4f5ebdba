// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package zstddict_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/zstddict"
)

// TestCheck: what Train makes has the number that its content gives it. Another number, or other content, is found.
func TestCheck(t *testing.T) {
	sound, _, err := zstddict.Train(codectest.Orders(1, 100, 500), 8<<10)
	if err != nil {
		t.Fatal(err)
	}
	number, err := zstddict.Number(sound)
	if err != nil {
		t.Fatal(err)
	}
	if found, err := zstddict.Check(sound); err != nil || found != number {
		t.Errorf("number %d: %v, want %d", found, err, number)
	}
	for name, change := range map[string]func([]byte) []byte{
		"nothing": func([]byte) []byte { return nil },
		"another number": func(d []byte) []byte {
			binary.LittleEndian.PutUint32(d[4:], number+1)
			return d
		},
		"another content": func(d []byte) []byte {
			d[len(d)-1] ^= 1
			return d
		},
		"more content": func(d []byte) []byte { return append(d, 0) },
		"too long":     func(d []byte) []byte { return append(d, make([]byte, zstddict.MaxSize)...) },
	} {
		if _, err := zstddict.Check(change(bytes.Clone(sound))); !errors.Is(err, zstddict.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
