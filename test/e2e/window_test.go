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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestWindow: a run that is under way when its window ends pauses, and goes on from its checkpoints in the next window.
func TestWindow(t *testing.T) {
	t.Parallel()
	// With the lowest limit that the API server takes it cannot end in the first window.
	const size, interval, streams, slow = 96 << 20, 1 << 20, 2, 256 << 10
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "", "200Mi")
	west.claim(t, namespace, "copy", "", "200Mi")
	east.sh(t, namespace, "source", fmt.Sprintf("head -c %d /dev/urandom > /data/large", size))
	grant(t, namespace, "copy")

	now := time.Now().UTC().Truncate(time.Minute)
	clock := func(in time.Duration) string { return now.Add(in).Format("15:04") }
	end, next := 5*time.Minute, 7*time.Minute
	transfer := newTransfer(namespace, "ledger")
	transfer.Spec.CheckpointInterval = resource.NewQuantity(interval, resource.BinarySI)
	transfer.Spec.Streams, transfer.Spec.MaxAttempts = streams, 1 // a pause is no failure
	transfer.Spec.Schedule = &v1alpha1.TransferSchedule{TimeZone: "Etc/UTC", Windows: []v1alpha1.ScheduleWindow{
		{Start: clock(-time.Minute), End: clock(end), BandwidthLimit: resource.NewQuantity(slow, resource.BinarySI)},
		{Start: clock(next), End: clock(next + time.Hour)},
	}}
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	paused := func() bool {
		ready := meta.FindStatusCondition(transfer.Status.Conditions, v1alpha1.ConditionReady)
		return transfer.Status.Phase == v1alpha1.TransferPaused && ready != nil &&
			ready.Reason == v1alpha1.ReasonOutsideWindow
	}
	var before v1alpha1.TransferStatus // while data move
	eventually(t, 10*time.Minute, "the run to pause at the end of its window", func() (bool, string) {
		if err := east.Get(ctx, client.ObjectKeyFromObject(transfer), transfer); err != nil {
			return false, err.Error()
		}
		s := transfer.Status
		// The run goes on for a moment after the end of its window, of which status says nothing more then.
		if s.Phase == v1alpha1.TransferTransferring && s.Progress != nil && s.Schedule != nil && s.Schedule.WindowEnd != nil {
			before = s
		}
		return paused(), fmt.Sprintf("%s %+v %+v", s.Phase, s.Progress, s.Conditions)
	})
	if before.Run == nil || before.Schedule == nil || before.Schedule.WindowEnd == nil ||
		!before.Schedule.WindowEnd.Time.Equal(now.Add(end)) || before.Progress.Bytes == 0 {
		t.Fatalf("before: %+v %+v", before.Schedule, before.Progress)
	}
	if s := transfer.Status; s.Run.ID != before.Run.ID || s.Run.Failures != 0 || s.Progress.Bytes >= size ||
		s.Schedule.NextWindow == nil || !s.Schedule.NextWindow.Time.Equal(now.Add(next)) {
		t.Fatalf("%+v %+v %+v", s.Run, s.Progress, s.Schedule)
	}
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if want, got := east.sh(t, namespace, "source", listing), west.sh(t, namespace, "copy", listing); want != got {
		t.Errorf("the two sides differ:\neast:\n%s\nwest:\n%s", want, got)
	}
	s := transfer.Status
	if len(s.History) != 2 || s.History[1].Reason != v1alpha1.ReasonPaused || s.Run.ID != before.Run.ID ||
		s.Run.Failures != 0 || s.Run.CompletionTime.Time.Before(now.Add(next)) {
		t.Fatalf("%+v %+v", s.Run, s.History)
	}
	last := s.History[0]
	t.Logf("%d bytes resumed, %d sent again, %d sent", last.ResumedBytes, last.ResentBytes, last.Bytes)
	if last.ResumedBytes == 0 || last.ResentBytes > streams*interval || last.Bytes+last.ResumedBytes > size+100 {
		t.Errorf("%+v", last)
	}
}
