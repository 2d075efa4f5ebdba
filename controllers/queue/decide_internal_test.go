// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/quota"
	"github.com/lighterage/lighterage/controllers/replicas"
	"github.com/lighterage/lighterage/controllers/topology"
)

// TestDecide: what is asked, made, kept and let go, and that nothing of it depends on anything but the arguments.
func TestDecide(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	image := agentpod.Image{Name: "registry.example/agent", Architectures: []string{"amd64"}}
	node := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{corev1.LabelArchStable: "amd64"}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	deleting := func(q *v1alpha1.Queue) { q.DeletionTimestamp = &metav1.Time{Time: now} }
	has := func(size string) func(*v1alpha1.Queue) {
		return func(q *v1alpha1.Queue) {
			admitted := resource.MustParse(size)
			q.Status.StorageSize = &admitted
		}
	}
	onHardware := func(q *v1alpha1.Queue) {
		q.Spec.Compression = &v1alpha1.QueueCompression{Placement: v1alpha1.PlacementRequireHardware}
	}
	type heard = replicas.Heard[*wirev1.QueueReport]
	asked := func(messages uint64, age time.Duration) heard {
		content := &wirev1.QueueContent{Leader: "orders-0", Messages: messages}
		return heard{Asked: true, Oldest: age, Agents: []Member{{
			Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "orders-0"}}, Report: &wirev1.QueueReport{Content: content},
		}}}
	}
	granted, exceeded := &quota.Answer{}, &quota.Answer{
		Exceeded: &quota.Exceeded{Kind: "DataQuota", Resource: quota.QueueBytes},
	}
	// shape is what a decision says to do, in words that are compared.
	type shape struct {
		askAgain, release, ask, apply, keepServing, kept bool
		// size of the storage of what is usable, and what is written to status before.
		size, admitted string
	}
	for name, test := range map[string]struct {
		change []func(*v1alpha1.Queue)
		set    *appsv1.StatefulSet
		former *agentpod.Problem
		heard  heard
		answer *quota.Answer
		want   shape
	}{
		"new":                  {want: shape{ask: true}},
		"new, admitted":        {answer: granted, want: shape{apply: true, size: "1Gi", admitted: "1Gi"}},
		"new, too large":       {answer: exceeded, want: shape{keepServing: true}},
		"has what it asks for": {change: []func(*v1alpha1.Queue){has("1Gi")}, want: shape{apply: true, size: "1Gi"}},
		"has more":             {change: []func(*v1alpha1.Queue){has("2Gi")}, want: shape{apply: true, size: "1Gi"}},
		"wants more":           {change: []func(*v1alpha1.Queue){has("512Mi")}, want: shape{ask: true}},
		"wants more than there is": {
			change: []func(*v1alpha1.Queue){has("512Mi")}, answer: exceeded, want: shape{apply: true, size: "512Mi"},
		},
		"gets more": {
			change: []func(*v1alpha1.Queue){has("512Mi")}, answer: granted,
			want: shape{apply: true, size: "1Gi", admitted: "1Gi"},
		},
		"claims of a former one": {
			former: &agentpod.Problem{Reason: v1alpha1.ReasonClaimsRemain}, want: shape{keepServing: true},
		},
		"no node": {
			change: []func(*v1alpha1.Queue){has("1Gi"), onHardware}, want: shape{keepServing: true, size: "1Gi"},
		},
		"deleted, nothing was made": {
			change: []func(*v1alpha1.Queue){deleting}, heard: heard{Asked: true}, want: shape{release: true},
		},
		"deleted, members not asked": {
			change: []func(*v1alpha1.Queue){deleting}, set: &appsv1.StatefulSet{}, want: shape{askAgain: true, kept: true},
		},
		"deleted, empty": {
			change: []func(*v1alpha1.Queue){deleting}, set: &appsv1.StatefulSet{}, heard: asked(0, freshness),
			want: shape{release: true},
		},
		"deleted, empty a while ago": {
			change: []func(*v1alpha1.Queue){deleting}, set: &appsv1.StatefulSet{}, heard: asked(0, freshness+1),
			want: shape{askAgain: true},
		},
		"deleted, with messages": {
			change: []func(*v1alpha1.Queue){deleting}, set: &appsv1.StatefulSet{}, heard: asked(3, freshness),
			want: shape{apply: true, size: "1Gi", kept: true},
		},
		"deleted, messages a while ago": {
			change: []func(*v1alpha1.Queue){deleting}, set: &appsv1.StatefulSet{}, heard: asked(3, freshness+1),
			want: shape{apply: true, size: "1Gi", kept: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			queue := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", UID: "uid"}}
			queue.Spec.Replicas = 1
			queue.Spec.Storage = v1alpha1.QueueStorage{Type: v1alpha1.QueueStorageFile, Size: resource.MustParse("1Gi")}
			for _, change := range test.change {
				change(queue)
			}
			before := queue.DeepCopy()
			in := inputs{
				set: test.set, former: test.former, members: test.heard,
				cluster: topology.NewCluster(placement.Facts{Nodes: []corev1.Node{node}}),
			}
			d, err := decide(queue, in, image, now, test.answer)
			if err != nil {
				t.Fatal(err)
			}
			got := shape{
				askAgain: d.askAgain, release: d.release, ask: d.ask != nil, apply: d.apply, keepServing: d.keepServing != nil,
				kept: d.facts.Kept != nil,
			}
			if d.usable != nil {
				got.size = d.usable.Queue.Spec.Storage.Size.String()
			}
			if d.admitted != nil {
				got.admitted = d.admitted.String()
			}
			if got != test.want {
				t.Errorf("got %+v, want %+v; %+v", got, test.want, d.keepServing)
			}
			if !equality.Semantic.DeepEqual(before, queue) {
				t.Error("the Queue was changed")
			}
		})
	}
}
