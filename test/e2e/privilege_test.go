// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
)

// ownersFill makes files of several owners, which only privilege can read and keep.
const ownersFill = `cd /data
echo program > program; chown 1234:2345 program; chmod 4711 program
echo secret > secret; chown 77:88 secret; chmod 400 secret
mkdir shared; chown 99:100 shared; chmod 2750 shared
ln -s secret link; chown -h 55:66 link`

// owners prints what must be equal on both sides.
const owners = `cd /data
stat -c '%f %u:%g %n' program secret shared link
cat program secret`

// fileCapability is cap_net_bind_service=ep as setcap writes it.
var fileCapability = []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

// asRoot makes a shell pod that of root, as the image's shell has no way to become it.
func asRoot(pod *corev1.PodSpec) {
	pod.SecurityContext = nil
	pod.Containers[0].SecurityContext = nil
}

// prepareOwners makes claims in both clusters, in namespaces that may have pods of root.
func prepareOwners(t *testing.T, allowed ...*cluster) (namespace string) {
	t.Helper()
	namespace = newNamespace(t)
	for _, c := range []*cluster{east, west} {
		c.allow(t, namespace)
		if !slices.Contains(allowed, c) {
			if out, err := c.command(
				"annotate", "namespace", namespace, v1alpha1.AllowPrivilegedAnnotation+"-",
			).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
	}
	east.claimAt(t, namespace, "source", asRoot)
	west.claimAt(t, namespace, "copy", asRoot)
	east.sh(t, namespace, "source", ownersFill)
	grant(t, namespace, "copy")
	return namespace
}

// send makes a Transfer that asks to keep owners and waits for its end.
func sendOwners(t *testing.T, namespace string) *v1alpha1.Transfer {
	t.Helper()
	transfer := newTransfer(namespace, "owners")
	transfer.Spec.PodTemplate = &v1alpha1.AgentPodTemplate{
		SecurityContext: &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)},
	}
	if err := east.Create(context.Background(), transfer); err != nil {
		t.Fatal(err)
	}
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	return transfer
}

func omitted(transfer *v1alpha1.Transfer) map[string]int64 {
	counts := map[string]int64{}
	for _, omission := range transfer.Status.Omissions {
		counts[omission.What] = omission.Count
	}
	return counts
}

func TestPrivilegeKeepsOwners(t *testing.T) {
	t.Parallel()
	namespace := prepareOwners(t, east, west)
	from, to := east.folder(t, namespace, "source"), west.folder(t, namespace, "copy")
	if from != "" {
		if err := unix.Setxattr(filepath.Join(from, "program"), "security.capability", fileCapability, 0); err != nil {
			t.Fatal(err)
		}
	}
	transfer := sendOwners(t, namespace)
	if want, got := east.sh(t, namespace, "source", owners), west.sh(t, namespace, "copy", owners); want != got {
		t.Errorf("the two sides differ:\neast:\n%s\nwest:\n%s", want, got)
	}
	if left := omitted(transfer); left["Owner"]+left["Mode"]+left["ExtendedAttribute"] != 0 {
		t.Errorf("omissions: %+v", transfer.Status.Omissions)
	}
	if from != "" && to != "" {
		value := make([]byte, 64)
		n, err := unix.Getxattr(filepath.Join(to, "program"), "security.capability", value)
		if err != nil || !bytes.Equal(value[:n], fileCapability) {
			t.Errorf("the file's capability is %v, %v", value[:max(n, 0)], err)
		}
	}
}

// Without the receiving namespace's consent all is moved, and what is not kept is counted.
func TestReceiverWithoutPrivilegeCounts(t *testing.T) {
	t.Parallel()
	namespace := prepareOwners(t, east)
	from := east.folder(t, namespace, "source")
	if from != "" {
		if err := unix.Setxattr(filepath.Join(from, "program"), "security.capability", fileCapability, 0); err != nil {
			t.Fatal(err)
		}
	}
	transfer := sendOwners(t, namespace)
	if got := west.sh(
		t, namespace, "copy", "cd /data; cat program secret; stat -c '%u %f' program",
	); got != "program\nsecret\n65532 81c9\n" {
		t.Errorf("what arrived is %q", got)
	}
	left := omitted(transfer)
	if left["Owner"] < 4 || left["Mode"] < 1 || from != "" && left["ExtendedAttribute"] != 1 {
		t.Errorf("omissions: %+v", transfer.Status.Omissions)
	}
}

// Without the sending namespace's consent a Transfer that asks for privilege cannot be created, and one that was
// created with consent reads nothing after that was withdrawn.
func TestSenderWithoutPrivilegeIsRefused(t *testing.T) {
	t.Parallel()
	ctx, namespace := context.Background(), newNamespace(t)
	east.claim(t, namespace, "source", "", "10Mi")
	transfer := newLocalTransfer(namespace, "owners")
	transfer.Spec.Destination.Peer = "west"
	transfer.Spec.PodTemplate = &v1alpha1.AgentPodTemplate{
		SecurityContext: &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)},
	}
	transfer.Spec.Suspend = true
	if err := east.Create(ctx, transfer.DeepCopy()); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		t.Fatalf("a Transfer that asks for privilege was to be rejected: %v", err)
	}
	east.allow(t, namespace)
	eventually(t, time.Minute, "a Transfer that asks for privilege to be accepted", func() (bool, string) {
		err := east.Create(ctx, transfer)
		return err == nil, fmt.Sprint(err)
	})
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	withdrawn := client.RawPatch(
		types.MergePatchType, []byte(`{"metadata": {"annotations": {"`+v1alpha1.AllowPrivilegedAnnotation+`": null}}}`),
	)
	if err := east.Patch(ctx, object, withdrawn); err != nil {
		t.Fatal(err)
	}
	if err := east.Patch(
		ctx, transfer, client.RawPatch(types.MergePatchType, []byte(`{"spec": {"suspend": false}}`)),
	); err != nil {
		t.Fatal(err)
	}
	waitFor(t, transfer, v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.ReasonPrivilegeNotAllowed)
}

// Both claims in one pod: the same, with one namespace's consent.
func TestPrivilegeInOnePod(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	east.allow(t, namespace)
	east.claimAt(t, namespace, "source", asRoot)
	node := nodeOf(t, namespace, "source")
	east.claimAt(t, namespace, "copy", func(pod *corev1.PodSpec) {
		asRoot(pod)
		pod.NodeSelector = map[string]string{corev1.LabelHostname: node}
	})
	east.sh(t, namespace, "source", ownersFill)
	transfer := newLocalTransfer(namespace, "owners")
	transfer.Spec.PodTemplate = &v1alpha1.AgentPodTemplate{
		SecurityContext: &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)},
	}
	if err := east.Create(context.Background(), transfer); err != nil {
		t.Fatal(err)
	}
	waitFor(t, transfer, v1alpha1.ConditionComplete, metav1.ConditionTrue, "")
	if want, got := east.sh(t, namespace, "source", owners), east.sh(t, namespace, "copy", owners); want != got {
		t.Errorf("the two claims differ:\nsource:\n%s\ncopy:\n%s", want, got)
	}
	if left := omitted(transfer); transfer.Status.Run.Route != v1alpha1.RoutePod || left["Owner"]+left["Mode"] != 0 {
		t.Errorf("%+v, omissions: %+v", transfer.Status.Run, transfer.Status.Omissions)
	}
}
