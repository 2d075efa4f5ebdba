// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package route_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/route"
)

func TestTo(t *testing.T) {
	const there = "gateway.west.example:8443"
	own := route.Own("lighterage-system")
	if own != "lighterage-gateway-tunnels.lighterage-system.svc:8445" {
		t.Errorf("own %s", own)
	}
	tunnelled := route.Route{Endpoint: own, Tunnel: "west.peer.lighterage.internal:443"}
	proxy := &v1alpha1.PeerProxy{URL: "http://proxy.example:3128"}
	for name, test := range map[string]struct {
		spec             v1alpha1.PeerSpec
		want             route.Route
		reaches, control bool
	}{
		"directly": {v1alpha1.PeerSpec{Endpoint: there}, route.Route{Endpoint: there}, true, false},
		"both": {
			v1alpha1.PeerSpec{Endpoint: there, Connection: v1alpha1.PeerBoth}, route.Route{Endpoint: there}, true, false,
		},
		"dial": {
			v1alpha1.PeerSpec{Endpoint: there, Connection: v1alpha1.PeerDial}, route.Route{Endpoint: there}, true, true,
		},
		"listen":       {v1alpha1.PeerSpec{Connection: v1alpha1.PeerListen}, tunnelled, true, true},
		"proxy":        {v1alpha1.PeerSpec{Endpoint: there, Proxy: proxy}, tunnelled, true, false},
		"receive only": {v1alpha1.PeerSpec{}, route.Route{}, false, false},
	} {
		peer := &v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: "west"}, Spec: test.spec}
		got, ok := route.To(peer, own)
		if got != test.want || ok != test.reaches || route.Reaches(peer) != test.reaches ||
			route.Controlled(peer) != test.control {
			t.Errorf("%s: %+v, %t", name, got, ok)
		}
	}
}
