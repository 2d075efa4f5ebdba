// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package envelope_test

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/message"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

func TestThere(t *testing.T) {
	q := &messagesv1.QueueMessage{
		Id: "7", Key: "a b", Headers: map[string]string{"Customer": "7", "Content-Type": "text/xml"}, Payload: []byte("x"),
	}
	m, err := envelope.New("orders", q)
	if err != nil {
		t.Fatal(err)
	}
	form := message.Form{Codec: codec.Zstd, Class: codec.Hardware, Length: 9, Checksum: 1 << 63}
	envelope.SetForm(m, form)
	m.Data = q.GetPayload()
	m.Header.Set("Nats-Batch-Id", "1")
	got, dead, damage := envelope.Read(m)
	if want := (&messagesv1.StoredForm{
		Codec: "zstd", EngineClass: "hardware", Length: 9, Checksum: 1 << 63,
	}); !proto.Equal(got.GetStoredForm(), want) || dead != nil || damage != "" {
		t.Errorf("%v, %v, %q", got, dead, damage)
	}
	if back, err := envelope.ParseForm(got.GetStoredForm()); err != nil || back != form {
		t.Errorf("%v, %v", back, err)
	}
	got.StoredForm = nil
	if !proto.Equal(got, q) {
		t.Errorf("%v, want %v", got, q)
	}

	letter := envelope.DeadLetter(
		"dead", m, 12, &messagesv1.DeadLetter{Reason: envelope.Rejected, Detail: "why", Deliveries: 3},
	)
	if id := letter.Header.Get(nats.MsgIdHdr); id == "7" || id == "" || letter.Header.Get("Nats-Batch-Id") != "" {
		t.Errorf("%v", letter.Header)
	}
	got, dead, damage = envelope.Read(letter)
	if want := (&messagesv1.DeadLetter{
		Reason: "Rejected", Detail: "why", Deliveries: 3, Sequence: 12,
	}); !proto.Equal(dead, want) || damage != "" || got.GetStoredForm().GetLength() != 9 {
		t.Errorf("%v, %v, %q", got, dead, damage)
	}
	got.StoredForm = nil
	if !proto.Equal(got, q) {
		t.Errorf("dead: %v, want %v", got, q)
	}
}

// TestDeadWithoutID: the dead letter of a message that had no id shows none, so that it can be put again as it is
// shown.
func TestDeadWithoutID(t *testing.T) {
	letter := envelope.DeadLetter(
		"dead", &nats.Msg{Subject: "orders", Data: []byte("x")}, 12, &messagesv1.DeadLetter{Reason: envelope.Rejected},
	)
	q, dead, _ := envelope.Read(letter)
	if dead == nil || q.GetId() != "" {
		t.Errorf("%v, %v", q, dead)
	}
	if _, err := envelope.New("orders", q); err != nil {
		t.Error(err)
	}
}

// TestDeadHeaders: whatever headers a message has, a server and the client library take its dead letter.
func TestDeadHeaders(t *testing.T) {
	m := &nats.Msg{Header: nats.Header{
		"A b": {"1"}, "Y": make([]string, 16_000), message.CodecHeader: {"zstd"}, "Z": {"2"}, nats.MsgIdHdr: {"7"},
		"Nats-TTL": {"1m"},
	}, Data: []byte("x")}
	letter := envelope.DeadLetter(
		"dead", m, 12, &messagesv1.DeadLetter{Reason: envelope.Unsendable, Detail: strings.Repeat("d", envelope.MaxText)},
	)
	size := 0
	for name, values := range letter.Header {
		for _, value := range values {
			size += envelope.FieldSize(len(name), len(value))
		}
	}
	if size > 62<<10 || letter.Header.Get("A_b") != "1" || letter.Header.Get(message.CodecHeader) != "zstd" ||
		letter.Header.Get(envelope.IDHeader) != "7" ||
		letter.Header["Nats-TTL"] != nil || letter.Header.Get(envelope.DeadReasonHeader) != envelope.Unsendable {
		t.Errorf("%d bytes in %q", size, slices.Sorted(maps.Keys(letter.Header)))
	}
}

func TestNotAllowed(t *testing.T) {
	many := make(map[string]string)
	for range envelope.MaxHeaders + 1 {
		many["A"+strings.Repeat("a", len(many))] = ""
	}
	for what, q := range map[string]*messagesv1.QueueMessage{
		"long id":         {Id: strings.Repeat("x", envelope.MaxText+1)},
		"lines in id":     {Id: "a\r\nNats-Rollup: all"},
		"a dead letter's": {Id: envelope.DeadIDPrefix + "7"},
		"letters in key":  {Key: "schlüssel"},
		"space in key":    {Key: " a"},
		"control":         {Headers: map[string]string{"nats-rollup": "all"}},
		"own":             {Headers: map[string]string{"LIGHTERAGE-Codec": "zstd"}},
		"name":            {Headers: map[string]string{"a:b": "c"}},
		"no name":         {Headers: map[string]string{"": "c"}},
		"value":           {Headers: map[string]string{"a": "b\r\nNats-Rollup: all"}},
		"space in value":  {Headers: map[string]string{"a": " b"}},
		"many":            {Headers: many},
		"much":            {Headers: map[string]string{"a": strings.Repeat("x", envelope.MaxHeaderBytes)}},
	} {
		if m, err := envelope.New("orders", q); !errors.Is(err, envelope.ErrInvalid) {
			t.Errorf("%s: %v, %v", what, m, err)
		}
	}
}

// FuzzNew: what is allowed stays what it is on its way through the protocol of NATS.
func FuzzNew(f *testing.F) {
	f.Add("1", "k", "Customer", "7")
	f.Add("", "", "a", "\x80")
	f.Fuzz(func(t *testing.T, id, key, name, value string) {
		m, err := envelope.New("orders", &messagesv1.QueueMessage{Id: id, Key: key, Headers: map[string]string{name: value}})
		if err != nil {
			if !errors.Is(err, envelope.ErrInvalid) {
				t.Error(err)
			}
			return
		}
		var block bytes.Buffer
		block.WriteString("NATS/1.0\r\n")
		for name, values := range m.Header {
			for _, value := range values {
				block.WriteString(name + ": " + value + "\r\n")
			}
		}
		block.WriteString("\r\n")
		header, err := nats.DecodeHeadersMsg(block.Bytes())
		if err != nil {
			t.Fatalf("%q: %v", block.String(), err)
		}
		if !maps.EqualFunc(header, m.Header, func(a, b []string) bool { return len(a) == 1 && len(b) == 1 && a[0] == b[0] }) {
			t.Errorf("%q is read as %q", m.Header, header)
		}
	})
}

// FuzzRead: whatever is in the stream becomes a message that can be sent.
func FuzzRead(f *testing.F) {
	f.Add("Lighterage-Codec", "zstd", []byte("x"))
	f.Add("A\xff", "\xff", []byte(nil))
	f.Add("Lighterage-Dead-Reason", "\xff", []byte(nil))
	f.Fuzz(func(t *testing.T, name, value string, data []byte) {
		q, dead, damage := envelope.Read(
			&nats.Msg{Header: nats.Header{name: {value}, envelope.KeyHeader: {value}}, Data: data},
		)
		if _, err := proto.Marshal(&messagesv1.ReceivedMessage{Message: q, DeadLetter: dead, Damage: damage}); err != nil {
			t.Error(err)
		}
	})
}
