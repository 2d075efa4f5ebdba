// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Carried is what the kernel knows of a connection since it was made.
type Carried struct {
	// Acknowledged are the bytes that the other end has.
	Acknowledged uint64
	// Busy is how long something was to be sent or to be acknowledged, PeerFull how long of
	// that the other end had no space.
	Busy, PeerFull time.Duration
	// Queueing is by how much longer acknowledgements take now than they did at best: how long bytes wait on the way.
	Queueing time.Duration
	// RoundTrip is the shortest that there was.
	RoundTrip time.Duration
	// Rate is at how many bytes a second the other end took the last of what it was sent, or the fastest of what was too
	// little to show that; 0: not known.
	Rate uint64
	// Window is how many bytes may be on the way at once, as far as that is up to the network.
	Window uint64
}

var errNotTCP = errors.New("not a TCP connection")

// Measure returns what the kernel knows of a connection that DialBlocks made, or a Counter counts. It fails for connections that are not TCP
// and on kernels before 4.10.
func Measure(conn net.Conn) (Carried, error) {
	info, err := tcpInfo(innermost(conn))
	if err != nil {
		return Carried{}, err
	}
	return carried(info), nil
}

func carried(info *unix.TCPInfo) Carried {
	return Carried{
		Acknowledged: info.Bytes_acked,
		Busy:         time.Duration(info.Busy_time) * time.Microsecond,
		PeerFull:     time.Duration(info.Rwnd_limited) * time.Microsecond,
		Queueing:     time.Duration(max(info.Rtt, info.Min_rtt)-info.Min_rtt) * time.Microsecond,
		RoundTrip:    time.Duration(info.Min_rtt) * time.Microsecond,
		Rate:         info.Delivery_rate,
		Window:       uint64(info.Snd_cwnd) * uint64(info.Snd_mss),
	}
}

func tcpInfo(conn net.Conn) (*unix.TCPInfo, error) {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return nil, errNotTCP
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("measure a connection: %w", err)
	}
	var info *unix.TCPInfo
	var failed error
	if err := raw.Control(func(fd uintptr) {
		info, failed = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); err != nil {
		return nil, fmt.Errorf("measure a connection: %w", err)
	}
	if failed != nil {
		return nil, fmt.Errorf("measure a connection: %w", failed)
	}
	return info, nil
}

// innermost returns the connection under TLS and what else is wrapped around it.
func innermost(conn net.Conn) net.Conn {
	for {
		switch c := conn.(type) {
		case *blocksConn:
			conn = c.NetConn()
		case *tls.Conn:
			conn = c.NetConn()
		case *batchedConn:
			conn = c.Conn
		case pacedConn:
			conn = c.Conn
		case *countedConn:
			conn = c.Conn
		default:
			return conn
		}
	}
}
