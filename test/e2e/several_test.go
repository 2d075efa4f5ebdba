// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// One claim goes to a claim of another cluster and to one of the same, compressed once; the next run sends nothing.
func TestSeveralDestinations(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "", "200Mi")
	east.claim(t, namespace, "spare", "", "200Mi")
	west.claim(t, namespace, "copy", "", "200Mi")
	grant(t, namespace, "copy")
	west.sh(t, namespace, "copy", "mkdir /data/alone /data/several")
	east.sh(t, namespace, "source", fill+"\nhead -c 16000000 /dev/urandom | od -An -tx1 > src/hex")

	alone := newTransfer(namespace, "alone")
	alone.Spec.Destination.PersistentVolumeClaim.Path = "/alone"
	alone.Spec.Compression = &v1alpha1.Compression{Mode: v1alpha1.CompressionAlways}
	if err := east.Create(ctx, alone); err != nil {
		t.Fatal(err)
	}
	waitFor(t, alone, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")

	several := newTransfer(namespace, "several")
	single := several.Spec.Destination
	single.PersistentVolumeClaim.Path = "/several"
	several.Spec.Destination = v1alpha1.TransferDestination{}
	several.Spec.Destinations = []v1alpha1.NamedDestination{
		{Name: "west", Peer: single.Peer, PersistentVolumeClaim: single.PersistentVolumeClaim.PersistentVolumeClaimPath},
		{Name: "spare", PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "spare", Path: "/"}},
	}
	several.Spec.Compression = alone.Spec.Compression.DeepCopy()
	if err := east.Create(ctx, several); err != nil {
		t.Fatal(err)
	}
	waitFor(t, several, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	want := east.sh(t, namespace, "source", listing)
	if got := east.sh(t, namespace, "spare", listing); got != want {
		t.Errorf("the claim of the same cluster differs:\nsource:\n%s\nspare:\n%s", want, got)
	}
	if diff := west.sh(t, namespace, "copy", "diff -r /data/alone /data/several && echo same"); diff != "same\n" {
		t.Errorf("the claim of the other cluster differs:\n%s", diff)
	}
	var compressed float64
	for _, leg := range legsOf(t, several, 2) {
		if c := leg.Status.Compression; c == nil || c.UncompressedBytes != alone.Status.Compression.UncompressedBytes ||
			leg.Status.Progress.Files != 304 || len(leg.Status.History) != 1 {
			t.Errorf("%s: %+v %+v", leg.Name, leg.Status.Progress, c)
		}
		compressed += secondsOf(t, leg.Status.Usage)
	}
	// Both together compress about as much as one does, so a half more is too much by far.
	if one := secondsOf(t, alone.Status.Usage); compressed > 1.5*one {
		t.Errorf("compressing took %.3f s of CPU time for two destinations, and %.3f s for one", compressed, one)
	} else {
		t.Logf("compressing took %.3f s of CPU time for two destinations, and %.3f s for one", compressed, one)
	}

	first := several.Status.Run.ID
	patch := client.MergeFrom(several.DeepCopy())
	several.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	if err := east.Patch(ctx, several, patch); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Minute, "the second run to complete", func() (bool, string) {
		if err := east.Get(ctx, client.ObjectKeyFromObject(several), several); err != nil {
			return false, err.Error()
		}
		return several.Status.Run.ID != first && several.Status.Phase == v1alpha1.TransferComplete,
			fmt.Sprintf("%+v", several.Status.Destinations)
	})
	for _, leg := range legsOf(t, several, 2) {
		if leg.Status.Progress.UnchangedFiles != 304 || leg.Status.History[0].Bytes != 0 || len(leg.Status.History) != 2 {
			t.Errorf("%s: the second run moved data: %+v %+v", leg.Name, leg.Status.Progress, leg.Status.History[0])
		}
	}
	if err := east.Delete(ctx, several); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the Transfers of the destinations to be gone", func() (bool, string) {
		var left v1alpha1.TransferList
		err := east.List(ctx, &left, client.InNamespace(namespace))
		return err == nil && len(left.Items) == 1, fmt.Sprintf("%d are there, %v", len(left.Items), err)
	})
}

// TestStoreAmongSeveral sends one snapshot to a directory of the other cluster, to one that rests compressed, and to an object
// store, from where it is restored.
func TestStoreAmongSeveral(t *testing.T) {
	t.Parallel()
	if !pair.Local || pair.SnapshotClass == "" {
		t.Skip("the clusters are not this machine's, or its kernel has no btrfs")
	}
	ctx := context.Background()
	namespace := newNamespace(t)
	pair.ObjectStores(t, namespace, "vault", namespace)
	east.claim(t, namespace, "source", pair.SnapshotClass, "200Mi")
	west.claim(t, namespace, "copy", "", "200Mi")
	east.claim(t, namespace, "restored", "", "200Mi")
	grant(t, namespace, "copy")
	west.sh(t, namespace, "copy", "mkdir /data/plain /data/gzip")
	east.sh(t, namespace, "source", fill)
	several := newTransfer(namespace, "several")
	several.Spec.Source.CopyMethod = v1alpha1.CopySnapshot
	several.Spec.Destination = v1alpha1.TransferDestination{}
	several.Spec.Destinations = []v1alpha1.NamedDestination{
		{Name: "plain", Peer: "west", PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/plain"}},
		{
			Name: "gzip", Peer: "west", Form: v1alpha1.RestingGzip,
			PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/gzip"},
		},
		{Name: "vault", ObjectStore: vault("/several"), Form: v1alpha1.RestingZstd},
	}
	if err := east.Create(ctx, several); err != nil {
		t.Fatal(err)
	}
	waitFor(t, several, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	nothingStaged(t, namespace)
	for _, leg := range legsOf(t, several, 3) {
		if leg.Status.Progress.Files != 303 || leg.Status.Run.Attempt != 1 || leg.Status.RecoveryPoint == nil {
			t.Errorf("%s: %+v %+v", leg.Name, leg.Status.Progress, leg.Status.Run)
		}
	}
	restore := newLocalTransfer(namespace, "restore")
	restore.Spec.Source = v1alpha1.TransferSource{ObjectStore: vault("/several")}
	restore.Spec.Destination.PersistentVolumeClaim.ClaimName = "restored"
	if err := east.Create(ctx, restore); err != nil {
		t.Fatal(err)
	}
	waitFor(t, restore, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	want := east.sh(t, namespace, "source", listing)
	if got := east.sh(t, namespace, "restored", listing); got != want {
		t.Errorf("what was restored from the store differs:\n%s", got)
	}
	plain := strings.ReplaceAll(listing, "/data", "/data/plain")
	if got := west.sh(t, namespace, "copy", plain); got != want {
		t.Errorf("the claim of the other cluster differs:\n%s", got)
	}
	const members = `cd /data/gzip; find . -type f -name '*.gz' | wc -l; find . -type f -name '*.gz' -exec gzip -t {} +`
	if n := strings.TrimSpace(west.sh(t, namespace, "copy", members)); n != "303" {
		t.Errorf("gzip finds %s files", n)
	}
}

// legsOf are the Transfers of so many destinations.
func legsOf(t *testing.T, whole *v1alpha1.Transfer, n int) []v1alpha1.Transfer {
	t.Helper()
	var legs []v1alpha1.Transfer
	for _, destination := range whole.Status.Destinations {
		leg := v1alpha1.Transfer{}
		key := client.ObjectKey{Namespace: whole.Namespace, Name: destination.Transfer}
		if err := east.Get(context.Background(), key, &leg); err != nil {
			t.Fatal(err)
		}
		legs = append(legs, leg)
	}
	if len(legs) != n {
		t.Fatalf("%+v", whole.Status.Destinations)
	}
	return legs
}

// secondsOf is the CPU time of compressing.
func secondsOf(t *testing.T, usage *v1alpha1.UsageStatus) float64 {
	t.Helper()
	if usage == nil {
		t.Fatal("nothing is said of usage")
	}
	seconds, err := strconv.ParseFloat(usage.Send.CompressSeconds, 64)
	if err != nil {
		t.Fatal(err)
	}
	return seconds
}
