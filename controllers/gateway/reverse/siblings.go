// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/lighterage/lighterage/agent/wire/tunnel"
)

const (
	// maxSiblings is how many other replicas are asked.
	maxSiblings = 16
	// siblingTime bounds what it takes to find them, and for one to accept a connection.
	siblingTime = time.Second
)

// Siblings are the other replicas of this gateway.
type Siblings struct {
	// Lookup returns the addresses of all replicas; nil: there is only one.
	Lookup func(ctx context.Context) ([]netip.Addr, error)
	// Own address, which is left out.
	Own netip.Addr
	// Port of Server.
	Port uint16
}

// Connect asks one replica after the other for a connection to a peer, and returns the first. None is asked after
// until. The error is a *tunnel.Error: the last that says more than that a replica has no control connection either.
func (s Siblings) Connect(ctx context.Context, asked Asked, until time.Time) (*net.TCPConn, error) {
	none := &tunnel.Error{Reason: tunnel.NotConnected}
	if s.Lookup == nil || asked.Passed {
		return nil, none
	}
	finding, cancel := context.WithTimeout(ctx, siblingTime)
	defer cancel()
	addresses, err := s.Lookup(finding)
	if err != nil {
		none.Cause = err
		return nil, none
	}
	for _, address := range addresses[:min(len(addresses), maxSiblings)] {
		if time.Now().After(until) || ctx.Err() != nil {
			break
		}
		if address.Unmap() == s.Own.Unmap() {
			continue
		}
		conn, err := s.ask(ctx, address, asked)
		if err == nil {
			return conn, nil
		}
		switch reason, _ := tunnel.ReasonOf(err); reason {
		case tunnel.NoAnswer, tunnel.Busy, tunnel.NotAllowed:
			none.Reason, none.Cause = reason, err
		default: // it has no control connection, or is not there any more
			none.Cause = cmp.Or(none.Cause, err)
		}
	}
	return nil, none
}

func (s Siblings) ask(ctx context.Context, address netip.Addr, asked Asked) (*net.TCPConn, error) {
	dialer := net.Dialer{Timeout: siblingTime}
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(address.String(), strconv.Itoa(int(s.Port))))
	if err != nil {
		return nil, err
	}
	answering, cancel := context.WithTimeout(ctx, dataPatience+siblingTime)
	defer cancel()
	err = tunnel.Ask(answering, conn, tunnel.Request{
		Target: tunnel.Target(asked.Peer), Authorization: asked.Proof, Header: map[string]string{hopHeader: "1"},
	})
	if err != nil {
		_ = conn.Close()
		if answering.Err() != nil {
			return nil, &tunnel.Error{Reason: tunnel.NoAnswer, Cause: err}
		}
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}
