// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/wire/tunnel"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// askFor asks a gateway for a tunnel, as the manager of west.
func askFor(t *testing.T, w *west, tunnels, target string) error {
	t.Helper()
	certificate := issue(t, w.ca, manager("west"), time.Now())
	proof, err := tunnel.Proof(&certificate, target, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", tunnels)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return tunnel.Ask(t.Context(), conn, tunnel.Request{Target: target, Authorization: proof})
}

// The gateway dials no Peer that pods dial themselves.
func TestNoWayAroundNetworkPolicies(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	direct := peerOf("direct", newCA(t, "direct"))
	direct.Spec.Endpoint = listener.Addr().String()
	dialled := peerOf("dialled", newCA(t, "dialled"))
	dialled.Spec.Endpoint, dialled.Spec.Connection = listener.Addr().String(), v1alpha1.PeerDial
	w := newWest(t, unlimited, direct, dialled)
	tunnels := serveTunnels(t, w.gateway, "127.0.0.1:0")
	for _, peer := range []string{"direct", "dialled"} {
		if reason, _ := tunnel.ReasonOf(askFor(t, w, tunnels, tunnel.Target(peer))); reason != tunnel.NotAllowed {
			t.Errorf("%s: %q", peer, reason)
		}
	}
}

// Names that pods make up neither end the gateway nor stay in its metrics.
func TestMadeUpPeers(t *testing.T) {
	w := newWest(t, unlimited, listeningTo("east", newCA(t, "east")))
	tunnels := serveTunnels(t, w.gateway, "127.0.0.1:0")
	for peer, want := range map[string]tunnel.Reason{
		"\xff": tunnel.ProxyRefused, "Nobody": tunnel.ProxyRefused, "nobody": tunnel.NotAllowed,
	} {
		if reason, _ := tunnel.ReasonOf(askFor(t, w, tunnels, tunnel.Target(peer))); reason != want {
			t.Errorf("%q: %q", peer, reason)
		}
	}
	families, err := w.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var counted []string
	for _, family := range families {
		if family.GetName() != "lighterage_gateway_tunnels_total" {
			continue
		}
		for _, one := range family.GetMetric() {
			for _, label := range one.GetLabel() {
				counted = append(counted, label.GetName()+"="+label.GetValue())
			}
		}
	}
	if want := []string{"peer=", "result=NotAllowed"}; !slices.Equal(counted, want) {
		t.Errorf("counted %q", counted)
	}
}
