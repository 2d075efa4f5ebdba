// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/pki"
)

func TestEndpoint(t *testing.T) {
	node := func(name string, ready corev1.ConditionStatus, addresses ...corev1.NodeAddress) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Addresses: addresses, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}},
		}}
	}
	in := func(ip string) corev1.NodeAddress {
		return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip}
	}
	out := func(ip string) corev1.NodeAddress {
		return corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: ip}
	}
	for name, test := range map[string]struct {
		kind    corev1.ServiceType
		ingress []corev1.LoadBalancerIngress
		nodes   []corev1.Node
		ports   []string
		want    string
	}{
		"hostname":          {kind: "LoadBalancer", ingress: []corev1.LoadBalancerIngress{{Hostname: "lb.example"}}, want: "lb.example:8443"},
		"address":           {kind: "LoadBalancer", ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}, want: "192.0.2.1:8443"},
		"IPv6":              {kind: "LoadBalancer", ingress: []corev1.LoadBalancerIngress{{IP: "2001:db8::1"}}, want: "[2001:db8::1]:8443"},
		"pending":           {kind: "LoadBalancer"},
		"inside":            {kind: "ClusterIP"},
		"no node":           {kind: "NodePort"},
		"no node is Ready":  {kind: "NodePort", nodes: []corev1.Node{node("a", "False", in("10.0.0.1"))}},
		"first Ready node":  {kind: "NodePort", nodes: []corev1.Node{node("b", "True", in("10.0.0.2")), node("a", "False", in("10.0.0.1"))}, want: "10.0.0.2:30443"},
		"external address":  {kind: "NodePort", nodes: []corev1.Node{node("a", "True", in("10.0.0.1")), node("b", "True", out("192.0.2.2"))}, want: "192.0.2.2:30443"},
		"not which port":    {kind: "LoadBalancer", ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}, ports: []string{"a", "b"}},
		"one port unnamed":  {kind: "LoadBalancer", ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}, ports: []string{""}, want: "192.0.2.1:8443"},
		"the gateway's one": {kind: "LoadBalancer", ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}, ports: []string{"gateway"}, want: "192.0.2.1:8443"},
	} {
		t.Run(name, func(t *testing.T) {
			service := &corev1.Service{Spec: corev1.ServiceSpec{Type: test.kind}}
			if test.ports == nil {
				test.ports = []string{PortName}
			}
			for _, port := range test.ports {
				service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: port, Port: 8443, NodePort: 30443})
			}
			service.Status.LoadBalancer.Ingress = test.ingress
			got, err := Endpoint(service, test.nodes)
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("%q, %v; want %q", got, err, test.want)
			}
		})
	}
}

func newBundle(t *testing.T) []byte {
	t.Helper()
	ca, _, err := pki.NewCA("west", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca.CertificatePEM
}

func TestPlan(t *testing.T) {
	own, next, other := newBundle(t), newBundle(t), newBundle(t)
	both := append(append([]byte{}, own...), next...)
	peer := func(name, endpoint string, bundle []byte, ready bool) v1alpha1.Peer {
		p := v1alpha1.Peer{
			ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 2},
			Spec:       v1alpha1.PeerSpec{Endpoint: endpoint, CABundle: bundle},
		}
		p.Status.ObservedGeneration = 2
		status := metav1.ConditionFalse
		if ready {
			status = metav1.ConditionTrue
		}
		p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status}}
		return p
	}
	older := peer("west", "a:1", own, true)
	older.Generation = 3
	for name, test := range map[string]struct {
		peers    []v1alpha1.Peer
		want     Wanted
		action   Action
		peer     string
		endpoint string
		bundle   []byte
		fails    error
	}{
		"nothing yet":           {nil, Wanted{Fallback: "west", Found: "b:1", CABundle: own}, Create, "west", "b:1", own, nil},
		"a name is given":       {nil, Wanted{Name: "w", Fallback: "west", Endpoint: "c:1", Found: "b:1", CABundle: own}, Create, "w", "c:1", own, nil},
		"receive only":          {nil, Wanted{Fallback: "west", CABundle: own}, Create, "west", "", own, nil},
		"context is no name":    {nil, Wanted{Fallback: "admin@west", CABundle: own}, "", "", "", nil, ErrNoName},
		"name of another":       {[]v1alpha1.Peer{peer("west", "a:1", other, true)}, Wanted{Fallback: "west", CABundle: own}, "", "", "", nil, ErrNameTaken},
		"known by another name": {[]v1alpha1.Peer{peer("w", "a:1", own, true)}, Wanted{Name: "west", CABundle: own}, "", "", "", nil, ErrOtherName},
		"two Peers hold it":     {[]v1alpha1.Peer{peer("w", "", own, true), peer("x", "", own, true)}, Wanted{Fallback: "west", CABundle: own}, "", "", "", nil, ErrOtherName},
		"joined":                {[]v1alpha1.Peer{peer("w", "a:1", own, true)}, Wanted{Fallback: "west", Found: "b:1", CABundle: own}, Keep, "w", "a:1", own, nil},
		"unreachable":           {[]v1alpha1.Peer{peer("w", "a:1", own, false)}, Wanted{Fallback: "west", Found: "b:1", CABundle: own}, Repair, "w", "b:1", own, nil},
		"Ready for older spec":  {[]v1alpha1.Peer{older}, Wanted{Fallback: "west", Found: "b:1", CABundle: own}, Repair, "west", "b:1", own, nil},
		"unreachable, no other": {[]v1alpha1.Peer{peer("w", "a:1", own, false)}, Wanted{CABundle: own}, Keep, "w", "a:1", own, nil},
		"endpoint is asked for": {[]v1alpha1.Peer{peer("w", "a:1", own, true)}, Wanted{Endpoint: "c:1", CABundle: own}, Repair, "w", "c:1", own, nil},
		"next CA is published":  {[]v1alpha1.Peer{peer("w", "a:1", own, true)}, Wanted{CABundle: both}, Repair, "w", "a:1", both, nil},
		"next CA is kept":       {[]v1alpha1.Peer{peer("w", "a:1", both, true)}, Wanted{CABundle: own}, Keep, "w", "a:1", both, nil},
		"no certificate":        {nil, Wanted{Name: "w", CABundle: []byte("hello")}, "", "", "", nil, pki.ErrInvalidBundle},
		"garbage beside":        {[]v1alpha1.Peer{peer("x", "", []byte("hello"), false)}, Wanted{Name: "w", CABundle: own}, Create, "w", "", own, nil},
	} {
		t.Run(name, func(t *testing.T) {
			step, err := Plan(test.peers, test.want)
			if test.fails != nil || err != nil {
				if !errors.Is(err, test.fails) {
					t.Errorf("got %v, want %v", err, test.fails)
				}
				return
			}
			p := step.Peer
			if step.Action != test.action || p.Name != test.peer || p.Spec.Endpoint != test.endpoint ||
				string(p.Spec.CABundle) != string(test.bundle) {
				t.Errorf("%s %s at %q", step.Action, p.Name, p.Spec.Endpoint)
			}
			if made := p.Labels[MadeByLabel] == MadeByConnect; made != (step.Action == Create) {
				t.Errorf("%s, and labelled as made by connect: %t", step.Action, made)
			}
		})
	}
}

// TestPlanAgain: a Peer that connect made keeps its label when it is repaired.
func TestPlanAgain(t *testing.T) {
	own := newBundle(t)
	first, err := Plan(nil, Wanted{Name: "west", Endpoint: "a:1", CABundle: own})
	if err != nil {
		t.Fatal(err)
	}
	second, err := Plan([]v1alpha1.Peer{*first.Peer}, Wanted{Endpoint: "b:1", CABundle: own})
	if err != nil || second.Action != Repair || second.Peer.Labels[MadeByLabel] != MadeByConnect {
		t.Errorf("%+v, %v", second, err)
	}
}

func TestShare(t *testing.T) {
	a, b := newBundle(t), newBundle(t)
	for _, test := range []struct {
		one, two []byte
		want     bool
	}{{a, a, true}, {a, b, false}, {append(append([]byte{}, a...), b...), b, true}} {
		if got, err := Share(test.one, test.two); got != test.want || err != nil {
			t.Errorf("%t, %v; want %t", got, err, test.want)
		}
	}
}
