// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package statement

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/ledger"
	"github.com/lighterage/lighterage/controllers/metrics"
)

func newBooks() (*Books, *clocktesting.FakePassiveClock) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 10, 0, 0, 0, 0, time.UTC))
	return New(Options{Metrics: metrics.NewStatements(prometheus.NewRegistry()), Clock: clock, Months: 13}), clock
}

// leaving is a Transfer that is being deleted.
func leaving(uid string, bytes int64, at time.Time) *v1alpha1.Transfer {
	t := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{
		Namespace: "bank", Name: uid, UID: types.UID(uid), ResourceVersion: "1", DeletionTimestamp: &metav1.Time{Time: at},
	}}
	if bytes > 0 {
		t.Status.Run = &v1alpha1.RunStatus{ID: "run", Attempt: 1}
		t.Status.Usage = &v1alpha1.UsageStatus{WireBytes: bytes}
	}
	return t
}

func accountOf(t *v1alpha1.Transfer) ledger.Account {
	return ledger.Kinds[0].Account(t, ledger.Facts{Node: func(string) ledger.Node { return ledger.Node{} }})
}

// TestSettledAtOnce: what has no figures does not wait, and is not kept.
func TestSettledAtOnce(t *testing.T) {
	b, clock := newBooks()
	idle, busy := leaving("idle", 0, clock.Now()), leaving("busy", 1, clock.Now())
	if !b.Settled(idle) || b.Settled(busy) {
		t.Error("an object without figures waits, or one with figures does not")
	}
	b.gone(ledger.Kinds[0], idle)
	if n := len(b.of("bank").deleted); n != 0 {
		t.Errorf("%d objects are kept", n)
	}
	b.done("bank", nil, []ledger.Account{accountOf(busy)})
	if !b.Settled(busy) {
		t.Error("an object that is booked waits")
	}
}

// TestAttemptsAreUrgent: where attempts end faster than history holds them the namespace is booked at once, however
// many namespaces there are.
func TestAttemptsAreUrgent(t *testing.T) {
	b, clock := newBooks()
	for i := range 1000 {
		b.done(fmt.Sprint("namespace-", i), nil, nil)
	}
	b.done("bank", nil, nil)
	clock.SetTime(clock.Now().Add(2 * time.Second))
	version := func(newest int32) *v1alpha1.Transfer {
		transfer := leaving("uid", 1, clock.Now())
		for n := newest; n > max(0, newest-10); n-- {
			transfer.Status.History = append(transfer.Status.History, v1alpha1.AttemptRecord{RunID: "run", Attempt: n})
		}
		return transfer
	}
	b.changed(version(1), version(3))
	b.changed(version(3), version(3))
	b.changed(version(3), version(5))
	if wait := b.due("bank"); wait < 10*time.Minute {
		t.Errorf("after 4 attempts the namespace waits for %s", wait)
	}
	b.changed(version(5), version(6))
	if wait := b.due("bank"); wait > 0 {
		t.Errorf("after 5 attempts the namespace waits for %s", wait)
	}
	b.done("bank", nil, nil)
	if wait := b.due("bank"); wait < 10*time.Minute {
		t.Errorf("after a booking the namespace waits for %s", wait)
	}
	// Of more than history holds the watch shows the last ones.
	b.changed(version(6), version(40))
	if wait := b.due("bank"); wait > time.Second {
		t.Errorf("after many attempts the namespace waits for %s", wait)
	}
}

// TestDeletedAreBounded: objects that are deleted faster than they are booked do not fill the memory.
func TestDeletedAreBounded(t *testing.T) {
	b, clock := newBooks()
	for i := range maxDeleted + 10 {
		b.gone(ledger.Kinds[0], leaving(fmt.Sprint("uid-", i), 1, clock.Now()))
	}
	if n := len(b.of("bank").deleted); n != maxDeleted {
		t.Errorf("%d objects are kept", n)
	}
}

// TestDoneOfGone: a last version of an object that was not booked stays to be.
func TestDoneOfGone(t *testing.T) {
	b, clock := newBooks()
	for i, booked := range []bool{false, true} {
		last := leaving("uid", 2, clock.Now())
		a := accountOf(last)
		last.ResourceVersion = strconv.Itoa(2 - i)
		b.gone(ledger.Kinds[0], last)
		b.done("bank", nil, []ledger.Account{a})
		if left := len(b.of("bank").deleted); (left == 0) != booked {
			t.Errorf("version %s: %d objects are kept", last.ResourceVersion, left)
		}
	}
}
