// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package line

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/quota"
)

// TestPredicates: others are woken by what frees something, and the object itself when it begins to wait.
func TestPredicates(t *testing.T) {
	l := &Line[*v1alpha1.Transfer]{
		List: func() client.ObjectList { return &v1alpha1.TransferList{} }, Holds: quota.TransferHolds,
		Waits: quota.TransferWaits,
	}
	freed, queued := l.freed(), l.queued()
	runs := func(bandwidth string) *v1alpha1.Transfer {
		transfer := &v1alpha1.Transfer{}
		limit := resource.MustParse(bandwidth)
		transfer.Status.Run = &v1alpha1.RunStatus{ID: "bbbbb", BandwidthLimit: &limit}
		return transfer
	}
	waits := &v1alpha1.Transfer{Status: v1alpha1.TransferStatus{Queued: &v1alpha1.QueuedStatus{}}}
	done := runs("1M")
	done.Status.Run.CompletionTime = &metav1.Time{}
	for name, test := range map[string]struct {
		before, after *v1alpha1.Transfer
		freed, queued bool
	}{
		"goes on":              {before: runs("1M"), after: runs("1M")},
		"takes more":           {before: runs("1M"), after: runs("2M")},
		"gives back a part":    {before: runs("2M"), after: runs("1M"), freed: true},
		"ends":                 {before: runs("1M"), after: done, freed: true},
		"begins to wait":       {before: &v1alpha1.Transfer{}, after: waits, queued: true},
		"goes on waiting":      {before: waits, after: waits},
		"is admitted":          {before: waits, after: runs("1M")},
		"waits no more":        {before: waits, after: &v1alpha1.Transfer{}, freed: true},
		"waits after it held":  {before: runs("1M"), after: waits, freed: true, queued: true},
		"has never had a turn": {before: &v1alpha1.Transfer{}, after: &v1alpha1.Transfer{}},
	} {
		e := event.UpdateEvent{ObjectOld: test.before, ObjectNew: test.after}
		if got := freed.Update(e); got != test.freed {
			t.Errorf("%s: freed %t", name, got)
		}
		if got := queued.Update(e); got != test.queued {
			t.Errorf("%s: queued %t", name, got)
		}
	}
	if freed.Create(event.CreateEvent{}) || queued.Create(event.CreateEvent{}) || !freed.Delete(event.DeleteEvent{}) ||
		queued.Delete(event.DeleteEvent{}) {
		t.Error("only a deletion frees something without an update")
	}
}
