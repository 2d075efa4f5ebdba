// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

func dialPolicy(r *running) *wirev1.DialPolicy {
	r.Helper()
	config := &wirev1.QueueConfig{}
	if err := protojson.Unmarshal(r.Secret().Data["config.json"], config); err != nil {
		r.Fatal(err)
	}
	return config.GetDialPolicy()
}

// TestExternalConsent: M4: members may dial external servers that are a Service of another namespace for as long as
// that consents.
func TestExternalConsent(t *testing.T) {
	queue := newQueue(func(s *v1alpha1.QueueSpec) {
		s.Engine.External = &v1alpha1.QueueExternal{
			Servers: []string{"nats://nats.messaging.svc:4222", "nats://nats.example"},
		}
	})
	other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "messaging", Annotations: map[string]string{v1alpha1.AllowBackendsFromAnnotation: queue.Namespace},
	}}
	r := kind.Begin(t, queue, other, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "messaging", Name: "nats"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.3.4", ClusterIPs: []string{"10.96.3.4"}},
	}, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.1", ClusterIPs: []string{"10.96.0.1"}},
	})
	if p := dialPolicy(r); !slices.Equal(p.GetAllowed(), []string{"10.96.3.4/32"}) ||
		!slices.Equal(p.GetNever(), []string{"10.96.0.1/32"}) {
		t.Errorf("with consent: %v", p)
	}
	if err := r.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil {
		t.Fatal(err)
	}
	other.Annotations = nil
	if err := r.Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	r.Look()
	r.Expect(v1alpha1.ConditionStalled, v1alpha1.ReasonAddressNotAllowed)
	if p := dialPolicy(r); p == nil || len(p.GetAllowed()) != 0 {
		t.Errorf("without consent: %v", p)
	}
}
