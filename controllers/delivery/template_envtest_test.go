// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package delivery_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// asked is a Delivery into a claim that does not exist, with a template.
func (f *fixture) asked(size string) *v1alpha1.Delivery {
	d := f.make("ledger", 1, "/")
	d.Spec.Destination.PersistentVolumeClaim.ClaimName = "made"
	d.Spec.Destination.Template = &v1alpha1.ClaimRequest{Size: resource.MustParse(size)}
	return d
}

// creates grants that up to 1Gi.
func (f *fixture) creates() {
	f.Helper()
	g := f.grant()
	g.Name = "creates"
	g.Spec.To[0].Name = "made"
	g.Spec.To[0].Create = &v1alpha1.PeerGrantCreate{MaxSize: resource.MustParse("1Gi")}
	cluster.Create(f, g)
}

func (f *fixture) made() (*corev1.PersistentVolumeClaim, error) {
	claim := &corev1.PersistentVolumeClaim{}
	return claim, cluster.Client.Get(context.Background(), client.ObjectKey{Namespace: f.namespace, Name: "made"}, claim)
}

func TestCreatesTheClaimThatIsGranted(t *testing.T) {
	f := prepare(t)
	f.creates()
	d := f.asked("1Gi")
	cluster.Create(t, d)
	f.wait(d, v1alpha1.DeliveryStarting, v1alpha1.ConditionReconciling, v1alpha1.ReasonStarting)
	claim, err := f.made()
	if err != nil {
		t.Fatal(err)
	}
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if size.String() != "1Gi" || claim.Annotations[v1alpha1.CreatedForAnnotation] != f.namespace+"/bank/ledger" ||
		len(claim.OwnerReferences) != 0 {
		t.Errorf("%+v", claim)
	}
	if !meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionDestinationFits) {
		t.Errorf("%+v", d.Status.Conditions)
	}
	if err := cluster.Client.Delete(context.Background(), d); err != nil {
		t.Fatal(err)
	}
	f.gone(d)
	if claim, err = f.made(); err != nil || claim.DeletionTimestamp != nil {
		t.Errorf("the claim went with the Delivery: %v", err)
	}
}

func TestCreatesNoClaim(t *testing.T) {
	for name, test := range map[string]struct {
		size    string
		prepare func(*fixture, *v1alpha1.Delivery)
		reason  string
		says    string
	}{
		"that is not granted": {
			"1Gi", func(*fixture, *v1alpha1.Delivery) {}, v1alpha1.ReasonNotGranted, "create: {maxSize: 1Gi}",
		},
		"that is larger": {
			"2Gi", func(f *fixture, _ *v1alpha1.Delivery) { f.creates() }, v1alpha1.ReasonNotGranted, "create: {maxSize: 2Gi}",
		},
		"of a class": {"1Gi", func(f *fixture, d *v1alpha1.Delivery) {
			f.creates()
			d.Spec.Destination.Template.StorageClassName = "fast"
		}, v1alpha1.ReasonNotGranted, "storageClassNames: [fast]"},
		"again": {"1Gi", func(f *fixture, d *v1alpha1.Delivery) {
			f.creates()
			d.Spec.Destination.Template.Written = true
		}, v1alpha1.ReasonDestinationNotFound, v1alpha1.RunAnnotation},
		"that a quota forbids": {"1Gi", func(f *fixture, _ *v1alpha1.Delivery) {
			f.creates()
			cluster.NoneOf(f, corev1.ResourcePersistentVolumeClaims, &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "example"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")},
					},
				},
			})
		}, v1alpha1.ReasonDestinationNotCreated, "the event of the Delivery"},
	} {
		t.Run(name, func(t *testing.T) {
			f := prepare(t)
			d := f.asked(test.size)
			test.prepare(f, d)
			f.ends(d, v1alpha1.DeliveryFailed, v1alpha1.ConditionStalled, test.reason, func() { cluster.Create(t, d) })
			message := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionStalled).Message
			if !strings.Contains(message, test.says) || strings.Contains(message, "quota") || d.Status.Run.CompletionTime == nil {
				t.Errorf("%s %+v", message, d.Status.Run)
			}
			if _, err := f.made(); !apierrors.IsNotFound(err) {
				t.Errorf("it was created: %v", err)
			}
		})
	}
}
