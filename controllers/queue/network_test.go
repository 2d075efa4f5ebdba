// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// dials reports whether the NetworkPolicy admits a port of whatever is dialled.
func (r *running) dials(port intstr.IntOrString) bool {
	r.Helper()
	var list networkingv1.NetworkPolicyList
	if err := r.List(r.Context(), &list); err != nil || len(list.Items) != 1 {
		r.Fatalf("%d NetworkPolicies, %v", len(list.Items), err)
	}
	return slices.ContainsFunc(list.Items[0].Spec.Egress, func(rule networkingv1.NetworkPolicyEgressRule) bool {
		return slices.ContainsFunc(rule.Ports, func(p networkingv1.NetworkPolicyPort) bool { return *p.Port == port })
	})
}

// TestPortsOfServers: policy engines that look behind a Service see the port of its pods.
func TestPortsOfServers(t *testing.T) {
	r := begin(t, newQueue(func(s *v1alpha1.QueueSpec) {
		s.Engine.External = &v1alpha1.QueueExternal{Servers: []string{"nats://nats.bank.svc", "nats://nats.example:4333"}}
	}), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "nats"},
		Spec: corev1.ServiceSpec{ClusterIP: "10.96.3.4", ClusterIPs: []string{"10.96.3.4"}, Ports: []corev1.ServicePort{
			{Port: 4222, TargetPort: intstr.FromInt32(14222)}, {Port: 8222, TargetPort: intstr.FromInt32(18222)},
		}},
	})
	for port, want := range map[int32]bool{4222: true, 14222: true, 4333: true, 8222: false, 18222: false} {
		if got := r.dials(intstr.FromInt32(port)); got != want {
			t.Errorf("port %d: %v", port, got)
		}
	}
}

// TestHeadlessBesideAnotherServer: a host of the tenant's DNS could resolve to another namespace's pod, which members
// must not dial.
func TestHeadlessBesideAnotherServer(t *testing.T) {
	r := begin(t, newQueue(func(s *v1alpha1.QueueSpec) {
		s.Engine.External = &v1alpha1.QueueExternal{Servers: []string{"nats://nats.bank.svc"}}
	}), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "nats"},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, ClusterIPs: []string{corev1.ClusterIPNone}},
	}, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "new"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.7.0/24"}},
	})
	if p := r.dialPolicy(); !slices.Equal(p.GetAllowed(), []string{"10.244.7.0/24"}) {
		t.Errorf("a headless Service: %v", p)
	}
	if err := r.Get(t.Context(), client.ObjectKeyFromObject(r.queue), r.queue); err != nil {
		t.Fatal(err)
	}
	r.queue.Spec.Engine.External.Servers = append(r.queue.Spec.Engine.External.Servers, "nats://rebind.example")
	if err := r.Update(t.Context(), r.queue); err != nil {
		t.Fatal(err)
	}
	r.look()
	r.expect(v1alpha1.ConditionStalled, v1alpha1.ReasonAddressNotAllowed)
	if p := r.dialPolicy(); len(p.GetAllowed()) != 0 {
		t.Errorf("beside another server: %v", p)
	}
}
