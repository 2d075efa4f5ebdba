// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/staging"
)

// listed counts how often VolumeSnapshots are listed.
type listed struct {
	client.Reader
	times int
	err   error
}

func (l *listed) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	if _, ok := list.(*unstructured.UnstructuredList); !ok {
		return fmt.Errorf("listing %T", list)
	}
	l.times++
	return l.err
}

// TestLooksAtRest: a Transfer may be reconciled often, and there is no cache of VolumeSnapshots.
func TestLooksAtRest(t *testing.T) {
	api := &listed{}
	r := &Reconciler{staging: staging.Cluster{Reader: api}}
	object := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger", UID: "uid"}}
	object.Status.Snapshots = []v1alpha1.SnapshotStatus{{Name: "one", State: v1alpha1.SnapshotReady}}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	told := 0
	ctx := logr.NewContext(context.Background(), funcr.New(func(string, string) { told++ }, funcr.Options{}))
	look := func(what string, after time.Duration, times int, seen bool) {
		t.Helper()
		facts := plan.TransferFacts{Now: now.Add(after)}
		if err := r.gatherHistory(ctx, object, &facts); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if api.times != times || facts.History.Seen != seen || told != 0 {
			t.Errorf("%s: listed %d times, want %d; seen: %v; logged %d times", what, api.times, times, facts.History.Seen, told)
		}
	}
	look("at first", 0, 1, true)
	look("soon", time.Minute, 1, false)
	look("at last", time.Hour-time.Second, 1, false)
	look("an hour later", time.Hour, 2, true)
	api.err = errors.New("the webhook fails")
	look("with a failure", 2*time.Hour, 3, false)
	look("after a failure", 2*time.Hour+time.Minute, 3, false)
	api.err = nil
	object.Status.Snapshots[0].State = v1alpha1.SnapshotTaken
	look("needed", 2*time.Hour+2*time.Minute, 4, true)
	look("needed again", 2*time.Hour+2*time.Minute, 5, true)
	object.Status.Snapshots[0].State = v1alpha1.SnapshotReady
	look("not needed any more", 2*time.Hour+3*time.Minute, 5, false)
	object.UID = "another"
	look("of the same name", 2*time.Hour+3*time.Minute, 6, true)
}

func TestLooksAreForgotten(t *testing.T) {
	var l looks
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if of := types.UID("uid"); !l.begin(of, now, false) || l.begin(of, now, false) {
		t.Error("looks are not remembered")
	}
	l.forget("uid")
	if len(l.last) != 0 {
		t.Errorf("%v is kept", l.last)
	}
}
