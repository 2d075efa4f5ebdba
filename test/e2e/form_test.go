// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestFormGzip keeps a claim compressed in the other cluster, where zcat reads it, and gets it back from there: nobody
// compresses again, and it is inflated where it is used.
func TestFormGzip(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "", "100Mi")
	west.claim(t, namespace, "copy", "", "100Mi")
	grant(t, namespace, "copy")
	east.sh(t, namespace, "source", fill)
	transfer := newTransfer(namespace, "archive")
	transfer.Spec.Destination.Form = v1alpha1.RestingGzip
	transfer.Spec.Destination.Records = &v1alpha1.FileRecords{Format: v1alpha1.RecordLines}
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	const plain = `cd /data; find . -type f | sort | while read -r f; do echo "$f $(sha256sum < "$f")"; done`
	const expanded = `cd /data; find . -type f -name '*.gz' | sort | while read -r f; do echo "${f%.gz} $(zcat "$f" | sha256sum)"; done`
	want, got := east.sh(t, namespace, "source", plain), west.sh(t, namespace, "copy", expanded)
	if sorted(want) != sorted(got) {
		t.Errorf("the source has\n%swhat rests expands to\n%s", want, got)
	}
	const indexes = `cd /data; find . -type f -name '.*.gz.lgci' | wc -l`
	if n := strings.TrimSpace(west.sh(t, namespace, "copy", indexes)); n != "303" {
		t.Errorf("there are %s indexes", n)
	}
	s := transfer.Status
	if s.Compression.Codec != "deflate" || s.Decompression != nil && s.Decompression.Software.Operations > 0 {
		t.Errorf("%+v %+v", s.Compression, s.Decompression)
	}

	west.claim(t, namespace, "plain", "", "100Mi")
	back := newTransfer(namespace, "back")
	back.Spec.Source.PersistentVolumeClaim.ClaimName = "copy"
	back.Spec.Source.Form = v1alpha1.RestingGzip
	back.Spec.Destination.Peer = ""
	back.Spec.Destination.PersistentVolumeClaim.ClaimName = "plain"
	if err := west.Create(ctx, back); err != nil {
		t.Fatal(err)
	}
	west.WaitFor(t, back, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if got := west.sh(t, namespace, "plain", listing); got != east.sh(t, namespace, "source", listing) {
		t.Errorf("what came back differs:\n%s", got)
	}
	c := back.Status.Compression
	if c.Hardware.Operations+c.Software.Operations > 0 || c.Skipped[v1alpha1.CompressionAlreadyCompressed] == 0 {
		t.Errorf("it was compressed again: %+v", c)
	}
	scrub(t, namespace)
}

// TestFormArchive keeps a claim as tar archives in another one of its namespace, which tar reads, and restores it from
// there. One pod mounts both claims, so it is in the cluster of one node.
func TestFormArchive(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	namespace := newNamespace(t)
	for _, name := range []string{"source", "archives", "restored"} {
		west.claim(t, namespace, name, "", "100Mi")
	}
	west.sh(t, namespace, "source", fill)
	pack := newLocalTransfer(namespace, "pack")
	pack.Spec.Destination.PersistentVolumeClaim.ClaimName = "archives"
	pack.Spec.Destination.Form = v1alpha1.RestingArchive
	if err := west.Create(ctx, pack); err != nil {
		t.Fatal(err)
	}
	west.WaitFor(t, pack, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if s := pack.Status; s.Run.Route != v1alpha1.RoutePod || s.Progress.Files != 303 ||
		s.Compression.CompressedBytes >= s.Compression.UncompressedBytes {
		t.Errorf("%+v %+v %+v", s.Run, s.Progress, s.Compression)
	}
	const extracted = `cd /tmp; rm -rf out; mkdir out; cd out
for a in /data/.lighterage/archives/*.tar.gz; do zcat "$a" | tar xf -; done
find . -type f | sort | while read -r f; do echo "$f $(sha256sum < "$f")"; done`
	const plain = `cd /data; find . -type f | sort | while read -r f; do echo "$f $(sha256sum < "$f")"; done`
	want := sorted(west.sh(t, namespace, "source", plain))
	if got := sorted(west.sh(t, namespace, "archives", extracted)); got != want {
		t.Errorf("the source has\n%s\ntar extracts\n%s", want, got)
	}
	unpack := newLocalTransfer(namespace, "unpack")
	unpack.Spec.Source.PersistentVolumeClaim.ClaimName = "archives"
	unpack.Spec.Source.Form = v1alpha1.RestingArchive
	unpack.Spec.Destination.PersistentVolumeClaim.ClaimName = "restored"
	if err := west.Create(ctx, unpack); err != nil {
		t.Fatal(err)
	}
	west.WaitFor(t, unpack, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if got := west.sh(t, namespace, "restored", listing); got != west.sh(t, namespace, "source", listing) {
		t.Errorf("what was restored differs:\n%s", got)
	}
}

// scrub verifies the claim copy of the other cluster where it rests, and finds the bit that somebody turns over.
func scrub(t *testing.T, namespace string) {
	t.Helper()
	ctx := context.Background()
	drill := &v1alpha1.Drill{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "scrub"},
		Spec: v1alpha1.DrillSpec{
			Source: v1alpha1.DrillSource{
				PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy"},
				Form:                  v1alpha1.RestingGzip,
			},
			Scrub: v1alpha1.ScrubInflate,
		},
	}
	if err := west.Create(ctx, drill); err != nil {
		t.Fatal(err)
	}
	drilled(t, drill, metav1.ConditionTrue, v1alpha1.ReasonVerified)
	if r := drill.Status.History[0]; r.Files != 303 || r.Bytes < 3_000_000 {
		t.Errorf("%+v", r)
	}
	west.sh(t, namespace, "copy", `cd /data/src/a; printf X | dd of=random.bin.gz bs=1 seek=1000000 conv=notrunc`)
	before := client.MergeFrom(drill.DeepCopy())
	metav1.SetMetaDataAnnotation(&drill.ObjectMeta, v1alpha1.RunAnnotation, "again")
	if err := west.Patch(ctx, drill, before); err != nil {
		t.Fatal(err)
	}
	drilled(t, drill, metav1.ConditionFalse, v1alpha1.ReasonDataDamaged)
	r := drill.Status.History[0]
	if len(r.Findings) != 1 || r.Findings[0].Count != 1 ||
		!slices.Equal(r.Findings[0].Examples, []string{"src/a/random.bin.gz"}) {
		t.Errorf("%+v", r.Findings)
	}
}

// sorted sorts lines: names are in another order without their ending.
func sorted(lines string) string {
	all := strings.Split(strings.TrimSpace(lines), "\n")
	slices.Sort(all)
	return strings.Join(all, "\n")
}
