// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/egress"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/topology"
)

// TestDecide: what is made and what keeps replicas as they are, by nothing but the arguments.
func TestDecide(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	image := agentpod.Image{Name: "registry.example/agent", Architectures: []string{"amd64"}}
	node := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{corev1.LabelArchStable: "amd64"}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	onHardware := func(e *v1alpha1.HTTPEndpoint) {
		e.Spec.Compression = &v1alpha1.HTTPCompression{Placement: v1alpha1.PlacementRequireHardware}
	}
	type shape struct{ usable, apply, keepServing, notAllowed bool }
	for name, test := range map[string]struct {
		change     func(*v1alpha1.HTTPEndpoint)
		present    *appsv1.Deployment
		permission egress.Permission
		want       shape
	}{
		"new":     {want: shape{usable: true, apply: true}},
		"no node": {change: onHardware, want: shape{usable: true, keepServing: true}},
		"another, no node": {
			change: onHardware, present: &appsv1.Deployment{}, want: shape{usable: true, keepServing: true},
		},
		"backend may not be": {
			permission: egress.Permission{Problem: &agentpod.Problem{}}, want: shape{usable: true, apply: true,
				notAllowed: true},
		},
		"policy does not exist": {change: func(e *v1alpha1.HTTPEndpoint) {
			e.Spec.Compression = &v1alpha1.HTTPCompression{PolicyName: "none"}
		}, want: shape{keepServing: true}},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := &v1alpha1.HTTPEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "front", UID: "uid"}}
			endpoint.Spec.Backend.Service = &v1alpha1.HTTPService{Name: "api", Port: 8080}
			if test.change != nil {
				test.change(endpoint)
			}
			before := endpoint.DeepCopy()
			in := inputs{
				deployment: test.present, permission: test.permission,
				cluster: topology.NewCluster(placement.Facts{Nodes: []corev1.Node{node}}),
			}
			d, err := decide(endpoint, in, image, now)
			if err != nil {
				t.Fatal(err)
			}
			got := shape{
				usable: d.usable != nil, apply: d.apply, keepServing: d.keepServing != nil, notAllowed: d.facts.NotAllowed != nil,
			}
			if got != test.want {
				t.Errorf("got %+v, want %+v; %+v", got, test.want, d.keepServing)
			}
			if !equality.Semantic.DeepEqual(before, endpoint) {
				t.Error("the HTTPEndpoint was changed")
			}
		})
	}
}
