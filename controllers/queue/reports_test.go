// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpoll"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/queue"
)

// aged says what members say, as if it had been some time ago, until it is refreshed.
type aged struct {
	controllertest.Asking[*wirev1.QueueReport]
	age       time.Duration
	refreshed int
	asked     bool
}

func (a *aged) Observe(
	queue types.NamespacedName, members ...agentpoll.Target,
) agentpoll.Observed[*wirev1.QueueReport] {
	seen := a.Asking.Observe(queue, members...)
	for i := range seen.Agents {
		seen.Agents[i].Age = a.age
		if !a.asked {
			seen.Agents[i] = agentpoll.Observation[*wirev1.QueueReport]{}
		}
	}
	return seen
}

func (a *aged) Refresh(types.NamespacedName) { a.refreshed++ }

// TestDeletionAsksAgain: what was put since the members said that there is nothing is not lost.
func TestDeletionAsksAgain(t *testing.T) {
	r := kind.Begin(t, newQueue(func(*v1alpha1.QueueSpec) {}))
	r.Change(func(q *v1alpha1.Queue) { q.Finalizers = []string{v1alpha1.Finalizer} })
	reports := &aged{Asking: r.Agents.QueueReport, age: time.Minute}
	r.Reconciler.(*queue.Reconciler).Reports = reports
	if err := r.Delete(t.Context(), r.Object); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		what      string
		asked     bool
		age       time.Duration
		refreshed int
		gone      bool
	}{
		{"never asked", false, 0, 1, false},
		{"asked a minute ago", true, time.Minute, 2, false},
		{"asked now", true, time.Second, 2, true},
	} {
		reports.asked, reports.age = step.asked, step.age
		key := client.ObjectKeyFromObject(r.Object)
		if _, err := r.Reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		err := r.Get(t.Context(), key, &v1alpha1.Queue{})
		if client.IgnoreNotFound(err) != nil || apierrors.IsNotFound(err) != step.gone ||
			reports.refreshed != step.refreshed {
			t.Errorf("%s: %v, asked again %d times", step.what, err, reports.refreshed)
		}
	}
}

// TestMembersThatWereNotAskedYet: a manager that has just started does not say that members do not answer.
func TestMembersThatWereNotAskedYet(t *testing.T) {
	r := kind.Begin(t, newQueue(func(*v1alpha1.QueueSpec) {}))
	version := r.Object.ResourceVersion
	r.Restart()
	r.Reconciler.(*queue.Reconciler).Reports = &aged{Asking: r.Agents.QueueReport}
	r.Look()
	if r.Object.ResourceVersion != version {
		t.Errorf("written: %+v", r.Object.Status.Members)
	}
	// One that is not asked because it does not run keeps nobody from saying so.
	r.Pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	if err := r.Status().Update(t.Context(), r.Pod); err != nil {
		t.Fatal(err)
	}
	r.Look()
	if r.Object.ResourceVersion == version {
		t.Error("nothing is said of a member that does not run any more")
	}
}
