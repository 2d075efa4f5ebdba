// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint_test

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Another image of the agents reaches a few HTTPEndpoints at a time; a change of one's own spec waits for nobody.
func TestUpgradeIsPaced(t *testing.T) {
	var others []client.Object
	for i := range 6 {
		endpoint := plain(nil)
		endpoint.Name, endpoint.Generation = fmt.Sprintf("other-%d", i), 1
		endpoint.UID = types.UID(fmt.Sprintf("other-uid-%d", i))
		others = append(others, endpoint)
	}
	r := begin(t, plain(nil), others...)
	all := func() {
		t.Helper()
		for _, endpoint := range others {
			request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(endpoint)}
			if _, err := r.reconciler.Reconcile(t.Context(), request); err != nil {
				t.Fatal(err)
			}
		}
	}
	deployments := func() []appsv1.Deployment {
		t.Helper()
		var found appsv1.DeploymentList
		if err := r.List(t.Context(), &found); err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(found.Items, func(d appsv1.Deployment) bool { return d.Name == r.deployment.Name })
	}
	// become sets how many replicas of those with an image are ready.
	become := func(image string, ready int32) {
		t.Helper()
		for _, d := range deployments() {
			if d.Spec.Template.Spec.Containers[0].Image != image {
				continue
			}
			d.Status = appsv1.DeploymentStatus{
				ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: ready,
			}
			if err := r.Status().Update(t.Context(), &d); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(when string, want int) {
		t.Helper()
		got := 0
		for _, d := range deployments() {
			if d.Spec.Template.Spec.Containers[0].Image == r.image.Name {
				got++
			}
		}
		if got != want {
			t.Errorf("%s: %d HTTPEndpoints have the present image, want %d", when, got, want)
		}
	}
	all()
	become(r.image.Name, 1)
	r.image.Name = "registry.example/agent:next"
	r.restart()
	all()
	expect("after the upgrade", 3)
	become(r.image.Name, 0)
	all()
	expect("while the first ones roll out", 3)

	// The owner of one that waits changes its spec.
	waiting := &v1alpha1.HTTPEndpoint{}
	if err := r.Get(t.Context(), client.ObjectKeyFromObject(others[5]), waiting); err != nil {
		t.Fatal(err)
	}
	waiting.Spec.PodTemplate, waiting.Generation = &v1alpha1.AgentPodTemplate{PriorityClassName: "high"}, 2
	waiting.Spec.Replicas = ptr.To[int32](1)
	if err := r.Update(t.Context(), waiting); err != nil {
		t.Fatal(err)
	}
	all()
	expect("after a change of a spec", 4)
	become(r.image.Name, 1)
	all() // sees that they are ready
	all()
	expect("after the first ones are ready", 6)
}
