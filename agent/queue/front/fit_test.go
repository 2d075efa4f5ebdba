// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestUnfit: what no channel could carry is refused when it is put, and what NATS allows besides is not.
func TestUnfit(t *testing.T) {
	q := start(t, settings(t, nil), nil)
	_, js := q.client()
	long := strings.Repeat("a", 1100)
	for name, m := range map[string]*nats.Msg{
		"wildcard":      {Subject: "orders.*"},
		"long subject":  {Subject: "orders." + long},
		"no UTF-8":      {Subject: "orders.\xff"},
		"null":          {Subject: "orders", Header: nats.Header{"A": {"b\x00c"}}},
		"long headers":  {Subject: "orders", Header: nats.Header{"A": {strings.Repeat("b", 65_500)}}},
		"small headers": {Subject: "orders", Header: nats.Header{"A": make([]string, 13_100)}},
	} {
		_, err := js.PublishMsg(t.Context(), m)
		var refused *jetstream.APIError
		if !errors.As(err, &refused) || refused.Code != 400 || len(refused.Description) > 300 {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Names that the client library does not write.
	r := q.raw(t)
	r.hear("INFO {")
	r.say("CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB _INBOX.abcdefghijklmnopqrst 1\r\nPING\r\n")
	r.hear("PONG")
	for _, line := range []string{"Gr\u00f6\u00dfe: 3", "A b: 3", "A(b): 3", " A: 3", ": 3", "A"} {
		block := "NATS/1.0\r\n" + line + "\r\n\r\n"
		r.say(fmt.Sprintf("HPUB orders _INBOX.abcdefghijklmnopqrst %d %d\r\n%sx\r\n", len(block), len(block)+1, block))
		r.hear("MSG _INBOX.")
		r.hear(`{"error":{"code":400,`)
	}
	for name, m := range map[string]*nats.Msg{
		"bytes":        {Subject: "orders", Header: nats.Header{"A": {"caf\xe9"}}},
		"subject":      {Subject: "orders.gr\u00f6\u00dfe.a*b"},
		"many headers": {Subject: "orders", Header: nats.Header{"A": make([]string, 13_000)}},
	} {
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
