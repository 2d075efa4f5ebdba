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
}

// sorted sorts lines: names are in another order without their ending.
func sorted(lines string) string {
	all := strings.Split(strings.TrimSpace(lines), "\n")
	slices.Sort(all)
	return strings.Join(all, "\n")
}
