// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"time"

	"github.com/lighterage/lighterage/agent/wire/tunnel"
)

// proxyTime bounds what a proxy may take to accept a connection and to answer.
const proxyTime = 6 * time.Second

// ThroughProxy returns a Dial that has an HTTP proxy at an address make the connections. credentials returns the user
// and the password, with a colon between them, of HTTP's basic authentication; empty: none. The error is a
// *tunnel.Error, or that of credentials.
func ThroughProxy(proxy string, credentials func() (string, error)) tunnel.Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		given, err := credentials()
		if err != nil {
			return nil, &tunnel.Error{Reason: tunnel.ProxyAuthentication, Cause: err}
		}
		authorization := ""
		if given != "" {
			authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(given))
		}
		ctx, cancel := context.WithTimeout(ctx, proxyTime)
		defer cancel()
		conn, err := new(net.Dialer).DialContext(ctx, network, proxy)
		if err != nil {
			return nil, &tunnel.Error{Reason: tunnel.ProxyUnreachable, Cause: err}
		}
		if err := tunnel.Ask(ctx, conn, tunnel.Request{Target: address, Authorization: authorization}); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("asking proxy %s for %s: %w", proxy, address, err)
		}
		return conn, nil
	}
}

// Directly is a Dial without a proxy whose errors are of *tunnel.Error.
func Directly(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, &tunnel.Error{Reason: tunnel.Unreachable, Cause: err}
	}
	return conn, nil
}
