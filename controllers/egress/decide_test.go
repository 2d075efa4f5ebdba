// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func networks() Networks {
	return Networks{
		Services: prefixes([]string{"10.96.0.0/12"}), Pods: prefixes([]string{"10.244.0.0/16"}),
		Nodes:      single("192.168.7.11"),
		Configured: prefixes([]string{"100.64.0.0/16"}), APIServer: single("10.96.0.1", "192.168.7.11"),
	}
}

func service(clusterIPs ...string) *corev1.Service {
	s := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIPs: clusterIPs}}
	if len(clusterIPs) > 0 {
		s.Spec.ClusterIP = clusterIPs[0]
	}
	return s
}

func external(name string) *corev1.Service {
	return &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: name}}
}

// TestDecide: M4.
func TestDecide(t *testing.T) {
	for name, test := range map[string]struct {
		host     string
		consents bool
		service  *corev1.Service
		allowed  string
		why      string // a part of it; empty: none
	}{
		"own Service": {"api.shop.svc", true, service("10.96.3.4", "fd00::4"), "10.96.3.4/32 fd00::4/128", ""},
		"headless":    {"api.shop.svc", true, service("None"), "10.244.0.0/16 100.64.0.0/16", ""},
		"pod of a headless one": {
			"api-0.api.shop.svc.cluster.local", true, service("None"), "10.244.0.0/16 100.64.0.0/16", "",
		},
		"no such Service": {"api.shop.svc", true, nil, "", ""},
		"consent":         {"api.bank.svc.cluster.local", true, service("10.96.3.4"), "10.96.3.4/32", ""},
		"no consent":      {"api.bank.svc", false, nil, "", `"bank", which does not allow namespace "shop"`},
		"no consent, a Service": {
			"api.bank.svc", false, service("10.96.3.4"), "", `lighterage.dev/allow-backends-from: "shop"`,
		},
		"perhaps a Service":      {"api.bank", false, nil, "", ""},
		"a Service after all":    {"api.bank", true, service("10.96.3.4"), "10.96.3.4/32", ""},
		"outside":                {"api.bank.example", false, nil, "", ""},
		"ExternalName":           {"api.shop.svc", true, external("api.bank.example"), "", ""},
		"ExternalName to inside": {"api.shop.svc", true, external("vault.bank.svc.cluster.local."), "", "type ExternalName"},
		"the API server":         {"kubernetes.default.svc", true, service("10.96.0.1"), "10.96.0.1/32", "the API server"},
		"loopback":               {"127.0.0.1", false, nil, "", "own pod"},
		"mapped loopback":        {"::ffff:127.0.0.1", false, nil, "", "own pod"},
		"loopback in IPv6":       {"[::1]", false, nil, "", "own pod"},
		"unspecified":            {"0.0.0.0", false, nil, "", "own pod"},
		"localhost":              {"LocalHost.", true, nil, "", "own pod"},
		"a name in localhost":    {"api.localhost", false, nil, "", "own pod"},
		"metadata":               {"169.254.169.254", false, nil, "", "link-local"},
		"a ClusterIP":            {"10.96.3.4", false, nil, "", "NAME.NAMESPACE.svc"},
		"a node":                 {"192.168.7.11", false, nil, "", "the API server"},
		"a configured network":   {"100.64.9.9", false, nil, "", "an address of this cluster"},
		"an address outside":     {"192.168.7.12", false, nil, "", ""},
	} {
		host := found{
			Use: Use{Field: "spec.backend.host.name", Written: test.host, Host: test.host}, consents: test.consents,
			service: test.service,
		}
		host.of, host.ok = parseService(test.host, "shop")
		policy, why := decide("shop", []found{host}, networks())
		if got := strings.Join(policy.GetAllowed(), " "); got != test.allowed {
			t.Errorf("%s: allowed %s", name, got)
		}
		if (why == "") != (test.why == "") || !strings.Contains(why, test.why) {
			t.Errorf("%s: %s", name, why)
		}
		if policy.GetAllowLoopback() || !slices.Contains(policy.GetNever(), "10.96.0.1/32") || len(policy.GetDenied()) != 4 {
			t.Errorf("%s: %v", name, policy)
		}
	}
}

// TestDecideLists: pod networks are allowed to all hosts of a list or to none, since a policy does not tell one host
// from another.
func TestDecideLists(t *testing.T) {
	headless := func(host string) found { return found{Use: Use{Host: host}, consents: true, service: service("None")} }
	plain := func(host string) found {
		return found{Use: Use{Host: host}, consents: true, service: service("10.96.3.4")}
	}
	unknown := func(host string) found { return found{Use: Use{Host: host}} }
	refused := func(host string) found { return found{Use: Use{Host: host}, service: service("None")} }
	const pods = "10.244.0.0/16 100.64.0.0/16"
	for name, test := range map[string]struct {
		hosts   []found
		allowed string
		why     string // a part of it; empty: none
	}{
		"headless ones": {
			[]found{headless("nats.shop.svc"), headless("nats-0.nats.shop.svc"), headless("nats")}, pods, "",
		},
		"beside a host": {
			[]found{headless("nats.shop.svc"), unknown("rebind.example")}, "", `"nats.shop.svc" is a headless Service`,
		},
		"beside a host, reversed": {
			[]found{unknown("rebind.example"), headless("nats.shop.svc")}, "", `"nats.shop.svc" is a headless Service`,
		},
		"beside a pod's address": {
			[]found{headless("nats.shop.svc"), unknown("10.244.9.9")}, "", `"10.244.9.9" is an address of this cluster`,
		},
		"beside no consent": {
			[]found{headless("nats.shop.svc"), refused("nats.bank.svc")}, "", `"bank", which does not allow`,
		},
		"beside no Service": {[]found{headless("nats.shop.svc"), unknown("nothing.shop")}, "", "headless Service"},
		"beside another Service": {
			[]found{plain("one.shop.svc"), headless("nats.shop.svc")}, "10.96.3.4/32", "headless Service",
		},
		"beside an ExternalName": {
			[]found{
				headless("nats.shop.svc"), {Use: Use{Host: "out.shop.svc"}, consents: true, service: external("nats.example")},
			},
			"", "headless Service",
		},
		"no headless one":          {[]found{plain("one.shop.svc"), unknown("nats.example")}, "10.96.3.4/32", ""},
		"may be a name outside":    {[]found{headless("rebind.shop")}, "", "NAME.NAMESPACE.svc"},
		"absolute, a name outside": {[]found{headless("rebind.shop.")}, "", "NAME.NAMESPACE.svc"},
	} {
		for i := range test.hosts {
			host := &test.hosts[i]
			host.Field, host.Written = "spec.engine.external.servers", host.Host
			host.of, host.ok = parseService(host.Host, "shop")
		}
		policy, why := decide("shop", test.hosts, networks())
		if got := strings.Join(policy.GetAllowed(), " "); got != test.allowed {
			t.Errorf("%s: allowed %s", name, got)
		}
		if (why == "") != (test.why == "") || !strings.Contains(why, test.why) {
			t.Errorf("%s: %s", name, why)
		}
	}
}

func TestParseService(t *testing.T) {
	for host, want := range map[string]serviceName{
		"api": {"shop", "api", false}, "api.bank": {"bank", "api", false}, "api.bank.svc": {"bank", "api", true},
		"API.Bank.SVC.":              {"bank", "api", true},
		"api.bank.svc.cluster.local": {"bank", "api", true}, "pod-0.api.bank.svc": {"bank", "api", true},
		"a.b.c.d.svc": {}, "10.0.0.1": {}, "::1": {}, "": {}, "www.bank.example": {}, "10-1-2-3.bank.pod.cluster.local": {},
	} {
		if got, ok := parseService(host, "shop"); got != want || ok != (want != serviceName{}) {
			t.Errorf("%s: %+v, %v", host, got, ok)
		}
	}
}

func TestConsents(t *testing.T) {
	for annotation, want := range map[string]bool{
		"": false, "shop": true, "bank, shop": true, "*": true, "shop2": false, "sho": false, ",": false, "bank,*": true,
		"SHOP": false,
	} {
		if got := Consents(annotation, "shop"); got != want {
			t.Errorf("%q: %v", annotation, got)
		}
	}
}

// TestMerge: merged prefixes hold the same addresses, and no two of them could be one.
func TestMerge(t *testing.T) {
	for range 200 {
		var all []netip.Prefix
		for range 1 + rand.IntN(20) {
			a := netip.AddrFrom4([4]byte{10, 0, 0, byte(rand.IntN(256))})
			all = append(all, netip.PrefixFrom(a, 24+rand.IntN(9)).Masked())
		}
		merged := merge(all)
		for i := range 256 {
			a := netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
			in := func(p netip.Prefix) bool { return p.Contains(a) }
			if slices.ContainsFunc(all, in) != slices.ContainsFunc(merged, in) {
				t.Fatalf("%v became %v, which differ in %v", all, merged, a)
			}
		}
		if again := merge(merged); len(merged) > len(all) || !slices.Equal(again, merged) {
			t.Fatalf("%v became %v, and that %v", all, merged, again)
		}
	}
	if got := texts(
		merge(prefixes([]string{"10.244.1.0/24", "10.244.0.0/24", "fd00::/64", "10.244.2.0/23", "10.244.0.0/24"})),
	); !slices.Equal(got, []string{"10.244.0.0/22", "fd00::/64"}) {
		t.Errorf("%v", got)
	}
}
