// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"strings"
	"testing"
)

// FuzzParseService: a host names a Service in one way whatever its case and final dot, the Service can be named again
// in full, what is certain ends in the cluster's domain, and no address is a name. Hosts are written by tenants.
func FuzzParseService(f *testing.F) {
	for _, host := range []string{
		"api", "api.bank", "api.bank.svc", "API-0.api.bank.svc.cluster.local.", "api.bank.example", "10.96.0.1", "[::1]",
		"svc", ".svc", "..", "a..svc",
		"x.svc.svc", "cluster.local", "api.bank.svc.cluster.local.cluster.local", "127.1", "0x7f.1", "::ffff:127.0.0.1",
	} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		name, ok := parseService(host, "shop")
		if !ok {
			if name != (serviceName{}) {
				t.Errorf("%q names no Service, and %+v", host, name)
			}
			return
		}
		if literal(host).IsValid() {
			t.Errorf("address %q is taken for %+v", host, name)
		}
		if name.name == "" || name.namespace == "" || strings.Contains(name.name+name.namespace, ".") {
			t.Errorf("%q names %+v", host, name)
		}
		if name.certain && !inCluster(host) {
			t.Errorf("%q may be outside of the cluster and is taken for %+v", host, name)
		}
		if !name.certain && !strings.Contains(strings.TrimSuffix(host, "."), ".") && name.namespace != "shop" {
			t.Errorf("%q is of namespace %q", host, name.namespace)
		}
		full := serviceName{namespace: name.namespace, name: name.name, certain: true}
		if again, ok := parseService(name.name+"."+name.namespace+".svc"+clusterDomain+".", "other"); !ok || again != full {
			t.Errorf("%q names %+v, which in full names %+v", host, name, again)
		}
		if again, ok := parseService(strings.ToLower(host), "shop"); !ok || again != name {
			t.Errorf("%q in lower case names %+v, not %+v", host, again, name)
		}
	})
}
