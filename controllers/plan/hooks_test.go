// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/plan"
)

// hooked is a world with hooks, whose Jobs are done as decided.
type hooked struct {
	*world
	cronJobs map[string]*batchv1.CronJob
	jobs     map[string]*batchv1.Job
	// made are the Jobs in their order.
	made []string
	// hookProblem keeps the manager from looking at hooks.
	hookProblem *agentpod.Problem
	// rejected is what the API server has against Jobs of hooks; empty: nothing.
	rejected string
}

func newHooked(t *testing.T, method v1alpha1.CopyMethod) *hooked {
	h := &hooked{world: newWorld(t, method), jobs: map[string]*batchv1.Job{}, cronJobs: map[string]*batchv1.CronJob{}}
	h.transfer.Spec.Source.Hooks = &v1alpha1.SourceHooks{
		Before: &v1alpha1.BeforeHook{Hook: v1alpha1.Hook{CronJob: "lighterage-before"}},
		After:  &v1alpha1.Hook{CronJob: "lighterage-after"},
	}
	for _, name := range []string{"lighterage-before", "lighterage-after"} {
		h.cronJobs[name] = &batchv1.CronJob{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.CronJobSpec{Suspend: ptr.To(true)},
		}
	}
	return h
}

func (h *hooked) step() {
	h.Helper()
	h.facts.Hooks = h.seen(h.transfer)
	h.at = h.at.Add(time.Second)
	h.look()
	if step := h.last.Hook; step != nil && step.Start != nil && h.rejected != "" {
		h.transfer.Status = plan.RefuseHook(h.transfer, step, h.rejected, h.at).Status
	} else {
		h.do(step)
	}
}

// seen is what is seen of the hooks of a Transfer.
func (h *hooked) seen(of *v1alpha1.Transfer) plan.HookFacts {
	if !plan.NeedsHooks(of) {
		return plan.HookFacts{}
	}
	if h.hookProblem != nil {
		return plan.HookFacts{Seen: true, Problem: h.hookProblem}
	}
	s := of.Status.Hooks
	return plan.HookFacts{
		Seen:   true,
		Before: plan.HookSeen{CronJob: h.cronJobs[s.Before.CronJob], Job: h.jobs[s.Before.Job]},
		After:  plan.HookSeen{CronJob: h.cronJobs[s.After.CronJob], Job: h.jobs[s.After.Job]},
	}
}

// do makes or deletes the Job of a hook.
func (h *hooked) do(step *plan.HookStep) {
	switch {
	case step == nil:
	case step.Start != nil:
		h.jobs[step.Start.Name] = step.Start
		h.made = append(h.made, step.Start.Labels[v1alpha1.HookLabel])
	default:
		delete(h.jobs, step.End.Name)
	}
}

func (h *hooked) steps(what string, holds func() bool) {
	h.Helper()
	for range 50 {
		if holds() {
			return
		}
		h.step()
	}
	h.Fatalf("%s: not after 50 steps: %+v, hooks %+v", what, h.transfer.Status.Conditions, h.transfer.Status.Hooks)
}

func (h *hooked) has(n int) func() bool { return func() bool { return len(h.made) == n } }

func (h *hooked) end(name string, as batchv1.JobConditionType) {
	h.jobs[name].Status.Conditions = []batchv1.JobCondition{{Type: as, Status: corev1.ConditionTrue}}
}

func TestSnapshotLiesBetweenHooks(t *testing.T) {
	t.Parallel()
	h := newHooked(t, v1alpha1.CopySnapshot)
	h.steps("before", h.has(1))
	for range 5 {
		h.step()
	}
	if h.snapshotTaken() || h.made[0] != "lighterage-before" {
		t.Fatalf("a snapshot before its time, %q", h.made)
	}
	h.end(h.transfer.Status.Hooks.Before.Job, batchv1.JobComplete)
	h.steps("snapshot", h.snapshotTaken)
	if len(h.made) != 1 {
		t.Fatal("released before the snapshot was taken")
	}
	h.taken()
	h.steps("after", h.has(2))
	h.end(h.transfer.Status.Hooks.After.Job, batchv1.JobComplete)
	h.steps("end", func() bool { return !plan.NeedsHooks(h.transfer) })
	if !meta.IsStatusConditionTrue(h.transfer.Status.Conditions, v1alpha1.ConditionHooksSucceeded) {
		t.Errorf("%+v", h.transfer.Status.Conditions)
	}
}

func TestFailedBeforeHookMeansNoSnapshot(t *testing.T) {
	t.Parallel()
	for _, method := range []v1alpha1.CopyMethod{v1alpha1.CopySnapshot, v1alpha1.CopyClone, v1alpha1.CopyDirect} {
		h := newHooked(t, method)
		h.steps("before", h.has(1))
		h.end(h.transfer.Status.Hooks.Before.Job, batchv1.JobFailed)
		h.steps("after", h.has(2))
		if h.snapshotTaken() || h.claimMade() || h.started() || h.made[1] != "lighterage-after" {
			t.Errorf("%s: something was read, %q", method, h.made)
		}
		if got := h.transfer.Status.History[0].Reason; got != v1alpha1.ReasonBeforeHookFailed {
			t.Errorf("%s: %s", method, got)
		}
	}
}

func TestHostileCronJobs(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(*hooked){
		"gone":          func(h *hooked) { delete(h.cronJobs, "lighterage-before") },
		"after is gone": func(h *hooked) { delete(h.cronJobs, "lighterage-after") },
		"not suspended": func(h *hooked) { h.cronJobs["lighterage-before"].Spec.Suspend = nil },
		"no history":    func(h *hooked) { h.cronJobs["lighterage-before"].Spec.FailedJobsHistoryLimit = ptr.To[int32](0) },
	} {
		h := newHooked(t, v1alpha1.CopySnapshot)
		change(h)
		h.steps(what, func() bool { return len(h.transfer.Status.History) == 1 })
		if got := h.transfer.Status.History[0].Reason; got != v1alpha1.ReasonBeforeHookRejected || len(h.made) > 0 ||
			h.snapshotTaken() {
			t.Errorf("%s: %s, made %q", what, got, h.made)
		}
	}
}

// TestCloneThatNobodyMadeHasHooksAgain: see TestCloneThatNobodyMadeIsNotReadLater.
func TestCloneThatNobodyMadeHasHooksAgain(t *testing.T) {
	t.Parallel()
	h := newHooked(t, v1alpha1.CopyClone)
	h.facts.Staging.StorageClass.VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
	h.steps("before", h.has(1))
	h.end(h.transfer.Status.Hooks.Before.Job, batchv1.JobComplete)
	h.steps("starts", h.started)
	h.facts.Pod = ended(1, "Evicted", "")
	h.facts.Job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
	h.steps("after", h.has(2))
	h.facts.Job, h.facts.Pod = nil, nil
	h.end(h.transfer.Status.Hooks.After.Job, batchv1.JobComplete)
	h.steps("before again", h.has(3))
	if h.started() || h.claimMade() {
		t.Error("the next attempt does not wait for its before-hook")
	}
}

func TestDeletionReleasesTheSource(t *testing.T) {
	t.Parallel()
	h := newHooked(t, v1alpha1.CopyDirect)
	h.steps("before", h.has(1))
	h.end(h.transfer.Status.Hooks.Before.Job, batchv1.JobComplete)
	h.steps("agent", h.started)
	s := h.transfer.Status.Hooks
	out, done := plan.ReleaseHooks(h.transfer, plan.HookFacts{
		Seen: true, Before: plan.HookSeen{CronJob: h.cronJobs[s.Before.CronJob], Job: h.jobs[s.Before.Job]},
		After: plan.HookSeen{CronJob: h.cronJobs[s.After.CronJob]},
	}, h.at)
	if done || out.Hook == nil || out.Hook.Start == nil || !out.Hook.After {
		t.Errorf("%v, %+v", done, out.Hook)
	}
}

// The driver has its whole deadline when the before-hook takes longer than that.
func TestDeadlineBeginsBehindTheBeforeHook(t *testing.T) {
	t.Parallel()
	h := newHooked(t, v1alpha1.CopySnapshot)
	h.transfer.Spec.Source.StagingDeadline = &metav1.Duration{Duration: 10 * time.Second}
	h.steps("before", h.has(1))
	for range 30 {
		h.step()
	}
	h.end(h.transfer.Status.Hooks.Before.Job, batchv1.JobComplete)
	h.steps("snapshot", h.snapshotTaken)
}

// afterIsDue has the after-hook noted in status, and its Job lost: the manager was killed before it made it.
func (h *hooked) afterIsDue() {
	h.Helper()
	h.steps("before", h.has(1))
	h.end(h.transfer.Status.Hooks.Before.Job, batchv1.JobComplete)
	h.steps("snapshot", h.snapshotTaken)
	h.taken()
	h.steps("after", h.has(2))
	delete(h.jobs, h.transfer.Status.Hooks.After.Job)
	h.made = h.made[:1]
}

// A manager that was away for longer than the time-out starts the after-hook, which has its whole time.
func TestAfterHookIsTriedBehindItsTimeout(t *testing.T) {
	t.Parallel()
	h := newHooked(t, v1alpha1.CopySnapshot)
	h.afterIsDue()
	h.at = h.at.Add(time.Hour)
	h.step()
	if len(h.made) != 2 {
		t.Fatalf("no try: %+v", h.transfer.Status.Hooks.After)
	}
	h.step()
	if got := h.transfer.Status.Hooks.After; got.State != v1alpha1.HookRunning {
		t.Errorf("%+v", got)
	}
}

// An after-hook whose Job is rejected is given up when its time is over, and not before.
func TestAfterHookIsGivenUp(t *testing.T) {
	t.Parallel()
	for what, refuse := range map[string]func(*hooked){
		"rejected":    func(h *hooked) { h.rejected = "exceeded quota" },
		"no CronJob":  func(h *hooked) { delete(h.cronJobs, "lighterage-after") },
		"not allowed": func(h *hooked) { h.hookProblem = &agentpod.Problem{Message: "may not read CronJobs"} },
	} {
		h := newHooked(t, v1alpha1.CopySnapshot)
		h.afterIsDue()
		h.at = h.at.Add(time.Hour)
		refuse(h)
		for range 10 {
			h.step()
		}
		if got := h.transfer.Status.Hooks.After; got.State != v1alpha1.HookStarting || got.Message == "" {
			t.Errorf("%s: %+v", what, got)
		}
		h.at = h.at.Add(5 * time.Minute)
		h.step()
		if got := h.transfer.Status.Hooks.After; got.State != v1alpha1.HookRejected || got.Message == "" {
			t.Errorf("%s: %+v", what, got)
		}
		c := meta.FindStatusCondition(h.transfer.Status.Conditions, v1alpha1.ConditionHooksSucceeded)
		if c == nil || c.Reason != v1alpha1.ReasonAfterHookFailed {
			t.Errorf("%s: %+v", what, c)
		}
	}
}

// A before-hook that does not end in time is ended before its after-hook begins, and nothing is read.
func TestBeforeHookTimesOut(t *testing.T) {
	t.Parallel()
	h := newHooked(t, v1alpha1.CopySnapshot)
	h.transfer.Spec.Source.Hooks.Before.Timeout = &metav1.Duration{Duration: time.Minute}
	h.steps("before", h.has(1))
	h.step()
	before := &h.transfer.Status.Hooks.Before
	if before.State != v1alpha1.HookRunning {
		t.Fatalf("%+v", before)
	}
	h.at = h.at.Add(time.Minute)
	h.step()
	if before = &h.transfer.Status.Hooks.Before; before.State != v1alpha1.HookEnding || h.last.Hook == nil ||
		h.last.Hook.End == nil || len(h.made) != 1 {
		t.Fatalf("%+v, made %q", before, h.made)
	}
	h.steps("after", h.has(2))
	if before = &h.transfer.Status.Hooks.Before; before.State != v1alpha1.HookFailed || h.snapshotTaken() ||
		h.made[1] != "lighterage-after" {
		t.Errorf("%+v, made %q", before, h.made)
	}
	if got := h.transfer.Status.History[0].Reason; got != v1alpha1.ReasonBeforeHookFailed {
		t.Errorf("the attempt ended with %s", got)
	}
}

// With onFailure: Continue the source is read whatever becomes of the before-hook, and the condition tells of it.
func TestContinueBehindABeforeHook(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		spoil         func(*hooked)
		before, after v1alpha1.HookState
		reason        string
	}{
		"failed": {func(h *hooked) {
			h.steps("before", h.has(1))
			h.end(h.transfer.Status.Hooks.Before.Job, batchv1.JobFailed)
		}, v1alpha1.HookFailed, v1alpha1.HookComplete, v1alpha1.ReasonBeforeHookFailed},
		"too late": {func(h *hooked) {
			h.steps("before", h.has(1))
			h.at = h.at.Add(time.Hour)
		}, v1alpha1.HookFailed, v1alpha1.HookComplete, v1alpha1.ReasonBeforeHookFailed},
		// Nothing was quiesced, so nothing is to be released.
		"no CronJob": {func(h *hooked) {
			delete(h.cronJobs, "lighterage-before")
		}, v1alpha1.HookRejected, v1alpha1.HookSkipped, v1alpha1.ReasonBeforeHookRejected},
		"rejected": {func(h *hooked) {
			h.rejected = "exceeded quota"
		}, v1alpha1.HookRejected, v1alpha1.HookSkipped, v1alpha1.ReasonBeforeHookRejected},
	} {
		h := newHooked(t, v1alpha1.CopySnapshot)
		h.transfer.Spec.Source.Hooks.Before.OnFailure = v1alpha1.HookContinue
		test.spoil(h)
		h.steps(what+": snapshot", h.snapshotTaken)
		h.taken()
		h.steps(what+": end", func() bool {
			hooks := h.transfer.Status.Hooks
			if job := h.jobs[hooks.After.Job]; job != nil && hooks.After.State == v1alpha1.HookRunning {
				h.end(job.Name, batchv1.JobComplete)
			}
			return hooks.After.Ended()
		})
		hooks := h.transfer.Status.Hooks
		if hooks.Before.State != test.before || hooks.After.State != test.after || len(h.transfer.Status.History) > 0 {
			t.Errorf("%s: %+v, %+v", what, hooks, h.transfer.Status.History)
		}
		c := meta.FindStatusCondition(h.transfer.Status.Conditions, v1alpha1.ConditionHooksSucceeded)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != test.reason {
			t.Errorf("%s: %+v", what, c)
		}
	}
}

// An after-hook that fails does not end the run, and the condition says that the application may be quiesced.
func TestAfterHookFails(t *testing.T) {
	t.Parallel()
	for what, fail := range map[string]func(*hooked, string){
		"failed":   func(h *hooked, job string) { h.end(job, batchv1.JobFailed) },
		"deleted":  func(h *hooked, job string) { delete(h.jobs, job) },
		"too late": func(h *hooked, _ string) { h.at = h.at.Add(5 * time.Minute) },
	} {
		h := newHooked(t, v1alpha1.CopySnapshot)
		h.steps("before", h.has(1))
		h.end(h.transfer.Status.Hooks.Before.Job, batchv1.JobComplete)
		h.steps("snapshot", h.snapshotTaken)
		h.taken()
		h.steps("after", func() bool {
			return h.has(2)() && h.transfer.Status.Hooks.After.State == v1alpha1.HookRunning
		})
		fail(h, h.transfer.Status.Hooks.After.Job)
		h.steps(what, func() bool { return h.transfer.Status.Hooks.After.Ended() })
		if got := h.transfer.Status.Hooks; got.After.State != v1alpha1.HookFailed || len(h.transfer.Status.History) > 0 {
			t.Errorf("%s: %+v, %+v", what, got.After, h.transfer.Status.History)
		}
		c := meta.FindStatusCondition(h.transfer.Status.Conditions, v1alpha1.ConditionHooksSucceeded)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != v1alpha1.ReasonAfterHookFailed {
			t.Errorf("%s: %+v", what, c)
		}
	}
}
