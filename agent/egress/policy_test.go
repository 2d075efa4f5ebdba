// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/egress"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// cluster is a policy as the manager writes it.
func cluster(t testing.TB) egress.Policy {
	t.Helper()
	p, err := egress.Parse(&wirev1.DialPolicy{
		Denied:  []string{"10.96.0.0/12", "10.244.0.0/16", "192.168.7.11/32", "fd00:10:96::/112", "100.64.0.0/16"},
		Allowed: []string{"10.96.0.77/32", "fd00:10:96::77/128", "10.96.0.1/32", "127.0.0.1/32", "169.254.169.254/32"},
		Never:   []string{"10.96.0.1/32", "203.0.113.6/32"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCheck: M4: what a configuration allows counts within the cluster's networks only.
func TestCheck(t *testing.T) {
	for _, test := range []struct {
		address string
		blocked bool
	}{
		{"93.184.215.14", false}, {"10.1.2.3", false}, {"192.168.7.12", false}, {"172.16.0.1", false},
		{"2606:2800:21f:cb07:6820:80da:af6b:8b2c", false}, {"fd12:3456::1", false}, {"::ffff:93.184.215.14", false},
		{"64:ff9b::93.184.215.14", false}, {"64:ff9b:1::93.184.215.14", false}, {"2002:5db8:d70e::1", false},
		// What leads to the machine or its neighbours, also where a configuration names it.
		{"127.0.0.1", true}, {"127.255.255.254", true}, {"::1", true}, {"0.0.0.0", true}, {"0.1.2.3", true}, {"::", true},
		{"169.254.169.254", true}, {"169.254.0.1", true}, {"fe80::1", true}, {"fe80::1%eth0", true}, {"febf::1", true},
		{"fec0::1", true}, {"224.0.0.1", true}, {"239.255.255.255", true}, {"255.255.255.255", true}, {"240.0.0.1", true},
		{"ff02::1", true}, {"192.0.0.192", true},
		// Metadata services.
		{"fd00:ec2::254", true}, {"fd00:ec2::23", true}, {"100.100.100.200", true}, {"168.63.129.16", true},
		{"fd20:ce::254", true}, {"fd00:c1::a9fe:a9fe", true},
		// Other forms of an address of IPv4.
		{"::ffff:127.0.0.1", true}, {"::ffff:169.254.169.254", true}, {"::ffff:10.96.0.9", true},
		{"::ffff:10.96.0.77", false},
		{"::127.0.0.1", true}, {"::ffff:0:127.0.0.1", true}, {"::ffff:0:93.184.215.14", false},
		{"64:ff9b::7f00:1", true}, {"64:ff9b::169.254.169.254", true}, {"64:ff9b::10.96.0.9", true},
		{"64:ff9b:1::169.254.169.254", true}, {"64:ff9b:1:a9fe:a9:fe00::", true}, {"64:ff9b:1:7f:0:1::", true},
		{"2002:7f00:1::1", true}, {"2002:a9fe:a9fe::", true}, {"2002:a60:9::1", true},
		{"2001:0:7f00:1::", true}, {"2001:db8::5efe:127.0.0.1", true}, {"fe80::5efe:10.1.2.3", true},
		{"2001:db8::200:5efe:169.254.169.254", true}, {"2001:db8::5efe:93.184.215.14", false},
		// The cluster.
		{"10.96.0.9", true}, {"10.96.0.77", false}, {"10.111.255.255", true}, {"10.112.0.0", false}, {"10.244.3.4", true},
		{"192.168.7.11", true}, {"fd00:10:96::9", true}, {"fd00:10:96::77", false}, {"100.64.1.1", true},
		{"100.65.1.1", false},
		// The API server.
		{"10.96.0.1", true}, {"203.0.113.6", true}, {"203.0.113.7", false}, {"64:ff9b::203.0.113.6", true},
	} {
		err := cluster(t).Check(netip.MustParseAddr(test.address))
		if test.blocked != errors.Is(err, egress.ErrBlocked) || !test.blocked && err != nil {
			t.Errorf("%s: %v", test.address, err)
		}
	}
	if err := (egress.Policy{}).Check(netip.Addr{}); !errors.Is(err, egress.ErrBlocked) {
		t.Errorf("no address: %v", err)
	}
}

// TestLoopback: only a policy that says so permits loopback, and no more than that.
func TestLoopback(t *testing.T) {
	local := egress.Policy{Loopback: true, Never: []netip.Prefix{netip.MustParsePrefix("203.0.113.6/32")}}
	for address, blocked := range map[string]bool{
		"127.0.0.1": false, "127.9.9.9": false, "::1": false, "::ffff:127.0.0.1": false, "203.0.113.6": true,
		"169.254.1.1": true, "0.0.0.0": true,
	} {
		if err := local.Check(netip.MustParseAddr(address)); blocked != (err != nil) {
			t.Errorf("%s: %v", address, err)
		}
		if err := (egress.Policy{}).Check(netip.MustParseAddr(address)); err == nil && address != "203.0.113.6" {
			t.Errorf("%s passes the zero policy", address)
		}
	}
}

// TestParse: M4: an agent without a policy dials nothing.
func TestParse(t *testing.T) {
	if _, err := egress.Parse(nil); !errors.Is(err, egress.ErrNoPolicy) {
		t.Errorf("none: %v", err)
	}
	for _, p := range []*wirev1.DialPolicy{
		{Denied: []string{"10.0.0.1"}},
		{Allowed: []string{"x"}},
		{Never: []string{"::ffff:10.0.0.0/104"}},
	} {
		if _, err := egress.Parse(p); err == nil {
			t.Errorf("%v was understood", p)
		}
	}
	p, err := egress.Parse(&wirev1.DialPolicy{Denied: []string{"10.9.8.7/8"}})
	if err != nil || p.Check(netip.MustParseAddr("10.200.0.1")) == nil {
		t.Errorf("a prefix with other bits: %v, %v", p, err)
	}
}

// FuzzParse: what is understood of a policy is in force, whatever else it lists; what is not understood leaves no
// policy.
func FuzzParse(f *testing.F) {
	f.Add("10.96.0.0/12", "10.96.3.4/32", "10.96.0.1/32", false)
	f.Add("10.244.0.0/16 fd00::/8", "0.0.0.0/0 ::/0", "fd00::1/128 127.0.0.1/32", true)
	f.Add("::ffff:10.0.0.0/104", "10.0.0.1", "fe80::1%eth0/64", false)
	f.Add("64:ff9b::7f00:1/128", "2002:7f00:1::/48", "::/0", true)
	f.Fuzz(func(t *testing.T, denied, allowed, never string, loopback bool) {
		p, err := egress.Parse(&wirev1.DialPolicy{
			Denied: strings.Fields(denied), Allowed: strings.Fields(allowed), Never: strings.Fields(never),
			AllowLoopback: loopback,
		})
		if err != nil {
			if len(p.Denied)+len(p.Allowed)+len(p.Never) > 0 || p.Loopback {
				t.Errorf("%v leaves %+v", err, p)
			}
			return
		}
		for _, prefix := range p.Never {
			if p.Check(prefix.Addr()) == nil {
				t.Errorf("%v of never may be dialled", prefix)
			}
		}
		for _, prefix := range p.Denied {
			a := prefix.Addr()
			permitted := slices.ContainsFunc(p.Allowed, func(b netip.Prefix) bool { return b.Contains(a) }) ||
				p.Loopback && a.IsLoopback()
			if p.Check(a) == nil && !permitted {
				t.Errorf("%v of denied may be dialled", prefix)
			}
		}
		text := func(prefixes []netip.Prefix) (out []string) {
			for _, prefix := range prefixes {
				out = append(out, prefix.String())
			}
			return out
		}
		again, err := egress.Parse(
			&wirev1.DialPolicy{
				Denied: text(p.Denied), Allowed: text(p.Allowed), Never: text(p.Never), AllowLoopback: p.Loopback,
			},
		)
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("%+v, written and read again: %+v, %v", p, again, err)
		}
	})
}

// FuzzCheck: whatever form it has, an address whose last or first bits are one of IPv4 that is refused is refused where
// translators would deliver it.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"127.0.0.1", "169.254.169.254", "10.96.0.9", "93.184.215.14"} {
		b := netip.MustParseAddr(seed).As4()
		f.Add(b[:])
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) != 4 {
			return
		}
		p, a := cluster(t), netip.AddrFrom4([4]byte(raw))
		plain := p.Check(a) != nil
		for _, prefix := range []string{"::ffff:0:0", "64:ff9b::", "::ffff:0:0:0"} {
			b := netip.MustParseAddr(prefix).As16()
			copy(b[12:], raw)
			if got := p.Check(netip.AddrFrom16(b)) != nil; got != plain {
				t.Errorf("%v is refused: %v, %v: %v", a, plain, netip.AddrFrom16(b), got)
			}
		}
		b := netip.MustParseAddr("2002::1").As16()
		copy(b[2:], raw)
		if got := p.Check(netip.AddrFrom16(b)) != nil; got != plain {
			t.Errorf("%v is refused: %v, by 6to4: %v", a, plain, got)
		}
	})
}
