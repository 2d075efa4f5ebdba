// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"fmt"
	"testing"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
)

// TestWindowEnds: a run that is under way when its window ends is paused, waits without a write, also through the time
// just before the next window, and is complete in that one.
func TestWindowEnds(t *testing.T) {
	f := prepareSerially(t)
	t.Cleanup(func() { managerClock.ahead.Store(0) })
	evening := time.Now().UTC().Truncate(24 * time.Hour).Add(46 * time.Hour) // 22:00 of tomorrow
	looks := 0
	at := func(now time.Time) {
		t.Helper()
		managerClock.set(now)
		looks++
		f.change(func(transfer *v1alpha1.Transfer) {
			transfer.Annotations = map[string]string{"example.com/look": fmt.Sprint(looks)}
		})
	}
	idle := func(now time.Time) {
		t.Helper()
		at(now)
		version := f.transfer.ResourceVersion
		time.Sleep(3 * time.Second)
		if err := f.refresh(); err != nil || f.transfer.ResourceVersion != version || len(f.jobs()) > 0 {
			t.Fatalf("%v: a look at %s writes: %+v", err, now, f.transfer.Status)
		}
	}

	managerClock.set(evening.Add(time.Hour))
	f.transfer.Spec.MaxAttempts = 1 // a pause is none of its failures
	f.transfer.Spec.Schedule = &v1alpha1.TransferSchedule{
		Windows: []v1alpha1.ScheduleWindow{{Start: "22:00", End: "02:00"}},
	}
	f.create()
	agents.Say(f.serverName(), transferring())
	job := f.job(1)
	pod := cluster.RunPod(t, job, "node-1")
	f.because(v1alpha1.TransferTransferring, v1alpha1.ReasonTransferring)
	end := evening.Add(4 * time.Hour)
	if shown := f.transfer.Status.Schedule; shown == nil || !shown.WindowEnd.Time.Equal(end) || shown.NextWindow != nil {
		t.Fatalf("%+v, want an end at %s", shown, end)
	}
	run := f.transfer.Status.Run.ID

	at(end)
	f.because(v1alpha1.TransferTransferring, v1alpha1.ReasonPausing)
	controllertest.Eventually(t, func() error {
		if left := f.jobs(); len(left) > 0 || f.secretExists(job.Name) || agents.Paused(f.serverName()) == 0 {
			return fmt.Errorf("the agent was asked to end %d times, left: %+v", agents.Paused(f.serverName()), left)
		}
		return nil
	})
	f.endNow(pod)
	f.because(v1alpha1.TransferPaused, v1alpha1.ReasonOutsideWindow)
	status, next := f.transfer.Status, evening.Add(24*time.Hour)
	if status.Run.ID != run || status.Run.Attempt != 1 || status.Run.Failures != 0 || status.Run.CompletionTime != nil ||
		len(status.History) != 1 || status.History[0].Reason != v1alpha1.ReasonPaused || status.History[0].Bytes != 4<<30 {
		t.Errorf("%+v %+v", status.Run, status.History)
	}
	if shown := status.Schedule; shown == nil || !shown.NextWindow.Time.Equal(next) || shown.WindowEnd != nil {
		t.Errorf("%+v, want a window at %s", shown, next)
	}
	idle(end.Add(time.Minute))
	idle(next.Add(-2 * time.Minute)) // the clock goes on

	at(next)
	cluster.EndPod(t, cluster.RunPod(t, f.job(2), "node-1"), 0, encode(t, succeeded()))
	f.wait(v1alpha1.TransferComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
	status = f.transfer.Status
	if status.Run.ID != run || status.Run.Attempt != 2 || status.Run.Failures != 0 || len(status.History) != 2 ||
		status.Run.CompletionTime.Time.Before(next) {
		t.Errorf("%+v %+v", status.Run, status.History)
	}
}
