// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// triggered is a world whose source wants a trigger, and says what it was told.
type triggered struct {
	*hooked
	told []v1alpha1.CopyTriggerState
}

func newTriggered(t *testing.T, method v1alpha1.CopyMethod) *triggered {
	w := &triggered{hooked: newHooked(t, method)}
	w.transfer.Spec.Source.Hooks = nil
	w.facts.Staging.Source.Annotations = map[string]string{
		v1alpha1.UseCopyTriggerAnnotation: "", v1alpha1.CopyTriggerAnnotation: "old",
	}
	return w
}

func (w *triggered) step() {
	w.Helper()
	before := w.transfer.DeepCopy()
	w.hooked.step()
	if tell := w.last.Tell; tell != nil {
		if c := before.Status.CopyTrigger; tell.State == v1alpha1.CopyInProgress && w.last.Stage != nil {
			w.Errorf("a copy is made before the claim says so: %+v", c)
		}
		w.told = append(w.told, tell.State)
		w.transfer.Status = plan.Told(w.transfer, tell).Status
	}
}

func (w *triggered) steps(what string, holds func() bool) {
	w.Helper()
	for range 700 {
		if holds() {
			return
		}
		w.step()
	}
	w.Fatalf("%s: %+v, told %v", what, w.transfer.Status.CopyTrigger, w.told)
}

func (w *triggered) set(value string) {
	w.facts.Staging.Source.Annotations[v1alpha1.CopyTriggerAnnotation] = value
}

func (w *triggered) has(states ...v1alpha1.CopyTriggerState) func() bool {
	return func() bool { return len(w.told) >= len(states) }
}

func (w *triggered) says(states ...v1alpha1.CopyTriggerState) {
	w.Helper()
	if len(w.told) != len(states) {
		w.Fatalf("told %v, want %v", w.told, states)
	}
	for i := range states {
		if w.told[i] != states[i] {
			w.Fatalf("told %v, want %v", w.told, states)
		}
	}
}

const (
	waits, copying    = v1alpha1.CopyWaitingForTrigger, v1alpha1.CopyInProgress
	copied, notCopied = v1alpha1.CopyCompleted, v1alpha1.CopyFailed
)

func TestCopyWaitsForATrigger(t *testing.T) {
	t.Parallel()
	for _, method := range []v1alpha1.CopyMethod{v1alpha1.CopySnapshot, v1alpha1.CopyClone} {
		w := newTriggered(t, method)
		w.steps("asks", w.has(waits))
		for _, unusable := range []string{"old", "", strings.Repeat("x", 64)} {
			w.set(unusable)
			for range 10 {
				w.step()
			}
			w.verdict("Reconciling", v1alpha1.ReasonWaitingForTrigger, v1alpha1.CopyTriggerAnnotation)
			if w.snapshotTaken() || w.claimMade() {
				t.Fatalf("a copy for the trigger %q", unusable)
			}
		}
		w.set("new")
		w.steps("copies", func() bool { return w.snapshotTaken() || w.claimMade() })
		w.says(waits, copying)
		w.set("newer")
		if method == v1alpha1.CopySnapshot {
			w.taken()
		} else {
			w.bound()
		}
		w.steps("ends", w.has(waits, copying, copied))
		w.says(waits, copying, copied)
		if c := w.transfer.Status.CopyTrigger; c.Trigger != "new" {
			t.Errorf("%s: %+v", method, c)
		}
	}
}

// The driver has its whole deadline when the trigger comes late.
func TestDeadlineBeginsWithTheTrigger(t *testing.T) {
	t.Parallel()
	w := newTriggered(t, v1alpha1.CopySnapshot)
	w.transfer.Spec.Source.StagingDeadline = &metav1.Duration{Duration: 10 * time.Second}
	w.steps("asks", w.has(waits))
	for range 300 {
		w.step()
	}
	w.set("new")
	w.steps("copies", w.snapshotTaken)
	w.says(waits, copying)
	w.steps("too late", func() bool { return len(w.transfer.Status.History) > 0 })
	if got := w.transfer.Status.History[0].Reason; got != v1alpha1.ReasonStagingTimedOut {
		t.Error(got)
	}
	w.steps("fails", w.has(waits, copying, notCopied))
	w.says(waits, copying, notCopied)
}

// TestCloneThatNobodyMadeIsNotReadLater: a class that waits for its first consumer makes the clone when the agent's pod
// has a node. If the attempt ends before, the application has heard that nothing is copied any more, so the next one
// asks again instead of reading a clone of a moment at which nothing was quiesced.
func TestCloneThatNobodyMadeIsNotReadLater(t *testing.T) {
	t.Parallel()
	for _, made := range []bool{false, true} {
		w := newTriggered(t, v1alpha1.CopyClone)
		w.facts.Staging.StorageClass.VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
		w.steps("asks", w.has(waits))
		w.set("new")
		w.steps("starts", w.started)
		if w.says(waits, copying); made {
			w.bound()
		}
		w.facts.Pod = ended(1, "Evicted", "")
		w.facts.Job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
		w.steps("attempt ended", func() bool { return len(w.transfer.Status.History) == 1 })
		w.facts.Job, w.facts.Pod = nil, nil
		if made {
			w.steps("starts again", w.started)
			w.says(waits, copying, copied)
			continue
		}
		if w.steps("asks again", w.has(waits, copying, notCopied, waits)); w.started() || w.claimMade() {
			t.Error("the next attempt does not wait for its trigger")
		}
		w.set("newer")
		w.steps("starts again", w.started)
		w.says(waits, copying, notCopied, waits, copying)
	}
}

func TestTriggerThatNeverComes(t *testing.T) {
	t.Parallel()
	w := newTriggered(t, v1alpha1.CopySnapshot)
	w.steps("gives up", func() bool { return len(w.transfer.Status.History) > 0 })
	if got := w.transfer.Status.History[0].Reason; got != v1alpha1.ReasonCopyTriggerTimedOut {
		t.Error(got)
	}
	w.steps("fails", w.has(waits, notCopied))
	w.set("too late")
	w.steps("asks again", w.has(waits, notCopied, waits))
	for range 10 {
		w.step()
	}
	if w.says(waits, notCopied, waits); w.snapshotTaken() {
		t.Error("a trigger that was set before it was asked for")
	}
}

func TestClaimThatStopsAsking(t *testing.T) {
	t.Parallel()
	w := newTriggered(t, v1alpha1.CopySnapshot)
	w.steps("asks", w.has(waits))
	delete(w.facts.Staging.Source.Annotations, v1alpha1.UseCopyTriggerAnnotation)
	w.steps("copies", w.snapshotTaken)
	w.says(waits)
}

func TestDirectNeedsNoTrigger(t *testing.T) {
	t.Parallel()
	w := newTriggered(t, v1alpha1.CopyDirect)
	w.steps("starts", w.started)
	w.says()
}

func TestTriggerFollowsTheBeforeHook(t *testing.T) {
	t.Parallel()
	w := newTriggered(t, v1alpha1.CopySnapshot)
	w.transfer.Spec.Source.Hooks = newHooked(t, v1alpha1.CopySnapshot).transfer.Spec.Source.Hooks
	w.steps("before", w.hooked.has(1))
	for range 5 {
		w.step()
	}
	w.says()
	w.end(w.transfer.Status.Hooks.Before.Job, batchv1.JobComplete)
	w.steps("asks", w.has(waits))
	w.set("new")
	w.steps("copies", w.snapshotTaken)
	if w.says(waits, copying); len(w.made) != 1 {
		t.Errorf("hooks %q", w.made)
	}
}

func TestDeletedTransferAnswers(t *testing.T) {
	t.Parallel()
	w := newTriggered(t, v1alpha1.CopySnapshot)
	if plan.ReleaseTrigger(w.transfer) != nil {
		t.Error("an answer that nobody asked for")
	}
	w.steps("asks", w.has(waits))
	told := plan.ReleaseTrigger(w.transfer)
	if told == nil || told.State != notCopied {
		t.Fatalf("%+v", told)
	}
}
