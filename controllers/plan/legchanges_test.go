// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"testing"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Destinations are added and removed.
func TestDestinationsChange(t *testing.T) {
	f := newFamily(t, "a")
	f.settle()
	f.end(map[string]*wirev1.Report{"west": succeeded(), "a": succeeded()})
	more := newFamily(t, "a", "b").whole.Spec.Destinations
	f.whole.Spec.Destinations = more[1:]
	f.whole.Generation++
	f.settle()
	if f.jobs != 2 || !slices.Equal(f.receivers(), []string{"a", "b"}) || f.legs["west"] != nil {
		t.Fatalf("%d pods, the last one for %v, legs %v", f.jobs, f.receivers(), f.legs)
	}
	f.end(map[string]*wirev1.Report{"a": succeeded(), "b": succeeded()})
	f.expect(v1alpha1.TransferComplete, v1alpha1.TransferComplete, v1alpha1.TransferComplete)
	if len(f.whole.Status.Destinations) != 2 {
		t.Errorf("%+v", f.whole.Status.Destinations)
	}
}

// A claim that is added while a pod sends is sent to by the next pod of that run.
func TestDestinationIsAddedMeanwhile(t *testing.T) {
	f := newFamily(t)
	f.settle()
	f.run(map[string]*wirev1.Report{"west": onTheWay()})
	run := f.whole.Status.Run.ID
	f.whole.Spec.Destinations = newFamily(t, "a").whole.Spec.Destinations
	f.whole.Generation++
	f.settle()
	if f.jobs != 1 || f.legs["a"] == nil {
		t.Fatalf("%d pods, legs %v", f.jobs, f.legs)
	}
	f.end(map[string]*wirev1.Report{"west": succeeded()})
	if f.jobs != 2 || !slices.Equal(f.receivers(), []string{"a"}) || f.whole.Status.Run.ID != run {
		t.Fatalf("%d pods, the last one for %v: %+v", f.jobs, f.receivers(), f.whole.Status)
	}
	f.end(map[string]*wirev1.Report{"a": succeeded()})
	f.expect(v1alpha1.TransferComplete, v1alpha1.TransferComplete, v1alpha1.TransferComplete)
}

// A destination that is replaced by another one of its name, before anybody looked, gets a leg of its own.
func TestDestinationIsReplaced(t *testing.T) {
	f := newFamily(t, "a")
	f.settle()
	f.end(map[string]*wirev1.Report{"west": succeeded(), "a": succeeded()})
	f.whole.Spec.Destinations[1].PersistentVolumeClaim.ClaimName = "other"
	f.whole.Generation++
	f.whole.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	f.settle()
	if f.jobs != 2 || f.legs["a"] == nil || f.legs["a"].Spec.Destination.PersistentVolumeClaim.ClaimName != "other" {
		t.Errorf("%d pods, leg %+v", f.jobs, f.legs["a"])
	}
}
