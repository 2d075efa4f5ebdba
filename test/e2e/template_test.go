// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestCreatedDestination takes the chart with claimTemplates.enabled: the other cluster creates the claim that its
// PeerGrant allows, and keeps it when the Transfer is deleted.
func TestCreatedDestination(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "", "100Mi")
	east.sh(t, namespace, "source", "echo hello > /data/greeting")
	grant := &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "from-east"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: "east", Namespaces: []string{namespace}}},
			To: []v1alpha1.PeerGrantTo{{
				Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: "copy",
				Create: &v1alpha1.PeerGrantCreate{MaxSize: resource.MustParse("1Gi")},
			}},
		},
	}
	if err := west.Create(ctx, grant); err != nil {
		t.Fatal(err)
	}
	transfer := newTransfer(namespace, "ledger")
	transfer.Spec.Destination.PersistentVolumeClaim.Template = &v1alpha1.ClaimTemplate{}
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	claim := &corev1.PersistentVolumeClaim{}
	if err := west.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "copy"}, claim); err != nil {
		t.Fatal(err)
	}
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if size.String() != "120Mi" || claim.Annotations[v1alpha1.CreatedForAnnotation] != "east/"+namespace+"/ledger" {
		t.Errorf("%+v", claim)
	}
	west.Mount(t, namespace, "copy")
	if got := west.sh(t, namespace, "copy", "cat /data/greeting"); got != "hello\n" {
		t.Errorf("%q arrived", got)
	}
	if err := east.Delete(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	gone(t, namespace)
	if err := west.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil || claim.DeletionTimestamp != nil {
		t.Errorf("the claim went with the Transfer: %v", err)
	}
}
