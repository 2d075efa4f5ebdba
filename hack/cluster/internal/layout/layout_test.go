// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package layout_test

import (
	"net/netip"
	"testing"

	"github.com/lighterage/lighterage/hack/cluster/internal/layout"
)

func TestRangesArePrivateAndApart(t *testing.T) {
	type named struct {
		name   string
		prefix netip.Prefix
	}
	ranges := []named{{"nodes", layout.NodeNetwork}}
	for _, c := range layout.Clusters() {
		ranges = append(ranges, named{c.Name + " pods", c.Pods}, named{c.Name + " services", c.Services})
	}
	for i, r := range ranges {
		if !r.prefix.Addr().IsPrivate() {
			t.Errorf("%s: %s is not a private range", r.name, r.prefix)
		}
		if !layout.Network.Overlaps(r.prefix) || r.prefix.Bits() < layout.Network.Bits() {
			t.Errorf("%s: %s is not inside %s", r.name, r.prefix, layout.Network)
		}
		for _, other := range ranges[i+1:] {
			if r.prefix.Overlaps(other.prefix) {
				t.Errorf("%s %s overlaps %s %s", r.name, r.prefix, other.name, other.prefix)
			}
		}
	}
}

func TestNodes(t *testing.T) {
	seen := map[netip.Addr]string{layout.Host: "host"}
	var pods []netip.Prefix
	for _, c := range layout.Clusters() {
		for _, n := range c.Nodes {
			if other, ok := seen[n.Address]; ok {
				t.Errorf("%s has the address %s of %s", n.Name, n.Address, other)
			}
			seen[n.Address] = n.Name
			if !layout.NodeNetwork.Contains(n.Address) {
				t.Errorf("%s: address %s is outside %s", n.Name, n.Address, layout.NodeNetwork)
			}
			if !c.Pods.Contains(n.Pods.Addr()) || n.Pods.Bits() <= c.Pods.Bits() {
				t.Errorf("%s: pods %s are not inside %s", n.Name, n.Pods, c.Pods)
			}
			for _, p := range pods {
				if p.Overlaps(n.Pods) {
					t.Errorf("%s: pods %s overlap %s", n.Name, n.Pods, p)
				}
			}
			pods = append(pods, n.Pods)

			// Device names are limited to 15 bytes by the kernel, socket paths to
			// 107, and containerd takes at most 38 for the folder of shim sockets.
			if l := len(n.NetNS()); l > 15 {
				t.Errorf("%s: device name %s has %d bytes", n.Name, n.NetNS(), l)
			}
			if l := len(n.Path("s")); l > 38 {
				t.Errorf("%s: %s has %d bytes, too long for shim sockets", n.Name, n.Path("s"), l)
			}
			for _, socket := range []string{
				n.ContainerdSocket(), n.CSISocket("btrfs.csi.lighterage.dev"), n.CSIRegistration("btrfs.csi.lighterage.dev"),
			} {
				if l := len(socket); l > 107 {
					t.Errorf("%s: %s has %d bytes, too long for a socket", n.Name, socket, l)
				}
			}
		}
	}
}

func TestServiceAddresses(t *testing.T) {
	tests := map[string]struct{ kubernetes, dns, server string }{
		"east": {"10.213.32.1", "10.213.32.10", "https://10.213.0.11:6443"},
		"west": {"10.213.64.1", "10.213.64.10", "https://10.213.0.21:6443"},
	}
	for _, c := range layout.Clusters() {
		want := tests[c.Name]
		if got := c.KubernetesService().String(); got != want.kubernetes {
			t.Errorf("%s: Service kubernetes = %s, want %s", c.Name, got, want.kubernetes)
		}
		if got := c.DNS().String(); got != want.dns {
			t.Errorf("%s: DNS = %s, want %s", c.Name, got, want.dns)
		}
		if got := c.Server(); got != want.server {
			t.Errorf("%s: server = %s, want %s", c.Name, got, want.server)
		}
	}
}
