// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/pki"
)

// What Kueue adds to the pods of a Job that it admits.
const (
	flavor = "example.com/flavor"
	podSet = "kueue.x-k8s.io/podset"
)

// kueue does to a Job what Kueue does. One that waits or is preempted it suspends. It resets the start time, since the
// API server rejects changes of the pod template while there is one, and takes back what it added. On admission it adds
// a node selector, a toleration and a label to the template, and resumes the Job, which the Job controller then starts.
func (f *tenants) kueue(job *batchv1.Job, admitted bool) {
	f.Helper()
	ctx := context.Background()
	patch := func(change func(), write func(before client.Patch) error) {
		f.Helper()
		before := client.MergeFrom(job.DeepCopy())
		change()
		if err := write(before); err != nil {
			f.Fatal(err)
		}
	}
	spec := func(before client.Patch) error { return cluster.Client.Patch(ctx, job, before) }
	status := func(before client.Patch) error { return cluster.Client.Status().Patch(ctx, job, before) }
	spot := corev1.Toleration{Key: flavor, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	template := &job.Spec.Template
	if admitted {
		patch(func() {
			metav1.SetMetaDataLabel(&template.ObjectMeta, podSet, "main")
			if template.Spec.NodeSelector == nil {
				template.Spec.NodeSelector = map[string]string{}
			}
			template.Spec.NodeSelector[flavor] = "spot"
			template.Spec.Tolerations = append(template.Spec.Tolerations, spot)
			job.Spec.Suspend = ptr.To(false)
		}, spec)
		patch(func() { job.Status.StartTime = ptr.To(metav1.Now()) }, status)
		return
	}
	patch(func() { job.Spec.Suspend = ptr.To(true) }, spec)
	patch(func() { job.Status.StartTime = nil }, status)
	patch(func() {
		delete(template.Labels, podSet)
		delete(template.Spec.NodeSelector, flavor)
		template.Spec.Tolerations = slices.DeleteFunc(template.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t == spot
		})
	}, spec)
}

// asKueueLeft fails the test if a Job is not as Kueue left it, but for being deleted.
func (f *tenants) asKueueLeft(left, job *batchv1.Job) {
	f.Helper()
	if !equality.Semantic.DeepEqual(left.Spec, job.Spec) || !left.Status.StartTime.Equal(job.Status.StartTime) {
		f.Errorf("Kueue left %+v, started %v; the Job has %+v, started %v", left.Spec, left.Status.StartTime, job.Spec,
			job.Status.StartTime)
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
	if pod.Labels[podSet] != "main" || pod.Spec.NodeSelector[flavor] != "spot" {
		t.Fatalf("Kueue admitted %+v", pod)
	}
	f.wait(v1alpha1.TransferTransferring, v1alpha1.ConditionReconciling, v1alpha1.ReasonTransferring)
	seen := &batchv1.Job{}
	if err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(first), seen); err != nil {
		t.Fatal(err)
	}
	f.asKueueLeft(first, seen)

	f.kueue(first, false)
	cluster.See(t, &batchv1.JobList{}, f.namespace, func() {
		if err := cluster.Client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}, func(object client.Object) error {
		if job, ok := object.(*batchv1.Job); ok && job.UID == first.UID {
			f.asKueueLeft(first, job)
			return errors.New("there is no Job but the one that was preempted")
		}
		return nil
	})
	second := f.job(f.transfer, 2)
	run, last := f.transfer.Status.Run, f.transfer.Status.History[0]
	if run.Failures != 0 || last.Reason != v1alpha1.ReasonEvicted || second.Labels[v1alpha1.KueueQueueLabel] != "night" {
		t.Errorf("%+v, %+v, %v", run, last, second.Labels)
	}
	if second.Spec.Template.Labels[podSet] != "" || second.Spec.Template.Spec.NodeSelector[flavor] != "" {
		t.Errorf("the next Job has what Kueue added to the last one: %+v", second.Spec.Template)
	}
}
