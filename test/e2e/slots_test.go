// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestAcceleratorSlots: one Transfer has the only slot of an accelerator. Another that prefers it completes without and
// says why; one that needs it waits in the scheduler's queue until the slot is free. make test-e2e-s390x makes the
// node, and has the manager give it one slot.
func TestAcceleratorSlots(t *testing.T) {
	node := os.Getenv("ACCELERATED_NODE")
	if node == "" || os.Getenv("ACCELERATOR_SLOTS") != "1" {
		t.Skip("ACCELERATED_NODE names no node, or ACCELERATOR_SLOTS is not 1; make test-e2e-s390x sees to both")
	}
	measured(t, node)
	offersSlot(t, node)
	ctx := context.Background()
	namespace := newNamespace(t)
	sharedClaim(t, namespace)
	large := make([]byte, 256<<20)
	_, _ = rand.Read(large)
	if err := os.WriteFile(filepath.Join(shared(namespace), "large"), large, 0o644); err != nil {
		t.Fatal(err)
	}
	west.claim(t, namespace, "copy", "", "400Mi")
	grant(t, namespace, "copy")
	newOne := func(name string, placement v1alpha1.Placement) *v1alpha1.Transfer {
		transfer := newTransfer(namespace, name)
		transfer.Spec.Compression = &v1alpha1.Compression{Placement: placement, Mode: v1alpha1.CompressionAlways}
		transfer.Spec.Destination.PersistentVolumeClaim.Path = "/" + name
		return transfer
	}

	holder := newOne("holds", v1alpha1.PlacementRequireHardware)
	// What does not shrink takes 17 minutes at the least rate: until it is deleted.
	limit := resource.MustParse("256Ki")
	holder.Spec.BandwidthLimit = &limit
	create(t, holder)
	eventually(t, 6*time.Minute, "the holder of the slot to transfer", func() (bool, string) {
		if err := east.Get(ctx, client.ObjectKeyFromObject(holder), holder); err != nil {
			return false, err.Error()
		}
		return holder.Status.Phase == v1alpha1.TransferTransferring &&
			holder.Status.Run.Node == node, fmt.Sprintf("%s %+v", holder.Status.Phase, holder.Status.Run)
	})

	prefers := newOne("prefers", v1alpha1.PlacementPreferHardware)
	prefers.Spec.Exclude = []string{"/large"}
	create(t, prefers)
	waitFor(t, prefers, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	where := prefers.Status.Placement
	if where == nil || where.Node == "" || where.Node == node || where.Reason != v1alpha1.PlacementReasonAcceleratorBusy ||
		len(where.Alternatives) != 1 || where.Alternatives[0].Node != node ||
		where.Alternatives[0].Reason != v1alpha1.PlacementReasonAcceleratorBusy ||
		prefers.Status.Compression.Engine == "dfltcc" {
		t.Errorf("one that prefers the accelerator: %+v, %+v", where, prefers.Status.Compression)
	}
	fell := meta.FindStatusCondition(prefers.Status.Conditions, v1alpha1.ConditionHardwareCompression)
	if busy := "as many agents as may share the accelerator of " + node; fell == nil ||
		fell.Status != metav1.ConditionFalse || !strings.Contains(fell.Message, busy) {
		t.Errorf("one that prefers the accelerator: HardwareCompression is %+v", fell)
	}
	t.Log(
		east.says(
			t, []string{"explain", "transfer/prefers", "-n", namespace}, v1alpha1.PlacementReasonAcceleratorBusy+": ", node,
		),
	)

	needs := newOne("needs", v1alpha1.PlacementRequireHardware)
	needs.Spec.Exclude = []string{"/large"}
	create(t, needs)
	t.Logf(
		"one that needs the accelerator: %s",
		waitFor(t, needs, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.PlacementReasonAcceleratorBusy),
	)
	if where := needs.Status.Placement; where == nil || where.Reason != v1alpha1.PlacementReasonAcceleratorBusy {
		t.Errorf("one that needs the accelerator: %+v", where)
	}
	if err := east.Get(ctx, client.ObjectKeyFromObject(holder), holder); err != nil ||
		holder.Status.Phase != v1alpha1.TransferTransferring {
		t.Errorf("meanwhile the holder of the slot is %s, %v", holder.Status.Phase, err)
	}
	if err := east.Delete(ctx, holder); err != nil {
		t.Fatal(err)
	}
	waitFor(t, needs, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	usedHardware(t, needs, node)
}

// offersSlot waits until the manager has given a node one slot and its kubelet offers it, and no other node has any.
func offersSlot(t *testing.T, name string) {
	t.Helper()
	eventually(t, 6*time.Minute, name+" and no other node to offer a slot", func() (bool, string) {
		var nodes corev1.NodeList
		if err := east.List(context.Background(), &nodes); err != nil {
			return false, err.Error()
		}
		offers := map[string]int64{}
		for i := range nodes.Items {
			if slots, found := nodes.Items[i].Status.Allocatable[v1alpha1.AcceleratorSlotsResource]; found {
				offers[nodes.Items[i].Name] = slots.Value()
			}
		}
		return len(offers) == 1 && offers[name] == 1, fmt.Sprintf("slots %v", offers)
	})
}
