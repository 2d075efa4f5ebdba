// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// reconcile has a manager look at one Transfer.
func (l *link) reconcile(sends reconcile.Reconciler, of *v1alpha1.Transfer) reconcile.Result {
	l.t.Helper()
	result, err := sends.Reconcile(l.t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(of)})
	if err != nil {
		l.t.Error(err)
	}
	return result
}

// Whatever wakes a Transfer, a cluster that does not answer is asked as often as it was to be.
func TestReceiptIsNotAskedForAllTheTime(t *testing.T) {
	l := newLink(t, "west", v1alpha1.RouteGateway)
	l.away = true
	sends, _ := l.restart()
	l.east.clock.Step(100 * time.Second)
	for range 3 {
		if got := l.reconcile(sends, l.transfer).RequeueAfter; got != 10*time.Second || l.asked != 1 {
			t.Fatalf("asked %d times, again after %v", l.asked, got)
		}
	}
	l.east.clock.Step(10 * time.Second)
	if l.reconcile(sends, l.transfer); l.asked != 2 {
		t.Errorf("asked %d times after the pause", l.asked)
	}

	setReady := func(status metav1.ConditionStatus, reason string) {
		peer := &v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: "west"}}
		if err := l.east.Get(t.Context(), client.ObjectKeyFromObject(peer), peer); err != nil {
			t.Fatal(err)
		}
		meta.SetStatusCondition(&peer.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionReady, Status: status, Reason: reason, ObservedGeneration: peer.Generation,
		})
		if err := l.east.Update(t.Context(), peer); err != nil {
			t.Fatal(err)
		}
	}
	setReady(metav1.ConditionFalse, v1alpha1.ReasonPeerUntrusted)
	l.east.clock.Step(time.Hour)
	l.reconcile(sends, l.transfer)
	if got := reasonOf(l.sent().Status.Conditions); l.asked != 2 || got != v1alpha1.ReasonPeerUntrusted {
		t.Errorf("asked %d times, the reason is %q, while the Peer is not Ready", l.asked, got)
	}
	setReady(metav1.ConditionTrue, v1alpha1.ReasonSucceeded)
	if l.reconcile(sends, l.transfer); l.asked != 3 {
		t.Errorf("asked %d times when the Peer is Ready", l.asked)
	}
}

// A cluster that hangs takes one worker, whatever number of receipts it owes.
func TestReceiptOfPeerThatHangs(t *testing.T) {
	l := newLink(t, "west", v1alpha1.RouteGateway)
	second := l.sent()
	second.Name, second.UID, second.ResourceVersion = "second", "second", ""
	if err := l.east.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	hangs, release := make(chan struct{}), make(chan struct{})
	l.hang = func() {
		close(hangs)
		<-release
	}
	sends, _ := l.restart()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = sends.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(l.transfer)})
	}()
	<-hangs
	looked := make(chan reconcile.Result, 1)
	go func() {
		result, _ := sends.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(second)})
		looked <- result
	}()
	select {
	case result := <-looked:
		if result.RequeueAfter <= 0 {
			t.Error("nobody looks again")
		}
	case <-time.After(time.Minute):
		t.Error("a second worker waits for the same cluster")
	}
	close(release)
	<-ended
}

// Nobody asks for ever for a receipt that cannot come.
func TestReceiptThatCannotCome(t *testing.T) {
	for name, test := range map[string]struct {
		peer  string
		spoil func(*link)
	}{
		"PeerHasNone": {"west", func(l *link) { l.gone = true }},
		"LocalGone": {"", func(l *link) {
			d := l.delivered()
			d.Finalizers = nil
			if err := l.east.Update(t.Context(), d); err != nil {
				t.Fatal(err)
			}
			if err := l.east.Delete(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}},
		"LocalFailed": {"", func(l *link) {
			d := l.delivered()
			before := d.DeepCopy()
			d.Status.Phase = v1alpha1.DeliveryFailed
			if err := l.east.Status().Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLink(t, test.peer, v1alpha1.RouteDirect)
			test.spoil(l)
			sends, _ := l.restart()
			l.east.clock.Step(10 * time.Second)
			again := l.reconcile(sends, l.transfer).RequeueAfter
			if reasonOf(l.sent().Status.Conditions) != v1alpha1.ReasonReceiptPending || again == 0 {
				t.Errorf("at first: %+v, again after %v", l.sent().Status, again)
			}
			l.east.clock.Step(time.Minute)
			again = l.reconcile(sends, l.transfer).RequeueAfter
			if reasonOf(l.sent().Status.Conditions) != v1alpha1.ReasonReceiptMissing || again != 0 {
				t.Errorf("after a minute: %+v, again after %v", l.sent().Status, again)
			}
			asked, version := l.asked, l.sent().ResourceVersion
			l.east.clock.Step(time.Hour)
			if l.reconcile(sends, l.transfer); l.asked != asked || l.sent().ResourceVersion != version {
				t.Errorf("it is asked for again: %+v", l.sent().Status)
			}
		})
	}
}
