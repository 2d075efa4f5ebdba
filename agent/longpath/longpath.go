// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package longpath adapts TCP connections to long paths: BBR controls congestion where the kernel allows it, and a
// sender has more connections.
//
// Congestion control by losses, such as CUBIC, takes every lost packet for a full queue. Over 100 ms, one lost packet
// of a hundred holds a connection to about 1 Mbit/s, whatever the link carries (make bench-wan). BBR measures rate and
// round-trip time instead. See docs/decisions/142-long-paths.md.
package longpath

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Least is the round-trip time from which on a path is long. Within a data centre it is below.
	Least = 10 * time.Millisecond
	// Streams is how many connections a sender has over a long path, unless it was told how many or has more cores. Where
	// BBR is not allowed they share its losses.
	Streams = 8

	// control is that of long paths.
	control = "bbr"
	// unsent is how many bytes wait in the kernel before they may be sent, at most. Those that wait on one connection no
	// other can take over when it has nothing left to do; and a long path fills the window in any case.
	unsent = 256 << 10
)

// Path is what the kernel knows of one connection.
type Path struct {
	// RoundTrip time of the handshake; 0: not known.
	RoundTrip time.Duration
	// Control is the name of its congestion control, such as "cubic"; empty: not known.
	Control string
}

// Long reports whether a path is.
func (p Path) Long() bool { return p.RoundTrip >= Least }

// Adapt has a new connection controlled as fits its path. What the kernel does not allow stays as it is, and what is no
// TCP connection as well.
func Adapt(conn net.Conn) (p Path) {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return p
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return p
	}
	_ = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return
		}
		p.RoundTrip = time.Duration(info.Rtt) * time.Microsecond
		if p.Long() {
			// It fails where the module is not loaded, or net.ipv4.tcp_allowed_congestion_control lacks it.
			_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, control)
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent)
		}
		p.Control, _ = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	})
	return p
}
