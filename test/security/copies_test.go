// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/agentpod"
)

// TestCopiesOfTheManager: whoever has the manager's token makes no claims and snapshots but copies that a Transfer
// owns, and deletes nothing of others.
func TestCopiesOfTheManager(t *testing.T) {
	t.Parallel()
	owned := func(object client.Object) client.Object {
		object.SetNamespace("bank")
		object.SetName("copy")
		object.SetLabels(map[string]string{agentpod.ManagedByLabel: agentpod.ManagedBy})
		object.SetOwnerReferences([]metav1.OwnerReference{
			agentpod.OwnerReference("Transfer", newTransfer("bank", "ledger", nil)),
		})
		return object
	}
	without := func(object client.Object, change func(client.Object)) client.Object {
		change(object)
		return object
	}
	snapshot := func() client.Object {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(schema.GroupVersionKind{
			Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot",
		})
		return owned(o)
	}
	claim := func() client.Object {
		return owned(&corev1.PersistentVolumeClaim{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			Spec: corev1.PersistentVolumeClaimSpec{
				DataSource: &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "ledger"},
			},
		})
	}
	noLabel := func(o client.Object) { o.SetLabels(nil) }
	noOwner := func(o client.Object) { o.SetOwnerReferences(nil) }
	for resource, make := range map[schema.GroupVersionResource]func() client.Object{
		corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"):               claim,
		{Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshots"}: snapshot,
	} {
		ask := func(user string, operation admission.Operation, object, old client.Object) request {
			return request{user, operation, resource, object, old, bank}
		}
		what := resource.Resource
		expect(t, what+", made", ask(managerAccount, admission.Create, make(), nil), "")
		expect(t, what+", deleted", ask(managerAccount, admission.Delete, nil, make()), "")
		expect(t, what+" without the label", ask(managerAccount, admission.Create, without(make(), noLabel), nil),
			"managed-by")
		expect(t, what+" of nobody", ask(managerAccount, admission.Create, without(make(), noOwner), nil), "Transfer owns")
		expect(t, what+" of others, deleted", ask(managerAccount, admission.Delete, nil, without(make(), noLabel)),
			"managed-by")
		expect(t, what+" of others, made by others", ask("deployer", admission.Create, without(make(), noOwner), nil), "")
	}
	empty := claim()
	if typed, ok := empty.(*corev1.PersistentVolumeClaim); ok {
		typed.Spec.DataSource = nil
	}
	expect(t, "an empty claim", request{
		managerAccount, admission.Create, corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), empty, nil, bank,
	}, "Transfer owns")
}
