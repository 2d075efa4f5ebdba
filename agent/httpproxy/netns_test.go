// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build netns

package httpproxy_test

import (
	"net"
	"os/exec"
	"strings"
	"testing"
)

// TestFollowsTheKernel is TestFollowsTheNetwork by what the kernel tells of connections, on a loopback interface that
// tc makes narrow. It needs a network namespace of its own, see make test-decisions.
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
	p := start(t, sized(64<<10-1), nil)
	until(t, p, asIs...)
	t.Logf("on loopback: %+v", p.Decisions())
	run(t, "tc qdisc add dev lo root tbf rate 40mbit burst 8kb latency 500ms")
	until(t, p, "SoftwareUsed")
	t.Logf("over 40 Mbit/s: %+v", p.Decisions())
	run(t, "tc qdisc del dev lo root")
	until(t, p, asIs...)
}

func run(t *testing.T, command string) {
	t.Helper()
	words := strings.Fields(command)
	if out, err := exec.CommandContext(t.Context(), words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", command, err, out)
	}
}
