// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// clusterObjects are an API server at 10.96.0.1 with an endpoint, and namespace "other" with Service "vault".
func clusterObjects(consent string) []client.Object {
	return []client.Object{
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
			Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.1", ClusterIPs: []string{"10.96.0.1"}},
		},
		&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"203.0.113.6"}}},
		},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: "other", Annotations: map[string]string{v1alpha1.AllowBackendsFromAnnotation: consent},
		}},
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "vault"},
			Spec: corev1.ServiceSpec{
				ClusterIP: "10.96.3.4", ClusterIPs: []string{"10.96.3.4"}, Ports: []corev1.ServicePort{{Port: 80}},
			},
		},
	}
}

func dialPolicy(r *running) *wirev1.DialPolicy {
	r.Helper()
	config := &wirev1.HTTPConfig{}
	if err := protojson.Unmarshal(r.Secret().Data["config.json"], config); err != nil {
		r.Fatal(err)
	}
	if config.GetDialPolicy() == nil {
		r.Fatal("there is no policy, so replicas would refuse the configuration")
	}
	return config.GetDialPolicy()
}

// consent sets the annotation of namespace "other".
func consent(r *running, namespaces string) {
	r.Helper()
	other := &corev1.Namespace{}
	if err := r.Get(r.Context(), client.ObjectKey{Name: "other"}, other); err != nil {
		r.Fatal(err)
	}
	other.Annotations = map[string]string{v1alpha1.AllowBackendsFromAnnotation: namespaces}
	if err := r.Update(r.Context(), other); err != nil {
		r.Fatal(err)
	}
}

// TestConsent: M4: replicas may dial a Service of another namespace for as long as that consents, also while the spec
// cannot be followed.
func TestConsent(t *testing.T) {
	endpoint := plain()
	endpoint.Spec.Backend = v1alpha1.HTTPBackend{Host: &v1alpha1.HTTPHost{Name: "vault.other.svc", Port: 80}}
	r := kind.Begin(t, endpoint, clusterObjects("else, "+endpoint.Namespace)...)
	policy := dialPolicy(r)
	if !slices.Equal(policy.GetAllowed(), []string{"10.96.3.4/32"}) || policy.GetAllowLoopback() ||
		!slices.Equal(policy.GetNever(), []string{"10.96.0.1/32", "203.0.113.6/32"}) ||
		!slices.Contains(policy.GetDenied(), "10.96.0.0/16") {
		t.Errorf("with consent: %v", policy)
	}

	consent(r, "else")
	r.Look()
	r.Expect(v1alpha1.ConditionStalled, v1alpha1.ReasonAddressNotAllowed)
	message := meta.FindStatusCondition(r.Object.Status.Conditions, v1alpha1.ConditionStalled).Message
	if !strings.Contains(message, `"vault.other.svc"`) ||
		!strings.Contains(message, v1alpha1.AllowBackendsFromAnnotation) {
		t.Error(message)
	}
	if policy := dialPolicy(r); len(policy.GetAllowed()) != 0 {
		t.Errorf("without consent: %v", policy)
	}

	// Whether what is there exists at all, status does not tell.
	r.Change(func(e *v1alpha1.HTTPEndpoint) { e.Spec.Backend.Host.Name = "nothing.other.svc" })
	r.Expect(v1alpha1.ConditionStalled, v1alpha1.ReasonAddressNotAllowed)
	without := meta.FindStatusCondition(r.Object.Status.Conditions, v1alpha1.ConditionStalled).Message
	if strings.Replace(without, "nothing", "vault", 1) != message {
		t.Errorf("%q and %q tell what is there", message, without)
	}

	consent(r, "*")
	r.Change(func(e *v1alpha1.HTTPEndpoint) { e.Spec.Backend.Host.Name = "vault.other.svc" })
	kind.Say(r)
	r.Look()
	r.Expect(v1alpha1.ConditionReady, v1alpha1.ReasonServing)

	// The spec cannot be used any more, and then consent goes.
	r.Change(func(e *v1alpha1.HTTPEndpoint) {
		e.Spec.Backend.TLS = &v1alpha1.HTTPBackendTLS{CABundle: []byte("not a certificate")}
	})
	r.Expect(v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidSpec)
	if policy := dialPolicy(r); len(policy.GetAllowed()) != 1 {
		t.Errorf("replicas that go on: %v", policy)
	}
	consent(r, "")
	r.Look()
	if policy := dialPolicy(r); len(policy.GetAllowed()) != 0 {
		t.Errorf("replicas that go on without consent: %v", policy)
	}
}

// TestNodesComeAndGo: what replicas may dial follows the cluster, and that makes no configuration of another revision.
func TestNodesComeAndGo(t *testing.T) {
	r := kind.Begin(t, plain(), clusterObjects("")...)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "new"},
		Spec:       corev1.NodeSpec{PodCIDRs: []string{"10.244.7.0/24"}},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.168.7.9"}}},
	}
	if err := r.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	r.Clock.SetTime(r.Clock.Now().Add(time.Minute))
	r.Look()
	r.Expect(v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	for _, want := range []string{"10.244.7.0/24", "192.168.7.9/32"} {
		if denied := dialPolicy(r).GetDenied(); !slices.Contains(denied, want) {
			t.Errorf("%v lacks %s", denied, want)
		}
	}
}

// TestLoopbackBackend: M4: what never can be dialled is said in status.
func TestLoopbackBackend(t *testing.T) {
	r := kind.Begin(t, plain(), clusterObjects("")...)
	for _, host := range []string{
		"127.0.0.1", "169.254.169.254", "localhost", "10.96.0.1", "10.96.77.1", "kubernetes.default.svc", "203.0.113.6",
	} {
		r.Change(func(e *v1alpha1.HTTPEndpoint) {
			e.Spec.Backend = v1alpha1.HTTPBackend{Host: &v1alpha1.HTTPHost{Name: host, Port: 80}}
		})
		r.Expect(v1alpha1.ConditionStalled, v1alpha1.ReasonAddressNotAllowed)
		if policy := dialPolicy(r); policy.GetAllowLoopback() || len(policy.GetAllowed()) != 0 {
			t.Errorf("%s: %v", host, policy)
		}
	}
}
