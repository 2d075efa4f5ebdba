// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package drillplan_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/drillplan"
	"github.com/lighterage/lighterage/controllers/plan"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newDrill() *v1alpha1.Drill {
	return &v1alpha1.Drill{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger", UID: "u-1", Generation: 1},
		Spec: v1alpha1.DrillSpec{
			Source:  v1alpha1.DrillSource{ObjectStore: v1alpha1.ObjectStorePath{Name: "vault", Path: "/ledger"}},
			Volume:  v1alpha1.EphemeralVolume{Size: ptr.To(resource.MustParse("10Gi")), StorageClassName: "fast"},
			Inflate: v1alpha1.InflateSoftware, Include: []string{"2026/**"},
			Deadline: &metav1.Duration{Duration: time.Hour},
		},
	}
}

// step decides and keeps the status. It fails if the same look again would write something else.
func step(t *testing.T, drill *v1alpha1.Drill, facts drillplan.Facts) drillplan.Decision {
	t.Helper()
	decision := drillplan.Decide(drill, facts)
	drill.Status = decision.Status
	facts.NewID = "other"
	if again := drillplan.Decide(drill, facts); !equality.Semantic.DeepEqual(again.Status, decision.Status) {
		t.Fatalf("a second look writes\n%+v after\n%+v", again.Status, decision.Status)
	}
	return decision
}

func expect(t *testing.T, drill *v1alpha1.Drill, condition string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	c := meta.FindStatusCondition(drill.Status.Conditions, condition)
	if c == nil || c.Status != status || c.Reason != reason {
		t.Fatalf("%s is %+v, want %s, %s", condition, c, status, reason)
	}
}

// begun is a drill that has begun a minute before now, and its Transfer, on which nothing is said yet.
func begun(t *testing.T, change func(*v1alpha1.Drill)) (*v1alpha1.Drill, *v1alpha1.Transfer) {
	t.Helper()
	drill := newDrill()
	if change != nil {
		change(drill)
	}
	decision := step(t, drill, drillplan.Facts{Now: now.Add(-time.Minute), NewID: "abcde"})
	if decision.Create == nil || decision.Remove != nil || drill.Status.Run.ID != "abcde" {
		t.Fatalf("%+v", decision)
	}
	return drill, decision.Create
}

func said(transfer *v1alpha1.Transfer, phase v1alpha1.TransferPhase, wanted []metav1.Condition) {
	wanted = append(wanted,
		conditions.New(v1alpha1.ConditionComplete, phase == v1alpha1.TransferComplete, wanted[0].Reason, ""),
		conditions.New(v1alpha1.ConditionFailed, phase == v1alpha1.TransferFailed, wanted[0].Reason, ""))
	transfer.Status.Phase = phase
	transfer.Status.Conditions = conditions.Merge(nil, wanted, transfer.Generation, now)
}

// complete has a Transfer restore 3 files of 300 bytes of a copy that was written an hour ago.
func complete(transfer *v1alpha1.Transfer) {
	said(transfer, v1alpha1.TransferComplete, conditions.Ready(v1alpha1.ReasonSucceeded, "done"))
	transfer.Status.Run = &v1alpha1.RunStatus{
		ID: "r", Attempt: 2, CopyTime: &metav1.Time{Time: now.Add(-time.Hour)}, CompletionTime: &metav1.Time{Time: now},
		Node: "node-1", Architecture: "amd64",
	}
	transfer.Status.Progress = &v1alpha1.Progress{Files: 3, Bytes: 300, BytesPerSecond: 1000}
	transfer.Status.CPU = &v1alpha1.CPUStatus{SecondsPerGiB: "1.5"}
	transfer.Status.Decompression = &v1alpha1.DecompressionStatus{Software: v1alpha1.Operations{Operations: 1, Bytes: 300}}
}

func TestDrillRestores(t *testing.T) {
	drill, transfer := begun(t, nil)
	expect(t, drill, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonDrilling)
	if transfer.Name != drillplan.TransferName(drill) || transfer.Name != drill.Status.TransferName ||
		!metav1.IsControlledBy(transfer, drill) || transfer.Spec.Inflate != v1alpha1.InflateSoftware ||
		transfer.Spec.Verify != v1alpha1.VerifyDigest || transfer.Spec.Schedule != nil ||
		transfer.Spec.Destination.Ephemeral.StorageClassName != "fast" || transfer.Spec.Include[0] != "2026/**" {
		t.Errorf("%+v", transfer)
	}
	if err := plan.ValidateTransfer(transfer.Spec); err != nil {
		t.Error(err)
	}
	// The manager was killed before it was created, or the cache does not have it yet.
	if again := step(t, drill, drillplan.Facts{Now: now}); again.Create == nil || again.Create.Name != transfer.Name {
		t.Errorf("%+v", again)
	}
	said(transfer, v1alpha1.TransferTransferring, conditions.Reconciling(v1alpha1.ReasonTransferring, "attempt 1"))
	running := step(t, drill, drillplan.Facts{Now: now, Transfer: transfer})
	if running.Create != nil || running.Remove != nil || running.RequeueAfter != 59*time.Minute {
		t.Errorf("%+v", running)
	}
	complete(transfer)
	ended := step(t, drill, drillplan.Facts{Now: now.Add(time.Second), Transfer: transfer})
	if ended.Remove != transfer || ended.Create != nil || ended.RequeueAfter != 0 {
		t.Errorf("%+v", ended)
	}
	expect(t, drill, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonRecovered)
	expect(t, drill, v1alpha1.ConditionRecoverable, metav1.ConditionTrue, v1alpha1.ReasonRecovered)
	r := drill.Status.History[0]
	if r.Files != 3 || r.Bytes != 300 || r.BytesPerSecond != 1000 || r.CPU.SecondsPerGiB != "1.5" || r.Attempts != 2 ||
		r.Duration.Duration != time.Minute || r.Node != "node-1" || r.Decompression.Software.Bytes != 300 ||
		!drill.Status.LastRecoverableTime.Time.Equal(now) || drill.Status.TransferName != "" {
		t.Errorf("%+v", drill.Status)
	}
	// The manager was killed before it deleted the Transfer.
	if again := step(t, drill, drillplan.Facts{Now: now, Transfer: transfer}); again.Remove != transfer {
		t.Errorf("%+v", again)
	}
	transfer.DeletionTimestamp = &metav1.Time{Time: now}
	if again := step(t, drill, drillplan.Facts{Now: now, Transfer: transfer}); again.Remove != nil {
		t.Errorf("%+v", again)
	}
	// The annotation starts another one, which waits until that is gone.
	drill.Annotations = map[string]string{v1alpha1.RunAnnotation: "1"}
	waiting := step(t, drill, drillplan.Facts{Now: now, NewID: "fghij", Transfer: transfer})
	if waiting.Create != nil || waiting.Remove != nil || drill.Status.Run.ID != "fghij" || waiting.RequeueAfter == 0 ||
		drill.Status.LastRunRequest != "1" {
		t.Errorf("%+v", waiting)
	}
	expect(t, drill, v1alpha1.ConditionRecoverable, metav1.ConditionTrue, v1alpha1.ReasonRecovered)
	if next := step(t, drill, drillplan.Facts{Now: now}); next.Create == nil ||
		next.Create.Labels[v1alpha1.RunLabel] != "fghij" {
		t.Errorf("%+v", next)
	}
}

func TestVerdicts(t *testing.T) {
	objective := func(o v1alpha1.DrillObjective) func(*v1alpha1.Drill) {
		return func(d *v1alpha1.Drill) { d.Spec.Objective = &o }
	}
	retrying := func(reason string) func(*v1alpha1.Transfer) {
		return func(tr *v1alpha1.Transfer) {
			said(tr, v1alpha1.TransferRetrying, conditions.Reconciling(v1alpha1.ReasonRetrying, "next attempt"))
			tr.Status.History = []v1alpha1.AttemptRecord{{Reason: reason, Message: "no space left"}}
		}
	}
	omitting := func(what string) func(*v1alpha1.Transfer) {
		return func(tr *v1alpha1.Transfer) {
			complete(tr)
			tr.Status.Omissions = []v1alpha1.Omission{{What: what, Count: 2, Examples: []string{"a/b"}}}
		}
	}
	taking := func(perGiB string) func(*v1alpha1.Transfer) {
		return func(tr *v1alpha1.Transfer) {
			complete(tr)
			tr.Status.CPU = &v1alpha1.CPUStatus{SecondsPerGiB: perGiB}
		}
	}
	for name, test := range map[string]struct {
		spec     func(*v1alpha1.Drill)
		transfer func(*v1alpha1.Transfer)
		// reason of Recoverable; empty: the drill goes on.
		reason, says string
	}{
		"within": {objective(v1alpha1.DrillObjective{
			MaxAge: &metav1.Duration{Duration: time.Hour}, MaxDuration: &metav1.Duration{Duration: time.Minute},
			MinBytesPerSecond: ptr.To(resource.MustParse("1000")),
		}), complete, v1alpha1.ReasonRecovered, "3 files"},
		"too old": {objective(v1alpha1.DrillObjective{MaxAge: &metav1.Duration{Duration: 59 * time.Minute}}), complete,
			v1alpha1.ReasonCopyTooOld, "maxAge"},
		"no index": {objective(v1alpha1.DrillObjective{MaxAge: &metav1.Duration{Duration: time.Hour}}),
			func(tr *v1alpha1.Transfer) { complete(tr); tr.Status.Run.CopyTime = nil }, v1alpha1.ReasonCopyTimeUnknown, "index"},
		"no index and no objective": {nil,
			func(tr *v1alpha1.Transfer) { complete(tr); tr.Status.Run.CopyTime = nil }, v1alpha1.ReasonRecovered, "no index"},
		"of the future": {objective(v1alpha1.DrillObjective{MaxAge: &metav1.Duration{Duration: time.Hour}}),
			func(tr *v1alpha1.Transfer) {
				complete(tr)
				tr.Status.Run.CopyTime = &metav1.Time{Time: now.Add(time.Hour)}
			},
			v1alpha1.ReasonRecovered, ""},
		"too long": {objective(v1alpha1.DrillObjective{MaxDuration: &metav1.Duration{Duration: 59 * time.Second}}), complete,
			v1alpha1.ReasonRestoreTooSlow, "1m0s"},
		"too slow": {objective(v1alpha1.DrillObjective{MinBytesPerSecond: ptr.To(resource.MustParse("1Ki"))}), complete,
			v1alpha1.ReasonRestoreTooSlow, "1Ki"},
		"costly": {objective(v1alpha1.DrillObjective{MaxCPUSecondsPerGiB: ptr.To(resource.MustParse("1.5"))}), taking("1.51"),
			v1alpha1.ReasonRestoreTooCostly, "1.51 seconds"},
		"not costly": {objective(v1alpha1.DrillObjective{MaxCPUSecondsPerGiB: ptr.To(resource.MustParse("1.5"))}),
			taking("1.50"), v1alpha1.ReasonRecovered, ""},
		"without CPU time": {objective(v1alpha1.DrillObjective{MaxCPUSecondsPerGiB: ptr.To(resource.MustParse("1.5"))}),
			func(tr *v1alpha1.Transfer) { complete(tr); tr.Status.CPU = nil }, v1alpha1.ReasonRestoreTooCostly, "no CPU time"},
		"old and slow": {objective(v1alpha1.DrillObjective{
			MaxAge: &metav1.Duration{Duration: time.Minute}, MinBytesPerSecond: ptr.To(resource.MustParse("1Ki")),
		}), complete, v1alpha1.ReasonCopyTooOld, "minBytesPerSecond"},
		"objects are missing":  {nil, omitting("ObjectMissing"), v1alpha1.ReasonCopyIncomplete, "a/b"},
		"owners were not kept": {nil, omitting("Owner"), v1alpha1.ReasonRecovered, ""},
		"nothing matches": {nil, func(tr *v1alpha1.Transfer) { complete(tr); tr.Status.Progress.Files = 0 },
			v1alpha1.ReasonCopyIncomplete, "include"},

		"volume too small": {
			nil, retrying(v1alpha1.ReasonDestinationFull), v1alpha1.ReasonDestinationFull, "spec.volume.size",
		},
		"a scrub says that its volume is too small": {
			ofStore, retrying(v1alpha1.ReasonDestinationFull), v1alpha1.ReasonDestinationFull, "no space left",
		},
		"damaged":         {nil, retrying(v1alpha1.ReasonInvalidData), v1alpha1.ReasonInvalidData, "no space left"},
		"connection lost": {nil, retrying(v1alpha1.ReasonConnectionLost), "", ""},
		"attempts used up": {nil, func(tr *v1alpha1.Transfer) {
			retrying(v1alpha1.ReasonVerificationFailed)(tr)
			said(tr, v1alpha1.TransferFailed, conditions.Stalled(v1alpha1.ReasonMaxAttemptsReached, "3 attempts failed"))
		}, v1alpha1.ReasonVerificationFailed, "3 attempts"},
		"wrong credential": {nil, func(tr *v1alpha1.Transfer) {
			said(tr, v1alpha1.TransferPending, conditions.Stalled(v1alpha1.ReasonStoreDenied, "denied"))
		}, v1alpha1.ReasonStoreDenied, "denied"},
		"no node yet": {nil, func(tr *v1alpha1.Transfer) {
			said(tr, v1alpha1.TransferStarting, conditions.Stalled(v1alpha1.ReasonUnschedulable, "no node"))
		}, "", ""},
		"waits for a quota": {nil, func(tr *v1alpha1.Transfer) {
			said(tr, v1alpha1.TransferPending, conditions.Reconciling(v1alpha1.ReasonQuotaExceeded, "full"))
		}, "", ""},
		"the quota is 0": {nil, func(tr *v1alpha1.Transfer) {
			said(tr, v1alpha1.TransferPending, conditions.Stalled(v1alpha1.ReasonQuotaExceeded, "none"))
		}, v1alpha1.ReasonQuotaExceeded, "none"},
		"not looked at": {nil, func(*v1alpha1.Transfer) {}, "", ""},
		"somebody else's": {nil, func(tr *v1alpha1.Transfer) { tr.OwnerReferences = nil },
			v1alpha1.ReasonNameTaken, "another name"},
	} {
		t.Run(name, func(t *testing.T) {
			drill, transfer := begun(t, test.spec)
			test.transfer(transfer)
			decision := step(t, drill, drillplan.Facts{Now: now, Transfer: transfer})
			if test.reason == "" {
				expect(t, drill, v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonDrilling)
				if decision.Remove != nil || len(drill.Status.History) > 0 {
					t.Errorf("%+v", decision)
				}
				late := step(t, drill, drillplan.Facts{Now: now.Add(time.Hour), Transfer: transfer})
				expect(t, drill, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonDeadlineExceeded)
				if late.Remove != transfer {
					t.Error("the Transfer stays after the deadline")
				}
				return
			}
			status, state := metav1.ConditionFalse, v1alpha1.ConditionStalled
			if test.reason == v1alpha1.ReasonRecovered {
				status, state = metav1.ConditionTrue, v1alpha1.ConditionReady
			}
			expect(t, drill, v1alpha1.ConditionRecoverable, status, test.reason)
			expect(t, drill, state, metav1.ConditionTrue, test.reason)
			if c := meta.FindStatusCondition(drill.Status.Conditions, state); !strings.Contains(c.Message, test.says) {
				t.Errorf("%q does not say %q", c.Message, test.says)
			}
			if mine := test.reason != v1alpha1.ReasonNameTaken; mine != (decision.Remove == transfer) {
				t.Errorf("removes %v", decision.Remove)
			}
			if (drill.Status.LastRecoverableTime != nil) != (test.reason == v1alpha1.ReasonRecovered) {
				t.Errorf("%v", drill.Status.LastRecoverableTime)
			}
		})
	}
}

func TestSchedules(t *testing.T) {
	drill := newDrill()
	drill.Spec.Schedule = &v1alpha1.TransferSchedule{Cron: "0 * * * *"}
	first := step(t, drill, drillplan.Facts{Now: now.Add(time.Minute), NewID: "a"})
	if first.Create != nil || first.RequeueAfter != 59*time.Minute {
		t.Errorf("%+v", first)
	}
	expect(t, drill, v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonScheduled)
	hour := now.Add(time.Hour)
	due := step(t, drill, drillplan.Facts{Now: hour, NewID: "b"})
	if due.Create == nil {
		t.Fatalf("%+v", due)
	}
	// What fails is not repeated before the next time, however often somebody looks.
	said(due.Create, v1alpha1.TransferPending, conditions.Stalled(v1alpha1.ReasonSourceNotFound, "no store"))
	step(t, drill, drillplan.Facts{Now: hour, Transfer: due.Create})
	rest := step(t, drill, drillplan.Facts{Now: hour.Add(time.Minute), NewID: "c"})
	if rest.Create != nil || len(drill.Status.History) != 1 || rest.RequeueAfter != 59*time.Minute {
		t.Errorf("%+v", rest)
	}
	// Two never overlap.
	second := step(t, drill, drillplan.Facts{Now: hour.Add(time.Hour), NewID: "d"})
	said(second.Create, v1alpha1.TransferTransferring, conditions.Reconciling(v1alpha1.ReasonTransferring, ""))
	drill.Spec.Deadline.Duration = 4 * time.Hour
	step(t, drill, drillplan.Facts{Now: hour.Add(3 * time.Hour), NewID: "e", Transfer: second.Create})
	if drill.Status.Run.ID != "d" || drill.Status.Schedule.MissedRuns != 2 {
		t.Errorf("%+v", drill.Status)
	}
	// Suspended, what is under way goes on and nothing follows.
	drill.Spec.Suspend = true
	complete(second.Create)
	step(t, drill, drillplan.Facts{Now: hour.Add(3 * time.Hour), Transfer: second.Create})
	drill.Annotations = map[string]string{v1alpha1.RunAnnotation: "x"}
	idle := step(t, drill, drillplan.Facts{Now: hour.Add(5 * time.Hour), NewID: "f"})
	if idle.Create != nil || idle.RequeueAfter != 0 || drill.Status.Run.ID != "d" {
		t.Errorf("%+v", idle)
	}
	drill.Spec.Suspend = false
	drill.Spec.Schedule.Cron = "never"
	step(t, drill, drillplan.Facts{Now: hour.Add(5 * time.Hour), NewID: "f"})
	expect(t, drill, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonInvalidSpec)
}

func TestHistoryIsBounded(t *testing.T) {
	drill := newDrill()
	for i := range 15 {
		drill.Annotations = map[string]string{v1alpha1.RunAnnotation: string(rune('a' + i))}
		made := step(t, drill, drillplan.Facts{Now: now, NewID: string(rune('a' + i))}).Create
		complete(made)
		step(t, drill, drillplan.Facts{Now: now, Transfer: made})
	}
	if h := drill.Status.History; len(h) != 10 || h[0].ID != "o" || h[9].ID != "f" {
		t.Errorf("%d: %+v", len(h), h[0])
	}
}

func TestSuspendedFromTheStart(t *testing.T) {
	drill := newDrill()
	drill.Spec.Suspend = true
	if d := step(t, drill, drillplan.Facts{Now: now, NewID: "a"}); d.Create != nil {
		t.Errorf("%+v", d)
	}
	expect(t, drill, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSuspended)
	drill.Spec.Suspend = false
	if d := step(t, drill, drillplan.Facts{Now: now, NewID: "a"}); d.Create == nil {
		t.Errorf("%+v", d)
	}
}
