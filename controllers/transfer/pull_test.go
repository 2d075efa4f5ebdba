// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentjob"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/topology"
	"github.com/lighterage/lighterage/controllers/transfer"
)

// underPull is a Transfer that pulls, whose run is open, with its PeerGrant and a Delivery that receives.
func underPull(at time.Time) (*v1alpha1.Transfer, *v1alpha1.PeerGrant, *v1alpha1.Delivery) {
	begun := metav1.NewTime(at)
	object := &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: "ledger", UID: "uid", Finalizers: []string{v1alpha1.Finalizer},
		},
		Spec: v1alpha1.TransferSpec{Source: v1alpha1.TransferSource{Peer: "west", Namespace: "vault"}},
	}
	object.Spec.Source.PersistentVolumeClaim.ClaimName = "ledger"
	object.Spec.Destination.PersistentVolumeClaim.ClaimName = "copy"
	object.Status = v1alpha1.TransferStatus{
		Phase: v1alpha1.TransferTransferring, Run: &v1alpha1.RunStatus{ID: "a2b3c", Attempt: 1, StartTime: &begun},
		Pull: &v1alpha1.PullStatus{Transfer: plan.PulledName(object), RunID: "fghij"},
	}
	delivery := plan.NewDelivery("bank", v1alpha1.DeliverySpec{
		Peer: "west",
		// Not the attempt that the other cluster tells of.
		Transfer: v1alpha1.TransferReference{
			Namespace: "vault", Name: plan.PulledName(object), Run: "other", Attempt: 7,
		},
	})
	delivery.Spec.Destination.PersistentVolumeClaim.ClaimName = "copy"
	delivery.Status.Phase = v1alpha1.DeliveryReceiving
	return object, plan.PullGrant(object), delivery
}

func pullReconciler(s *stubborn, clock *clocktesting.FakeClock) reconcile.Reconciler {
	return transfer.NewReconciler(transfer.Options{
		Client: s, Reader: s, Attempts: agentjob.NewCluster(agentjob.Options{Client: s, Reader: s}),
		Topology: topology.New(s), Reports: controllertest.Asking[*wirev1.Report](nil),
		Metrics: metrics.NewTransfers(prometheus.NewRegistry()), Recorder: events.NewFakeRecorder(10), Clock: clock,
		Cluster: "east",
	})
}

func there(t *testing.T, s *stubborn, object client.Object) bool {
	t.Helper()
	err := s.Get(context.Background(), client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err == nil
}

// TestHeldPullIsEnded: a cluster that goes on sending although the pull is paused is stopped here.
func TestHeldPullIsEnded(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	object, grant, delivery := underPull(clock.Now())
	object.Spec.Pause = true
	s := newStubborn(object, grant, delivery)
	r := pullReconciler(s, clock)
	reconciled := func() {
		t.Helper()
		key := client.ObjectKeyFromObject(object)
		if _, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
	}
	reconciled()
	clock.Step(59 * time.Second)
	if reconciled(); !there(t, s, grant) || !there(t, s, delivery) {
		t.Fatal("the other cluster has no time to end its attempt")
	}
	clock.Step(2 * time.Second)
	if reconciled(); there(t, s, grant) || there(t, s, delivery) {
		t.Error("what is paused is still received")
	}
	if !there(t, s, object) {
		t.Fatal("the Transfer is gone")
	}
	object.Spec.Pause = false
	if err := s.Update(context.Background(), object); err != nil {
		t.Fatal(err)
	}
	if reconciled(); !there(t, s, grant) {
		t.Error("it does not go on")
	}
}

// TestPullIsDeletedWithoutItsGrant: a PeerGrant that somebody took over keeps the Transfer from nothing.
func TestPullIsDeletedWithoutItsGrant(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	object, grant, _ := underPull(clock.Now())
	object.Finalizers = append(object.Finalizers, "example.com/test") // so that the API in memory keeps it
	s := newStubborn(object, grant)
	if err := s.Delete(context.Background(), object); err != nil {
		t.Fatal(err)
	}
	s.deletes = apierrors.NewForbidden(schema.GroupResource{Resource: "peergrants"}, grant.Name, nil)
	r := pullReconciler(s, clock)
	_, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)})
	if err != nil || !there(t, s, object) || len(object.Finalizers) != 1 {
		t.Errorf("%v, finalizers %v", err, object.Finalizers)
	}
}

// TestForgedPullIsDeleted: what has a mark of the Transfers of pulls and is none never runs as an ordinary one.
func TestForgedPullIsDeleted(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	for name, change := range map[string]func(*v1alpha1.Transfer){
		"destination": func(t *v1alpha1.Transfer) { t.Spec.Destination.Namespace = "elsewhere" },
		"label":       func(t *v1alpha1.Transfer) { t.Labels = nil },
		"name":        func(t *v1alpha1.Transfer) { t.Name = "mine" },
	} {
		var spec v1alpha1.TransferSpec
		spec.Source.PersistentVolumeClaim.ClaimName = "ledger"
		spec.Destination.Peer, spec.Destination.Namespace = "west", "bank"
		forged := plan.NewPulled("vault", plan.PullReference{
			Peer: "west", Namespace: "bank", Name: "ledger", UID: "u",
		}, spec, "abcde", clock.Now())
		forged.Finalizers = []string{v1alpha1.Finalizer}
		change(forged)
		s := newStubborn(forged)
		_, err := pullReconciler(s, clock).Reconcile(context.Background(), ctrl.Request{
			NamespacedName: client.ObjectKeyFromObject(forged),
		})
		if err != nil || !there(t, s, forged) || forged.DeletionTimestamp.IsZero() {
			t.Errorf("another %s: %v, deleted %v", name, err, forged.DeletionTimestamp)
		}
	}
}
