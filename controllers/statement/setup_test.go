// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package statement

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/ledger"
)

// TestReplacedObject: one that was deleted and made again between two watches is kept until it is booked; one that
// changed is not.
func TestReplacedObject(t *testing.T) {
	i := slices.IndexFunc(ledger.Kinds, func(k ledger.Kind) bool { return k.Name == "Transfer" })
	b := New(Options{})
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer q.ShutDown()
	made := func(uid types.UID) *v1alpha1.Transfer {
		transfer := &v1alpha1.Transfer{}
		transfer.Namespace, transfer.Name, transfer.UID = "bank", "ledger", uid
		transfer.Status.History = []v1alpha1.AttemptRecord{
			{RunID: "a", Attempt: 1, Usage: &v1alpha1.UsageStatus{WireBytes: 1}},
		}
		return transfer
	}
	handler, before := b.handler(ledger.Kinds[i]), made("1")
	handler.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: made("1")}, q)
	if kept := b.of("bank").deleted; len(kept) != 0 {
		t.Errorf("an object that changed is kept as deleted: %v", kept)
	}
	handler.Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: made("2")}, q)
	if kept := b.of("bank").deleted; len(kept) != 1 || kept["1"].object != before || kept["1"].kind.Name != "Transfer" {
		t.Errorf("kept are %v", kept)
	}
	if q.Len() != 1 {
		t.Errorf("%d namespaces are to be booked", q.Len())
	}
}
