// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// TestMirrorOfAPart keeps a part of a destination equal to that of a source, through a run that fills it and one that
// follows changes.
func TestMirrorOfAPart(t *testing.T) {
	t.Parallel()
	const large = 8 << 20
	ctx := context.Background()
	namespace := newNamespace(t)
	east.claim(t, namespace, "source", "", "100Mi")
	west.claim(t, namespace, "copy", "", "100Mi")
	grant(t, namespace, "copy")
	east.sh(t, namespace, "source", `cd /data; mkdir -p books/tmp other; head -c 8388608 /dev/urandom > image
for name in books/a books/b.log books/last.log books/tmp/x other/y; do echo $name > $name; done`)
	west.sh(
		t, namespace, "copy",
		`cd /data; mkdir -p books/gone other; for name in books/gone/z books/old.log other/mine; do echo mine > $name; done`,
	)

	transfer := newTransfer(namespace, "books")
	transfer.Spec.Include = []string{"/books/", "/image"}
	transfer.Spec.Exclude = []string{"*.log", "!last.log", "tmp/"}
	transfer.Spec.Delete = true
	if err := east.Create(ctx, transfer); err != nil {
		t.Fatal(err)
	}
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	// What is left out is not moved, and not removed either.
	const tree = "cd /data; find . ! -name . | sort"
	if got, want := west.sh(t, namespace, "copy", tree),
		"./books\n./books/a\n./books/last.log\n./books/old.log\n./image\n./other\n./other/mine\n"; got != want {
		t.Errorf("the destination has\n%swant\n%s", got, want)
	}
	if p := transfer.Status.Progress; p.Removed != 2 || p.Files != 3 || p.ReusedBytes != 0 {
		t.Errorf("the first run: %+v", p)
	}

	// 100 KB in the middle of the large file are other ones, a file is new, one is gone, and one changed that is left
	// out.
	east.sh(t, namespace, "source", `cd /data; head -c 100000 /dev/urandom | dd of=image bs=1000 seek=4000 conv=notrunc 2>/dev/null
echo new > books/new; rm books/a; echo more >> books/b.log`)
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
		return transfer.Status.Run.ID != first &&
			transfer.Status.Phase == v1alpha1.TransferComplete, string(transfer.Status.Phase)
	})
	if got, want := west.sh(t, namespace, "copy", tree),
		"./books\n./books/last.log\n./books/new\n./books/old.log\n./image\n./other\n./other/mine\n"; got != want {
		t.Errorf("the destination has\n%swant\n%s", got, want)
	}
	const sums = "cd /data; sha256sum image books/new books/last.log"
	if want, got := east.sh(t, namespace, "source", sums), west.sh(t, namespace, "copy", sums); got != want {
		t.Errorf("the destination has\n%swant\n%s", got, want)
	}
	// Parts of 64 KiB are compared: at most three of them have a changed byte.
	s := transfer.Status
	if s.Progress.Removed != 1 || s.Progress.UnchangedFiles != 1 || s.Progress.ReusedBytes < large-3<<16 ||
		s.Compression.UncompressedBytes > 3<<16+100 {
		t.Errorf("the second run: %+v, %+v", s.Progress, s.Compression)
	}
}
