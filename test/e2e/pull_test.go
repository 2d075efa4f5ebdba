// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// A Transfer in east pulls a claim of west: not without a PeerGrant there, then by a Transfer that west makes and runs,
// which goes with the one in east.
func TestPull(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	west.claim(t, namespace, "source", "", "100Mi")
	east.claim(t, namespace, "copy", "", "100Mi")
	west.sh(t, namespace, "source", fill)
	pull := newTransfer(namespace, "pull")
	pull.Spec.Source.Peer, pull.Spec.Destination.Peer = "west", ""
	pull.Spec.Receipt = true
	if err := east.Create(ctx, pull); err != nil {
		t.Fatal(err)
	}
	waitFor(t, pull, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonNotGranted)
	if err := west.Create(ctx, &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pulled-by-east"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: "east", Namespaces: []string{namespace}}},
			To: []v1alpha1.PeerGrantTo{{
				Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: "source", Verbs: []v1alpha1.GrantedVerb{v1alpha1.GrantedRead},
			}},
		},
	}); err != nil {
		t.Fatal(err)
	}
	// A changed spec is told at once, where the next question would follow after a minute.
	patch := client.MergeFrom(pull.DeepCopy())
	pull.Spec.MaxAttempts = 6
	if err := east.Patch(ctx, pull, patch); err != nil {
		t.Fatal(err)
	}
	waitFor(t, pull, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if want, got := west.sh(t, namespace, "source", listing), east.sh(t, namespace, "copy", listing); want != got {
		t.Errorf("the two claims differ:\nsource:\n%s\ncopy:\n%s", want, got)
	}
	if s := pull.Status; s.Peer != "west" || s.Progress.Files != 303 || s.Compression == nil || len(s.History) == 0 ||
		s.Pull == nil || s.RecoveryPoint == nil {
		t.Errorf("%+v", s)
	}
	eventually(t, time.Minute, "the receipt", func() (bool, string) {
		if err := east.Get(ctx, client.ObjectKeyFromObject(pull), pull); err != nil {
			return false, err.Error()
		}
		return pull.Status.Receipt != nil && pull.Status.Receipt.ConfigMapName != "" &&
			meta.IsStatusConditionTrue(pull.Status.Conditions, v1alpha1.ConditionReceiptSigned), "it is not signed"
	})
	made := &v1alpha1.Transfer{}
	key := client.ObjectKey{Namespace: namespace, Name: plan.PulledName(pull)}
	if err := west.Get(ctx, key, made); err != nil {
		t.Fatal(err)
	}
	if made.Status.Phase != v1alpha1.TransferComplete || made.Status.Usage == nil {
		t.Errorf("in west: %+v", made.Status)
	}
	if err := east.Delete(ctx, pull); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Minute, "what was made for the pull to be gone", func() (bool, string) {
		err := west.Get(ctx, key, made)
		return apierrors.IsNotFound(err), "Transfer " + key.Name + " is there"
	})
}
