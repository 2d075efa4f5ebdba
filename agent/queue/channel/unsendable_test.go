// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package channel_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/queue/channel"
	"github.com/lighterage/lighterage/agent/queue/envelope"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/queue/store"
)

// putRaw puts a message by the protocol, since the client library does not write every name of a header.
func (q *queue) putRaw(t *testing.T, m *nats.Msg) {
	t.Helper()
	conn, err := q.server.InProcessConn()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	block := "NATS/1.0\r\n"
	for name, values := range m.Header {
		for _, value := range values {
			block += name + ":" + value + "\r\n"
		}
	}
	block += "\r\n"
	// The server says something before it is spoken to.
	lines := bufio.NewReader(conn)
	for _, step := range []struct{ hear, say string }{
		{"INFO", "CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB put 1\r\nPING\r\n"},
		{"PONG", fmt.Sprintf("HPUB %s put %d %d\r\n%s%s\r\n", m.Subject, len(block), len(block)+len(m.Data), block, m.Data)},
		{`{"stream":`, ""},
	} {
		for line := ""; !strings.HasPrefix(line, step.hear); {
			if line, err = lines.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if line == "PING\r\n" {
				step.say = "PONG\r\n" + step.say
			}
		}
		if _, err := conn.Write([]byte(step.say)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnsendable: a message that no receiving queue could take becomes a dead letter, and what is behind it is sent.
// The messages are put past the front, as by an earlier release, or are damaged on the volume.
func TestUnsendable(t *testing.T) {
	t.Parallel()
	header := func(name, value string) *nats.Msg {
		return &nats.Msg{Subject: "orders", Header: nats.Header{name: {value}}, Data: []byte("first")}
	}
	damaged := func() *nats.Msg {
		m := stored(t, "orders", codec.Zstd, text(5000))
		m.Header[message.ChecksumHeader] = []string{"0123456789abcdef"}
		return m
	}
	for name, c := range map[string]struct {
		put    *nats.Msg
		codecs []codec.ID
		sent   bool
	}{
		"bytes in a header":   {header("Name", "caf\xe9"), nil, true},
		"tab in a header":     {header("Name", "a\tb"), nil, true},
		"umlauts in the name": {header("Gr\u00f6\u00dfe", "3"), nil, false},
		"blank in the name":   {header("A b", "3"), nil, false},
		"long headers": {
			&nats.Msg{Subject: "orders", Header: nats.Header{"A": make([]string, 16_000)}, Data: []byte("first")}, nil, false,
		},
		"long subject": {
			&nats.Msg{Subject: "orders." + strings.Repeat("a", 1100), Data: []byte("first")}, nil, false,
		},
		"wildcard":                       {&nats.Msg{Subject: "orders.*", Data: []byte("first")}, nil, false},
		"half a form":                    {header(message.CodecHeader, "zstd"), nil, false},
		"damaged":                        {damaged(), nil, false},
		"damaged, and travels as it is":  {damaged(), []codec.ID{codec.Zstd}, false},
		"damaged, and travels otherwise": {damaged(), []codec.ID{codec.Deflate}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			east, west := newQueue(t, "orders", nil), newQueue(t, "orders", nil)
			behind := &nats.Msg{Subject: "orders", Data: []byte("behind")}
			east.putRaw(t, c.put)
			east.put(t, behind)
			_, network := newReceiver(t, west, channel.Acceptance{Any: true})
			sender, _ := send(t, senderOptions(east, network, c.codecs...))
			want := []*nats.Msg{c.put, behind}
			if !c.sent {
				want = want[1:]
			}
			got := west.waitFor(t, len(want))
			for i, m := range want {
				if _, plain := opened(t, got[i]); !bytes.Equal(plain, m.Data) ||
					!slices.Equal(got[i].Header["Name"], m.Header["Name"]) {
					t.Errorf("message %d is %q with %q", i, got[i].Data, got[i].Header)
				}
			}
			stream, err := east.js.Stream(t.Context(), "orders")
			if err != nil {
				t.Fatal(err)
			}
			dead, err := stream.GetLastMsgForSubject(t.Context(), store.DeadSubject("orders"))
			if c.sent {
				if !errors.Is(err, jetstream.ErrMsgNotFound) || sender.Status().GetDeadLetters() != 0 {
					t.Errorf("%v, %v", dead, err)
				}
				east.waitEmpty(t)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(dead.Data, c.put.Data) || dead.Header.Get(envelope.DeadReasonHeader) != envelope.Unsendable ||
				dead.Header.Get(envelope.DeadDetailHeader) == "" || dead.Header.Get(envelope.DeadSequenceHeader) != "1" {
				t.Errorf("the dead letter is %v", dead)
			}
			if n := sender.Status().GetDeadLetters(); n != 1 {
				t.Errorf("%d dead letters are counted", n)
			}
			eventually(t, "the dead letter is all that is left", func() bool {
				info, err := stream.Info(t.Context())
				return err == nil && info.State.Msgs == 1
			})
		})
	}
}
