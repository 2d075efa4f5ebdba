// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

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

// TestPortsOfBackend: policy engines that look behind the Service see the port of its pods, also where the backend is a
// host.
func TestPortsOfBackend(t *testing.T) {
	endpoint := plain(nil)
	endpoint.Spec.Backend = v1alpha1.HTTPBackend{Host: &v1alpha1.HTTPHost{Name: "web.other.svc", Port: 80}}
	r := begin(t, endpoint, append(clusterObjects(endpoint.Namespace), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "web"},
		Spec: corev1.ServiceSpec{ClusterIP: "10.96.3.5", ClusterIPs: []string{"10.96.3.5"}, Ports: []corev1.ServicePort{
			{Port: 80, TargetPort: intstr.FromInt32(8080)}, {Port: 81, TargetPort: intstr.FromString("admin")},
		}},
	}, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: endpoint.Namespace, Name: "web"},
		Spec: corev1.ServiceSpec{ClusterIP: "10.96.3.6", ClusterIPs: []string{"10.96.3.6"}, Ports: []corev1.ServicePort{
			{Port: 80, TargetPort: intstr.FromInt32(9090)},
		}},
	})...)
	if !r.dials(intstr.FromInt32(80)) || !r.dials(intstr.FromInt32(8080)) || r.dials(intstr.FromString("admin")) {
		t.Error("a host that is a Service")
	}
	r.update(func() { r.endpoint.Spec.Backend.Host.Port = 81 })
	if !r.dials(intstr.FromString("admin")) || r.dials(intstr.FromInt32(8080)) {
		t.Error("a port that has a name")
	}
	r.consent("")
	r.look()
	if r.dials(intstr.FromString("admin")) {
		t.Error("without consent")
	}
	r.update(func() {
		r.endpoint.Spec.Backend = v1alpha1.HTTPBackend{Service: &v1alpha1.HTTPService{Name: "web", Port: 80}}
	})
	if !r.dials(intstr.FromInt32(9090)) {
		t.Error("a Service of the namespace")
	}
}
