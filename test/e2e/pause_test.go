// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
)

// TestPause pauses a run in the middle of a file. Its pods end in both clusters, the receiving cluster says why, and the
// run goes on from its checkpoints. A changed limit of bandwidth needs no other attempt.
func TestPause(t *testing.T) {
	t.Parallel()
	const size, interval, streams = 96 << 20, 4 << 20, 2
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "", "200Mi")
	west.claim(t, namespace, "copy", "", "200Mi")
	east.sh(t, namespace, "source", fmt.Sprintf("head -c %d /dev/urandom > /data/large", size))
	grant(t, namespace, "copy")

	transfer := newTransfer(namespace, "ledger")
	transfer.Spec.CheckpointInterval = resource.NewQuantity(interval, resource.BinarySI)
	transfer.Spec.Streams = streams
	limit := resource.MustParse("4Mi")
	transfer.Spec.BandwidthLimit = &limit
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	phase := func(want v1alpha1.TransferPhase, bytes int64) {
		t.Helper()
		eventually(t, time.Minute, "the Transfer to be "+string(want), func() (bool, string) {
			if err := east.Get(ctx, client.ObjectKeyFromObject(transfer), transfer); err != nil {
				return false, err.Error()
			}
			s := transfer.Status
			return s.Phase == want && (bytes == 0 || s.Progress != nil && s.Progress.Bytes > bytes),
				fmt.Sprintf("%s %+v %+v", s.Phase, s.Progress, s.Conditions)
		})
	}
	phase(v1alpha1.TransferTransferring, 5*interval)
	patch(t, transfer, func() { transfer.Spec.Pause = true })
	begun := time.Now()
	phase(v1alpha1.TransferPaused, 0)
	t.Logf("paused after %s at %+v", time.Since(begun), transfer.Status.Progress)
	if p := transfer.Status.Progress; p.Bytes >= size || transfer.Status.Run.Failures != 0 {
		t.Fatalf("%+v %+v", p, transfer.Status.Run)
	}
	for _, c := range []*cluster{east, west} {
		eventually(t, time.Minute, "agents to be gone from "+c.name, func() (bool, string) {
			pods, running := &corev1.PodList{}, 0
			if err := c.List(ctx, pods, client.InNamespace(namespace), client.HasLabels{agentpod.ComponentLabel}); err != nil {
				return false, err.Error()
			}
			for _, pod := range pods.Items {
				if pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodPending {
					running++
				}
			}
			return running == 0, fmt.Sprintf("%d run", running)
		})
	}
	// Its controller hears of the end of the pod a moment later.
	eventually(t, time.Minute, "the receiving cluster to say why", func() (bool, string) {
		received := &v1alpha1.DeliveryList{}
		if err := west.List(ctx, received, client.InNamespace(namespace)); err != nil || len(received.Items) != 1 {
			return false, fmt.Sprintf("%v: %+v", err, received.Items)
		}
		ready := meta.FindStatusCondition(received.Items[0].Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Reason == v1alpha1.ReasonPaused, fmt.Sprintf("%+v", ready)
	})
	patch(t, transfer, func() { transfer.Spec.Pause = false })
	phase(v1alpha1.TransferTransferring, 0)
	// What is left takes ten seconds and more at this rate. The agent that runs takes another one.
	patch(t, transfer, func() { transfer.Spec.BandwidthLimit = nil })
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if want, got := east.sh(t, namespace, "source", listing), west.sh(t, namespace, "copy", listing); want != got {
		t.Errorf("the two sides differ:\neast:\n%s\nwest:\n%s", want, got)
	}
	s := transfer.Status
	if len(s.History) != 2 || s.History[1].Reason != v1alpha1.ReasonPaused || s.Run.Failures != 0 {
		t.Fatalf("%+v", s.History)
	}
	if s.Run.BandwidthLimit != nil {
		t.Errorf("the agent has kept its limit: %+v", s.Run)
	}
	last := s.History[0]
	t.Logf("%d bytes resumed, %d sent again, %d sent", last.ResumedBytes, last.ResentBytes, last.Bytes)
	if last.ResumedBytes == 0 || last.ResentBytes > streams*interval || last.Bytes+last.ResumedBytes > size+100 {
		t.Errorf("%+v", last)
	}
}
