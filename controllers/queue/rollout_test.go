// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Another image of the agents reaches a few Queues at a time; a change of a Queue's own spec waits for nobody.
func TestUpgradeIsPaced(t *testing.T) {
	var others []client.Object
	for i := range 6 {
		q := newQueue(nil)
		q.Name, q.UID, q.Generation = fmt.Sprintf("other-%d", i), types.UID(fmt.Sprintf("uid-%d", i)), 1
		others = append(others, q)
	}
	r := begin(t, newQueue(nil), others...)
	all := func() {
		t.Helper()
		for _, q := range others {
			if _, err := r.reconciler.Reconcile(
				t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(q)},
			); err != nil {
				t.Fatal(err)
			}
		}
	}
	sets := func() (list []appsv1.StatefulSet) {
		t.Helper()
		var found appsv1.StatefulSetList
		if err := r.List(t.Context(), &found); err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(found.Items, func(s appsv1.StatefulSet) bool { return s.Name == r.set.Name })
	}
	// become sets how many members of those with an image are ready.
	become := func(image string, ready int32) {
		t.Helper()
		for _, set := range sets() {
			if set.Spec.Template.Spec.Containers[0].Image != image {
				continue
			}
			set.Status = appsv1.StatefulSetStatus{
				ObservedGeneration: set.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: ready,
			}
			if err := r.Status().Update(t.Context(), &set); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(when string, want int) {
		t.Helper()
		got := 0
		for _, set := range sets() {
			if set.Spec.Template.Spec.Containers[0].Image == r.image.Name {
				got++
			}
		}
		if got != want {
			t.Errorf("%s: %d Queues have the present image, want %d", when, got, want)
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
	for _, q := range others {
		waiting := &v1alpha1.Queue{}
		if err := r.Get(t.Context(), client.ObjectKeyFromObject(q), waiting); err != nil {
			t.Fatal(err)
		}
		if waiting.Name != "other-5" {
			continue
		}
		waiting.Spec.Limits.MaxBytes, waiting.Generation = new(resource.MustParse("64Mi")), 2
		if err := r.Update(t.Context(), waiting); err != nil {
			t.Fatal(err)
		}
	}
	all()
	expect("after a change of a spec", 4)
	become(r.image.Name, 1)
	all() // sees that they are ready
	all()
	expect("after the first ones are ready", 6)
}
