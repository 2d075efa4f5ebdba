// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

// TestPopulatedClaims: whoever has the manager's token fills no claim but in the place of the one that asks for it, by
// a Transfer from an ObjectStore, and gives no volume to another claim.
func TestPopulatedClaims(t *testing.T) {
	t.Parallel()
	made := func(object client.Object) client.Object {
		object.SetNamespace("bank")
		object.SetName("populate-1234")
		object.SetLabels(map[string]string{agentpod.ManagedByLabel: agentpod.ManagedBy})
		object.SetOwnerReferences([]metav1.OwnerReference{
			{APIVersion: "v1", Kind: "PersistentVolumeClaim", Name: "ledger", UID: "1234"},
		})
		return object
	}
	with := func(object client.Object, change func(client.Object)) client.Object {
		change(object)
		return object
	}
	renamed := func(o client.Object) { o.SetName("populate-4321") }
	claim := func() client.Object {
		return made(&corev1.PersistentVolumeClaim{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}})
	}
	claims := corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	create := func(o client.Object) request { return request{managerAccount, admission.Create, claims, o, nil, bank} }
	expect(t, "a claim", create(claim()), "")
	expect(t, "a claim of a snapshot", create(with(claim(), func(o client.Object) {
		if typed, ok := o.(*corev1.PersistentVolumeClaim); ok {
			typed.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "VolumeSnapshot", Name: "ledger"}
		}
	})), "")
	expect(t, "a claim, deleted", request{managerAccount, admission.Delete, claims, nil, claim(), bank}, "")
	expect(t, "a claim for another one", create(with(claim(), renamed)), "others are populated")
	for name, change := range map[string]func(*corev1.PersistentVolumeClaimSpec){
		"a volume's": func(s *corev1.PersistentVolumeClaimSpec) { s.VolumeName = "salaries" },
		"a copy's": func(s *corev1.PersistentVolumeClaimSpec) {
			s.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "salaries"}
		},
	} {
		expect(t, name, create(with(claim(), func(o client.Object) {
			if typed, ok := o.(*corev1.PersistentVolumeClaim); ok {
				change(&typed.Spec)
			}
		})), "others are populated")
	}

	transfer := func() client.Object {
		fill := newTransfer("bank", "", nil)
		fill.Spec.Source = v1alpha1.TransferSource{ObjectStore: &v1alpha1.ObjectStorePath{Name: "vault", Path: "/"}}
		fill.Spec.Destination = v1alpha1.TransferDestination{}
		fill.Spec.Destination.PersistentVolumeClaim.ClaimName = "populate-1234"
		return made(fill)
	}
	transfers := v1alpha1.GroupVersion.WithResource("transfers")
	ask := func(operation admission.Operation, object, old client.Object) request {
		return request{managerAccount, operation, transfers, object, old, bank}
	}
	elsewhere := func(o client.Object) {
		if typed, ok := o.(*v1alpha1.Transfer); ok {
			typed.Spec.Destination.PersistentVolumeClaim.ClaimName = "salaries"
		}
	}
	const fix = "populate a claim"
	expect(t, "a Transfer", ask(admission.Create, transfer(), nil), "")
	expect(t, "a Transfer, deleted", ask(admission.Delete, nil, transfer()), "")
	expect(t, "a Transfer, changed", ask(admission.Update, with(transfer(), elsewhere), transfer()), fix)
	expect(t, "a Transfer of another name", ask(admission.Create, with(transfer(), renamed), nil), fix)
	expect(t, "a Transfer into another claim", ask(admission.Create, with(transfer(), elsewhere), nil), fix)
}

// TestPopulatedVolumes: a volume goes to the claim that it was populated for, and nothing else of any volume changes.
func TestPopulatedVolumes(t *testing.T) {
	t.Parallel()
	volume := func(change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
			ObjectMeta: metav1.ObjectMeta{Name: "pv"},
			Spec: corev1.PersistentVolumeSpec{
				Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
				ClaimRef:                      &corev1.ObjectReference{Namespace: "bank", Name: "populate-1234", UID: "4321"},
			},
		}
		change(v)
		return v
	}
	given := func(changes ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		return volume(func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "bank", Name: "ledger", UID: "1234"}
			for _, change := range changes {
				change(v)
			}
		})
	}
	asIs := func(*corev1.PersistentVolume) {}
	volumes := corev1.SchemeGroupVersion.WithResource("persistentvolumes")
	ask := func(object, old *corev1.PersistentVolume) request {
		return request{user: managerAccount, operation: admission.Update, resource: volumes, object: object, old: old}
	}
	expect(t, "given", ask(given(), volume(asIs)), "")
	expect(t, "given by others", request{
		user: "system:kube-controller-manager", operation: admission.Update, resource: volumes, object: volume(asIs), old: given(),
	}, "")
	expect(t, "taken", ask(volume(asIs), given()), "changes no others")
	expect(t, "given to another", ask(given(func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "9" }), volume(asIs)),
		"changes no others")
	expect(t, "given to another namespace",
		ask(given(func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.Namespace = "evil" }), volume(asIs)), "changes no others")
	expect(t, "released", ask(volume(func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil }), volume(asIs)),
		"changes no others")
	for name, change := range map[string]func(*corev1.PersistentVolume){
		"retained": func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		},
		"labelled": func(v *corev1.PersistentVolume) { v.Labels = map[string]string{"app": "x"} },
		"mounted otherwise": func(v *corev1.PersistentVolume) {
			v.Spec.MountOptions = []string{"suid"}
		},
		"moved": func(v *corev1.PersistentVolume) { v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{} },
	} {
		expect(t, name, ask(given(change), volume(asIs)), "nothing of a volume")
	}
	expect(t, "deleted", request{user: managerAccount, operation: admission.Delete, resource: volumes, old: volume(asIs)},
		"changes no others")
}
