// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Networks are those of a cluster.
type Networks struct {
	// Services, Pods and Nodes are where their addresses are. Those of nodes are single addresses.
	Services, Pods, Nodes []netip.Prefix
	// Configured are those that the operator was told, of whatever kind.
	Configured []netip.Prefix
	// APIServer are the addresses of the Service kubernetes and of what is behind it.
	APIServer []netip.Prefix
}

// Denied are all that agents must not dial unless they are told, in as few prefixes as there can be.
func (n Networks) Denied() []netip.Prefix {
	return merge(slices.Concat(n.Services, n.Pods, n.Nodes, n.Configured))
}

const (
	// assumedServices4 and assumedServices6 are the lengths of the network of Services that is assumed around the
	// address of the Service kubernetes where the API server does not serve ServiceCIDRs (before Kubernetes 1.33).
	assumedServices4, assumedServices6 = 16, 112
)

// assumeServices is the network of Services as far as one of them tells.
func assumeServices(of []netip.Prefix) []netip.Prefix {
	var assumed []netip.Prefix
	for _, p := range of {
		bits := assumedServices4
		if p.Addr().Is6() {
			bits = assumedServices6
		}
		assumed = append(assumed, netip.PrefixFrom(p.Addr(), bits).Masked())
	}
	return assumed
}

// nodeNetworks are the addresses of nodes and the networks of their pods, as far as nodes say them: where a network
// plugin gives out addresses itself, they do not.
func nodeNetworks(nodes []corev1.Node) (pods, addresses []netip.Prefix) {
	for i := range nodes {
		cidrs := nodes[i].Spec.PodCIDRs
		if len(cidrs) == 0 && nodes[i].Spec.PodCIDR != "" {
			cidrs = []string{nodes[i].Spec.PodCIDR}
		}
		pods = append(pods, prefixes(cidrs)...)
		for _, address := range nodes[i].Status.Addresses {
			if address.Type == corev1.NodeInternalIP || address.Type == corev1.NodeExternalIP {
				addresses = append(addresses, single(address.Address)...)
			}
		}
	}
	return merge(pods), merge(addresses)
}

// prefixes are those of texts that are prefixes.
func prefixes(texts []string) []netip.Prefix {
	var parsed []netip.Prefix
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil && !p.Addr().Is4In6() {
			parsed = append(parsed, p.Masked())
		}
	}
	return parsed
}

// single are the prefixes of those texts that are addresses, such as not None.
func single(texts ...string) []netip.Prefix {
	var parsed []netip.Prefix
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			a = a.Unmap().WithZone("")
			parsed = append(parsed, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return parsed
}

// merge returns the fewest prefixes that hold the same addresses, sorted.
func merge(all []netip.Prefix) []netip.Prefix {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	var merged []netip.Prefix
	for _, p := range all {
		if n := len(merged); n > 0 && merged[n-1].Overlaps(p) {
			continue // sorted as they are, the one before holds it
		}
		merged = append(merged, p)
		// Two halves of a network are the network.
		for n := len(merged); n > 1; n = len(merged) {
			low, high := merged[n-2], merged[n-1]
			if low.Bits() != high.Bits() || low.Bits() == 0 || low.Addr().BitLen() != high.Addr().BitLen() {
				break
			}
			whole := netip.PrefixFrom(low.Addr(), low.Bits()-1).Masked()
			if !whole.Contains(high.Addr()) || whole.Addr() != low.Addr() {
				break
			}
			merged = append(merged[:n-2], whole)
		}
	}
	return merged
}

// texts are prefixes as they are written.
func texts(prefixes []netip.Prefix) []string {
	written := make([]string, 0, len(prefixes))
	for _, p := range prefixes {
		written = append(written, p.String())
	}
	return written
}
