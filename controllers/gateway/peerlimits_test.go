// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"testing"
)

// M6: a peer that names ever more namespaces takes no memory for those that have nothing to be remembered of.
func TestTenantsAreForgotten(t *testing.T) {
	l := newPeerLimits(Options{RequestsPerSecond: 1e9, RequestBurst: 2, OpensPerPeer: 2 * maxTenants})
	done, err := l.open("east", "busy")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 * maxTenants {
		if err := l.request("east", fmt.Sprintf("ns-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(l.peers["east"].tenants); n > maxTenants || l.peers["east"].tenants["busy"] == nil {
		t.Errorf("%d tenants are remembered", n)
	}
	done()
	slow := newPeerLimits(Options{RequestsPerSecond: 1e-9, RequestBurst: 4 * maxTenants, OpensPerPeer: 2})
	for i := range maxTenants {
		if err := slow.request("east", fmt.Sprintf("ns-%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := slow.request("east", "one-more"); err == nil || len(slow.peers["east"].tenants) > maxTenants {
		t.Errorf("%d tenants are remembered: %v", len(slow.peers["east"].tenants), err)
	}
}
