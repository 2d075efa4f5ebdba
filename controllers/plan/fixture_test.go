// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/attempt/attempttest"
	"github.com/lighterage/lighterage/controllers/plan"
)

var (
	now, image           = attempttest.Now, attempttest.Image
	pod, ended, failed   = attempttest.Pod, attempttest.Ended, attempttest.Failed
	verdict, failedWith  = attempttest.Verdict, attempttest.FailedWith
	nodes, unschedulable = attempttest.Nodes, attempttest.Unschedulable
	restricted           = attempttest.Restricted
)

func newTransfer(name string, age time.Duration) *v1alpha1.Transfer {
	return &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: name, UID: "uid-of-" + "transfer", Generation: 1,
			CreationTimestamp: metav1.NewTime(now.Add(-age)),
		},
		Spec: v1alpha1.TransferSpec{
			Source: v1alpha1.TransferSource{
				PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger", Path: "/"},
			},
			Destination: v1alpha1.TransferDestination{
				Peer: "west", PersistentVolumeClaim: v1alpha1.DestinationClaim{
					PersistentVolumeClaimPath: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/books"},
				},
			},
			MaxAttempts: 3,
		},
	}
}

// goodFacts are those under which an attempt can begin.
func goodFacts() plan.TransferFacts {
	return plan.TransferFacts{
		Now: now, NewRunID: "abcde",
		Peer: &v1alpha1.Peer{
			ObjectMeta: metav1.ObjectMeta{Name: "west", Generation: 1},
			Spec:       v1alpha1.PeerSpec{Endpoint: "gateway.west.example:8443", CABundle: []byte("pem")},
		},
		Claim: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger"}},
	}
}

// running is a Transfer in that attempt of its run, and the facts for it, with a Job.
func running(number int32) (*v1alpha1.Transfer, plan.TransferFacts) {
	transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
	decision := plan.DecideTransfer(transfer, facts, image)
	transfer.Status = decision.Status
	transfer.Status.Run.Attempt = number
	facts.Job = &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "bank", Name: attempt.Name("ledger", "abcde", number), CreationTimestamp: metav1.NewTime(now),
	}}
	return transfer, facts
}
