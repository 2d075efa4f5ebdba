// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/replicas"
)

// TestKeep: a Queue stays for messages and for dead letters alike, and says which there are.
func TestKeep(t *testing.T) {
	for name, test := range map[string]struct {
		content     *wirev1.QueueContent
		says, hides string
	}{
		"messages": {&wirev1.QueueContent{Leader: "orders-0", Messages: 3}, "has 3 messages in it", "dead letters"},
		"dead letters": {
			&wirev1.QueueContent{Leader: "orders-0", DeadLetters: 2},
			"has 0 messages and 2 dead letters, which gRPC and HTTP give out, in it", "",
		},
		"unknown": {&wirev1.QueueContent{}, "whether there are messages in it is not known", ""},
		"empty":   {&wirev1.QueueContent{Leader: "orders-0"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			members := []Member{{
				Pod:    &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "orders-0"}},
				Report: &wirev1.QueueReport{Content: test.content},
			}}
			in := inputs{set: &appsv1.StatefulSet{}, members: replicas.Heard[*wirev1.QueueReport]{Agents: members}}
			problem := keep(&v1alpha1.Queue{}, in)
			switch {
			case test.says == "":
				if problem != nil {
					t.Errorf("kept: %s", problem.Message)
				}
			case problem == nil || !strings.Contains(problem.Message, test.says) ||
				test.hides != "" && strings.Contains(problem.Message, test.hides):
				t.Errorf("got %+v, want %q", problem, test.says)
			}
		})
	}
}

// Whoever may make claims can give one the Queue's labels. Only the members' own, which have the name that the
// StatefulSet gives them, are grown, counted and deleted.
func TestClaimsOfTheQueue(t *testing.T) {
	queue := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", UID: "uid"}}
	set := objectName(queue)
	var claims []corev1.PersistentVolumeClaim
	for _, name := range []string{
		"ledger", "data-" + set + "-0", "data-" + set + "-2", "data-" + set + "-00", "data-" + set + "-",
		"data-" + set + "-0-copy", "data-" + set + "-x",
		set + "-0", "my-data-" + set + "-0", "data-orders-0", "data-" + set,
	} {
		claims = append(
			claims,
			corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: selector(queue.UID)},
			},
		)
	}
	var kept []string
	for _, claim := range ownClaims(queue, claims) {
		kept = append(kept, claim.Name)
	}
	if want := []string{"data-" + set + "-0", "data-" + set + "-2"}; !slices.Equal(kept, want) {
		t.Errorf("taken for the Queue's: %q, want %q", kept, want)
	}
}
