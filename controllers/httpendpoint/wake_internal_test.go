// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// TestOfTariff: prices that change wake those that decide by them.
func TestOfTariff(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	endpoint := func(name string, asks, has v1alpha1.CompressionObjective) *v1alpha1.HTTPEndpoint {
		made := &v1alpha1.HTTPEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		made.Spec.Compression = &v1alpha1.HTTPCompression{Objective: asks}
		made.Status.Policy = &v1alpha1.PolicyStatus{Objective: has}
		return made
	}
	young, plain := endpoint("young", "", ""), endpoint("plain", "", v1alpha1.ObjectiveElapsed)
	young.Status.Policy, plain.Spec.Compression = nil, nil
	r := &Reconciler{Options: Options{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		young, plain, endpoint("decides", "", v1alpha1.ObjectiveCost), endpoint("other", "", v1alpha1.ObjectiveCPU),
		endpoint("waits", v1alpha1.ObjectiveCost, v1alpha1.ObjectiveCPU),
	).Build()}}
	var woken []string
	for _, request := range r.ofTariff(t.Context(), &v1alpha1.Tariff{}) {
		woken = append(woken, request.Name)
	}
	slices.Sort(woken)
	if want := []string{"decides", "waits", "young"}; !slices.Equal(woken, want) {
		t.Errorf("woken: %q, want %q", woken, want)
	}
}
