// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// hookOf makes a suspended CronJob that runs a script where the claim "source" is mounted at /data, beside the shell
// pod of that claim.
func hookOf(t *testing.T, namespace, name, script string) {
	t.Helper()
	ctx, shell := context.Background(), &corev1.Pod{}
	if err := east.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "shell-source"}, shell); err != nil {
		t.Fatal(err)
	}
	container := shell.Spec.Containers[0]
	// Without the volumes that the API server has added to the pod.
	var volumes []corev1.Volume
	for _, volume := range shell.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			volumes = append(volumes, volume)
		}
	}
	var mounts []corev1.VolumeMount
	for _, mount := range container.VolumeMounts {
		if mount.MountPath == "/data" {
			mounts = append(mounts, mount)
		}
	}
	cronJob := &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: batchv1.CronJobSpec{
			Schedule: "0 0 1 1 *", Suspend: ptr.To(true),
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: ptr.To(false),
					NodeSelector:    map[string]string{corev1.LabelHostname: nodeOf(t, namespace, "source")},
					SecurityContext: shell.Spec.SecurityContext, Volumes: volumes,
					Containers: []corev1.Container{{
						Name: "hook", Image: container.Image, Command: []string{"/bin/sh", "-ec", script},
						SecurityContext: container.SecurityContext, VolumeMounts: mounts,
					}},
				},
			}}},
		},
	}
	if err := east.Create(ctx, cronJob); err != nil {
		t.Fatal(err)
	}
}

// TestHooksAroundASnapshot takes the chart with pointInTime.enabled and hooks.enabled: the copy has what the
// before-hook wrote, and not what the after-hook wrote before the copy was read.
func TestHooksAroundASnapshot(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "btrfs", "100Mi")
	east.claim(t, namespace, "copy", "btrfs", "100Mi")
	hookOf(t, namespace, "lighterage-before", "echo quiesced > /data/before; sync")
	hookOf(t, namespace, "lighterage-after", "echo released > /data/after; sync")
	transfer := newLocalTransfer(namespace, "ledger")
	transfer.Spec.Source.CopyMethod = v1alpha1.CopySnapshot
	transfer.Spec.Source.Hooks = &v1alpha1.SourceHooks{
		Before: &v1alpha1.BeforeHook{Hook: v1alpha1.Hook{CronJob: "lighterage-before"}},
		After:  &v1alpha1.Hook{CronJob: "lighterage-after"},
	}
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	eventually(t, 2*time.Minute, "the after-hook to succeed", func() (bool, string) {
		if err := east.Get(ctx, client.ObjectKeyFromObject(transfer), transfer); err != nil {
			return false, err.Error()
		}
		c := meta.FindStatusCondition(transfer.Status.Conditions, v1alpha1.ConditionHooksSucceeded)
		if c == nil {
			return false, "the condition is absent"
		}
		return c.Status == metav1.ConditionTrue, c.Message
	})
	const names = "cd /data && ls before after 2> /dev/null | sort | tr '\\n' ' '"
	if got := east.sh(t, namespace, "source", names); got != "after before " {
		t.Errorf("the source has %q", got)
	}
	if got := east.sh(t, namespace, "copy", names); got != "before " {
		t.Errorf("the copy has %q", got)
	}
	nothingStaged(t, namespace)
}
