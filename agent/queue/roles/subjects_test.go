// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package roles_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/queue/roles"
)

// TestServerPermissions: the server allows what the front does, and apart from the agent's own consumers no more.
func TestServerPermissions(t *testing.T) {
	publish, subscribe := roles.ServerPermissions("orders")
	for _, pattern := range publish {
		if pattern == "_INBOX.>" || pattern == "$JS.ACK.>" {
			continue // the front judges these itself
		}
		subject := strings.NewReplacer("*", "clerk", ">", "a.b").Replace(pattern)
		if roles.Published("orders", subject) == roles.Unknown {
			t.Errorf("the server allows %s, and the front not %s", pattern, subject)
		}
		own := strings.Replace(pattern, "*", roles.OwnConsumers+"x", 1)
		if own != pattern && !strings.Contains(pattern, "CONSUMER.INFO") && !strings.Contains(own, "*") &&
			roles.Published("orders", strings.ReplaceAll(own, ">", "a")) != roles.Unknown {
			t.Errorf("a client may publish to %s", own)
		}
		if !slices.Contains(strings.Split(pattern, "."), "orders") && strings.Count(pattern, ".") > 3 {
			t.Errorf("%s is not about the queue", pattern)
		}
	}
	if slices.Contains(subscribe, ">") || slices.Contains(publish, ">") {
		t.Error("a client may do everything")
	}
}

func TestPublished(t *testing.T) {
	for subject, want := range map[string]roles.Request{
		"orders": roles.Publish, "orders.new": roles.Publish, "orders.new.x": roles.Publish, "orders2": roles.Unknown,
		"$JS.API.CONSUMER.MSG.NEXT.orders.clerk":           roles.Consume,
		"$JS.API.CONSUMER.MSG.NEXT.orders.lighterage-dead": roles.Unknown,
		"$JS.API.CONSUMER.MSG.NEXT.orders.clerk.x":         roles.Unknown,
		"$JS.API.CONSUMER.CREATE.orders.clerk.orders.new":  roles.Consume,
		"$JS.API.CONSUMER.CREATE.orders.clerk.other":       roles.Unknown,
		"$JS.API.CONSUMER.INFO.orders.lighterage-dead":     roles.Browse,
		"$JS.API.DIRECT.GET.orders.orders.new":             roles.Browse,
		"$JS.API.DIRECT.GET.orders.other":                  roles.Unknown,
		"$JS.API.STREAM.DELETE.orders":                     roles.Unknown,
		"$JS.API.CONSUMER.DELETE.orders.":                  roles.Unknown,
		"$JS.API.CONSUMER.DELETE.QUEUE.clerk":              roles.Unknown,
		"":                                                 roles.Unknown, ".": roles.Unknown,
		"$JS.API.INFO.x": roles.Unknown,
	} {
		if got := roles.Published("orders", subject); got != want {
			t.Errorf("%q: %d, want %d", subject, got, want)
		}
	}
}
