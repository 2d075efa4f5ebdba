// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// TestPortsOfBackend: policy engines that look behind the Service see the port of its pods, also where the backend is a
// host.
func TestPortsOfBackend(t *testing.T) {
	endpoint := plain()
	endpoint.Spec.Backend = v1alpha1.HTTPBackend{Host: &v1alpha1.HTTPHost{Name: "web.other.svc", Port: 80}}
	r := kind.Begin(t, endpoint, append(clusterObjects(endpoint.Namespace), &corev1.Service{
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
	if !r.Dials(intstr.FromInt32(80)) || !r.Dials(intstr.FromInt32(8080)) || r.Dials(intstr.FromString("admin")) {
		t.Error("a host that is a Service")
	}
	r.Change(func(e *v1alpha1.HTTPEndpoint) { e.Spec.Backend.Host.Port = 81 })
	if !r.Dials(intstr.FromString("admin")) || r.Dials(intstr.FromInt32(8080)) {
		t.Error("a port that has a name")
	}
	consent(r, "")
	r.Look()
	if r.Dials(intstr.FromString("admin")) {
		t.Error("without consent")
	}
	r.Change(func(e *v1alpha1.HTTPEndpoint) {
		e.Spec.Backend = v1alpha1.HTTPBackend{Service: &v1alpha1.HTTPService{Name: "web", Port: 80}}
	})
	if !r.Dials(intstr.FromInt32(9090)) {
		t.Error("a Service of the namespace")
	}
}
