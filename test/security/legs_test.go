// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package security

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

// TestTransfersOfDestinations: whoever has the manager's token makes, changes and deletes no Transfers but those of
// several destinations, which another Transfer owns.
func TestTransfersOfDestinations(t *testing.T) {
	t.Parallel()
	leg := func(change ...func(*v1alpha1.Transfer)) *v1alpha1.Transfer {
		transfer := newTransfer("bank", "ledger-west", nil)
		transfer.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("Transfer"))
		transfer.OwnerReferences = []metav1.OwnerReference{
			agentpod.OwnerReference("Transfer", newTransfer("bank", "ledger", nil)),
		}
		for _, f := range change {
			f(transfer)
		}
		return transfer
	}
	alone := func(t *v1alpha1.Transfer) { t.OwnerReferences = nil }
	elsewhere := func(t *v1alpha1.Transfer) { t.Name = "payroll" }
	scheduled := func(t *v1alpha1.Transfer) { t.Spec.Schedule = &v1alpha1.TransferSchedule{Cron: "@daily"} }
	other := func(t *v1alpha1.Transfer) { t.Spec.Destination.Peer = "south" }
	finalizer := func(t *v1alpha1.Transfer) { t.Finalizers = []string{"x"} }
	ask := func(operation admission.Operation, object, old *v1alpha1.Transfer) request {
		r := request{user: managerAccount, operation: operation, namespace: bank}
		r.resource = v1alpha1.GroupVersion.WithResource("transfers")
		if object != nil {
			r.object = object
		}
		if old != nil {
			r.old = old
		}
		return r
	}
	const none = "owns them"
	expect(t, "made", ask(admission.Create, leg(), nil), "")
	expect(t, "changed", ask(admission.Update, leg(other), leg()), "")
	expect(t, "deleted", ask(admission.Delete, nil, leg()), "")
	expect(t, "another's finalizer", ask(admission.Update, leg(alone, finalizer), leg(alone)), "")
	expect(t, "of nobody", ask(admission.Create, leg(alone), nil), none)
	expect(t, "of another name", ask(admission.Create, leg(elsewhere), nil), none)
	expect(t, "another's, changed", ask(admission.Update, leg(alone, other), leg(alone)), none)
	expect(t, "another's, taken over", ask(admission.Update, leg(other), leg(alone)), none)
	expect(t, "another's, deleted", ask(admission.Delete, nil, leg(alone)), none)
	expect(t, "with a schedule", ask(admission.Create, leg(scheduled), nil), "of its own")
	users := ask(admission.Create, leg(alone), nil)
	users.user = "deployer"
	expect(t, "by others", users, "")
}
