// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"crypto/sha256"
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

// TestAccelerator moves data from a cluster with a node that has an accelerator, or rather its software model, which is
// no IBM Z: see test/dfltcc. make test-e2e-s390x makes the node and names it in ACCELERATED_NODE.
func TestAccelerator(t *testing.T) {
	node := os.Getenv("ACCELERATED_NODE")
	if node == "" {
		t.Skip("ACCELERATED_NODE names no node; make test-e2e-s390x makes one")
	}
	measured(t, node)
	namespace := newNamespace(t)
	sharedClaim(t, namespace)
	west.claim(t, namespace, "copy", "", "100Mi")
	grant(t, namespace, "copy")

	transfer := newTransfer(namespace, "prefers")
	transfer.Spec.Compression = &v1alpha1.Compression{
		Placement: v1alpha1.PlacementPreferHardware, Mode: v1alpha1.CompressionAlways,
	}
	transfer.Spec.Destination.PersistentVolumeClaim.Path = "/prefers"
	create(t, transfer)
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	usedHardware(t, transfer, node)
	// The receiver has no accelerator.
	if s := transfer.Status; s.Decompression == nil || s.Decompression.Fallback.Operations == 0 ||
		s.Decompression.Fallback.Bytes != s.Compression.Hardware.Bytes ||
		s.Decompression.Hardware.Operations != 0 || s.CPU == nil || s.CPU.DecompressSeconds == "" ||
		s.CPU.DecompressSeconds == "0.00" {
		t.Errorf(
			"the receiver counts no fallback: %+v, %+v; the sender compressed %+v", s.Decompression, s.CPU, s.Compression,
		)
	}
	arrived(t, namespace, "prefers")

	cordon(t, node, true)
	t.Cleanup(func() { cordon(t, node, false) })
	write(t, namespace, "second.txt")
	again(t, transfer)
	where := transfer.Status.Placement
	if where == nil || where.Node == node || where.Engine == "dfltcc" ||
		where.Reason != v1alpha1.CompressionNoAccelerator ||
		len(where.Alternatives) != 1 || where.Alternatives[0].Node != node ||
		where.Alternatives[0].Reason != v1alpha1.PlacementReasonCordoned {
		t.Errorf("placement with the node cordoned: %+v", where)
	}
	fell := meta.FindStatusCondition(transfer.Status.Conditions, v1alpha1.ConditionHardwareCompression)
	if fell == nil || fell.Status != metav1.ConditionFalse || fell.Reason != v1alpha1.CompressionNoAccelerator ||
		!strings.Contains(fell.Message, node+": cordoned") {
		t.Errorf("HardwareCompression is %+v", fell)
	}
	if c := transfer.Status.Compression; c.Engine == "dfltcc" || c.Software.Operations == 0 || c.Hardware.Operations != 0 {
		t.Errorf("compression with the node cordoned: %+v", c)
	}
	arrived(t, namespace, "prefers")

	required := newTransfer(namespace, "requires")
	required.Spec.Compression = &v1alpha1.Compression{
		Placement: v1alpha1.PlacementRequireHardware, Mode: v1alpha1.CompressionAlways,
	}
	required.Spec.Destination.PersistentVolumeClaim.Path = "/requires"
	create(t, required)
	if message := waitFor(
		t, required, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.CompressionNoAccelerator,
	); !strings.Contains(message, node+": cordoned") {
		t.Errorf("Stalled says %s", message)
	}
	cordon(t, node, false)
	waitFor(t, required, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	usedHardware(t, required, node)
	arrived(t, namespace, "requires")
}

// measured waits until the node's agent, which is one for s390x, has found the accelerator.
func measured(t *testing.T, node string) {
	t.Helper()
	ctx := context.Background()
	// One that was started before the node had its image runs what every other node runs.
	var before v1alpha1.NodeProfile
	if err := east.Get(ctx, client.ObjectKey{Name: node}, &before); err == nil && before.Status.Architecture != "" &&
		before.Status.Architecture != "s390x" {
		out, err := east.command(
			"-n", "lighterage-system", "delete", "pods", "-l", "app.kubernetes.io/component=node-agent",
			"--field-selector=spec.nodeName="+node,
		).CombinedOutput()
		if err != nil {
			t.Fatalf("restarting the node agent: %v\n%s", err, out)
		}
	}
	eventually(t, 6*time.Minute, "the profile of "+node+" to say that its accelerator works", func() (bool, string) {
		var profile v1alpha1.NodeProfile
		if err := east.Get(ctx, client.ObjectKey{Name: node}, &profile); err != nil {
			return false, err.Error()
		}
		var labelled corev1.Node
		if err := east.Get(ctx, client.ObjectKey{Name: node}, &labelled); err != nil {
			return false, err.Error()
		}
		found := profile.Status.Accelerator
		return profile.Status.Architecture == "s390x" && found != nil && found.State == v1alpha1.AcceleratorVerified &&
				labelled.Labels[v1alpha1.DeflateLabel] == "hardware",
			fmt.Sprintf(
				"architecture %s, accelerator %+v, labels %v, conditions %+v", profile.Status.Architecture, found, labelled.Labels,
				profile.Status.Conditions,
			)
	})
}

func usedHardware(t *testing.T, transfer *v1alpha1.Transfer, node string) {
	t.Helper()
	s := transfer.Status
	if where := s.Placement; where == nil || where.Node != node || where.Engine != "dfltcc" ||
		where.Reason != v1alpha1.PlacementReasonHardware {
		t.Errorf("%s: placement %+v", transfer.Name, where)
	}
	if s.Run.Node != node || s.Run.Architecture != "s390x" || s.Compression.Engine != "dfltcc" ||
		s.Compression.Hardware.Operations == 0 {
		t.Errorf("%s: run %+v, compression %+v", transfer.Name, s.Run, s.Compression)
	}
	if !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionHardwareCompression) {
		t.Errorf("%s: conditions %+v", transfer.Name, s.Conditions)
	}
}

// shared is the folder of the claim "source", on this machine: all nodes of the local clusters see it.
func shared(namespace string) string { return filepath.Join("/var/lib/ltg/east/volumes", namespace) }

// sharedClaim makes the claim "source" with a volume that every node reaches, as network storage is, and fills it.
func sharedClaim(t *testing.T, namespace string) {
	t.Helper()
	ctx := context.Background()
	if err := os.Mkdir(shared(namespace), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, namespace, "first.txt")
	none, kind, size := "", corev1.HostPathDirectory, corev1.ResourceList{
		corev1.ResourceStorage: resource.MustParse("100Mi"),
	}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: "source"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: shared(namespace), Type: &kind},
			},
		},
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "source"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: &none, VolumeName: namespace,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}
	t.Cleanup(func() {
		_ = east.Delete(ctx, volume)
		_ = os.RemoveAll(shared(namespace))
	})
	for _, object := range []client.Object{volume, claim} {
		if err := east.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, time.Minute, "claim source to be bound", func() (bool, string) {
		if err := east.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil {
			return false, err.Error()
		}
		return claim.Status.Phase == corev1.ClaimBound, string(claim.Status.Phase)
	})
}

// write adds a file of some blocks that compress well.
func write(t *testing.T, namespace, name string) {
	t.Helper()
	text := strings.Repeat("account 0001 balance 000000012345 currency EUR\n", 1<<16)
	if err := os.WriteFile(filepath.Join(shared(namespace), name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// arrived compares every file with what is in that folder of the destination.
func arrived(t *testing.T, namespace, folder string) {
	t.Helper()
	entries, err := os.ReadDir(shared(namespace))
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(shared(namespace), entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "%x  %s\n", sha256.Sum256(text), entry.Name())
	}
	if got := west.sh(t, namespace, "copy", "cd /data/"+folder+" && sha256sum *"); got != want.String() {
		t.Errorf("%s: the destination holds\n%s, want\n%s", folder, got, want.String())
	}
}

func create(t *testing.T, transfer *v1alpha1.Transfer) {
	t.Helper()
	if err := east.Create(context.Background(), transfer); err != nil {
		t.Fatal(err)
	}
}

// again asks for another run and waits until it is complete.
func again(t *testing.T, transfer *v1alpha1.Transfer) {
	t.Helper()
	ctx, before := context.Background(), transfer.Status.Run.ID
	patch := client.MergeFrom(transfer.DeepCopy())
	transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	if err := east.Patch(ctx, transfer, patch); err != nil {
		t.Fatal(err)
	}
	eventually(t, 6*time.Minute, "another run to complete", func() (bool, string) {
		if err := east.Get(ctx, client.ObjectKeyFromObject(transfer), transfer); err != nil {
			return false, err.Error()
		}
		return transfer.Status.Run.ID != before &&
			transfer.Status.Phase == v1alpha1.TransferComplete, string(transfer.Status.Phase)
	})
}

func cordon(t *testing.T, node string, unschedulable bool) {
	t.Helper()
	patch := client.RawPatch(
		"application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, unschedulable),
	)
	if err := east.Patch(
		context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, patch,
	); err != nil {
		t.Fatalf("cordoning %s (%v): %v", node, unschedulable, err)
	}
}
