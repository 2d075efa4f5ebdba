// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package security

import (
	"maps"
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

// permittedTemplates are templates whose copies the API server completes in other ways.
var permittedTemplates = map[string]func(*batchv1.JobTemplateSpec){
	"marked": func(j *batchv1.JobTemplateSpec) {
		j.Labels, j.Annotations = map[string]string{"team": "db"}, map[string]string{"page": "freeze"}
	},
	"work queue": func(j *batchv1.JobTemplateSpec) { j.Spec.Parallelism = ptr.To[int32](2) },
	"completions": func(j *batchv1.JobTemplateSpec) {
		j.Spec.Completions, j.Spec.ActiveDeadlineSeconds = ptr.To[int32](3), ptr.To[int64](60)
		j.Spec.TTLSecondsAfterFinished = ptr.To[int32](600)
	},
	"indexed": func(j *batchv1.JobTemplateSpec) {
		j.Spec.CompletionMode, j.Spec.Completions = ptr.To(batchv1.IndexedCompletion), ptr.To[int32](2)
		j.Spec.Parallelism, j.Spec.BackoffLimitPerIndex = ptr.To[int32](2), ptr.To[int32](1)
		j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: ptr.To[int32](1)}}}
	},
	"pod failure policy": func(j *batchv1.JobTemplateSpec) {
		j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action:          batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget}},
		}}}
	},
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
	for what, change := range permittedTemplates {
		t.Log(what)
		from := cronJob(cluster.Namespace(t), "lighterage-before")
		change(&from.Spec.JobTemplate)
		cluster.Create(t, from)
		job := hookFrom(from)
		job.Annotations = map[string]string{"cronjob.kubernetes.io/instantiate": "manual", v1alpha1.HookAnnotation: "a-uid"}
		maps.Copy(job.Annotations, from.Spec.JobTemplate.Annotations)
		maps.Copy(job.Labels, from.Spec.JobTemplate.Labels)
		permitted(t, func() error { return create(job) })
	}
	for what, change := range map[string]func(*batchv1.Job){
		"image":       func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Image = "evil.example/miner" },
		"command":     func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Command = []string{"steal"} },
		"account":     func(j *batchv1.Job) { j.Spec.Template.Spec.ServiceAccountName = "admin" },
		"host":        func(j *batchv1.Job) { j.Spec.Template.Spec.HostNetwork = true },
		"label":       func(j *batchv1.Job) { j.Spec.Template.Labels["app"] = "web" },
		"more labels": func(j *batchv1.Job) { j.Spec.Template.Labels["inject"] = "yes" },
		"no labels":   func(j *batchv1.Job) { j.Spec.Template.Labels = nil },
		"annotation":  func(j *batchv1.Job) { j.Spec.Template.Annotations = map[string]string{"inject": "yes"} },
		"many":        func(j *batchv1.Job) { j.Spec.Completions = ptr.To[int32](9) },
		"parallel":    func(j *batchv1.Job) { j.Spec.Parallelism, j.Spec.Completions = ptr.To[int32](9), ptr.To[int32](1) },
		"work queue":  func(j *batchv1.Job) { j.Spec.Parallelism = ptr.To[int32](1) },
		"indexed":     func(j *batchv1.Job) { j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion) },
		"restarts":    func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](9) },
		"deadline":    func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = ptr.To[int64](1) },
		"TTL":         func(j *batchv1.Job) { j.Spec.TTLSecondsAfterFinished = ptr.To[int32](0) },
		"suspended":   func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) },
		"managed by":  func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To("evil.example/controller") },
		"replacement": func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed) },
		"pod failure policy": func(j *batchv1.Job) {
			j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
				Action: batchv1.PodFailurePolicyActionFailJob,
				OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
					Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{1},
				},
			}}}
		},
		"success policy": func(j *batchv1.Job) {
			j.Spec.CompletionMode, j.Spec.Completions = ptr.To(batchv1.IndexedCompletion), ptr.To[int32](1)
			j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{
				SucceededCount: ptr.To[int32](1),
			}}}
		},
		"selector": func(j *batchv1.Job) {
			j.Spec.ManualSelector = ptr.To(true)
			j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
		},
		"finalizer":      func(j *batchv1.Job) { j.Finalizers = []string{"evil.example/stays"} },
		"Job label":      func(j *batchv1.Job) { j.Labels["inject"] = "yes" },
		"Job annotation": func(j *batchv1.Job) { j.Annotations = map[string]string{"inject": "yes"} },
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
