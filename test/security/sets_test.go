// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

var operator = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "lighterage-system"}}

// newTransferSet is one of several namespaces if it has a selector of them.
func newTransferSet(namespace string, selector *metav1.LabelSelector) *v1alpha1.TransferSet {
	return &v1alpha1.TransferSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "TransferSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "move"},
		Spec: v1alpha1.TransferSetSpec{
			NamespaceSelector: selector, Selector: &metav1.LabelSelector{},
			Template: v1alpha1.TransferSetTemplate{Destination: v1alpha1.TransferSetDestination{Peer: "west"}},
		},
	}
}

func ofSets(user string, operation admission.Operation, object, old client.Object, n *corev1.Namespace) request {
	return request{user, operation, v1alpha1.GroupVersion.WithResource("transfersets"), object, old, n}
}

// TestNamespaceSelectors: who may not create Transfers in all namespaces has none made there, and nobody has from
// another namespace than the operator's.
func TestNamespaceSelectors(t *testing.T) {
	t.Parallel()
	all := &metav1.LabelSelector{}
	const right, place = "right to create transfers", "only in the namespace of the operator"
	several := newTransferSet(operator.Name, all)
	suspended := newTransferSet(operator.Name, all)
	suspended.Spec.Suspend = true
	finalized := newTransferSet(operator.Name, all)
	finalized.Finalizers = []string{v1alpha1.Finalizer}
	for user, fix := range map[string]string{administrator: "", "tenant": right} {
		expect(t, "made by "+user, ofSets(user, admission.Create, several, nil, operator), fix)
		expect(t, "changed by "+user, ofSets(user, admission.Update, suspended, several, operator), fix)
		expect(t, "finalized by "+user, ofSets(user, admission.Update, finalized, several, operator), "")
		expect(t, "one of its namespace, by "+user,
			ofSets(user, admission.Create, newTransferSet("bank", nil), nil, bank), "")
		expect(t, "elsewhere by "+user, ofSets(user, admission.Create, newTransferSet("bank", all), nil, bank), place)
	}
	// Each namespace consents for itself.
	several.Spec.Template.PodTemplate = newTransfer("bank", "ledger", &corev1.SecurityContext{
		RunAsUser: ptr.To[int64](0),
	}).Spec.PodTemplate
	expect(t, "with privilege", ofSets(administrator, admission.Create, several, nil, operator), "")
}

// TestSetsOfTheManager: whoever has the manager's token makes, changes and deletes TransferSets only that belong to one
// of several namespaces, and makes none of several namespaces.
func TestSetsOfTheManager(t *testing.T) {
	t.Parallel()
	part := func(namespace string, selector *metav1.LabelSelector) *v1alpha1.TransferSet {
		set := newTransferSet(namespace, selector)
		set.Labels = map[string]string{agentpod.ManagedByLabel: agentpod.ManagedBy, v1alpha1.TransferSetLabel: "move"}
		return set
	}
	changed := func(set *v1alpha1.TransferSet) *v1alpha1.TransferSet {
		set.Spec.Suspend = true
		return set
	}
	finalized := newTransferSet(operator.Name, &metav1.LabelSelector{})
	finalized.Finalizers = []string{v1alpha1.Finalizer}
	const fix = "only TransferSets that it made"
	ask := func(what string, operation admission.Operation, object, old client.Object, n *corev1.Namespace, fix string) {
		t.Helper()
		expect(t, what, ofSets(managerAccount, operation, object, old, n), fix)
	}
	ask("a part, made", admission.Create, part("bank", nil), nil, bank, "")
	ask("a part, changed", admission.Update, changed(part("bank", nil)), part("bank", nil), bank, "")
	ask("a part, deleted", admission.Delete, nil, part("bank", nil), bank, "")
	ask("a finalizer", admission.Update, finalized, newTransferSet(operator.Name, &metav1.LabelSelector{}), operator, "")
	ask("another one, made", admission.Create, newTransferSet("bank", nil), nil, bank, fix)
	ask("another one, changed", admission.Update, changed(newTransferSet("bank", nil)), newTransferSet("bank", nil), bank,
		fix)
	ask("another one, labelled", admission.Update, changed(part("bank", nil)), newTransferSet("bank", nil), bank, fix)
	ask("another one, relabelled, spec unchanged", admission.Update, part("bank", nil), newTransferSet("bank", nil), bank,
		fix)
	ask("another one, deleted", admission.Delete, nil, newTransferSet("bank", nil), bank, fix)
	ask("one of several namespaces", admission.Create, part(operator.Name, &metav1.LabelSelector{}), nil, operator, fix)
	ask("one of its own namespace", admission.Create, part(operator.Name, nil), nil, operator, fix)
}
