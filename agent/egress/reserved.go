// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package egress

import "net/netip"

// reserved are the networks that lead to the machine itself, to its neighbours without a router, to many machines, or
// to the metadata service of a cloud, which hands credentials to whoever asks. 100.64.0.0/10 is not among them: some
// clouds use it for pods, which the manager says, and some networks for servers.
var reserved = []struct {
	prefix netip.Prefix
	what   string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "of this host"},
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved for protocols"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},
	{netip.MustParsePrefix("100.100.100.200/32"), "a metadata service"}, // Alibaba Cloud
	{netip.MustParsePrefix("168.63.129.16/32"), "a metadata service"},   // Azure
	{netip.MustParsePrefix("::/96"), "unspecified, loopback or an old form of IPv4"},
	{netip.MustParsePrefix("2001::/32"), "Teredo"}, // its tunnel may end anywhere
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "site-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("fd00:ec2::/32"), "a metadata service"},          // AWS
	{netip.MustParsePrefix("fd20:ce::254/128"), "a metadata service"},       // Google Cloud
	{netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), "a metadata service"}, // Oracle Cloud
}

var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052
	nat64Local = netip.MustParsePrefix("64:ff9b:1::/48")  // RFC 8215
	sixToFour  = netip.MustParsePrefix("2002::/16")       // RFC 3056
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765
)

// embedded returns the addresses of IPv4 to which a packet for an address of IPv6 may be delivered.
func embedded(a netip.Addr) []netip.Addr {
	if !a.Is6() {
		return nil
	}
	b := a.As16()
	at := func(i, j, k, l int) netip.Addr { return netip.AddrFrom4([4]byte{b[i], b[j], b[k], b[l]}) }
	switch {
	case nat64.Contains(a), translated.Contains(a):
		return []netip.Addr{at(12, 13, 14, 15)}
	case sixToFour.Contains(a):
		return []netip.Addr{at(2, 3, 4, 5)}
	case nat64Local.Contains(a):
		// The translator's prefix may have any of the lengths of RFC 6052; one of 96 bits leaves the last 32.
		if low := at(12, 13, 14, 15); !low.IsUnspecified() {
			return []netip.Addr{low}
		}
		return []netip.Addr{at(6, 7, 9, 10), at(7, 9, 10, 11), at(9, 10, 11, 12)}
	case (b[8]&^0x02) == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP, RFC 5214
		return []netip.Addr{at(12, 13, 14, 15)}
	}
	return nil
}
