// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestCopyTrigger is an application that writes until it is asked to rest, and goes on when its claim says that the
// copy is made. It takes what TestSnapshotOfALiveVolume takes.
func TestCopyTrigger(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "btrfs", "100Mi")
	east.claim(t, namespace, "copy", "btrfs", "100Mi")
	annotate := func(key, value string) {
		t.Helper()
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "source"}}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
		if err := east.Patch(ctx, claim, client.RawPatch("application/merge-patch+json", patch)); err != nil {
			t.Fatal(err)
		}
	}
	says := func(state v1alpha1.CopyTriggerState, trigger string) {
		t.Helper()
		claim := &corev1.PersistentVolumeClaim{}
		eventually(t, time.Minute, "the claim to say "+string(state), func() (bool, string) {
			err := east.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "source"}, claim)
			a := claim.Annotations
			return err == nil && a[v1alpha1.LatestCopyStatusAnnotation] == string(state) &&
				a[v1alpha1.LatestCopyTriggerAnnotation] == trigger, fmt.Sprintf("%v, %v", a, err)
		})
	}
	east.sh(t, namespace, "source", "echo writes > /data/state; sync")
	annotate(v1alpha1.CopyTriggerAnnotation, "of an earlier copy")
	annotate(v1alpha1.UseCopyTriggerAnnotation, "")
	transfer := newLocalTransfer(namespace, "ledger")
	transfer.Spec.Source.CopyMethod = v1alpha1.CopySnapshot
	transfer.Spec.Source.SnapshotClassName = "btrfs"
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	says(v1alpha1.CopyWaitingForTrigger, "")
	east.sh(t, namespace, "source", "echo rests > /data/state; sync")
	annotate(v1alpha1.CopyTriggerAnnotation, "rests")
	says(v1alpha1.CopyCompleted, "rests")
	east.sh(t, namespace, "source", "echo goes on > /data/state; sync")
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if state := strings.TrimSpace(east.sh(t, namespace, "copy", "cat /data/state")); state != "rests" {
		t.Errorf("the copy has the state %q", state)
	}
}
