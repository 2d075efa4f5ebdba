// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// TestQueueLabels: Jobs have the labels that Kueue reads, and no others of the Transfer's; pods and Secrets have none.
func TestQueueLabels(t *testing.T) {
	transfer := newTransfer("ledger", time.Hour)
	transfer.Labels = map[string]string{
		v1alpha1.KueueQueueLabel: "night", v1alpha1.KueuePriorityLabel: "low", "app": "ledger",
		"kueue.x-k8s.io/managed": "true",
	}
	job := plan.DecideTransfer(transfer, goodFacts(), image).Start.Job()
	if job.Labels[v1alpha1.KueueQueueLabel] != "night" || job.Labels[v1alpha1.KueuePriorityLabel] != "low" ||
		job.Labels["app"] != "" || job.Labels["kueue.x-k8s.io/managed"] != "" ||
		job.Labels[v1alpha1.TransferLabel] != string(transfer.UID) {
		t.Errorf("Job %v", job.Labels)
	}
	if job.Spec.Suspend != nil || job.Spec.Template.Labels[v1alpha1.KueueQueueLabel] != "" {
		t.Errorf("suspend %v, pod %v", job.Spec.Suspend, job.Spec.Template.Labels)
	}
}

// TestSuspendedJobs: one that waits for Kueue is Queued, for as long as it likes. One that Kueue suspends while the
// agent runs ends the attempt, which is no failure, and goes away.
func TestSuspendedJobs(t *testing.T) {
	transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	facts.Job = &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "ledger-abcde-1", CreationTimestamp: metav1.NewTime(now)},
		Spec:       batchv1.JobSpec{Suspend: ptr.To(true)},
	}
	facts.Now = now.Add(3 * time.Hour)
	d := plan.DecideTransfer(transfer, facts, image)
	kind, reason, _ := verdict(t, d.Status.Conditions)
	if d.Status.Phase != v1alpha1.TransferQueued || kind != v1alpha1.ConditionReconciling ||
		reason != v1alpha1.ReasonJobSuspended || d.Clear || d.Finished != nil || d.Status.Run.Attempt != 1 {
		t.Fatalf("%s %s %s %+v", d.Status.Phase, kind, reason, d)
	}
	transfer.Status = d.Status
	if again := plan.DecideTransfer(transfer, facts, image).Status; again.Phase != v1alpha1.TransferQueued {
		t.Errorf("at a second look: %s", again.Phase)
	}

	facts.Job.Spec.Suspend = ptr.To(false)
	facts.Pod = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	facts.Report = &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_TRANSFERRING}
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	if transfer.Status.Phase != v1alpha1.TransferTransferring || transfer.Status.Run.Node == "" {
		t.Fatalf("%s %+v", transfer.Status.Phase, transfer.Status.Run)
	}

	facts.Job.Spec.Suspend = ptr.To(true)
	if d := plan.DecideTransfer(transfer, facts, image); d.Finished != nil || d.Clear {
		t.Errorf("its agent still runs: %+v", d)
	}
	gone := facts
	gone.Pod, gone.Report = nil, nil
	told := facts
	told.Report, told.Pod = nil, pod(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}})
	for name, facts := range map[string]plan.TransferFacts{"the pod is gone": gone, "the pod was killed": told} {
		d := plan.DecideTransfer(transfer, facts, image)
		if d.Finished == nil || d.Finished.RunEnded || d.Finished.Reason != v1alpha1.ReasonEvicted || !d.Clear ||
			d.Status.Run.Failures != 0 || d.Status.Run.NextAttemptTime == nil ||
			d.Status.Phase != v1alpha1.TransferRetrying {
			t.Errorf("%s: %+v, %s, %+v", name, d.Finished, d.Status.Phase, d.Status.Run)
		}
		next := transfer.DeepCopy()
		next.Status = d.Status
		facts.Job, facts.Pod, facts.Now = nil, nil, facts.Now.Add(time.Hour)
		if d := plan.DecideTransfer(next, facts, image); d.Start == nil || d.Status.Run.Attempt != 2 {
			t.Errorf("%s: no next attempt: %+v", name, d.Status.Run)
		}
	}
}

// TestQueueAndHooks: nothing that is quiesced waits for Kueue.
func TestQueueAndHooks(t *testing.T) {
	for method, allowed := range map[v1alpha1.CopyMethod]bool{
		"": false, v1alpha1.CopyDirect: false, v1alpha1.CopySnapshot: true, v1alpha1.CopyClone: true,
	} {
		transfer := newTransfer("ledger", time.Hour)
		transfer.Spec.Source.CopyMethod = method
		transfer.Spec.Source.Hooks = &v1alpha1.SourceHooks{After: &v1alpha1.Hook{CronJob: "after"}}
		if d := plan.DecideTransfer(transfer, goodFacts(), image); d.Status.Run == nil {
			t.Errorf("%q without a queue does not begin: %+v", method, d.Status.Conditions)
		}
		transfer.Labels = map[string]string{v1alpha1.KueueQueueLabel: "night"}
		d := plan.DecideTransfer(transfer, goodFacts(), image)
		kind, reason, _ := verdict(t, d.Status.Conditions)
		if refused := kind == v1alpha1.ConditionStalled && reason == v1alpha1.ReasonInvalidSpec; refused == allowed {
			t.Errorf("%q: %s %s", method, kind, reason)
		}
	}
}
