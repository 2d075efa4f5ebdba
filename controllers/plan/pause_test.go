// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/quota"
)

// pausable is a Transfer in one of the phases of an attempt, with the facts for it.
var pausable = map[string]func() (*v1alpha1.Transfer, plan.TransferFacts){
	"no Job yet": func() (*v1alpha1.Transfer, plan.TransferFacts) {
		transfer, facts := running(1)
		facts.Job = nil
		return transfer, facts
	},
	"starting": func() (*v1alpha1.Transfer, plan.TransferFacts) {
		transfer, facts := running(1)
		facts.Pod = pod(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}})
		return transfer, facts
	},
	"opening": func() (*v1alpha1.Transfer, plan.TransferFacts) {
		return reporting(&wirev1.Report{State: wirev1.AgentState_AGENT_STATE_OPENING})
	},
	"transferring": func() (*v1alpha1.Transfer, plan.TransferFacts) { return reporting(moving()) },
	"silent": func() (*v1alpha1.Transfer, plan.TransferFacts) {
		transfer, facts := reporting(moving())
		facts.Report, facts.Silent = nil, true
		return transfer, facts
	},
}

func reporting(report *wirev1.Report) (*v1alpha1.Transfer, plan.TransferFacts) {
	transfer, facts := running(1)
	facts.Pod = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	facts.Report = report
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	return transfer, facts
}

// readiness is why a Transfer is ready, or is not.
func readiness(t *testing.T, all []metav1.Condition) (reason, message string) {
	t.Helper()
	ready := meta.FindStatusCondition(all, v1alpha1.ConditionReady)
	if ready == nil {
		t.Fatal("no condition Ready")
	}
	return ready.Reason, ready.Message
}

// step decides and keeps the status.
func step(transfer *v1alpha1.Transfer, facts plan.TransferFacts) plan.TransferDecision {
	out := plan.DecideTransfer(transfer, facts, image)
	transfer.Status = out.Status
	return out
}

func pauses(transfer *v1alpha1.Transfer, pause bool) {
	transfer.Spec.Pause = pause
	transfer.Generation++
}

// gone are the facts after what Clear asks for was done.
func gone(facts plan.TransferFacts, podsLeft bool) plan.TransferFacts {
	facts.Job, facts.Pod, facts.Report, facts.Silent, facts.PodsLeft = nil, nil, nil, false, podsLeft
	return facts
}

func TestPause(t *testing.T) {
	for name, begin := range pausable {
		t.Run(name, func(t *testing.T) {
			transfer, facts := begin()
			phase, failures := transfer.Status.Phase, transfer.Status.Run.Failures
			pauses(transfer, true)

			// The status says so before anything is done. An agent that runs is asked to end before it is ended.
			facts.PodsLeft = true
			for i := range 3 {
				out := step(transfer, facts)
				reason, _ := readiness(t, out.Status.Conditions)
				if asked := i == 0 && facts.Report != nil; out.Pause != asked || out.Clear == asked || out.Start != nil || out.Finished != nil || reason != "Pausing" || out.Status.Phase != phase ||
					!plan.Pausing(transfer) {
					t.Fatalf("%+v", out)
				}
			}
			// Pods that have not ended keep it from being Paused.
			facts = gone(facts, true)
			if out := step(transfer, facts); out.Finished != nil || out.Status.Phase == v1alpha1.TransferPaused ||
				out.RequeueAfter <= 0 {
				t.Fatalf("%+v", out)
			}
			facts.PodsLeft = false
			out := step(transfer, facts)
			run := out.Status.Run
			reason, message := readiness(t, out.Status.Conditions)
			if out.Status.Phase != v1alpha1.TransferPaused || reason != "Paused" || !strings.Contains(message, "spec.pause") ||
				out.Finished == nil || out.Finished.RunEnded || out.Finished.Reason != "Paused" ||
				run.Failures != failures || run.CompletionTime != nil || out.Status.History[0].Reason != "Paused" {
				t.Fatalf("%+v %+v", out, out.Status.Conditions)
			}
			// Nothing more is decided or written while it lasts.
			facts.Now = facts.Now.Add(72 * time.Hour)
			again := step(transfer, facts)
			if !equality.Semantic.DeepEqual(again.Status, out.Status) || again.Start != nil || again.Clear ||
				again.RequeueAfter != 0 || again.Unstage {
				t.Fatalf("%+v", again)
			}
			// A Job that was made a moment before and is seen late is removed.
			stray := facts
			_, other := running(1)
			stray.Job = other.Job
			if out := plan.DecideTransfer(transfer, stray, image); !out.Clear {
				t.Errorf("%+v", out)
			}
			pauses(transfer, false)
			out = step(transfer, facts)
			if out.Start == nil || out.Status.Run.Attempt != 2 || out.Status.Run.ID != run.ID ||
				out.Status.Phase != v1alpha1.TransferStarting || !out.Retire {
				t.Fatalf("%+v", out)
			}
		})
	}
}

// A Transfer that is resumed while its agents are being ended goes on at once, with the next attempt.
func TestResumedWhilePausing(t *testing.T) {
	transfer, facts := reporting(moving())
	pauses(transfer, true)
	step(transfer, facts)
	pauses(transfer, false)
	if out := step(transfer, facts); !out.Clear || !plan.Pausing(transfer) {
		t.Fatalf("%+v", out)
	}
	out := step(transfer, gone(facts, true))
	if out.Status.Phase != v1alpha1.TransferRetrying || out.Status.History[0].Reason != "Paused" || out.RequeueAfter <= 0 {
		t.Fatalf("%+v", out)
	}
	if out = step(transfer, gone(facts, true)); out.Start == nil || out.Status.Run.Attempt != 2 {
		t.Fatalf("%+v", out)
	}
}

// An attempt that has ended by itself counts for what it is, whatever is wanted by then.
func TestPausedTooLate(t *testing.T) {
	succeeded := `{"state":"AGENT_STATE_SUCCEEDED"}`
	full := `{"state":"AGENT_STATE_FAILED","failure":{"reason":"FAILURE_REASON_DESTINATION_FULL","message":"full"}}`
	paused := `{"state":"AGENT_STATE_FAILED","failure":{"reason":"FAILURE_REASON_PAUSED","message":"paused"},` +
		`"compression":{"uncompressedBytes":"777"}}`
	stopped := `{"state":"AGENT_STATE_FAILED","failure":{"reason":"FAILURE_REASON_ABORTED","message":"told to stop"}}`
	for name, c := range map[string]struct {
		message string
		begun   bool
		phase   v1alpha1.TransferPhase
		reason  string
	}{
		"complete":                      {succeeded, false, v1alpha1.TransferComplete, "Succeeded"},
		"complete, while pausing":       {succeeded, true, v1alpha1.TransferComplete, "Succeeded"},
		"failed, while pausing":         {full, true, v1alpha1.TransferRetrying, "DestinationFull"},
		"stopped before it was noticed": {stopped, false, v1alpha1.TransferRetrying, "Aborted"},
		"stopped, while pausing":        {stopped, true, v1alpha1.TransferPaused, "Paused"},
		"paused, as it was asked to":    {paused, true, v1alpha1.TransferPaused, "Paused"},
	} {
		t.Run(name, func(t *testing.T) {
			transfer, facts := reporting(moving())
			pauses(transfer, true)
			if c.begun {
				step(transfer, facts)
			}
			facts.Report = nil
			facts.Pod = ended(1, "Error", c.message)
			out := step(transfer, facts)
			if out.Status.Phase != c.phase || out.Status.History[0].Reason != c.reason {
				t.Fatalf("%s %+v", out.Status.Phase, out.Status.History)
			}
			if c.message == paused && out.Status.History[0].Bytes != 777 {
				t.Errorf("its last figures are lost: %+v", out.Status.History[0])
			}
			// What is over stays to be seen; what would be tried again is not.
			out = step(transfer, gone(facts, false))
			want := c.phase
			if c.phase == v1alpha1.TransferRetrying {
				want = v1alpha1.TransferPaused
			}
			if out.Status.Phase != want || out.Start != nil {
				t.Errorf("%+v", out)
			}
		})
	}
}

// Nothing starts while a Transfer is paused, and no time of its schedule is made up for.
func TestPausedBeforeItBegan(t *testing.T) {
	transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
	transfer.Spec.Pause = true
	if out := step(transfer, facts); out.Start != nil || out.Status.Run != nil ||
		out.Status.Phase != v1alpha1.TransferPaused {
		t.Fatalf("%+v", out)
	}
	transfer.Spec.Pause = false
	if out := step(transfer, facts); out.Start == nil {
		t.Fatalf("%+v", out)
	}
	c := scheduled(t, "0 2 * * *", "")
	c.transfer.Spec.Pause = true
	c.at(now)
	if started, _ := c.at(now.Add(48 * time.Hour)); started {
		t.Error("started")
	}
	c.want(0, "")
	c.transfer.Spec.Pause = false
	if started, _ := c.at(now.Add(48 * time.Hour)); started {
		t.Error("made up for")
	}
}

// A paused run keeps its place at the destination, and no quota.
func TestPausedHolds(t *testing.T) {
	transfer, facts := reporting(moving())
	transfer.CreationTimestamp = metav1.NewTime(now.Add(-2 * time.Hour))
	pauses(transfer, true)
	step(transfer, facts)
	if _, holds := quota.TransferHolds(transfer); !holds {
		t.Error("its agents have not ended")
	}
	step(transfer, gone(facts, false))
	if _, holds := quota.TransferHolds(transfer); holds {
		t.Error("it holds quota while it is paused")
	}
	younger, others := newTransfer("younger", time.Hour), goodFacts()
	younger.UID = "uid-of-younger"
	others.Others = []v1alpha1.Transfer{*transfer}
	out := plan.DecideTransfer(younger, others, image)
	if reason, _ := readiness(t, out.Status.Conditions); out.Start != nil || reason != "DestinationInUse" {
		t.Errorf("%+v", out.Status.Conditions)
	}
	// It asks again when it goes on.
	pauses(transfer, false)
	facts = gone(facts, false)
	limit := resource.MustParse("1Mi")
	facts.Quota.Quotas = []v1alpha1.DataQuota{{Spec: v1alpha1.DataQuotaSpec{Hard: v1alpha1.DataQuotaResources{
		Bandwidth: &limit,
	}}}}
	if out := plan.DecideTransfer(transfer, facts, image); out.Ask == nil {
		t.Errorf("%+v", out)
	}
}

// The copy that a paused run reads stays. One that was not ready yet would be late when it goes on, and is made again.
func TestPausedCopy(t *testing.T) {
	for name, c := range map[string]struct {
		phase v1alpha1.TransferPhase
		state v1alpha1.StagedState
		keeps bool
	}{
		"read":                    {v1alpha1.TransferTransferring, v1alpha1.StagedReady, true},
		"read before it was seen": {v1alpha1.TransferTransferring, v1alpha1.StagedProvisioning, true},
		"ready":                   {v1alpha1.TransferStarting, v1alpha1.StagedReady, true},
		"being made":              {v1alpha1.TransferStarting, v1alpha1.StagedSnapshotting, false},
	} {
		t.Run(name, func(t *testing.T) {
			transfer, facts := reporting(moving())
			transfer.Spec.Source.CopyMethod = v1alpha1.CopySnapshot
			transfer.Status.Phase = c.phase
			transfer.Status.Staged = &v1alpha1.StagedStatus{
				Method: v1alpha1.CopySnapshot, RunID: "abcde", State: c.state, Name: "copy", StartTime: metav1.NewTime(now),
			}
			pauses(transfer, true)
			step(transfer, facts)
			out := step(transfer, gone(facts, false))
			if out.Status.Phase != v1alpha1.TransferPaused || (plan.KeptCopy(transfer) == "copy") != c.keeps ||
				out.Unstage == c.keeps {
				t.Errorf("%+v %+v", out, out.Status.Staged)
			}
		})
	}
}

// The application is not kept quiesced while a run is paused that reads the source itself.
func TestPausedReleasesSource(t *testing.T) {
	transfer, facts := reporting(moving())
	transfer.Spec.Source.Hooks = &v1alpha1.SourceHooks{After: &v1alpha1.Hook{CronJob: "after"}}
	transfer.Status.Hooks = &v1alpha1.HooksStatus{
		RunID: "abcde", Attempt: 1, Before: v1alpha1.HookStatus{State: v1alpha1.HookComplete},
		After: v1alpha1.HookStatus{CronJob: "after", Job: "job", State: v1alpha1.HookPending},
	}
	pauses(transfer, true)
	if out := step(transfer, facts); out.Status.Hooks.After.State != v1alpha1.HookPending {
		t.Fatalf("the agent may still read: %+v", out.Status.Hooks)
	}
	if out := step(transfer, gone(facts, false)); out.Status.Hooks.After.State != v1alpha1.HookStarting {
		t.Errorf("%+v", out.Status.Hooks)
	}
}

// windowed is a Transfer whose runs are kept within 22:00 to 06:00, and decides at times of one day.
type windowed struct {
	t        *testing.T
	transfer *v1alpha1.Transfer
	facts    plan.TransferFacts
}

func newWindowed(t *testing.T, cron string) *windowed {
	w := &windowed{t: t, transfer: newTransfer("ledger", time.Hour), facts: goodFacts()}
	w.transfer.Spec.Schedule = &v1alpha1.TransferSchedule{
		Cron: cron, Windows: []v1alpha1.ScheduleWindow{{Start: "22:00", End: "06:00"}},
	}
	return w
}

func (w *windowed) at(text string) plan.TransferDecision {
	w.t.Helper()
	when, err := time.Parse("2006-01-02 15:04", "2026-05-"+text)
	if err != nil {
		w.t.Fatal(err)
	}
	w.facts.Now = when
	return step(w.transfer, w.facts)
}

func (w *windowed) want(out plan.TransferDecision, phase v1alpha1.TransferPhase, reason string, wake time.Duration) {
	w.t.Helper()
	if got, _ := readiness(w.t, out.Status.Conditions); out.Status.Phase != phase || got != reason {
		w.t.Fatalf("%s %s, want %s %s", out.Status.Phase, got, phase, reason)
	}
	if wake > 0 && out.RequeueAfter != wake {
		w.t.Fatalf("it looks again in %s, want %s", out.RequeueAfter, wake)
	}
}

func TestWindow(t *testing.T) {
	w := newWindowed(t, "")
	out := w.at("04 12:00")
	w.want(out, "Pending", "OutsideWindow", 5*time.Minute) // in case the clock is set
	if out.Status.Run != nil || out.Status.Schedule.NextWindow.UTC().Format("02 15:04") != "04 22:00" ||
		out.Status.Schedule.WindowEnd != nil {
		t.Fatalf("%+v", out.Status)
	}
	w.want(w.at("04 21:59"), "Pending", "OutsideWindow", time.Minute)
	out = w.at("04 22:00")
	w.want(out, "Starting", "Starting", 0)
	if out.Start == nil || out.Status.Schedule.WindowEnd.UTC().Format("02 15:04") != "05 06:00" ||
		out.Status.Schedule.NextWindow != nil {
		t.Fatalf("%+v", out)
	}
	_, seen := reporting(moving())
	w.facts.Job, w.facts.Pod, w.facts.Report = seen.Job, seen.Pod, seen.Report
	w.want(w.at("05 05:59"), "Transferring", "Transferring", time.Minute)
	out = w.at("05 06:00")
	w.want(out, "Transferring", "Pausing", 0)
	if !out.Pause {
		t.Fatalf("%+v", out)
	}
	w.facts = gone(w.facts, false)
	w.want(w.at("05 06:01"), "Paused", "OutsideWindow", 0)
	before := w.transfer.Status.DeepCopy()
	out = w.at("05 12:00")
	w.want(out, "Paused", "OutsideWindow", 5*time.Minute)
	if !equality.Semantic.DeepEqual(*before, out.Status) {
		t.Errorf("%+v", out.Status)
	}
	out = w.at("05 22:00")
	w.want(out, "Starting", "Starting", 0)
	if out.Start == nil || out.Status.Run.Attempt != 2 || out.Status.Run.Failures != 0 {
		t.Errorf("%+v", out)
	}
}

// A run that waits for a limit when its window ends waits for the next one instead, and is as old then as it was.
func TestWindowAndQueue(t *testing.T) {
	w := newWindowed(t, "")
	w.facts.Quota = plan.QuotaFacts{Quotas: team, Answer: full}
	w.want(w.at("04 23:00"), "Queued", "QuotaExceeded", 0)
	since := w.facts.Now
	kept := func(what string, out plan.TransferDecision) {
		t.Helper()
		if queued := out.Status.Queued; queued == nil || !queued.Time.Time.Equal(since) {
			t.Fatalf("%s: %+v", what, queued)
		}
	}
	out := w.at("05 06:00")
	w.want(out, "Pending", "OutsideWindow", 0)
	kept("the window has ended", out)
	if request, waits := quota.TransferWaits(w.transfer); waits {
		t.Errorf("it asks outside of its windows: %+v", request)
	}
	before := w.transfer.Status.DeepCopy()
	if out := w.at("05 12:00"); !equality.Semantic.DeepEqual(*before, out.Status) {
		t.Errorf("looked at again: %+v", out.Status)
	}
	out = w.at("05 22:00")
	w.want(out, "Queued", "QuotaExceeded", 0)
	kept("the next one is open", out)
	w.facts.Quota.Answer = granted(quota.Unlimited)
	if out := w.at("05 22:01"); out.Start == nil || out.Status.Queued != nil {
		t.Fatalf("its turn: %+v", out.Status)
	}
}

// The clock is set over the end of a window and back: the run pauses once and goes on.
func TestWindowAndClock(t *testing.T) {
	w := newWindowed(t, "")
	w.at("04 23:00")
	_, seen := reporting(moving())
	w.facts.Job, w.facts.Pod, w.facts.Report = seen.Job, seen.Pod, seen.Report
	w.at("04 23:01")
	w.want(w.at("05 09:00"), "Transferring", "Pausing", 0)
	w.facts = gone(w.facts, true)
	w.want(w.at("04 23:03"), "Retrying", "Retrying", 0)
	if out := w.at("04 23:03"); out.Start == nil || out.Status.Run.Attempt != 2 {
		t.Errorf("%+v", out)
	}
}

// An attempt that waits for its back-off waits for the window as well, and none begins in the last minute of one.
func TestWindowAndRetries(t *testing.T) {
	w := newWindowed(t, "")
	w.at("04 22:00")
	_, seen := reporting(moving())
	w.facts.Job = seen.Job
	w.facts.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "lost")
	w.want(w.at("05 05:58"), "Retrying", "Retrying", 0)
	w.facts = gone(w.facts, false)
	w.want(w.at("05 05:59"), "Paused", "OutsideWindow", time.Minute)
	w.want(w.at("05 06:00"), "Paused", "OutsideWindow", 5*time.Minute)
	if out := w.at("05 22:00"); out.Start == nil || out.Status.Run.Failures != 1 {
		t.Errorf("%+v", out)
	}
}

// A time of cron outside of all windows is not lost: its run waits. So does one that was asked for.
func TestWindowAndCron(t *testing.T) {
	w := newWindowed(t, "0 12 * * *")
	w.want(w.at("04 11:00"), "Scheduled", "Scheduled", time.Hour)
	w.want(w.at("04 12:00"), "Pending", "OutsideWindow", 5*time.Minute)
	if out := w.at("04 22:00"); out.Start == nil {
		t.Fatalf("%+v", out)
	}
	done := metav1.NewTime(w.facts.Now)
	w.transfer.Status.Run.CompletionTime, w.transfer.Status.Phase = &done, v1alpha1.TransferComplete
	w.want(w.at("05 09:00"), "Complete", "Starting", 0) // the conditions are those that the test left
	w.transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "now"}
	w.want(w.at("05 09:01"), "Pending", "OutsideWindow", 0)
	if out := w.at("05 23:00"); out.Start == nil || out.Status.LastRunRequest != "now" ||
		out.Status.Schedule.MissedRuns != 1 {
		t.Errorf("%+v", out.Status.Schedule)
	}
}

func TestUnusableWindows(t *testing.T) {
	for want, change := range map[string]func(*v1alpha1.TransferSchedule){
		"tz database": func(s *v1alpha1.TransferSchedule) { s.TimeZone = "Mars/Olympus" },
		"shorter":     func(s *v1alpha1.TransferSchedule) { s.Windows[0].End = "22:01" },
		"256Ki": func(s *v1alpha1.TransferSchedule) {
			little := resource.MustParse("1Ki")
			s.Windows[0].BandwidthLimit = &little
		},
	} {
		w := newWindowed(t, "")
		change(w.transfer.Spec.Schedule)
		out := w.at("04 22:00")
		w.want(out, "Pending", "InvalidSpec", 0)
		if _, message := readiness(t, out.Status.Conditions); !strings.Contains(message, want) {
			t.Error(message)
		}
		// A run that is under way goes on: nobody knows when it would have to pause.
		w.transfer.Spec.Schedule.TimeZone, w.transfer.Spec.Schedule.Windows[0].End = "", "06:00"
		w.transfer.Spec.Schedule.Windows[0].BandwidthLimit = nil
		w.transfer.Generation++
		w.at("04 22:01")
		change(w.transfer.Spec.Schedule)
		_, seen := reporting(moving())
		w.facts.Job, w.facts.Pod, w.facts.Report = seen.Job, seen.Pod, seen.Report
		w.want(w.at("05 12:00"), "Transferring", "Transferring", 0)
	}
}

// The receiving cluster says that the sender is paused. It is no failure that somebody would have to look at.
func TestPausedDelivery(t *testing.T) {
	delivery, facts := newDelivery("mine", 1), goodDeliveryFacts()
	delivery.Status = plan.DecideDelivery(delivery, facts, image).Status
	facts.Job, facts.Pod = &batchv1.Job{}, failed(t, wirev1.FailureReason_FAILURE_REASON_PAUSED, "the sender gave up")
	out := plan.DecideDelivery(delivery, facts, image)
	reason, message := readiness(t, out.Status.Conditions)
	if !out.Ended || reason != "Paused" || !strings.Contains(message, "sending cluster") ||
		meta.IsStatusConditionTrue(out.Status.Conditions, v1alpha1.ConditionStalled) {
		t.Errorf("%+v", out)
	}
}

// A changed limit of bandwidth reaches the agent that runs, as far as the run was granted it.
func TestLimitChanges(t *testing.T) {
	quantity := func(text string) *resource.Quantity {
		if text == "" {
			return nil
		}
		q := resource.MustParse(text)
		return &q
	}
	for name, c := range map[string]struct{ granted, wanted, quota, limit string }{
		"another one":                 {"1Mi", "2Mi", "", "2Mi"},
		"the same, written otherwise": {"1Mi", "1024Ki", "", "1Mi"},
		"none":                        {"1Mi", "", "", ""},
		"the first":                   {"", "1Mi", "", "1Mi"},
		"less than the quota gave":    {"2Mi", "1Mi", "4Mi", "1Mi"},
		"more than the quota gave":    {"2Mi", "3Mi", "4Mi", "2Mi"},
		"all, of a quota":             {"2Mi", "", "4Mi", "2Mi"},
	} {
		t.Run(name, func(t *testing.T) {
			transfer, facts := reporting(moving())
			transfer.Status.Run.BandwidthLimit, transfer.Spec.BandwidthLimit = quantity(c.granted), quantity(c.wanted)
			if c.quota != "" {
				facts.Quota.Quotas = []v1alpha1.DataQuota{{Spec: v1alpha1.DataQuotaSpec{Hard: v1alpha1.DataQuotaResources{
					Bandwidth: quantity(c.quota),
				}}}}
			}
			out := step(transfer, facts)
			if got := out.Status.Run.BandwidthLimit; !equality.Semantic.DeepEqual(got, quantity(c.limit)) {
				t.Errorf("the limit is %v, want %q", got, c.limit)
			}
			if out.Limit != !equality.Semantic.DeepEqual(quantity(c.granted), quantity(c.limit)) {
				t.Errorf("the agent is told: %v", out.Limit)
			}
			if step(transfer, facts).Limit {
				t.Error("it is told again")
			}
			facts.Report = nil
			transfer.Spec.BandwidthLimit = quantity("512Ki")
			if out := step(transfer, facts); out.Limit {
				t.Error("one that does not answer is told")
			}
		})
	}
}

// The limit of the window that is open reaches the agent that runs, and the next one. A quota's grant outlives it.
func TestWindowLimits(t *testing.T) {
	w := newWindowed(t, "")
	slow, fast := resource.MustParse("1Mi"), resource.MustParse("3Mi")
	w.transfer.Spec.BandwidthLimit = &fast
	w.transfer.Spec.Schedule.Windows = []v1alpha1.ScheduleWindow{
		{Start: "22:00", End: "06:00"}, {Start: "23:00", End: "01:00", BandwidthLimit: &slow},
	}
	w.facts.Quota.Quotas = []v1alpha1.DataQuota{{Spec: v1alpha1.DataQuotaSpec{Hard: v1alpha1.DataQuotaResources{
		Bandwidth: &fast,
	}}}}
	w.facts.Quota.Answer = &quota.Answer{Bandwidth: fast.Value()}
	w.at("04 22:30")
	_, seen := reporting(moving())
	w.facts.Job, w.facts.Pod, w.facts.Report = seen.Job, seen.Pod, seen.Report
	for _, c := range []struct {
		now, limit string
		told       bool
		wake       time.Duration
	}{
		{"04 22:59", "3Mi", false, time.Minute}, {"04 23:00", "1Mi", true, 0}, {"04 23:01", "1Mi", false, 0},
		{"05 00:59", "1Mi", false, time.Minute}, {"05 01:00", "3Mi", true, 0}, {"04 23:30", "1Mi", true, 0},
	} {
		out := w.at(c.now)
		w.want(out, "Transferring", "Transferring", c.wake)
		if got := plan.Bandwidth(out.Status.Run).String(); got != c.limit || out.Limit != c.told {
			t.Errorf("at %s the limit is %s and the agent told: %v", c.now, got, out.Limit)
		}
		if got := out.Status.Run.BandwidthLimit; got.Cmp(fast) != 0 {
			t.Errorf("at %s the run keeps %s of its grant", c.now, got)
		}
		if again := step(w.transfer, w.facts); again.Limit ||
			!equality.Semantic.DeepEqual(again.Status, out.Status) {
			t.Errorf("at %s it is decided again: %+v", c.now, again)
		}
	}
	// While the schedule cannot be used the agent keeps to what it has.
	w.transfer.Spec.Schedule.TimeZone = "Mars/Olympus"
	if out := w.at("05 02:00"); out.Limit || out.Status.Run.WindowLimit.Cmp(slow) != 0 {
		t.Errorf("%+v", out)
	}
	w.transfer.Spec.Schedule.TimeZone = ""
	// The next attempt begins with it.
	w.facts.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "lost")
	w.at("05 03:00")
	w.facts = gone(w.facts, false)
	if out := w.at("05 23:30"); out.Start == nil || plan.Bandwidth(out.Status.Run).Cmp(slow) != 0 {
		t.Errorf("%+v", out)
	}
}
