// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package message_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/queue/message"
)

var form = message.Form{Codec: codec.Zstd, Class: codec.Software, Length: 12000, Checksum: 0x0f1e2d3c4b5a6978}

const lines = "Lighterage-Codec: zstd\r\nLighterage-Engine: software\r\nLighterage-Length: " +
	"12000\r\nLighterage-Checksum: 0f1e2d3c4b5a6978\r\n"

// TestForm holds the form to what was written before.
func TestForm(t *testing.T) {
	if got := string(form.AppendBlock(nil, nil)); got != "NATS/1.0\r\n"+lines+"\r\n" {
		t.Errorf("got %q", got)
	}
	if got := string(
		form.AppendBlock(nil, []byte("NATS/1.0\r\nA: b\r\n\r\n")),
	); got != "NATS/1.0\r\nA: b\r\n"+lines+"\r\n" {
		t.Errorf("beside another: %q", got)
	}
	longest := message.Form{Codec: codec.Deflate, Class: codec.Hardware, Length: message.MaxLength, Checksum: 1<<64 - 1}
	if got := longest.AppendHeaders(nil); len(got) != message.HeaderBound {
		t.Errorf("%q has %d bytes; the bound is %d", got, len(got), message.HeaderBound)
	}
	if got := (message.Form{}).AppendHeaders(nil); len(got) > 0 {
		t.Errorf("a plain form has headers: %q", got)
	}
}

func TestParseForm(t *testing.T) {
	const other = "Nats-Msg-Id: 7\r\nlighterage-codec: user's own\r\nLighterage-Accept: stored\r\n"
	for name, test := range map[string]struct {
		lines string
		want  message.Form
		bad   bool
	}{
		"none":         {other, message.Form{}, false},
		"all":          {lines, form, false},
		"among others": {other + lines + other, form, false},
		"without blanks": {
			"Lighterage-Codec:deflate\r\nLighterage-Engine:hardware\r\nLighterage-Length:1\r\nLighterage-Checksum:0000000000000001\r\n",
			message.Form{Codec: codec.Deflate, Class: codec.Hardware, Length: 1, Checksum: 1}, false,
		},
		"one":              {"Lighterage-Codec: zstd\r\n", message.Form{}, true},
		"three":            {lines[len("Lighterage-Codec: zstd\r\n"):], message.Form{}, true},
		"twice":            {lines + lines, message.Form{}, true},
		"codec none":       {"Lighterage-Codec: none\r\n" + lines[len("Lighterage-Codec: zstd\r\n"):], message.Form{}, true},
		"no engine":        {replace("software", "none"), message.Form{}, true},
		"empty length":     {replace("12000", ""), message.Form{}, true},
		"length 0":         {replace("12000", "0"), message.Form{}, true},
		"leading zero":     {replace("12000", "012000"), message.Form{}, true},
		"negative":         {replace("12000", "-12000"), message.Form{}, true},
		"hexadecimal":      {replace("12000", "0x2ee0"), message.Form{}, true},
		"too long":         {replace("12000", "67108865"), message.Form{}, true},
		"overflow":         {replace("12000", "18446744073709563616"), message.Form{}, true},
		"upper case":       {replace("0f1e", "0F1E"), message.Form{}, true},
		"short checksum":   {replace("0f1e", "f1e"), message.Form{}, true},
		"no digits":        {replace("0f1e", "0g1e"), message.Form{}, true},
		"without its line": {"Lighterage-Codec zstd\r\n", message.Form{}, false},
	} {
		got, err := message.ParseForm([]byte("NATS/1.0\r\n" + test.lines + "\r\n"))
		if (err != nil) != test.bad || test.bad && !errors.Is(err, message.ErrHeader) || !test.bad && got != test.want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got, err := message.ParseForm(nil); err != nil || !got.Plain() {
		t.Errorf("no block: %+v, %v", got, err)
	}
}

func replace(old, with string) string {
	return string(bytes.Replace([]byte(lines), []byte(old), []byte(with), 1))
}

func TestAppendPlainBlock(t *testing.T) {
	for block, want := range map[string]string{
		"NATS/1.0\r\n" + lines + "\r\n":                 "",
		"NATS/1.0\r\nA: 1\r\n" + lines + "B: 2\r\n\r\n": "NATS/1.0\r\nA: 1\r\nB: 2\r\n\r\n",
		"NATS/1.0 404 No Messages\r\n\r\n":              "NATS/1.0 404 No Messages\r\n\r\n",
		"NATS/1.0\r\n\r\n":                              "",
		"NATS/1.0\r\nLighterage-Accept: stored\r\n\r\n": "NATS/1.0\r\nLighterage-Accept: stored\r\n\r\n",
		"":                 "",
		"NATS/1.0\r\nA: 1": "NATS/1.0\r\nA: 1\r\n\r\n",
		"NATS/1.0\r\nA: 1\r\n\r\nLighterage-Codec: zstd\r\n\r\n": "NATS/1.0\r\nA: 1\r\n\r\n",
	} {
		if got := string(message.AppendPlainBlock([]byte("x"), []byte(block))); got != "x"+want {
			t.Errorf("%q: got %q, want %q", block, got, want)
		}
	}
}

func FuzzParseForm(f *testing.F) {
	f.Add([]byte("NATS/1.0\r\n" + lines + "\r\n"))
	f.Add([]byte("NATS/1.0 100\r\nA: 1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, block []byte) {
		got, err := message.ParseForm(block)
		plain := message.AppendPlainBlock(nil, block)
		if rest, again := message.ParseForm(plain); again != nil || !rest.Plain() {
			t.Fatalf("%q still means %+v, %v", plain, rest, again)
		}
		if err != nil || got.Plain() {
			return
		}
		if got.Length > message.MaxLength || got.Length <= 0 {
			t.Fatalf("accepted %+v", got)
		}
		if again, err := message.ParseForm(got.AppendBlock(nil, plain)); err != nil || again != got {
			t.Fatalf("%+v is written as %+v, %v", got, again, err)
		}
	})
}
