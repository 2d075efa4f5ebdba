// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package delivery_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentjob"
	"github.com/lighterage/lighterage/controllers/audit"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/delivery"
	"github.com/lighterage/lighterage/controllers/topology"
)

// audited is a Delivery of a peer that has received something, with a grant, and what is logged of it.
type audited struct {
	*stubborn
	t      *testing.T
	object *v1alpha1.Delivery
	grant  *v1alpha1.PeerGrant
	lines  []map[string]any
	r      reconcile.Reconciler
	uses   *prometheus.Registry
}

func newAudited(t *testing.T) *audited {
	now := time.Now().Truncate(time.Second)
	a := &audited{t: t, uses: prometheus.NewRegistry(), object: &v1alpha1.Delivery{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: attemptName, UID: "uid", Finalizers: []string{v1alpha1.Finalizer},
		},
		Spec: v1alpha1.DeliverySpec{
			Peer:     "east",
			Transfer: v1alpha1.TransferReference{Namespace: "shop", Name: "ledger", Run: "a2b3c", Attempt: 1},
			Destination: v1alpha1.DeliveryDestination{
				PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/in"},
			},
		},
		Status: v1alpha1.DeliveryStatus{
			Phase:    v1alpha1.DeliveryReceiving,
			Run:      &v1alpha1.RunStatus{ID: "a2b3c", Attempt: 1, StartTime: &metav1.Time{Time: now.Add(-time.Minute)}},
			Progress: &v1alpha1.Progress{Bytes: 4096},
		},
	}, grant: &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "from-east"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: "east", Namespaces: []string{"shop"}}},
			To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim}},
		},
	}}
	objects := append(
		endedAgent(a.object, attemptName), a.object, a.grant, &v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: "east"}},
	)
	a.stubborn = newStubborn(objects...)
	log := funcr.NewJSON(func(text string) {
		line := map[string]any{}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		a.lines = append(a.lines, line)
	}, funcr.Options{})
	a.r = delivery.NewReconciler(delivery.Options{
		Client: a, Reader: a, Attempts: agentjob.NewCluster(agentjob.Options{Client: a, Reader: a}),
		Uses:     audit.NewUses(log, a.uses),
		Topology: topology.New(a), Reports: controllertest.Asking[*wirev1.Report](nil),
		Recorder: events.NewFakeRecorder(100), Clock: clocktesting.NewFakePassiveClock(now), Cluster: "west",
	})
	return a
}

func (a *audited) reconcile() error {
	_, err := a.r.Reconcile(context.Background(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(a.object)})
	return err
}

// delete deletes the Delivery, and sees that it goes.
func (a *audited) delete() {
	a.t.Helper()
	if err := a.Delete(context.Background(), a.object); err != nil {
		a.t.Fatal(err)
	}
	for range 3 { // more often than is necessary
		if err := a.reconcile(); err != nil {
			a.t.Fatal(err)
		}
	}
	if err := a.Get(context.Background(), client.ObjectKeyFromObject(a.object), a.object); !apierrors.IsNotFound(err) {
		a.t.Fatalf("the Delivery is still there (%v)", err)
	}
}

// says sees that there is one line, with a result.
func (a *audited) says(result string) {
	a.t.Helper()
	if len(a.lines) != 1 {
		a.t.Fatalf("%d lines: %v", len(a.lines), a.lines)
	}
	for key, want := range map[string]any{
		"msg": "Grant used", "audit": true, "peer": "east", "namespace": "shop", "toNamespace": "bank",
		"kind": "PersistentVolumeClaim", "name": "copy",
		"path": "/in", "transfer": "ledger", "run": "a2b3c", "attempt": 1.0, "bytes": 4096.0, "seconds": 60.0,
		"result": result,
	} {
		if got := a.lines[0][key]; got != want {
			a.t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	families, err := a.uses.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 1 ||
		families[0].GetMetric()[0].GetCounter().GetValue() != 1 {
		a.t.Errorf("counted: %v, %v", families, err)
	}
}

// A Delivery is one line of the audit trail, written when its end is, however often it is looked at and whatever
// becomes of it then.
func TestAuditOfADelivery(t *testing.T) {
	a := newAudited(t)
	a.writes = errors.New("the API server is busy")
	if err := a.reconcile(); !errors.Is(err, a.writes) {
		t.Fatal(err)
	}
	if len(a.lines) > 0 {
		t.Fatalf("its end was logged before it was written: %v", a.lines)
	}
	a.writes = nil
	for range 3 {
		if err := a.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	a.says(v1alpha1.ReasonSucceeded)
	a.delete()
	a.says(v1alpha1.ReasonSucceeded)
}

// One that is deleted while it runs has used its grant, too.
func TestAuditOfADeletedDelivery(t *testing.T) {
	a := newAudited(t)
	a.delete()
	a.says(audit.ResultWithdrawn)
}

func TestAuditOfARevokedDelivery(t *testing.T) {
	a := newAudited(t)
	if err := a.Delete(context.Background(), a.grant); err != nil {
		t.Fatal(err)
	}
	a.delete()
	a.says(v1alpha1.ReasonNotGranted)
}

// What stays within a namespace uses no grant.
func TestNoAuditWithoutAGrant(t *testing.T) {
	a := newAudited(t)
	a.object.Spec.Peer, a.object.Spec.Transfer.Namespace = "", "bank"
	if err := a.Update(context.Background(), a.object); err != nil {
		t.Fatal(err)
	}
	a.delete()
	if len(a.lines) > 0 {
		t.Errorf("%v", a.lines)
	}
}
