// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package staging_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/transfer"
)

// collect is the garbage collector: it removes pods whose Jobs are gone.
func (s *storage) collect() {
	s.Helper()
	ctx := context.Background()
	jobs, pods := &batchv1.JobList{}, &corev1.PodList{}
	for _, list := range []client.ObjectList{jobs, pods} {
		if err := cluster.Client.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
			s.Fatal(err)
		}
	}
	for i := range pods.Items {
		pod, found := &pods.Items[i], false
		for _, job := range jobs.Items {
			found = found || job.Name == pod.Labels[batchv1.JobNameLabel] && job.DeletionTimestamp == nil
		}
		if !found {
			s.ignoreGone(cluster.Client.Delete(ctx, pod, client.GracePeriodSeconds(0)))
		}
	}
}

// pause changes spec.pause.
func (s *storage) pause(pause bool) {
	s.Helper()
	controllertest.Eventually(s, func() error {
		s.refresh()
		s.transfer.Spec.Pause = pause
		return cluster.Client.Update(context.Background(), s.transfer)
	})
}

func (s *storage) in(phase v1alpha1.TransferPhase) func() bool {
	return func() bool {
		s.collect()
		return s.transfer.Status.Phase == phase
	}
}

// busy: an agent runs.
func (s *storage) busy() bool {
	run := s.transfer.Status.Run
	return run != nil && run.NextAttemptTime == nil && run.Node != ""
}

// rests checks that a paused run has no agent and its copy of the source, and that nothing more is written.
func (s *storage) rests(r *transfer.Reconciler) {
	s.Helper()
	jobs, pods := &batchv1.JobList{}, &corev1.PodList{}
	for _, list := range []client.ObjectList{jobs, pods} {
		if err := cluster.Client.List(context.Background(), list, client.InNamespace(s.namespace)); err != nil {
			s.Fatal(err)
		}
	}
	if len(jobs.Items)+len(pods.Items) > 0 {
		s.Errorf("%d Jobs and %d pods are left", len(jobs.Items), len(pods.Items))
	}
	if snapshots, claims := s.snapshots(), s.copies(); len(snapshots) != 1 || len(claims) != 1 ||
		claims[0].DeletionTimestamp != nil {
		s.Errorf("the copy is not kept: %d snapshots, %d claims", len(snapshots), len(claims))
	}
	if status := s.transfer.Status; status.Run.Failures != 0 || status.Run.CompletionTime != nil ||
		len(status.History) != 1 || status.History[0].Reason != v1alpha1.ReasonPaused {
		s.Errorf("%+v %+v", status.Run, status.History)
	}
	version := s.transfer.ResourceVersion
	for range 2 {
		if err := s.step(r); err != nil {
			s.Error(err)
		}
	}
	if s.refresh(); s.transfer.ResourceVersion != version {
		s.Errorf("a second look wrote something: %+v", s.transfer.Status)
	}
}

// killedWhilePausing kills managers at every write of a pause. Another one ends it, and the run goes on when it is
// resumed.
func killedWhilePausing(t *testing.T) {
	const pauseWrites = 6 // more than a pause has
	for writes := range pauseWrites {
		for _, answered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/%v", writes, answered), func(t *testing.T) {
				t.Parallel()
				s := prepare(t)
				s.stays = true
				cluster.Create(t, s.transfer)
				r := reconciler(manager.GetClient())
				s.until("an agent", r, s.busy)
				run := s.transfer.Status.Run.ID
				s.pause(true)
				m := &mortal{Client: manager.GetClient(), left: writes, answered: answered, group: groupOf(t)}
				dying := reconciler(m)
				for range 20 {
					if s.refresh(); m.dead || s.transfer.Status.Phase == v1alpha1.TransferPaused {
						break
					}
					if err := s.step(dying); err != nil && !m.dead {
						s.Log(err)
					}
					s.collect()
				}
				r = reconciler(manager.GetClient())
				s.until("pause", r, s.in(v1alpha1.TransferPaused))
				s.rests(r)
				s.stays = false
				s.pause(false)
				s.until("end", r, s.ended)
				s.nothingLeft()
				if s.transfer.Status.Run.ID != run || s.transfer.Status.Run.Attempt != 2 {
					s.Errorf("%+v", s.transfer.Status.Run)
				}
			})
		}
	}
}

// keptInWindows: nothing is made before the window opens. The run pauses at its end and completes in the next one.
func keptInWindows(t *testing.T) {
	t.Parallel()
	s := prepare(t)
	s.stays = true
	begin := time.Now().UTC().Truncate(time.Minute)
	hhmm := func(after time.Duration) string { return begin.Add(after).Format("15:04") }
	s.transfer.Spec.Schedule = &v1alpha1.TransferSchedule{Windows: []v1alpha1.ScheduleWindow{{
		Start: hhmm(2 * time.Hour), End: hhmm(10 * time.Hour),
	}}}
	cluster.Create(t, s.transfer)
	now := clocktesting.NewFakePassiveClock(begin)
	r := reconcilerAt(manager.GetClient(), now)
	outside := func() {
		t.Helper()
		ready := meta.FindStatusCondition(s.transfer.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Reason != v1alpha1.ReasonOutsideWindow {
			t.Errorf("%+v", ready)
		}
	}
	s.until("wait", r, s.in(v1alpha1.TransferPending))
	outside()
	s.nothingLeft()
	now.SetTime(begin.Add(2 * time.Hour))
	s.until("an agent", r, s.busy)
	if end := s.transfer.Status.Schedule.WindowEnd; end == nil || !end.Time.Equal(begin.Add(10*time.Hour)) {
		t.Errorf("%+v", s.transfer.Status.Schedule)
	}
	now.SetTime(begin.Add(10 * time.Hour))
	s.until("pause", r, s.in(v1alpha1.TransferPaused))
	outside()
	s.rests(r)
	// The clock is set back into the window, and over its end again: nothing is lost.
	now.SetTime(begin.Add(9 * time.Hour))
	s.until("another agent", r, s.busy)
	now.SetTime(begin.Add(11 * time.Hour))
	s.until("pause", r, s.in(v1alpha1.TransferPaused))
	s.stays = false
	now.SetTime(begin.Add(26 * time.Hour))
	s.until("end", r, s.ended)
	if run := s.transfer.Status.Run; run.Attempt != 3 || run.Failures != 0 {
		t.Errorf("%+v", run)
	}
	s.nothingLeft()
}
