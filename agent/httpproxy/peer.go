// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpproxy

import (
	"net"
	"net/netip"
	"strings"
)

// peer is who opened a connection: a client, or a proxy that clients connect to.
type peer struct {
	// address without port; empty when it is none of IP.
	address string
	// node is the address as Forwarded (RFC 7239) writes it.
	node string
	// trusted says that it tells the truth about who was before it.
	trusted bool
}

// newPeer looks whether an address is among those that are trusted.
func newPeer(remote net.Addr, trusted []netip.Prefix) peer {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return peer{node: "unknown"}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	if !ip.IsValid() {
		return peer{node: "unknown"}
	}
	p := peer{address: ip.String(), node: ip.String()}
	if ip.Is6() {
		p.node = `"[` + p.node + `]"`
	}
	for _, prefix := range trusted {
		p.trusted = p.trusted || prefix.Contains(ip)
	}
	return p
}

// element is what Forwarded says of the peer: what host it asked for, and how. What is
// no token is quoted: the address of IPv6, and every host, which may have a port.
func (p peer) element(host, scheme string) string {
	e := "for=" + p.node
	if host != "" && !strings.ContainsAny(host, "\"\\") {
		e += `;host="` + host + `"`
	}
	return e + ";proto=" + scheme
}
