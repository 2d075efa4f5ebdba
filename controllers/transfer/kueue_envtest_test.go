// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/pki"
)

// kueue does to a Job what Kueue does: it suspends one that waits or is preempted, and on admission sets a node
// selector and resumes it.
func (f *tenants) kueue(job *batchv1.Job, admitted bool) {
	f.Helper()
	patch := client.MergeFrom(job.DeepCopy())
	if admitted {
		job.Spec.Template.Spec.NodeSelector = map[string]string{"example.com/flavor": "spot"}
	}
	job.Spec.Suspend = ptr.To(!admitted)
	if err := cluster.Client.Patch(context.Background(), job, patch); err != nil {
		f.Fatal(err)
	}
}

// job is the Job of an attempt.
func (f *tenants) job(transfer *v1alpha1.Transfer, attempt int32) *batchv1.Job {
	f.Helper()
	var found *batchv1.Job
	controllertest.Eventually(f, func() error {
		if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(transfer), transfer); err != nil {
			return err
		}
		jobs := cluster.Jobs(f, f.namespace, v1alpha1.TransferLabel, string(transfer.UID))
		if len(jobs) != 1 || transfer.Status.Run == nil || transfer.Status.Run.Attempt != attempt {
			return fmt.Errorf("%d Jobs, run %+v", len(jobs), transfer.Status.Run)
		}
		found = &jobs[0]
		return nil
	})
	return found
}

// TestKueue: a Job that Kueue has not admitted is Queued, and an eviction ends the attempt without being a failure. What
// Kueue writes to the Job stays.
func TestKueue(t *testing.T) {
	f := prepareTenants(t)
	f.transfer.Labels = map[string]string{v1alpha1.KueueQueueLabel: "night"}
	f.create()
	first := f.job(f.transfer, 1)
	if first.Labels[v1alpha1.KueueQueueLabel] != "night" {
		t.Fatalf("labels of the Job: %v", first.Labels)
	}
	f.kueue(first, false)
	f.wait(v1alpha1.TransferQueued, v1alpha1.ConditionReconciling, v1alpha1.ReasonJobSuspended)

	f.kueue(first, true)
	agents.Say(pki.SendServerName(string(f.transfer.UID)), transferring())
	pod := cluster.RunPod(t, first, "node-1")
	f.wait(v1alpha1.TransferTransferring, v1alpha1.ConditionReconciling, v1alpha1.ReasonTransferring)
	seen := &batchv1.Job{}
	if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(first), seen); err != nil {
		t.Fatal(err)
	}
	if *seen.Spec.Suspend || seen.Spec.Template.Spec.NodeSelector["example.com/flavor"] != "spot" ||
		seen.ResourceVersion != first.ResourceVersion {
		t.Errorf("what Kueue wrote is changed: %+v", seen.Spec)
	}

	f.kueue(seen, false)
	if err := cluster.Client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, func() error {
		err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(first), &batchv1.Job{})
		if !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("the Job that was preempted is still there"), err)
		}
		return nil
	})
	second := f.job(f.transfer, 2)
	run, last := f.transfer.Status.Run, f.transfer.Status.History[0]
	if run.Failures != 0 || last.Reason != v1alpha1.ReasonEvicted || second.Labels[v1alpha1.KueueQueueLabel] != "night" {
		t.Errorf("%+v, %+v, %v", run, last, second.Labels)
	}
}
