// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/plan"
)

const pullUID = "0e5a9b1c-3f6d-4c55-9d0a-6f0f2a0b7c11"

// preparePull makes a Transfer that pulls from the Peer of its namespace.
func preparePull(t *testing.T) *fixture {
	f := prepareSerially(t)
	f.transfer.Spec.Source.Peer, f.transfer.Spec.Source.Namespace = f.namespace, "vault"
	f.transfer.Spec.Destination.Peer = ""
	f.transfer.Spec.Destination.PersistentVolumeClaim.ClaimName = "ledger"
	return f
}

// grantOfPull waits until the PeerGrant of the pull is there, or is not.
func (f *fixture) grantOfPull(there bool) {
	f.Helper()
	key := client.ObjectKeyFromObject(plan.PullGrant(f.transfer))
	controllertest.Eventually(f, func() error {
		err := cluster.Client.Get(context.Background(), key, &v1alpha1.PeerGrant{})
		if client.IgnoreNotFound(err) != nil || (err == nil) != there {
			return fmt.Errorf("the PeerGrant is to be there: %t; %w", there, err)
		}
		return nil
	})
}

func TestPull(t *testing.T) {
	f := preparePull(t)
	var mu sync.Mutex
	var answer *wirev1.PullResponse
	var refused error
	say := func(next *wirev1.PullResponse, err error) {
		mu.Lock()
		defer mu.Unlock()
		answer, refused = next, err
	}
	run, completes := "", 0
	gateways.OnPull(func(request *wirev1.PullRequest) (*wirev1.PullResponse, error) {
		mu.Lock()
		defer mu.Unlock()
		run = request.GetRun()
		if answer == nil {
			return nil, refused
		}
		now := proto.CloneOf(answer)
		now.Run = run
		if now.GetPhase() == string(v1alpha1.TransferComplete) {
			completes++
		}
		return now, nil
	})
	defer gateways.OnPull(nil)
	say(nil, &agentclient.RefusedError{
		Reason: wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED, Message: "there is no PeerGrant",
	})
	f.create()
	f.wait(v1alpha1.TransferRetrying, v1alpha1.ConditionStalled, v1alpha1.ReasonNotGranted)
	f.grantOfPull(true)
	mu.Lock()
	if f.transfer.Status.Peer != f.namespace || f.transfer.Status.Run.ID != run {
		t.Errorf("%+v, asked for run %s", f.transfer.Status, run)
	}
	mu.Unlock()
	begun := func(phase, reason string) *wirev1.PullResponse {
		return &wirev1.PullResponse{
			RunId: "fghij", Attempt: 1, Phase: phase, Reason: reason, Message: "m",
			Report: &wirev1.Report{Progress: &wirev1.Progress{Bytes: 1, BytesTotal: 2}},
		}
	}
	say(begun("Transferring", v1alpha1.ReasonTransferring), nil)
	f.change(func(t *v1alpha1.Transfer) { t.Spec.MaxAttempts = 7 }) // a changed spec is told at once
	f.wait(v1alpha1.TransferTransferring, v1alpha1.ConditionReconciling, v1alpha1.ReasonTransferring)

	// The other cluster's word alone is not enough.
	delivery := plan.NewDelivery(f.namespace, v1alpha1.DeliverySpec{
		Peer: f.namespace,
		Transfer: v1alpha1.TransferReference{
			Namespace: "vault", Name: plan.PulledName(f.transfer), Run: "fghij", Attempt: 1,
		},
		Destination: v1alpha1.DeliveryDestination{
			PersistentVolumeClaim: f.transfer.Spec.Destination.PersistentVolumeClaim.PersistentVolumeClaimPath,
		},
	})
	cluster.Create(t, delivery)
	say(begun("Complete", v1alpha1.ReasonSucceeded), nil)
	f.change(func(t *v1alpha1.Transfer) { t.Spec.MaxAttempts = 8 }) // asks at once
	controllertest.Eventually(t, func() error {
		mu.Lock()
		defer mu.Unlock()
		if completes < 2 { // what the first answer says has been written when it is asked again
			return fmt.Errorf("the other cluster has said %d times that it is complete", completes)
		}
		return nil
	})
	if err := f.refresh(); err != nil || f.transfer.Status.Phase != v1alpha1.TransferTransferring {
		t.Fatalf("%s before it was received: %v", f.transfer.Status.Phase, err)
	}
	before := delivery.DeepCopy()
	delivery.Status.Phase = v1alpha1.DeliveryComplete
	if err := cluster.Client.Status().Patch(context.Background(), delivery, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	f.wait(v1alpha1.TransferComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
	f.grantOfPull(false)
	if len(f.jobs()) != 0 {
		t.Error("a pod was made here")
	}

	if err := cluster.Client.Delete(context.Background(), f.transfer); err != nil {
		t.Fatal(err)
	}
	gone(t, f.transfer)
	if !gateways.Withdrawn("vault", string(f.transfer.UID)) {
		t.Error("the other cluster was not told")
	}
	gone(t, delivery)
}

// gone waits until an object is.
func gone(t *testing.T, object client.Object) {
	t.Helper()
	controllertest.Eventually(t, func() error {
		err := cluster.Client.Get(context.Background(), client.ObjectKeyFromObject(object), object)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s is still there (%w)", object.GetName(), err)
		}
		return nil
	})
}

// TestPullFromAnOldRelease: the condition says that the other cluster must be upgraded.
func TestPullFromAnOldRelease(t *testing.T) {
	f := preparePull(t)
	f.create()
	f.wait(v1alpha1.TransferRetrying, v1alpha1.ConditionStalled, v1alpha1.ReasonPeerIncompatible)
}

func (f *fixture) pulled() *v1alpha1.Transfer {
	spec := f.transfer.Spec
	spec.Destination.Peer, spec.Destination.Namespace = f.namespace, "reports"
	return plan.NewPulled(f.namespace, plan.PullReference{
		Peer: f.namespace, Namespace: "reports", Name: "ledger", UID: pullUID,
	}, spec, "abcde", time.Now())
}

func (f *fixture) mayRead() *v1alpha1.PeerGrant {
	return &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "read"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: f.namespace, Namespaces: []string{"reports"}}},
			To: []v1alpha1.PeerGrantTo{{
				Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: "ledger", Verbs: []v1alpha1.GrantedVerb{v1alpha1.GrantedRead},
			}},
		},
	}
}

// TestPulledWithoutAGrant: what no PeerGrant allows is deleted before anything runs, and what was allowed when it is
// not any more.
func TestPulledWithoutAGrant(t *testing.T) {
	f := prepare(t)
	f.transfer = f.pulled()
	f.create()
	gone(t, f.transfer)
	if len(f.jobs()) > 0 {
		t.Error("it had an agent")
	}
	grant := f.mayRead()
	cluster.Create(t, grant)
	controllertest.Eventually(t, func() error {
		return cached.Get(context.Background(), client.ObjectKeyFromObject(grant), &v1alpha1.PeerGrant{})
	})
	f.transfer = f.pulled()
	f.create()
	f.job(1)
	if f.transfer.Status.LastRunRequest != "abcde" {
		t.Errorf("run %q was begun", f.transfer.Status.LastRunRequest)
	}
	if err := cluster.Client.Delete(context.Background(), grant); err != nil {
		t.Fatal(err)
	}
	gone(t, f.transfer)
}

func TestPulledAndPulledInto(t *testing.T) {
	f := prepare(t)
	cluster.Create(t, f.mayRead())
	back := preparePullIn(f)
	cluster.Create(t, back)
	controllertest.Eventually(t, func() error {
		return errors.Join(
			cached.Get(context.Background(), client.ObjectKeyFromObject(back), &v1alpha1.Transfer{}),
			cached.Get(context.Background(), client.ObjectKey{Namespace: f.namespace, Name: "read"}, &v1alpha1.PeerGrant{}),
		)
	})
	f.transfer = f.pulled()
	f.create()
	f.wait(v1alpha1.TransferPending, v1alpha1.ConditionStalled, v1alpha1.ReasonPullCycle)
}

// preparePullIn pulls into what is pulled.
func preparePullIn(f *fixture) *v1alpha1.Transfer {
	back := f.make("back")
	back.Spec.Source.Peer, back.Spec.Destination.Peer = f.namespace, ""
	back.Spec.Destination.PersistentVolumeClaim.ClaimName = "ledger"
	return back
}

// TestPullSpecs: the API server rejects what a pull cannot do.
func TestPullSpecs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*v1alpha1.Transfer)
		valid  bool
	}{
		"pull":                 {func(*v1alpha1.Transfer) {}, true},
		"the same claim name":  {func(t *v1alpha1.Transfer) { t.Spec.Destination.PersistentVolumeClaim.Path = "/" }, true},
		"namespace alone":      {func(t *v1alpha1.Transfer) { t.Spec.Source.Peer = "" }, false},
		"to another cluster":   {func(t *v1alpha1.Transfer) { t.Spec.Destination.Peer = "west" }, false},
		"to another namespace": {func(t *v1alpha1.Transfer) { t.Spec.Destination.Namespace = "other" }, false},
		"snapshot":             {func(t *v1alpha1.Transfer) { t.Spec.Source.CopyMethod = v1alpha1.CopySnapshot }, false},
		"pod": {func(t *v1alpha1.Transfer) {
			t.Spec.PodTemplate = &v1alpha1.AgentPodTemplate{PriorityClassName: "high"}
		}, false},
		"policy": {func(t *v1alpha1.Transfer) {
			t.Spec.Compression = &v1alpha1.Compression{PolicyName: "fast"}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := preparePull(t)
			c.change(f.transfer)
			err := cluster.Client.Create(context.Background(), f.transfer)
			if (err == nil) != c.valid || err != nil && !apierrors.IsInvalid(err) {
				t.Fatalf("%v", err)
			}
			if err != nil {
				return
			}
			f.change(func(t *v1alpha1.Transfer) { t.Spec.MaxAttempts = 9 })
			for _, change := range []func(*v1alpha1.Transfer){
				func(t *v1alpha1.Transfer) { t.Spec.Source.Namespace = "other" },
				func(t *v1alpha1.Transfer) { t.Spec.Source.Peer, t.Spec.Source.Namespace = "", "" },
			} {
				after := f.transfer.DeepCopy()
				change(after)
				err := cluster.Client.Patch(context.Background(), after, client.MergeFrom(f.transfer))
				if !apierrors.IsInvalid(err) {
					t.Errorf("source was changed: %v", err)
				}
			}
		})
	}
}
