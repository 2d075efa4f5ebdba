// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/topology"
	"github.com/lighterage/lighterage/controllers/usage"
)

// TestNetwork: figures that cannot be read, or cannot be, are as good as none.
func TestNetwork(t *testing.T) {
	segments := func(push, pull, bytes string) *v1alpha1.NetworkProfile {
		return &v1alpha1.NetworkProfile{
			PushMicrosecondsPerSegment: push, PullMicrosecondsPerSegment: pull, PullSecondsPerGiB: bytes,
		}
	}
	cluster := topology.NewCluster(placement.Facts{Profiles: map[string]v1alpha1.NodeProfileStatus{
		"segments":     {NetworkCPUSecondsPerGiB: "0.5", Network: segments("0.25", "0.5", "0.125")},
		"bytes":        {NetworkCPUSecondsPerGiB: "0.5"},
		"busy":         {NetworkCPUSecondsPerGiB: "0.5", Network: &v1alpha1.NetworkProfile{Reason: "NodeBusy"}},
		"absurd parts": {NetworkCPUSecondsPerGiB: "0.5", Network: segments("0.25", "-1", "0.125")},
		"absurd":       {NetworkCPUSecondsPerGiB: "NaN", Network: segments("0.25", "0.5", "0.125")},
		"nothing":      {},
	}})
	bytes := &usage.NetworkCost{PerGiB: 0.5}
	for name, want := range map[string]*usage.NetworkCost{
		"segments": {
			PerGiB: 0.5, Segments: &usage.SegmentCost{Acknowledgement: 0.25e-6, Segment: 0.5e-6, PerGiB: 0.125},
		},
		"bytes": bytes, "busy": bytes, "absurd parts": bytes, "absurd": nil, "nothing": nil, "no node": nil,
	} {
		if diff := cmp.Diff(want, cluster.Network(name)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestLabels: a node without labels is known, and one that does not exist is not.
func TestLabels(t *testing.T) {
	node := func(name string, labels map[string]string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	cluster := topology.NewCluster(placement.Facts{Nodes: []corev1.Node{
		node("a", map[string]string{"class": "spot"}), node("b", nil), node("d", map[string]string{"class": "z"}),
	}})
	if got := cluster.Labels("d")["class"]; got != "z" {
		t.Errorf("class of d: %q", got)
	}
	if got := cluster.Labels("b"); got == nil || len(got) != 0 {
		t.Errorf("labels of b: %v", got)
	}
	for _, name := range []string{"", "c", "e"} {
		if got := cluster.Labels(name); got != nil {
			t.Errorf("labels of %q: %v", name, got)
		}
	}
}

// TestCores: a node that was not measured is not larger than the largest one.
func TestCores(t *testing.T) {
	cluster := topology.NewCluster(placement.Facts{Profiles: map[string]v1alpha1.NodeProfileStatus{
		"small": {Cores: 2}, "large": {Cores: 96}, "not measured": {},
	}})
	for name, want := range map[string]int32{"small": 2, "large": 96, "not measured": 96, "": 96} {
		if got := cluster.Cores(name); got != want {
			t.Errorf("%q has %d cores, want %d", name, got, want)
		}
	}
	if got := topology.NewCluster(placement.Facts{}).Cores("a"); got != 0 {
		t.Errorf("%d cores without a profile", got)
	}
}
