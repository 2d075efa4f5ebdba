// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// TestPortsOfServers: policy engines that look behind a Service see the port of its pods.
func TestPortsOfServers(t *testing.T) {
	r := kind.Begin(t, newQueue(func(s *v1alpha1.QueueSpec) {
		s.Engine.External = &v1alpha1.QueueExternal{Servers: []string{"nats://nats.bank.svc", "nats://nats.example:4333"}}
	}), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "nats"},
		Spec: corev1.ServiceSpec{ClusterIP: "10.96.3.4", ClusterIPs: []string{"10.96.3.4"}, Ports: []corev1.ServicePort{
			{Port: 4222, TargetPort: intstr.FromInt32(14222)}, {Port: 8222, TargetPort: intstr.FromInt32(18222)},
		}},
	})
	for port, want := range map[int32]bool{4222: true, 14222: true, 4333: true, 8222: false, 18222: false} {
		if got := r.Dials(intstr.FromInt32(port)); got != want {
			t.Errorf("port %d: %v", port, got)
		}
	}
}

// TestHeadlessBesideAnotherServer: a host of the tenant's DNS could resolve to another namespace's pod, which members
// must not dial.
func TestHeadlessBesideAnotherServer(t *testing.T) {
	r := kind.Begin(t, newQueue(func(s *v1alpha1.QueueSpec) {
		s.Engine.External = &v1alpha1.QueueExternal{Servers: []string{"nats://nats.bank.svc"}}
	}), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "nats"},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, ClusterIPs: []string{corev1.ClusterIPNone}},
	}, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "new"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.7.0/24"}},
	})
	if p := dialPolicy(r); !slices.Equal(p.GetAllowed(), []string{"10.244.7.0/24"}) {
		t.Errorf("a headless Service: %v", p)
	}
	if err := r.Get(t.Context(), client.ObjectKeyFromObject(r.Object), r.Object); err != nil {
		t.Fatal(err)
	}
	r.Object.Spec.Engine.External.Servers = append(r.Object.Spec.Engine.External.Servers, "nats://rebind.example")
	if err := r.Update(t.Context(), r.Object); err != nil {
		t.Fatal(err)
	}
	r.Look()
	r.Expect(v1alpha1.ConditionStalled, v1alpha1.ReasonAddressNotAllowed)
	if p := dialPolicy(r); len(p.GetAllowed()) != 0 {
		t.Errorf("beside another server: %v", p)
	}
}

// TestPortsWithinTheNamespace: a Queue that sends to one of its namespace reaches its members, and no others do.
func TestPortsWithinTheNamespace(t *testing.T) {
	copies := newQueue(nil)
	copies.Name, copies.UID = "copies", "uid-2"
	r := kind.Begin(t, newQueue(func(s *v1alpha1.QueueSpec) {
		s.Channel = &v1alpha1.QueueChannel{Queue: "copies"}
	}), copies)
	if !r.Dials(intstr.FromInt32(8444)) {
		t.Error("the sending Queue must not dial the other one")
	}
	if r := kind.Begin(t, newQueue(nil), copies); r.Dials(intstr.FromInt32(8444)) {
		t.Error("a Queue that sends nowhere may dial another")
	}
}
