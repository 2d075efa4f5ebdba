// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package faults_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/test/clusters"
)

// TestNodeLossWhileStoring takes the node away whose agent puts a claim into a bucket, in the middle of an upload, and
// gives it back. The upload goes on, and what the bucket has is restored in the other cluster.
func TestNodeLossWhileStoring(t *testing.T) {
	const (
		node = "east-2"
		size = 160 << 20
		// part is the least that is put at once, and what each of the agent's requests may repeat.
		part = 8 << 20
	)
	ctx := context.Background()
	r := &run{namespace: pair.Namespace(t, "faults-"), size: size}
	pair.ObjectStores(t, r.namespace, "vault", r.namespace)
	vault := &v1alpha1.ObjectStorePath{Name: "vault", Path: "/ledger"}
	east.Claim(t, r.namespace, "source", "", "1Gi", func(pod *corev1.Pod) {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	})
	west.Claim(t, r.namespace, "copy", "", "1Gi")
	east.Sh(t, r.namespace, "source", fmt.Sprintf("cd /data; head -c %d /dev/urandom > large; ln -s large link", size))
	r.transfer = clusters.NewTransfer(r.namespace, "to-vault")
	r.transfer.Spec.Destination = v1alpha1.TransferDestination{ObjectStore: vault}
	limit := resource.MustParse("8Mi")
	r.transfer.Spec.BandwidthLimit = &limit
	r.transfer.Spec.CheckpointInterval = resource.NewQuantity(part, resource.BinarySI)
	if err := east.Create(ctx, r.transfer); err != nil {
		t.Fatal(err)
	}
	clusters.Eventually(t, patience, "a third of the file to be put", func() (bool, string) {
		r.refresh(t)
		if r.transfer.Status.Phase == v1alpha1.TransferComplete || r.transfer.Status.Phase == v1alpha1.TransferFailed {
			t.Fatalf("the Transfer has ended before the fault: %s", r.transfer.Status.Phase)
		}
		p := r.transfer.Status.Progress
		return p != nil && p.Bytes > size/3, fmt.Sprintf("%s, %+v", r.transfer.Status.Phase, p)
	})
	before := r.transfer.Status.Progress.Bytes
	if sender := podOf(t, east, r.namespace, "local"); sender.Spec.NodeName != node {
		t.Fatalf("the agent runs on %s, its claim is on %s", sender.Spec.NodeName, node)
	}
	r.unlimited(t)
	giveBack := takeNode(t, node)
	clusters.Eventually(t, patience, "the node not to be Ready", func() (bool, string) {
		ready, message := nodeReady(t, node)
		return !ready, message
	})
	giveBack()
	if attempts := r.wait(t); attempts < 2 {
		t.Errorf("want the node's loss to end an attempt, got %d", attempts)
	}
	history := r.transfer.Status.History
	t.Logf("%d bytes were put before: %+v", before, history)
	// Parts that the store had are not put again.
	if again := history[0].Bytes; again > size-before+4*part {
		t.Errorf("the last attempt put %d bytes of %d, of which %d were there", again, size, before)
	}
	restore := clusters.NewTransfer(r.namespace, "from-vault")
	restore.Spec.Source = v1alpha1.TransferSource{ObjectStore: vault}
	restore.Spec.Destination.Peer = ""
	if err := west.Create(ctx, restore); err != nil {
		t.Fatal(err)
	}
	west.WaitFor(t, restore, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	east.WaitShell(t, r.namespace, "source")
	want, got := east.Sh(t, r.namespace, "source", clusters.Listing), west.Sh(t, r.namespace, "copy", clusters.Listing)
	if want != got {
		t.Errorf("the two sides differ:\neast:\n%s\nwest:\n%s", want, got)
	}
}
