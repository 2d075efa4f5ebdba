// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package httpendpoint_test

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// TestChangesAreSent: replicas that can be told are told once, and status says when all do what the spec says; one of
// an earlier release waits for the kubelet. When all have it, nothing is written and nobody is told again.
func TestChangesAreSent(t *testing.T) {
	namespace := cluster.Namespace(t)
	cluster.Create(t, service(namespace, "api", 8080))
	endpoint := create(t, namespace, nil)
	expect(t, endpoint, v1alpha1.ConditionReconciling, v1alpha1.ReasonRollingOut)
	d := deployment(t, endpoint)
	first := config(t, d)
	one, two := replica(t, d), replica(t, d)
	say(one, first.GetRevision(), func(r *wirev1.HTTPReport) {
		r.Configuration = &wirev1.ConfigurationState{Generation: first.GetGeneration()}
	})
	say(two, first.GetRevision(), nil)
	ready(t, d, 2)
	expect(t, endpoint, v1alpha1.ConditionReady, v1alpha1.ReasonServing)

	update(t, endpoint, func() { endpoint.Spec.Codings = []v1alpha1.HTTPCoding{v1alpha1.CodingZstd, v1alpha1.CodingGzip} })
	controllertest.Eventually(t, func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(endpoint), endpoint); err != nil {
			return err
		}
		current := 0
		for _, replica := range endpoint.Status.Replicas {
			if replica.Current {
				current++
			}
		}
		if endpoint.Status.ObservedGeneration != endpoint.Generation || current != 1 || agents.Given(one) != 1 {
			return fmt.Errorf("%d replicas are current, one was told %d times", current, agents.Given(one))
		}
		return nil
	})
	changed := config(t, d)
	if changed.GetGeneration() <= first.GetGeneration() {
		t.Errorf("generation %d after %d", changed.GetGeneration(), first.GetGeneration())
	}
	say(two, changed.GetRevision(), nil)
	expect(t, endpoint, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	poke(t, endpoint)
	expect(t, endpoint, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	if got := config(t, d); got.GetGeneration() != changed.GetGeneration() || agents.Given(one) != 1 ||
		agents.Given(two) != 0 {
		t.Errorf("generation %d, told %d and %d times", got.GetGeneration(), agents.Given(one), agents.Given(two))
	}
}
