// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// maxSockets bounds how many connections one look reads.
const maxSockets = 64

// MeasureSockets returns what the kernel knows of connections of this process that match, whoever in it made them: a
// server that this process runs gives away none of its own. Keys tell connections apart. It changes nothing.
func MeasureSockets(match func(localPort, remotePort int) bool) (map[any]Carried, error) {
	const own = "/proc/self/fd"
	entries, err := os.ReadDir(own)
	if err != nil {
		return nil, fmt.Errorf("list the connections of this process: %w", err)
	}
	found := map[any]Carried{}
	for _, entry := range entries {
		if len(found) == maxSockets {
			break
		}
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if kind, err := os.Readlink(own + "/" + entry.Name()); err != nil || !strings.HasPrefix(kind, "socket:") {
			continue // It was closed, for example.
		}
		key, carried, ok := measureSocket(fd, match)
		if ok {
			found[key] = carried
		}
	}
	return found, nil
}

// measureSocket reads a descriptor that others may close, and even use for another connection, meanwhile: that is not
// the connection of before then.
func measureSocket(fd int, match func(localPort, remotePort int) bool) (key uint64, c Carried, ok bool) {
	key, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	if err != nil {
		return 0, Carried{}, false
	}
	local, err := unix.Getsockname(fd)
	if err != nil {
		return 0, Carried{}, false
	}
	remote, err := unix.Getpeername(fd)
	if err != nil {
		return 0, Carried{}, false // it listens, or is not connected any more
	}
	localPort, isTCP := portOf(local)
	remotePort, isTCPToo := portOf(remote)
	if !isTCP || !isTCPToo || !match(localPort, remotePort) {
		return 0, Carried{}, false
	}
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0, Carried{}, false
	}
	again, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_COOKIE)
	return key, carried(info), err == nil && again == key
}

func portOf(a unix.Sockaddr) (int, bool) {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return a.Port, true
	case *unix.SockaddrInet6:
		return a.Port, true
	}
	return 0, false
}

// Measure returns what the kernel knows of the connections that are open.
func (c *Counter) Measure() map[any]Carried {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := make(map[any]Carried, len(c.open))
	for conn := range c.open {
		if now, err := Measure(conn); err == nil {
			found[conn] = now
		}
	}
	return found
}
