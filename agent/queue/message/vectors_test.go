// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package message_test

import (
	"bytes"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/codectest"
	"github.com/lighterage/lighterage/agent/codec/zstddict"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/test/vectors"
)

// TestDictionaryVectors: a stored message that refers to a dictionary is read as one machine wrote it, and its header
// is written so on every machine.
func TestDictionaryVectors(t *testing.T) {
	const dictionaryFile, headerFile, payloadFile = "message/dictionary.bin", "message/dictionary-header.bin",
		"message/dictionary-payload.bin"
	plain := codectest.Orders(3, 401, 1000)[400]
	k := &kept{all: map[uint32][]byte{}}
	e, d := referring(t, k, func(o *message.EncodingOptions) { o.Engines = plainMachine })
	if vectors.Updating() {
		content, _, err := zstddict.Train(codectest.Orders(3, 400, 1000), 2*zstddict.MinSize)
		if err != nil {
			t.Fatal(err)
		}
		number, err := zstddict.Number(content)
		if err != nil {
			t.Fatal(err)
		}
		k.current.Store(&message.Dictionary{Codec: codec.Zstd, Number: number, Content: content})
		payload, form, _ := encode(t, e, plain)
		vectors.Write(t, dictionaryFile, content)
		vectors.Write(t, headerFile, form.AppendBlock(nil, nil))
		vectors.Write(t, payloadFile, payload)
		return
	}
	content, header := vectors.Read(t, dictionaryFile), vectors.Read(t, headerFile)
	number, err := zstddict.Number(content)
	if err != nil {
		t.Fatal(err)
	}
	k.all[number] = content
	form, err := message.ParseForm(header)
	if err != nil || form.Codec != codec.Zstd || form.Dictionary != number || form.Length != len(plain) {
		t.Fatalf("%+v, %v", form, err)
	}
	vectors.Hold(t, headerFile, form.AppendBlock(nil, nil))
	if got, err := decode(t, d, form, vectors.Read(t, payloadFile)); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("read: %v", err)
	}
}
