// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package security

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// The manager answers on a claim with the rights that it has, and only where it is asked to.
func TestManagerAnswersOnClaims(t *testing.T) {
	cluster := install(t)
	namespace := cluster.Namespace(t)
	claim := func(name string, annotations map[string]string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				},
			},
		}
	}
	asks, silent := claim("asks", map[string]string{v1alpha1.UseCopyTriggerAnnotation: ""}), claim("silent", nil)
	cluster.Create(t, asks, silent)
	manager := as(t, cluster, managerAccount)
	patch := func(claim *corev1.PersistentVolumeClaim, key string) func() error {
		change := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+key+`":"Completed"}}}`))
		return func() error { return manager.Patch(ctx, claim.DeepCopy(), change) }
	}
	undo := func(claim *corev1.PersistentVolumeClaim, key string) func() error {
		change := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+key+`":null}}}`))
		return func() error { return cluster.Client.Patch(ctx, claim.DeepCopy(), change) }
	}
	const answer, other = v1alpha1.LatestCopyStatusAnnotation, v1alpha1.CopyTriggerAnnotation
	permitted(t, patch(asks, answer))
	says(t, forbidden(t, patch(asks, other), undo(asks, other)), "managed-by")
	says(t, forbidden(t, patch(silent, answer), undo(silent, answer)), "managed-by")
}
