// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package quota_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/quota"
)

// BenchmarkDecide is one request in a namespace where five Transfers run and about 10,000 wait.
func BenchmarkDecide(b *testing.B) {
	five := int32(5)
	quotas := []v1alpha1.DataQuota{
		{Spec: v1alpha1.DataQuotaSpec{Hard: v1alpha1.DataQuotaResources{RunningTransfers: &five}}},
	}
	var transfers []v1alpha1.Transfer
	for i := range 10_000 {
		name := fmt.Sprint(i)
		transfers = append(transfers, v1alpha1.Transfer{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Status:     v1alpha1.TransferStatus{Queued: &v1alpha1.QueuedStatus{Time: metav1.NewTime(start)}},
		})
	}
	for i := range five {
		transfers[i].Status = v1alpha1.TransferStatus{Run: &v1alpha1.RunStatus{ID: "abcde", Attempt: 1}}
	}
	for b.Loop() {
		view := quota.Transfers(quotas, transfers)
		quota.Decide(view, asks("new", quota.Unlimited))
	}
}

// sharing are the Transfers of 100 namespaces that run to 50 Peers, or wait for these: 1,000 each.
func sharing() (transfers []v1alpha1.Transfer, limits []quota.Limits) {
	const namespaces, peers, running, all = 100, 50, 1000, 2000
	least := resource.NewQuantity(quota.LeastBandwidth, resource.BinarySI)
	for i := range all {
		transfer := v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{
			Namespace: fmt.Sprint("team-", i%namespaces), Name: fmt.Sprint(i), UID: types.UID(fmt.Sprint(i)),
		}}
		transfer.Spec.Destination.Peer = fmt.Sprint("peer-", i%peers)
		if i < running {
			transfer.Status.Run = &v1alpha1.RunStatus{ID: "abcde", Attempt: 1, BandwidthShare: least}
		} else {
			transfer.Status.Queued = &v1alpha1.QueuedStatus{Time: metav1.NewTime(start)}
		}
		transfers = append(transfers, transfer)
	}
	for i := range peers {
		slots, bandwidth := int32(running/peers), resource.MustParse("80Mi")
		peer := &v1alpha1.Peer{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("peer-", i)}}
		peer.Spec.Limits = &v1alpha1.PeerLimits{RunningTransfers: &slots, Bandwidth: &bandwidth}
		shared, _ := quota.OfPeer(peer)
		limits = append(limits, shared)
	}
	return transfers, limits
}

// BenchmarkDecideShared is one request among them.
func BenchmarkDecideShared(b *testing.B) {
	transfers, limits := sharing()
	for b.Loop() {
		view := quota.Transfers(nil, transfers)
		view.Limits = limits
		quota.Decide(view, quota.TransferRequest(&transfers[len(transfers)-1], v1alpha1.RouteGateway))
	}
}

// BenchmarkShareOf is a look at one that runs among them.
func BenchmarkShareOf(b *testing.B) {
	transfers, limits := sharing()
	for b.Loop() {
		view := quota.Transfers(nil, transfers)
		view.Limits = limits
		view.ShareOf(string(transfers[0].UID))
	}
}

// BenchmarkPositions is what follows when one of them gives something back.
func BenchmarkPositions(b *testing.B) {
	transfers, limits := sharing()
	for b.Loop() {
		view := quota.Transfers(nil, transfers)
		view.Limits = limits
		view.Positions()
	}
}
