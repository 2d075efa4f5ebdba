// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/topology"
)

func volume(name string, phase corev1.PersistentVolumePhase, namespace, claim string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: claim},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}}},
			}}}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: phase},
	}
}

func TestFacts(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	at := metav1.NewTime(time.Unix(1e9, 0))
	anywhere := volume("nfs", corev1.VolumeBound, "bank", "shared")
	anywhere.Spec.NodeAffinity = nil
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		&v1alpha1.NodeProfile{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: v1alpha1.NodeProfileStatus{Architecture: "s390x", MeasuredTime: &at}},
		&v1alpha1.NodeProfile{ObjectMeta: metav1.ObjectMeta{Name: "b"}},
		volume("mine", corev1.VolumeBound, "bank", "ledger"),
		volume("released", corev1.VolumeReleased, "bank", "ledger"),
		volume("other", corev1.VolumeBound, "shop", "ledger"),
		anywhere,
	).Build()
	for claim, want := range map[string]string{"ledger": "mine", "shared": "", "unbound": "", "": ""} {
		facts, err := topology.Facts(context.Background(), reader, "bank", claim)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		if facts.Volume != nil {
			got = facts.Volume.NodeSelectorTerms[0].MatchFields[0].Values[0]
		}
		if got != want || facts.Claim != claim {
			t.Errorf("claim %q: reached from %q, want %q", claim, got, want)
		}
		if len(facts.Nodes) != 1 || len(facts.Profiles) != 1 || facts.Profiles["a"].Architecture != "s390x" {
			t.Errorf("%+v", facts)
		}
	}
}

func TestNodeChanged(t *testing.T) {
	before := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"x": "y"}, Annotations: map[string]string{"heartbeat": "1"}},
		Status: corev1.NodeStatus{
			Images:     []corev1.ContainerImage{{Names: []string{"x"}}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure}, {Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for name, test := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"heartbeat": {func(n *corev1.Node) { n.Annotations["heartbeat"] = "2" }, false},
		"image":     {func(n *corev1.Node) { n.Status.Images = nil }, false},
		"label":     {func(n *corev1.Node) { n.Labels["x"] = "z" }, true},
		"cordon":    {func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		"taint":     {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k"}} }, true},
		"not ready": {func(n *corev1.Node) { n.Status.Conditions[1].Status = corev1.ConditionUnknown }, true},
	} {
		after := before.DeepCopy()
		test.change(after)
		trimmed := []*corev1.Node{before.DeepCopy(), after}
		for _, node := range trimmed {
			if _, err := topology.Trim(node); err != nil {
				t.Fatal(err)
			}
		}
		if got := topology.NodeChanged().Update(event.UpdateEvent{ObjectOld: trimmed[0], ObjectNew: trimmed[1]}); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
		if after.Status.Images != nil || len(after.Status.Conditions) != 1 {
			t.Errorf("not trimmed: %+v", after.Status)
		}
	}
}
