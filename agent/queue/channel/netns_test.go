// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package channel_test

import (
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/queue/channel"
	"github.com/lighterage/lighterage/agent/transport"
)

// TestFollowsTheKernel: a channel compresses over a loopback interface that tc makes narrow, and not over a wide one, by
// what the kernel tells of its connection. It needs a network namespace of its own, see make test-decisions.
func TestFollowsTheKernel(t *testing.T) {
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagUp != 0 {
			t.Fatalf("interface %s is up: this is no network namespace of its own", i.Name)
		}
	}
	run(t, "ip link set lo mtu 1500 up")
	east, west := newQueue(t, "orders", nil), newQueue(t, "incoming", nil)
	_, network, stop, err := serveWith(west, "127.0.0.1:0", nil, channel.Acceptance{Any: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	network.counter = new(transport.Counter)
	options, decides := deciding(east, network)
	sender, _ := send(t, options)
	var links adapt.Links
	const length = 60_000
	plain := xml(t, length)
	// until sends messages until they are compressed, or are not.
	until := func(compressed bool) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); ; {
			for range 20 {
				east.put(t, stored(t, "orders.eu", codec.None, plain))
			}
			east.waitEmpty(t)
			links.Look(decides.Classes, network.counter.Measure(), length)
			d := sender.Status().GetDecisions()
			if c := d.GetClasses(); len(c) == 1 && c[0].GetKnown() && (c[0].GetReason() == "") == compressed {
				t.Logf("compressed %t: %v", compressed, d)
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("compressed %t did not come: %v", compressed, d)
			}
		}
	}
	until(false)
	run(t, "tc qdisc add dev lo root tbf rate 40mbit burst 8kb latency 500ms")
	until(true)
	run(t, "tc qdisc del dev lo root")
	until(false)
}

func run(t *testing.T, command string) {
	t.Helper()
	words := strings.Fields(command)
	if out, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}
