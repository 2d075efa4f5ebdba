// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package intern_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/intern"
)

func unchanged(object any) (any, error) { return object, nil }

func transfer(policy, message string) *v1alpha1.Transfer {
	return &v1alpha1.Transfer{Status: v1alpha1.TransferStatus{
		Policy: &v1alpha1.PolicyStatus{
			Name: strings.Clone(policy), Codecs: []v1alpha1.Codec{v1alpha1.CodecDeflate},
		},
		Conditions: []metav1.Condition{{
			Type: strings.Clone("Ready"), Status: metav1.ConditionTrue, Reason: strings.Clone("Transferring"),
			Message: strings.Clone(message),
		}},
	}}
}

func claim(size string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	return claim
}

// through sends an object through the pool and fails if that changes what it says.
func through[T any](t *testing.T, p *intern.Pool, object, same T) T {
	t.Helper()
	if _, err := p.After(unchanged)(object); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(same, object); diff != "" {
		t.Errorf("what the object says has changed:\n%s", diff)
	}
	return object
}

func TestShare(t *testing.T) {
	p := intern.New()
	first := through(t, p, transfer("default", "attempt 1"), transfer("default", "attempt 1"))
	second := through(t, p, transfer("default", "attempt 1"), transfer("default", "attempt 1"))
	if first.Status.Policy != second.Status.Policy {
		t.Error("equal policies are not shared")
	}
	one, other := first.Status.Conditions[0], second.Status.Conditions[0]
	if unsafe.StringData(one.Reason) != unsafe.StringData(other.Reason) ||
		unsafe.StringData(one.Message) != unsafe.StringData(other.Message) {
		t.Error("equal texts are not shared")
	}
	changed := transfer("default", "attempt 1")
	changed.Status.Policy.Codecs = nil
	if through(t, p, changed, changed.DeepCopy()); changed.Status.Policy == first.Status.Policy {
		t.Error("policies of one name that differ are shared")
	}
	// While a canary is measured there are many objects on both sides.
	sides := map[bool]*v1alpha1.PolicyStatus{}
	for i := range 4 {
		object := transfer("tried", "attempt 1")
		object.Status.Policy.Canary = &v1alpha1.PolicyCanary{Revision: "1", Applies: i%2 == 0}
		side := object.Status.Policy.Canary.Applies
		through(t, p, object, object.DeepCopy())
		if i > 1 && object.Status.Policy != sides[side] {
			t.Errorf("equal policies in a canary (%v) are not shared", side)
		}
		sides[side] = object.Status.Policy
	}

	small, large := through(t, p, claim("1Gi"), claim("1Gi")), through(t, p, claim("2Gi"), claim("2Gi"))
	again := through(t, p, claim("1Gi"), claim("1Gi"))
	delete(small.Spec.Resources.Requests, corev1.ResourceStorage)
	if len(again.Spec.Resources.Requests) != 0 || len(large.Spec.Resources.Requests) != 1 {
		t.Error("not claims of one size, and no others, share it")
	}
}

// TestShareFigures: what an object and its run say alike is one, and what differs stays apart.
func TestShareFigures(t *testing.T) {
	one := func(before string) *v1alpha1.Transfer {
		o := transfer("default", "attempt 1")
		o.Namespace, o.Labels = "bank", map[string]string{"app.kubernetes.io/name": "ledger", "of": "ledger"}
		o.Finalizers = []string{"lighterage.dev/cleanup"}
		o.Status.Cost = &v1alpha1.CostStatus{CPU: "1"}
		o.Status.Usage = &v1alpha1.UsageStatus{WireBytes: 1}
		o.Status.Run = &v1alpha1.RunStatus{
			Cost: &v1alpha1.CostStatus{CPU: before}, Usage: &v1alpha1.UsageStatus{WireBytes: 1},
		}
		return o
	}
	p := intern.New()
	first, later := through(t, p, one("1"), one("1")), through(t, p, one("2"), one("2"))
	if first.Status.Cost != first.Status.Run.Cost || first.Status.Usage != first.Status.Run.Usage {
		t.Error("what a first run used is held twice")
	}
	if later.Status.Cost == later.Status.Run.Cost {
		t.Error("costs that differ are shared")
	}
}

// TestShareNodes: volumes of a node share it.
func TestShareNodes(t *testing.T) {
	volume := func(node string, more ...string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{
			Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn, Values: append([]string{node}, more...),
				}},
			}}},
		}}}
	}
	p := intern.New()
	first, second := through(t, p, volume("a"), volume("a")), through(t, p, volume("a"), volume("a"))
	if first.Spec.NodeAffinity != second.Spec.NodeAffinity {
		t.Error("volumes of a node do not share it")
	}
	through(t, p, volume("b"), volume("b"))
	through(t, p, volume("a", "b"), volume("a", "b"))
	through(t, p, &corev1.PersistentVolume{}, &corev1.PersistentVolume{})
}

// TestBounded: whatever passes, objects say what they said, and a refusal of the transform before is passed on.
func TestBounded(t *testing.T) {
	p := intern.New()
	for i := range 10_000 {
		text := fmt.Sprint(i)
		through(t, p, transfer(text, text), transfer(text, text))
		through(t, p, claim(text), claim(text))
	}
	long := strings.Repeat("x", 10_000)
	through(t, p, transfer("default", long), transfer("default", long))
	through(t, p, &v1alpha1.Transfer{}, &v1alpha1.Transfer{})
	through(t, p, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolumeClaim{})

	refusal := errors.New("refused")
	if _, err := p.After(func(any) (any, error) { return nil, refusal })(nil); !errors.Is(err, refusal) {
		t.Error(err)
	}
}
