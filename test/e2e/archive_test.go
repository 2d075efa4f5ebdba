// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestArchive loses a queue with all of its messages, and makes another one of its archive: what was put and not
// acknowledged is there, once and in order, and status says what recovery took.
func TestArchive(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "archives", "", "100Mi")
	archive := func(s *v1alpha1.QueueSpec) {
		s.Archive = &v1alpha1.QueueArchive{
			PersistentVolumeClaim: v1alpha1.QueueArchiveClaim{ClaimName: "archives"},
			Interval:              &metav1.Duration{Duration: time.Second},
		}
	}
	lost, putter := east.newQueue(t, namespace, "orders", archive)
	east.waitForQueue(t, lost, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	messages := orders(40)
	putter.connect(t)
	putter.put(t, messages)
	putter.get(t, messages[:10])
	putter.close()
	settled := time.Now()
	east.see(t, lost, "be archived", func(s v1alpha1.QueueStatus) bool {
		return s.Archive != nil && s.Archive.Sequence == int64(len(messages)) && s.Archive.LastTime != nil &&
			s.Archive.LastTime.After(settled) && s.Archive.Behind == 0 &&
			meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionArchived)
	})
	// Some of the first may have been acknowledged before they could be archived.
	if a := lost.Status.Archive; a.Messages+a.Passed != int64(len(messages)) || a.Messages < 30 || a.Ranges < 1 ||
		a.RangeBytes != a.CompressedBytes || a.Bytes < a.CompressedBytes || a.Ratio == "" || a.LastError != nil {
		t.Errorf("archive %+v", *a)
	}
	files := east.sh(t, namespace, "archives", "ls -l /data")
	t.Logf("archive %+v\n%s", *lost.Status.Archive, files)

	patch(t, lost, func() { metav1.SetMetaDataAnnotation(&lost.ObjectMeta, v1alpha1.DeleteMessagesAnnotation, "true") })
	if err := east.Delete(ctx, lost); err != nil {
		t.Fatal(err)
	}
	eventually(t, 6*time.Minute, "the Queue to go", func() (bool, string) {
		err := east.Get(ctx, client.ObjectKeyFromObject(lost), lost)
		return apierrors.IsNotFound(err), "it is still there"
	})

	again, getter := east.newQueue(t, namespace, "orders-again", func(s *v1alpha1.QueueSpec) {
		archive(s)
		s.Restore = &v1alpha1.QueueRestore{
			PersistentVolumeClaim: v1alpha1.QueueArchiveClaim{ClaimName: "archives"}, Queue: "orders",
		}
	})
	east.waitForQueue(t, again, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	if c := meta.FindStatusCondition(again.Status.Conditions, v1alpha1.ConditionRestored); c == nil ||
		c.Status != metav1.ConditionTrue || c.Reason != v1alpha1.ReasonRestored {
		t.Errorf("%s is %+v", v1alpha1.ConditionRestored, c)
	}
	bytes := int64(0)
	for _, message := range messages[10:] {
		bytes += int64(len(message))
	}
	r := again.Status.Restore
	if r == nil || r.State != "Restored" || r.Messages != 30 || r.Bytes != bytes || r.ArchiveBytes <= 0 ||
		r.Duration == nil {
		t.Fatalf("restore %+v", r)
	}
	t.Logf("restore %+v", *r)
	// It has two decimals, and is 0 for so little on a machine that is slow.
	if rate, err := strconv.ParseFloat(r.MegabytesPerSecond, 64); err != nil ||
		rate <= 0 && r.Duration.Duration < 10*time.Second {
		t.Errorf("megabytesPerSecond is %q after %v", r.MegabytesPerSecond, r.Duration.Duration)
	}
	if cpu, err := strconv.ParseFloat(r.CPUSecondsPerMegabyte, 64); err != nil || cpu <= 0 {
		t.Errorf("cpuSecondsPerMegabyte is %q", r.CPUSecondsPerMegabyte)
	}
	getter.connect(t)
	getter.get(t, messages[10:20])
	// Nothing is restored twice.
	endMember(t, again)
	getter.connect(t)
	getter.get(t, messages[20:])
	east.see(t, again, "be empty", func(s v1alpha1.QueueStatus) bool {
		return s.Statistics != nil && s.Statistics.Depth == 0
	})
	getter.close()
}
