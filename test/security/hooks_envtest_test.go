// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package security

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// hookFrom is a Job as kubectl create job --from makes it.
func hookFrom(from *batchv1.CronJob) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: from.Namespace, Name: "hook", Labels: map[string]string{v1alpha1.HookLabel: from.Name},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "batch/v1", Kind: "CronJob", Name: from.Name, UID: from.UID, Controller: ptr.To(true),
			}},
		},
		Spec: *from.Spec.JobTemplate.Spec.DeepCopy(),
	}
}

func cronJob(namespace, name string) *batchv1.CronJob {
	return &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: batchv1.CronJobSpec{
			Schedule: "0 0 * * *", Suspend: ptr.To(true),
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "db"}},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: "freezer",
					Containers: []corev1.Container{{Name: "psql", Image: "db.example/psql", Command: []string{"freeze"}}},
				},
			}}},
		},
	}
}

// Whoever has the manager's token starts exact copies of suspended CronJobs that may be hooks, and nothing else by that
// way.
func TestHooksAreExactCopies(t *testing.T) {
	cluster := install(t)
	namespace, other := cluster.Namespace(t), cluster.Namespace(t)
	thief := trusted(t, cluster)
	before, elsewhere := cronJob(namespace, "lighterage-before"), cronJob(other, "lighterage-after")
	backup, running := cronJob(namespace, "backup"), cronJob(other, "lighterage-before")
	running.Spec.Suspend = ptr.To(false)
	cluster.Create(t, before, elsewhere, backup, running)
	create := func(job *batchv1.Job) error { return thief.Create(ctx, job.DeepCopy(), client.DryRunAll) }

	permitted(t, func() error { return create(hookFrom(before)) })
	permitted(t, func() error { return create(hookFrom(elsewhere)) })
	for what, change := range map[string]func(*batchv1.Job){
		"image":       func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Image = "evil.example/miner" },
		"command":     func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Command = []string{"steal"} },
		"account":     func(j *batchv1.Job) { j.Spec.Template.Spec.ServiceAccountName = "admin" },
		"host":        func(j *batchv1.Job) { j.Spec.Template.Spec.HostNetwork = true },
		"label":       func(j *batchv1.Job) { j.Spec.Template.Labels["app"] = "web" },
		"more labels": func(j *batchv1.Job) { j.Spec.Template.Labels["inject"] = "yes" },
		"no labels":   func(j *batchv1.Job) { j.Spec.Template.Labels = nil },
		"annotation":  func(j *batchv1.Job) { j.Spec.Template.Annotations = map[string]string{"inject": "yes"} },
		"many":        func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = ptr.To[int32](9), ptr.To[int32](9) },
	} {
		t.Log(what)
		job := hookFrom(before)
		change(job)
		says(t, forbidden(t, func() error { return create(job) }, nil), "exact copies")
	}
	forged := hookFrom(before)
	forged.OwnerReferences[0].UID = "another"
	says(t, forbidden(t, func() error { return create(forged) }, nil), "owned by its CronJob")
	says(t, forbidden(t, func() error { return create(hookFrom(backup)) }, nil), "hooks.cronJobs")
	says(t, forbidden(t, func() error { return create(hookFrom(running)) }, nil), "not suspended")
	// One that does not exist, beside others that do.
	gone := hookFrom(before)
	gone.Labels[v1alpha1.HookLabel], gone.OwnerReferences[0].Name = "lighterage-after", "lighterage-after"
	if err := create(gone); err == nil {
		t.Error("a copy of a CronJob that does not exist was admitted")
	}
	unlabelled := hookFrom(before)
	unlabelled.Labels = nil
	says(t, forbidden(t, func() error { return create(unlabelled) }, nil), "agents run the image")
}
