// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/test/clusters"
)

// TestTransferSet moves three claims to the other cluster by one object, which takes its Transfers with it when it is
// deleted, and leaves what they have written.
func TestTransferSet(t *testing.T) {
	t.Parallel()
	ctx, namespace := context.Background(), newNamespace(t)
	names := []string{"accounts", "ledger", "reports"}
	for i, name := range names {
		east.claim(t, namespace, name, "", "100Mi")
		west.claim(t, namespace, name, "", "100Mi")
		east.sh(t, namespace, name, fmt.Sprintf("mkdir /data/d && seq %d > /data/d/%s.txt", 10000*(i+1), name))
	}
	grant := &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "from-east"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: "east", Namespaces: []string{namespace}}},
			To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim}},
		},
	}
	if err := west.Create(ctx, grant); err != nil {
		t.Fatal(err)
	}
	set := &v1alpha1.TransferSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "move"},
		Spec: v1alpha1.TransferSetSpec{
			Selector: &metav1.LabelSelector{}, MaxConcurrent: 2,
			Template: v1alpha1.TransferSetTemplate{Destination: v1alpha1.TransferSetDestination{Peer: "west"}},
		},
	}
	if err := east.Create(ctx, set); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = east.Delete(ctx, set) }) // before the namespace waits for Transfers to be gone
	eventually(t, 6*time.Minute, "all members to be complete", func() (bool, string) {
		if err := east.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return false, err.Error()
		}
		ready := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == v1alpha1.ReasonMembersComplete, fmt.Sprintf("%+v", ready)
	})
	if s := set.Status; s.Members.Complete != 3 || s.Bytes == 0 || s.WireBytes == 0 || s.RecoveryPoint == nil {
		t.Errorf("status %+v", s)
	}
	for _, name := range names {
		want, got := east.sh(t, namespace, name, clusters.Listing), west.sh(t, namespace, name, clusters.Listing)
		if want != got {
			t.Errorf("%s: the source has\n%sand the destination\n%s", name, want, got)
		}
	}
	if err := east.Delete(ctx, set); err != nil {
		t.Fatal(err)
	}
	eventually(t, 3*time.Minute, "the members to be deleted with their set", func() (bool, string) {
		var left v1alpha1.TransferList
		err := east.List(ctx, &left, client.InNamespace(namespace))
		return err == nil && len(left.Items) == 0, fmt.Sprintf("%d are left: %v", len(left.Items), err)
	})
}
