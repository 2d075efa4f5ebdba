// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/topology"
)

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
