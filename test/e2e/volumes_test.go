// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	_ "embed"
	"strings"
	"testing"
)

//go:embed testdata/volumes.yaml
var volumes string

//go:embed testdata/copies.yaml
var copies string

// Volumes of the local clusters that can be snapshotted are mounted by kubelets, as file systems and as devices, for
// pods without privileges; snapshots of them in use hold what was synced, and they grow.
func TestVolumes(t *testing.T) {
	t.Parallel()
	if !pair.Local || pair.SnapshotClass == "" {
		t.Skip("the clusters are not this machine's, or its kernel has no btrfs")
	}
	namespace := newNamespace(t)
	apply := func(manifests string) {
		t.Helper()
		command := east.command("-n", namespace, "apply", "-f", "-")
		command.Stdin = strings.NewReader(strings.ReplaceAll(manifests, "IMAGE", east.Busybox()))
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		out, err := east.command(append([]string{"-n", namespace}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	in := func(pod, script string) string {
		t.Helper()
		return run("exec", pod, "--", "sh", "-c", script)
	}

	apply(volumes)
	run("wait", "pod/writer", "--for=condition=Ready", "--timeout=3m")
	write := func(text string) {
		t.Helper()
		for _, path := range []string{"/files/file", "/dev/disk"} {
			in("writer", "echo "+text+" | dd conv=fsync of="+path)
		}
	}
	write("before")
	apply(copies)
	for _, name := range []string{"files", "disk"} {
		run("wait", "volumesnapshot/"+name, "--for=jsonpath={.status.readyToUse}=true", "--timeout=3m")
	}
	write("after")
	run("wait", "pod/reader", "--for=condition=Ready", "--timeout=3m")
	for _, path := range []string{"/files/file", "/dev/disk"} {
		if got := in("reader", "head -n 1 "+path); got != "before" {
			t.Errorf("%s of the snapshot holds %q", path, got)
		}
	}

	run("delete", "pod", "reader", "--wait")
	run("patch", "pvc", "files-copy", "--type=merge", "-p", `{"spec":{"resources":{"requests":{"storage":"128Mi"}}}}`)
	run("wait", "pvc/files-copy", "--for=jsonpath={.status.capacity.storage}=128Mi", "--timeout=3m")
	apply(copies[strings.LastIndex(copies, "---"):])
	run("wait", "pod/reader", "--for=condition=Ready", "--timeout=3m")
	if got := in("reader", "head -n 1 /files/file"); got != "before" {
		t.Errorf("the volume that has grown holds %q", got)
	}
	// Of 128 MiB the file system takes a part.
	if free := in("reader", "df -m /files | tail -n 1 | awk '{ print $2 }'"); len(free) < 3 {
		t.Errorf("the file system that has grown has %s MiB", free)
	}
}
