// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package quota_test

import (
	"fmt"
	"testing"

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
