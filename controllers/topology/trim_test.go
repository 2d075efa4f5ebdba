// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/index"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/topology"
)

// TestTrimAgents: of pods and Jobs stays what decisions are made from, and of their specs little else.
func TestTrimAgents(t *testing.T) {
	spec := corev1.PodSpec{
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{
					{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"z15-a"}},
				},
			}}},
		}},
		Containers: []corev1.Container{{
			Name: "agent", Image: "registry.example/agent", Env: []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: "460MiB"}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{v1alpha1.AcceleratorSlotsResource: resource.MustParse("2")},
			},
		}},
		Volumes: []corev1.Volume{{Name: "config"}},
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{agentpod.AppLabel: agentpod.AppName}},
		Spec:       *spec.DeepCopy(),
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"},
	}
	job := &batchv1.Job{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: *spec.DeepCopy()}}}
	avoids := placement.Avoids(job.Spec.Template.Spec.Affinity)
	for _, object := range []any{pod, job} {
		if _, err := topology.Trim(true)(object); err != nil {
			t.Fatal(err)
		}
	}
	if got := agentpod.SlotsOf(pod); got != 2 {
		t.Errorf("the pod holds %d slots", got)
	}
	if got := index.NodeOf(pod); got != "z15-a" {
		t.Errorf("the pod is for node %q", got)
	}
	if pod.Status.PodIP == "" || pod.Status.Phase != corev1.PodRunning {
		t.Errorf("status is %+v", pod.Status)
	}
	if got := placement.Avoids(job.Spec.Template.Spec.Affinity); got != avoids {
		t.Errorf("the Job avoids accelerators: %t, before %t", got, avoids)
	}
	for _, trimmed := range []corev1.PodSpec{pod.Spec, job.Spec.Template.Spec} {
		if len(trimmed.Volumes) > 0 || len(trimmed.Containers) != 1 || len(trimmed.Containers[0].Env) > 0 {
			t.Errorf("left is %+v", trimmed)
		}
	}
}

// TestTrimClaim: of a claim stays whether it is of a device.
func TestTrimClaim(t *testing.T) {
	mode := corev1.PersistentVolumeBlock
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{VolumeMode: &mode, VolumeName: "pv"}}
	if _, err := topology.Trim(false)(claim); err != nil {
		t.Fatal(err)
	}
	if claim.Spec.VolumeMode == nil || *claim.Spec.VolumeMode != mode || claim.Spec.VolumeName != "" {
		t.Errorf("the claim's spec is %+v", claim.Spec)
	}
}
