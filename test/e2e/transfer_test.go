// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/test/clusters"
)

// fill makes a small tree with every kind of entry that a Transfer keeps.
const fill = `cd /data
mkdir -p logs/2026 src/a/b empty
i=0; while [ $i -lt 300 ]; do echo "entry $i of a log that compresses rather well, well, well" > logs/2026/$i.log; i=$((i+1)); done
yes "account 0001 balance 000000012345 currency EUR" | head -c 9000000 > src/ledger.txt
head -c 3000000 /dev/urandom > src/a/random.bin
: > src/a/b/nothing
ln -s ../ledger.txt src/a/link
chmod 640 src/ledger.txt; chmod 750 src/a
touch -d '2021-03-04 05:06:07' src/ledger.txt src/a/b/nothing logs`

// listing prints all that must be equal on both sides, by means of the shell alone.
const listing = clusters.Listing

func TestTransfer(t *testing.T) {
	for _, c := range []*cluster{east, west} {
		c.profiled(t) // what the network costs is not known before
	}
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "", "100Mi")
	west.claim(t, namespace, "copy", "", "100Mi")
	east.sh(t, namespace, "source", fill)
	grant(t, namespace, "copy")

	policy := &v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: v1alpha1.CompressionPolicySpec{
			Prices: &v1alpha1.Prices{Currency: "USD", CPUHour: "0.031", NetworkGiB: "0.05"},
		},
	}
	if err := east.Create(ctx, policy); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = east.Delete(ctx, policy) })

	transfer := newTransfer(namespace, "ledger")
	transfer.Spec.Compression = &v1alpha1.Compression{PolicyName: policy.Name}
	transfer.Spec.Receipt = true
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if want, got := east.sh(t, namespace, "source", listing), west.sh(t, namespace, "copy", listing); want != got {
		t.Errorf("the two sides differ:\neast:\n%s\nwest:\n%s", want, got)
	}
	checkStatus(t, transfer)
	contents := checkReceipt(t, transfer)

	// The other manager learns by itself that its agent has ended, maybe later than ours.
	eventually(t, 6*time.Minute, "one complete Delivery that counts what it inflated", func() (bool, string) {
		var deliveries v1alpha1.DeliveryList
		if err := west.List(ctx, &deliveries, client.InNamespace(namespace)); err != nil {
			return false, err.Error()
		}
		if len(deliveries.Items) != 1 {
			return false, fmt.Sprintf("%d Deliveries", len(deliveries.Items))
		}
		status := deliveries.Items[0].Status
		inflated := status.Decompression != nil && status.Decompression.Software.Operations > 0
		return status.Phase == v1alpha1.DeliveryComplete &&
			inflated, fmt.Sprintf("phase %s, inflated: %v", status.Phase, inflated)
	})

	// No change, no data: the run that the annotation asks for sends nothing.
	first := transfer.Status.Run.ID
	patch := client.MergeFrom(transfer.DeepCopy())
	transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	if err := east.Patch(ctx, transfer, patch); err != nil {
		t.Fatal(err)
	}
	eventually(t, 6*time.Minute, "the second run to complete", func() (bool, string) {
		if err := east.Get(ctx, client.ObjectKeyFromObject(transfer), transfer); err != nil {
			return false, err.Error()
		}
		return transfer.Status.LastRunRequest == "again" && transfer.Status.Run.ID != first &&
			transfer.Status.Phase == v1alpha1.TransferComplete, string(transfer.Status.Phase)
	})
	status := transfer.Status
	if status.Compression.UncompressedBytes != 0 || status.Progress.UnchangedFiles != status.Progress.FilesTotal ||
		status.Progress.FilesTotal != 303 {
		t.Errorf("the second run moved data: %+v %+v", status.Progress, status.Compression)
	}
	if again := checkReceipt(t, transfer); again != contents {
		t.Errorf("the receipts are of contents %s and %s", contents, again)
	}

	// Deleting it leaves what arrived and takes all else.
	if err := east.Delete(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	gone(t, namespace)
	if got := west.sh(
		t, namespace, "copy", "ls /data/src/ledger.txt; ls -A /data",
	); got != "/data/src/ledger.txt\nempty\nlogs\nsrc\n" {
		t.Errorf("after the deletion the destination should hold what was moved and nothing else, got %q", got)
	}
}

// checkStatus holds the status against every field that is promised.
func checkStatus(t *testing.T, transfer *v1alpha1.Transfer) {
	t.Helper()
	s := transfer.Status
	if s.Run == nil || s.Progress == nil || s.Compression == nil || s.Decompression == nil || s.CPU == nil ||
		s.Cost == nil || s.Policy == nil || len(s.History) != 1 {
		t.Fatalf("parts of the status are missing: %+v", s)
	}
	wanted := map[string]bool{
		"phase":              s.Phase == v1alpha1.TransferComplete,
		"observedGeneration": s.ObservedGeneration == transfer.Generation,
		"run": s.Run.ID != "" && s.Run.Attempt == 1 && s.Run.StartTime != nil &&
			s.Run.CompletionTime != nil && s.Run.Node != "" && s.Run.Architecture != "",
		"progress": s.Progress.Files == 303 && s.Progress.FilesTotal == 303 &&
			s.Progress.Bytes == s.Progress.BytesTotal && s.Progress.Percent == 100 && s.Progress.BytesPerSecond > 0,
		"codec and engine": s.Compression.Codec == "deflate" &&
			slices.Contains([]string{"isa-l", "zlib-ng"}, s.Compression.Engine),
		"reason": s.Compression.Reason == v1alpha1.CompressionNoAccelerator ||
			s.Compression.Reason == v1alpha1.CompressionHardwareUsed,
		"ratio and saved": s.Compression.Ratio != "" && s.Compression.SavedPercent > 50,
		"bytes": s.Compression.UncompressedBytes > 12_000_000 &&
			s.Compression.CompressedBytes > 3_000_000 && s.Compression.CompressedBytes < 6_000_000,
		"software": s.Compression.Software.Operations > 0 && s.Compression.Software.Bytes > 0,
		"random bytes are stored": s.Compression.Stored.Operations > 0 &&
			s.Compression.Skipped[v1alpha1.CompressionIncompressible]+
				s.Compression.Skipped[v1alpha1.CompressionDidNotShrink] > 0,
		"decompression": s.Decompression.Software.Operations > 0 && s.Decompression.Fallback.Operations == 0,
		"cpu": s.CPU.SendSeconds != "" && s.CPU.ReceiveSeconds != "" && s.CPU.CompressSeconds != "" &&
			s.CPU.DecompressSeconds != "" && s.CPU.SecondsPerGiB != "",
		"network": s.CPU.NetworkSeconds != "" || !calibrated(t, s.Run),
		"cost":    s.Cost.Currency == "USD" && s.Cost.CPU != "" && s.Cost.Network != "" && s.Cost.Saved != "",
		"history": s.History[0].Reason == v1alpha1.ReasonSucceeded && s.History[0].Bytes > 0,
	}
	for what, right := range wanted {
		if !right {
			t.Errorf("status: %s is not as promised: %+v", what, s)
		}
	}
}

// calibrated reports whether the node of a run knew what the network costs when the run began: busy nodes do not.
func calibrated(t *testing.T, run *v1alpha1.RunStatus) bool {
	t.Helper()
	var profile v1alpha1.NodeProfile
	if err := east.Get(context.Background(), client.ObjectKey{Name: run.Node}, &profile); err != nil {
		t.Fatal(err)
	}
	s := profile.Status
	return s.NetworkCPUSecondsPerGiB != "" && s.MeasuredTime != nil && s.MeasuredTime.Before(run.StartTime)
}

// gone waits until nothing that was made for Transfers is left in the namespace, in either cluster.
func gone(t *testing.T, namespace string) {
	t.Helper()
	ctx := context.Background()
	agents := client.MatchingLabels{"app.kubernetes.io/name": "lighterage-agent"}
	eventually(t, 6*time.Minute, "jobs, pods, secrets and Deliveries to be gone", func() (bool, string) {
		for _, c := range []*cluster{east, west} {
			for _, list := range []client.ObjectList{&v1alpha1.TransferList{}, &v1alpha1.DeliveryList{}} {
				if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
					return false, err.Error()
				}
				if n := itemCount(list); n > 0 {
					return false, c.name + " still has Transfers or Deliveries"
				}
			}
			for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.PodList{}, &corev1.SecretList{}} {
				if err := c.List(ctx, list, client.InNamespace(namespace), agents); err != nil {
					return false, err.Error()
				}
				if n := itemCount(list); n > 0 {
					return false, c.name + " still has jobs, pods or secrets of agents"
				}
			}
		}
		return true, ""
	})
}

func itemCount(list client.ObjectList) int {
	switch l := list.(type) {
	case *v1alpha1.TransferList:
		return len(l.Items)
	case *v1alpha1.DeliveryList:
		return len(l.Items)
	case *batchv1.JobList:
		return len(l.Items)
	case *corev1.PodList:
		return len(l.Items)
	case *corev1.SecretList:
		return len(l.Items)
	}
	return -1
}
