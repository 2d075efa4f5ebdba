// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// vault is a path of the ObjectStore of these tests.
func vault(path string) *v1alpha1.ObjectStorePath {
	return &v1alpha1.ObjectStorePath{Name: "vault", Path: path}
}

// TestObjectStore archives a claim and a queue of one cluster in a bucket, and restores both in the other, which has
// nothing of the first but the bucket.
func TestObjectStore(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	pair.ObjectStores(t, namespace, "vault", namespace)
	t.Run("Claim", func(t *testing.T) {
		t.Parallel()
		restoreClaim(t, namespace, "source", "copy", v1alpha1.RestingFiles)
	})
	t.Run("Archive", func(t *testing.T) {
		t.Parallel()
		restoreClaim(t, namespace, "packed", "unpacked", v1alpha1.RestingArchive)
	})
	t.Run("Queue", func(t *testing.T) {
		t.Parallel()
		restoreQueue(t, namespace)
	})
	t.Run("Cargo", func(t *testing.T) {
		t.Parallel()
		carryCargo(t, namespace)
	})
}

// carryCargo has files rest in a claim, put into the bucket as they rest, and written into a claim of the other
// cluster.
func carryCargo(t *testing.T, namespace string) {
	ctx := context.Background()
	east.claim(t, namespace, "cargo-plain", "", "100Mi")
	east.claim(t, namespace, "cargo", "", "100Mi")
	west.claim(t, namespace, "cargo", "", "100Mi")
	east.sh(t, namespace, "cargo-plain", fill)
	pack, put, back := newLocalTransfer(namespace, "cargo-pack"), newLocalTransfer(namespace, "cargo-to-vault"),
		newLocalTransfer(namespace, "cargo-from-vault")
	pack.Spec.Source.PersistentVolumeClaim.ClaimName = "cargo-plain"
	pack.Spec.Destination.PersistentVolumeClaim.ClaimName = "cargo"
	put.Spec.Source.PersistentVolumeClaim.ClaimName = "cargo"
	put.Spec.Source.Form = v1alpha1.RestingGzip
	put.Spec.Destination = v1alpha1.TransferDestination{ObjectStore: vault("/cargo")}
	back.Spec.Source = v1alpha1.TransferSource{ObjectStore: vault("/cargo")}
	back.Spec.Destination.PersistentVolumeClaim.ClaimName = "cargo"
	for _, step := range []struct {
		in       *cluster
		transfer *v1alpha1.Transfer
	}{{east, pack}, {east, put}, {west, back}} {
		step.transfer.Spec.Destination.Form = v1alpha1.RestingGzip
		if err := step.in.Create(ctx, step.transfer); err != nil {
			t.Fatal(err)
		}
		step.in.WaitFor(t, step.transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	}
	const rests = `cd /data; find . -type f | sort | while read -r f; do echo "$f $(sha256sum < "$f")"; done`
	if want, got := east.sh(t, namespace, "cargo", rests), west.sh(t, namespace, "cargo", rests); want != got {
		t.Errorf("what rests differs:\neast:\n%s\nwest:\n%s", want, got)
	}
	for _, transfer := range []*v1alpha1.Transfer{put, back} {
		c, d := transfer.Status.Compression, transfer.Status.Decompression
		if c.Reason != v1alpha1.CompressionAlreadyCompressed || c.Hardware.Operations+c.Software.Operations > 0 ||
			d != nil && d.Hardware.Operations+d.Software.Operations > 0 {
			t.Errorf("%s: %+v %+v", transfer.Name, c, d)
		}
	}
}

// TestHandOff moves a claim to the other cluster through the bucket alone, with a Peer as over the network, and again
// when nothing has changed.
func TestHandOff(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	pair.ObjectStores(t, namespace, "ferry", namespace)
	inbox := &v1alpha1.ObjectStore{}
	inbox.Namespace, inbox.Name = namespace, "ferry"
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"handOff":"Receive"}}`))
	if err := west.Patch(ctx, inbox, patch); err != nil {
		t.Fatal(err)
	}
	east.claim(t, namespace, "source", "", "100Mi")
	west.claim(t, namespace, "copy", "", "100Mi")
	grant(t, namespace, "copy")
	east.sh(t, namespace, "source", fill)

	transfer := newTransfer(namespace, "ledger")
	transfer.Spec.Destination.Via = &v1alpha1.TransferVia{ObjectStore: v1alpha1.ObjectStoreReference{Name: "ferry"}}
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if want, got := east.sh(t, namespace, "source", listing), west.sh(t, namespace, "copy", listing); want != got {
		t.Errorf("the two sides differ:\neast:\n%s\nwest:\n%s", want, got)
	}
	s := transfer.Status
	if s.Run.Route != v1alpha1.RouteStorage || s.Progress.Files != 303 || s.Usage == nil ||
		s.Usage.ObjectStore.WriteRequests == 0 || s.Usage.ObjectStore.SentBytes == 0 {
		t.Errorf("%+v %+v %+v", s.Run, s.Progress, s.Usage)
	}
	if err := west.Get(ctx, client.ObjectKeyFromObject(inbox), inbox); err != nil {
		t.Fatal(err)
	}
	if !meta.IsStatusConditionTrue(inbox.Status.Conditions, v1alpha1.ConditionHandOffReady) {
		t.Errorf("the relay: %+v", inbox.Status.Conditions)
	}
}

func restoreClaim(t *testing.T, namespace, source, restored string, form v1alpha1.RestingForm) {
	ctx := context.Background()
	east.claim(t, namespace, source, "", "100Mi")
	west.claim(t, namespace, restored, "", "100Mi")
	east.sh(t, namespace, source, fill)

	to := newTransfer(namespace, source+"-to-vault")
	to.Spec.Source.PersistentVolumeClaim.ClaimName = source
	to.Spec.Destination = v1alpha1.TransferDestination{ObjectStore: vault("/" + source), Form: form}
	to.Spec.Receipt = true
	if err := east.Create(ctx, to); err != nil {
		t.Fatal(err)
	}
	east.WaitFor(t, to, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if s := to.Status; s.Run.Route != v1alpha1.RouteObjectStore || s.Run.Attempt != 1 || s.Progress.Files != 303 ||
		s.Compression.UncompressedBytes < 12_000_000 ||
		form == v1alpha1.RestingFiles && s.Compression.Reason != v1alpha1.CompressionStoredAsIs ||
		form == v1alpha1.RestingArchive && (s.Compression.CompressedBytes >= s.Compression.UncompressedBytes ||
			s.Usage == nil || s.Usage.ObjectStore.WriteRequests > 100) {
		t.Errorf("%+v %+v %+v %+v", s.Run, s.Progress, s.Compression, s.Usage)
	}

	from := newTransfer(namespace, source+"-from-vault")
	from.Spec.Source = v1alpha1.TransferSource{ObjectStore: vault("/" + source)}
	from.Spec.Destination.Peer, from.Spec.Destination.PersistentVolumeClaim.ClaimName = "", restored
	from.Spec.Receipt = true
	if err := west.Create(ctx, from); err != nil {
		t.Fatal(err)
	}
	west.WaitFor(t, from, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if want, got := east.sh(t, namespace, source, listing), west.sh(t, namespace, restored, listing); want != got {
		t.Errorf("the two sides differ:\neast:\n%s\nwest:\n%s", want, got)
	}
	if s := from.Status; s.Run.Route != v1alpha1.RouteObjectStore || s.Progress.Files != 303 {
		t.Errorf("%+v %+v", s.Run, s.Progress)
	}
	east.WaitFor(t, to, v1alpha1.ConditionReceiptSigned, metav1.ConditionTrue, "")
	west.WaitFor(t, from, v1alpha1.ConditionReceiptSigned, metav1.ConditionTrue, "")
	if in, out := to.Status.Receipt.ContentsSHA256, from.Status.Receipt.ContentsSHA256; in != out {
		t.Errorf("receipts of %s into the bucket and of %s from it", in, out)
	}
}

func restoreQueue(t *testing.T, namespace string) {
	archived, putter := east.newQueue(t, namespace, "orders", func(s *v1alpha1.QueueSpec) {
		s.Archive = &v1alpha1.QueueArchive{
			ObjectStore: vault("/queues"), Interval: &metav1.Duration{Duration: time.Second},
		}
	})
	east.waitForQueue(t, archived, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	messages := orders(20)
	putter.connect(t)
	putter.put(t, messages)
	putter.close()
	east.see(t, archived, "be archived", func(s v1alpha1.QueueStatus) bool {
		return s.StoreArchive != nil && s.StoreArchive.Sequence == int64(len(messages)) && s.StoreArchive.Behind == 0 &&
			meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionArchived)
	})

	restored, getter := west.newQueue(t, namespace, "orders-restored", func(s *v1alpha1.QueueSpec) {
		s.Restore = &v1alpha1.QueueRestore{ObjectStore: vault("/queues"), Queue: archived.Name}
	})
	west.waitForQueue(t, restored, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	getter.connect(t)
	getter.get(t, messages)
	getter.close()
	if r := restored.Status.Restore; r == nil || r.State != "Restored" || r.Messages != int64(len(messages)) {
		t.Errorf("restore %+v", r)
	}
}
