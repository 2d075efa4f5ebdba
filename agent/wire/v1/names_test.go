// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package wirev1_test

import (
	"testing"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func TestChannelServerName(t *testing.T) {
	name := wirev1.ChannelServerName("east", "bank", "vault", "orders")
	if want := "d3cb6b8b7fe9a5a4.orders.vault.queue.lighterage.internal"; len(name) != len(want) || name[16:] != want[16:] {
		t.Errorf("got %q", name)
	}
	caller, namespace, queue, ok := wirev1.ParseChannelServerName(name)
	if !ok || caller != wirev1.ChannelCaller("east", "bank") || namespace != "vault" || queue != "orders" {
		t.Errorf("taken apart it is %q, %q, %q, %v", caller, namespace, queue, ok)
	}
	if caller == wirev1.ChannelCaller("east", "other") || caller == wirev1.ChannelCaller("north", "bank") {
		t.Error("two callers share a name")
	}
	for _, other := range []string{"", "a.queue.lighterage.internal", "b.c.queue.lighterage.internal", "a.b.c.d.queue.lighterage.internal", "a.b.c.receive.lighterage.internal"} {
		if _, _, _, ok := wirev1.ParseChannelServerName(other); ok {
			t.Errorf("%q was taken for the name of a queue", other)
		}
	}
}
