// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package queue_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

func anyMeta(namespace string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: "any", Labels: map[string]string{"any": "any"}}
}

func TestWebhookThatFails(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	end := cluster.FailingWebhook(t, "apps", "statefulsets", &appsv1.StatefulSet{ObjectMeta: anyMeta(namespace),
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: anyMeta(namespace).Labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: anyMeta(""), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "any", Image: "any"}}},
			},
		}})
	q := create(t, namespace, nil)
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonRefused)
	end()
	set(t, q)
	expect(t, q, v1alpha1.ConditionReconciling, v1alpha1.ReasonRollingOut)
}

func TestQuotaOfSecrets(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	cluster.NoneOf(t, "count/secrets", &corev1.Secret{ObjectMeta: anyMeta(namespace)})
	q := create(t, namespace, nil)
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonRefused)
}

// A quota keeps claims from growing; what members are told is what they have.
func TestQuotaOfStorage(t *testing.T) {
	t.Parallel()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "grows"}, Provisioner: "example.com/disk", AllowVolumeExpansion: ptr.To(true),
	}
	cluster.Create(t, class)
	t.Cleanup(func() { _ = cluster.Client.Delete(ctx, class) })
	namespace := cluster.Namespace(t)
	q := create(t, namespace, func(spec *v1alpha1.QueueSpec) { spec.Storage.StorageClassName = ptr.To("grows") })
	s := set(t, q)
	member(t, s)
	before, _ := secret(t, s)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: anyMeta(namespace), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		},
	}}
	quota := cluster.NoneOf(t, corev1.ResourceRequestsStorage, claim)
	update(t, q, func() { q.Spec.Storage.Size = resource.MustParse("3Gi") })
	expect(t, q, v1alpha1.ConditionStalled, v1alpha1.ReasonRefused)
	if after, _ := secret(t, s); after.GetStorage().GetCapacity() != before.GetStorage().GetCapacity() {
		t.Errorf(
			"members are told of %d bytes, with %d in their volumes", after.GetStorage().GetCapacity(),
			before.GetStorage().GetCapacity(),
		)
	}
	if err := cluster.Client.Delete(ctx, quota); err != nil {
		t.Fatal(err)
	}
	expect(t, q, v1alpha1.ConditionReconciling, v1alpha1.ReasonRollingOut)
}
