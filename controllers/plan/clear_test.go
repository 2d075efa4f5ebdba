// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

// The Job of what is complete is removed, also by a manager that finds it there later. That of what failed stays for
// people to read its log.
func TestClear(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC))
	run := &v1alpha1.RunStatus{ID: "abcde", Attempt: 1, CompletionTime: &now}
	job := &batchv1.Job{}
	for name, c := range map[string]struct {
		complete bool
		job      *batchv1.Job
		clear    bool
	}{
		"complete":         {true, job, true},
		"complete, no Job": {true, nil, false},
		"failed":           {false, job, false},
	} {
		transfer := &v1alpha1.Transfer{Status: v1alpha1.TransferStatus{Phase: v1alpha1.TransferFailed, Run: run}}
		delivery := &v1alpha1.Delivery{Status: v1alpha1.DeliveryStatus{Phase: v1alpha1.DeliveryFailed, Run: run}}
		if c.complete {
			transfer.Status.Phase, delivery.Status.Phase = v1alpha1.TransferComplete, v1alpha1.DeliveryComplete
		}
		if got := DecideTransfer(transfer, TransferFacts{Now: now.Time, Job: c.job}, agentpod.Image{}).Clear; got != c.clear {
			t.Errorf("Transfer, %s: %v", name, got)
		}
		if got := DecideDelivery(delivery, DeliveryFacts{Now: now.Time, Job: c.job}, agentpod.Image{}).Clear; got != c.clear {
			t.Errorf("Delivery, %s: %v", name, got)
		}
	}
}
