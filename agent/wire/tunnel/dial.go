// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package tunnel

import (
	"context"
	"crypto/tls"
	"net"
	"time"
)

// Dial makes a connection to an address. (*net.Dialer).DialContext is one.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Through returns a Dial that makes connections with another and then asks who accepted them for a target, with a proof
// by the certificate. An empty target is asked for nothing.
func Through(dial Dial, target string, certificate func() (*tls.Certificate, error)) Dial {
	if target == "" {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, Timeout)
		defer cancel()
		own, err := certificate()
		if err != nil {
			return nil, err
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		// A proof is made for each connection: the clock goes on.
		proof, err := Proof(own, target, time.Now())
		if err == nil {
			err = Ask(ctx, conn, Request{Target: target, Authorization: proof})
		}
		if err != nil {
			_ = conn.Close()
			return nil, err
		}
		return conn, nil
	}
}
