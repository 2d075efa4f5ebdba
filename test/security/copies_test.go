// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

// TestTransfersOfTheManager: whoever has the manager's token makes, changes and deletes Transfers of TransferSets only.
// It writes finalizers of all.
func TestTransfersOfTheManager(t *testing.T) {
	t.Parallel()
	transfers := v1alpha1.GroupVersion.WithResource("transfers")
	ask := func(user string, operation admission.Operation, object, old client.Object) request {
		return request{user, operation, transfers, object, old, bank}
	}
	member := func() *v1alpha1.Transfer {
		transfer := newTransfer("bank", "move-ledger", nil)
		transfer.Labels = map[string]string{
			agentpod.ManagedByLabel: agentpod.ManagedBy, v1alpha1.TransferSetLabel: "move",
		}
		return transfer
	}
	changed := func(transfer *v1alpha1.Transfer) *v1alpha1.Transfer {
		transfer.Spec.Suspend = !transfer.Spec.Suspend
		return transfer
	}
	finalized := newTransfer("bank", "ledger", nil)
	finalized.Finalizers = []string{v1alpha1.Finalizer}
	foreign := func() *v1alpha1.Transfer { return newTransfer("bank", "ledger", nil) }
	half := member()
	delete(half.Labels, v1alpha1.TransferSetLabel)
	const fix = "only Transfers of TransferSets"
	expect(t, "a member, made", ask(managerAccount, admission.Create, member(), nil), "")
	expect(t, "a member, changed", ask(managerAccount, admission.Update, changed(member()), member()), "")
	expect(t, "a member, deleted", ask(managerAccount, admission.Delete, nil, member()), "")
	expect(t, "a finalizer", ask(managerAccount, admission.Update, finalized, foreign()), "")
	expect(t, "another one, made", ask(managerAccount, admission.Create, foreign(), nil), fix)
	expect(t, "one with half of the labels", ask(managerAccount, admission.Create, half, nil), fix)
	expect(t, "another one, changed", ask(managerAccount, admission.Update, changed(foreign()), foreign()), fix)
	expect(t, "another one, labelled", ask(managerAccount, admission.Update, changed(member()), foreign()), fix)
	relabelled := foreign()
	relabelled.Labels = member().Labels
	expect(t, "another one, relabelled, spec unchanged", ask(managerAccount, admission.Update, relabelled, foreign()), fix)
	owned := foreign()
	owned.OwnerReferences = []metav1.OwnerReference{agentpod.OwnerReference("Transfer", newTransfer("bank", "led", nil))}
	expect(t, "another one, given an owner", ask(managerAccount, admission.Update, owned, foreign()), fix)
	expect(t, "another one, deleted", ask(managerAccount, admission.Delete, nil, foreign()), fix)
	expect(t, "another one, changed by others", ask("deployer", admission.Update, changed(foreign()), foreign()), "")
}

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

// TestGroupsOfTheManager: the manager makes VolumeGroupSnapshots that a TransferSet owns, of claims and not of what
// exists in the storage, and deletes no others.
func TestGroupsOfTheManager(t *testing.T) {
	t.Parallel()
	group := func(changes ...func(*unstructured.Unstructured)) client.Object {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"source": map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"app": "bank"}},
		}}}}
		o.SetGroupVersionKind(schema.GroupVersionKind{
			Group: "groupsnapshot.storage.k8s.io", Version: "v1", Kind: "VolumeGroupSnapshot",
		})
		o.SetNamespace("bank")
		o.SetName("group")
		o.SetLabels(map[string]string{agentpod.ManagedByLabel: agentpod.ManagedBy})
		o.SetOwnerReferences([]metav1.OwnerReference{
			agentpod.OwnerReference("TransferSet", newTransfer("bank", "move", nil)),
		})
		for _, change := range changes {
			change(o)
		}
		return o
	}
	ask := func(user string, operation admission.Operation, object, old client.Object) request {
		return request{user, operation, schema.GroupVersionResource{
			Group: "groupsnapshot.storage.k8s.io", Version: "v1", Resource: "volumegroupsnapshots",
		}, object, old, bank}
	}
	noLabel := func(o *unstructured.Unstructured) { o.SetLabels(nil) }
	noOwner := func(o *unstructured.Unstructured) { o.SetOwnerReferences(nil) }
	ofTransfer := func(o *unstructured.Unstructured) {
		o.SetOwnerReferences([]metav1.OwnerReference{
			agentpod.OwnerReference("Transfer", newTransfer("bank", "ledger", nil)),
		})
	}
	ofContent := func(o *unstructured.Unstructured) {
		o.Object["spec"] = map[string]any{"source": map[string]any{"volumeGroupSnapshotContentName": "others"}}
	}
	expect(t, "made", ask(managerAccount, admission.Create, group(), nil), "")
	expect(t, "deleted", ask(managerAccount, admission.Delete, nil, group()), "")
	expect(t, "without the label", ask(managerAccount, admission.Create, group(noLabel), nil), "managed-by")
	expect(t, "of others, deleted", ask(managerAccount, admission.Delete, nil, group(noLabel)), "managed-by")
	for what, change := range map[string]func(*unstructured.Unstructured){
		"of nobody": noOwner, "of a Transfer": ofTransfer, "of content": ofContent,
	} {
		expect(t, what, ask(managerAccount, admission.Create, group(change), nil), "TransferSet owns")
	}
	expect(t, "made by others", ask("deployer", admission.Create, group(noOwner, noLabel), nil), "")
}

// TestSnapshotsOfDestinations: the manager makes snapshots of claims that nobody owns only with the labels by which
// they are found, and deletes none of others.
func TestSnapshotsOfDestinations(t *testing.T) {
	t.Parallel()
	const fix = "Transfer owns"
	history := func(changes ...func(*unstructured.Unstructured)) client.Object {
		o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"source": map[string]any{"persistentVolumeClaimName": "copy"},
		}}}
		o.SetGroupVersionKind(schema.GroupVersionKind{
			Group: "snapshot.storage.k8s.io", Version: "v1", Kind: "VolumeSnapshot",
		})
		o.SetNamespace("bank")
		o.SetName("ledger-abcde-history")
		o.SetLabels(map[string]string{
			agentpod.ManagedByLabel: agentpod.ManagedBy, agentpod.ComponentLabel: "history", v1alpha1.TransferLabel: "uid",
		})
		o.SetAnnotations(map[string]string{v1alpha1.HistoryTransferAnnotation: "ledger"})
		for _, change := range changes {
			change(o)
		}
		return o
	}
	without := func(label string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			labels := o.GetLabels()
			delete(labels, label)
			o.SetLabels(labels)
		}
	}
	source := func(name string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			o.Object["spec"] = map[string]any{"source": map[string]any{name: "another"}}
		}
	}
	ask := func(operation admission.Operation, object, old client.Object) request {
		return request{managerAccount, operation, schema.GroupVersionResource{
			Group: "snapshot.storage.k8s.io", Version: "v1", Resource: "volumesnapshots",
		}, object, old, bank}
	}
	expect(t, "history, made", ask(admission.Create, history(), nil), "")
	expect(t, "history, deleted", ask(admission.Delete, nil, history()), "")
	expect(t, "without its manager", ask(admission.Create, history(without(agentpod.ManagedByLabel)), nil), "managed-by")
	expect(t, "of no component", ask(admission.Create, history(without(agentpod.ComponentLabel)), nil), fix)
	expect(t, "of no Transfer", ask(admission.Create, history(without(v1alpha1.TransferLabel)), nil), fix)
	expect(t, "of a content", ask(admission.Create, history(source("volumeSnapshotContentName")), nil), fix)
	expect(t, "of others, deleted", ask(admission.Delete, nil, history(without(agentpod.ManagedByLabel))), "managed-by")
}

// TestClaimsOfDestinations: the manager makes empty claims for Transfers, changes nothing of them but their size, and
// deletes none.
func TestClaimsOfDestinations(t *testing.T) {
	t.Parallel()
	claim := func(change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
		made := &corev1.PersistentVolumeClaim{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "bank", Name: "copy",
				Annotations: map[string]string{v1alpha1.CreatedForAnnotation: "east/bank/ledger"},
			},
			Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			}},
		}
		change(made)
		return made
	}
	asIs := func(*corev1.PersistentVolumeClaim) {}
	sized := func(size string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size)
		}
	}
	ask := func(operation admission.Operation, object, old *corev1.PersistentVolumeClaim) request {
		asked := request{
			user: managerAccount, operation: operation,
			resource: corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), namespace: bank,
		}
		if object != nil {
			asked.object = object
		}
		if old != nil {
			asked.old = old
		}
		return asked
	}
	expect(t, "made", ask(admission.Create, claim(asIs), nil), "")
	expect(t, "enlarged", ask(admission.Update, claim(sized("2Gi")), claim(asIs)), "")
	expect(t, "deleted", ask(admission.Delete, nil, claim(asIs)), "managed-by")
	expect(t, "made smaller", ask(admission.Update, claim(sized("512Mi")), claim(asIs)), "only upwards")
	expect(t, "taken over", ask(admission.Update, claim(sized("2Gi")), claim(func(c *corev1.PersistentVolumeClaim) {
		c.Annotations = nil
	})), "managed-by")
	for name, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"another's":  func(c *corev1.PersistentVolumeClaim) { c.Annotations[v1alpha1.CreatedForAnnotation] = "bank/other" },
		"labelled":   func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"app": "x"} },
		"finalized":  func(c *corev1.PersistentVolumeClaim) { c.Finalizers = []string{"example.com/stay"} },
		"attributes": func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("gold") },
	} {
		expect(t, name, ask(admission.Update, claim(change), claim(asIs)), "only upwards")
	}
	for name, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"of a snapshot": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "salaries"}
		},
		"of a populator": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "salaries"}
		},
		"of a volume": func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "salaries" },
		"owned": func(c *corev1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{agentpod.OwnerReference("Transfer", newTransfer("bank", "ledger", nil))}
		},
	} {
		expect(t, "made "+name, ask(admission.Create, claim(change), nil), "empty, of a new volume")
	}
}

// TestAnswersOnClaims: of a claim whose users ask for it the manager changes two annotations, and nothing of others.
func TestAnswersOnClaims(t *testing.T) {
	t.Parallel()
	claim := func(annotations map[string]string, changes ...func(*corev1.PersistentVolumeClaim)) client.Object {
		made := &corev1.PersistentVolumeClaim{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger", Annotations: annotations},
			Spec: corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			}},
		}
		for _, change := range changes {
			change(made)
		}
		return made
	}
	asks := func(more ...string) map[string]string {
		all := map[string]string{v1alpha1.UseCopyTriggerAnnotation: "", v1alpha1.CopyTriggerAnnotation: "1"}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	update := func(object, old client.Object) request {
		return request{
			managerAccount, admission.Update, corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
			object, old, bank,
		}
	}
	const status, latest, fix = v1alpha1.LatestCopyStatusAnnotation, v1alpha1.LatestCopyTriggerAnnotation, "managed-by"
	answer := asks(status, "Completed", latest, "1")
	expect(t, "answered", update(claim(answer), claim(asks())), "")
	expect(t, "answered again", update(claim(answer), claim(asks(status, "InProgress"))), "")
	received := asks(v1alpha1.CreatedForAnnotation, "east/bank/ledger")
	expect(t, "answered on a destination", update(claim(asks(
		v1alpha1.CreatedForAnnotation, "east/bank/ledger", status, "InProgress")), claim(received)), "")
	expect(t, "not asked", update(claim(map[string]string{status: "Completed"}), claim(nil)), fix)
	expect(t, "asked by itself", update(claim(answer), claim(nil)), fix)
	expect(t, "deaf", update(claim(map[string]string{v1alpha1.CopyTriggerAnnotation: "1"}), claim(asks())), fix)
	expect(t, "another trigger", update(claim(asks(v1alpha1.CopyTriggerAnnotation, "2")), claim(asks())), fix)
	expect(t, "more", update(claim(asks("example.com/other", "x")), claim(asks())), fix)
	expect(t, "none", update(claim(nil), claim(asks())), fix)
	for name, change := range map[string]func(*corev1.PersistentVolumeClaim){
		"enlarged": func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
		},
		"labelled":  func(c *corev1.PersistentVolumeClaim) { c.Labels = map[string]string{"app": "x"} },
		"finalized": func(c *corev1.PersistentVolumeClaim) { c.Finalizers = []string{"example.com/stay"} },
		"owned": func(c *corev1.PersistentVolumeClaim) {
			c.OwnerReferences = []metav1.OwnerReference{
				agentpod.OwnerReference("Transfer", newTransfer("bank", "ledger", nil)),
			}
		},
	} {
		expect(t, name, update(claim(answer, change), claim(asks())), fix)
	}
}
