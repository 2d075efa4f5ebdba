// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Policy says which addresses may be dialled. The zero value refuses what is reserved and permits all else. A Policy
// must not be changed once it is in use.
type Policy struct {
	// Denied are the networks of the cluster, which are refused outside of Allowed.
	Denied []netip.Prefix
	// Allowed are what may be dialled of Denied.
	Allowed []netip.Prefix
	// Never are refused even where Allowed names them: the API server.
	Never []netip.Prefix
	// Loopback permits loopback addresses, for tests and measurements on one machine.
	Loopback bool
}

// ErrBlocked says that an address must not be dialled. Errors of Check and of Guard match it.
var ErrBlocked = errors.New("the address must not be dialled")

// ErrNoPolicy says that a configuration has no dial_policy. Without one nothing is dialled.
var ErrNoPolicy = errors.New("the configuration lacks dial_policy, without which nothing is dialled")

// Parse reads what the manager says. Errors match ErrNoPolicy if it says nothing.
func Parse(p *wirev1.DialPolicy) (Policy, error) {
	if p == nil {
		return Policy{}, ErrNoPolicy
	}
	parsed := Policy{Loopback: p.GetAllowLoopback()}
	for _, list := range []struct {
		name string
		from []string
		to   *[]netip.Prefix
	}{
		{"denied", p.GetDenied(), &parsed.Denied},
		{"allowed", p.GetAllowed(), &parsed.Allowed},
		{"never", p.GetNever(), &parsed.Never},
	} {
		for _, text := range list.from {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				return Policy{}, fmt.Errorf("dial_policy.%s: %w", list.name, err)
			}
			if prefix.Addr().Is4In6() {
				return Policy{}, fmt.Errorf("dial_policy.%s: %v: write the prefix of IPv4", list.name, prefix)
			}
			*list.to = append(*list.to, prefix.Masked())
		}
	}
	return parsed, nil
}

// Check returns an error that matches ErrBlocked if an address must not be dialled. An IPv6 address that carries one of
// IPv4 is judged by both.
func (p Policy) Check(address netip.Addr) error {
	address = address.Unmap().WithZone("")
	for _, a := range append(embedded(address), address) {
		if why := p.blocked(a); why != "" {
			return fmt.Errorf("%w: %v is %s", ErrBlocked, address, why)
		}
	}
	return nil
}

// blocked says what an address is that must not be dialled, or "".
func (p Policy) blocked(a netip.Addr) string {
	contains := func(prefix netip.Prefix) bool { return prefix.Contains(a) }
	switch {
	case !a.IsValid():
		return "no address"
	case slices.ContainsFunc(p.Never, contains):
		return "of the API server"
	case a.IsLoopback() && p.Loopback:
		return ""
	}
	for _, r := range reserved {
		if r.prefix.Contains(a) {
			return r.what
		}
	}
	if slices.ContainsFunc(p.Denied, contains) && !slices.ContainsFunc(p.Allowed, contains) {
		return "of this cluster, and the configuration does not allow it"
	}
	return ""
}
