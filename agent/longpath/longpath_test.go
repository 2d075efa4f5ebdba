// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package longpath_test

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/longpath"
)

// Over loopback a connection keeps the congestion control that the system has.
func TestAdaptShort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	system, err := os.ReadFile("/proc/sys/net/ipv4/tcp_congestion_control")
	if err != nil {
		t.Fatal(err)
	}
	p := longpath.Adapt(conn)
	if p.Long() {
		t.Skip("the machine is so busy that loopback takes as long as a long path")
	}
	if p.RoundTrip <= 0 || p.Control != strings.TrimSpace(string(system)) {
		t.Errorf("%+v, the system has %q", p, system)
	}
}

func TestAdaptOther(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if p := longpath.Adapt(a); p != (longpath.Path{}) {
		t.Errorf("%+v", p)
	}
	if !(longpath.Path{RoundTrip: time.Second}).Long() {
		t.Error("a second is not long")
	}
}
