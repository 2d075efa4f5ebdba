// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/test/clusters"
)

func newNamespace(t *testing.T) string {
	t.Helper()
	return pair.Namespace(t, "e2e-")
}

func (c *cluster) command(args ...string) *exec.Cmd { return c.Command(args...) }

func (c *cluster) sh(t *testing.T, namespace, claim, script string) string {
	t.Helper()
	return c.Sh(t, namespace, claim, script)
}

func (c *cluster) claim(t *testing.T, namespace, name, class, size string) {
	t.Helper()
	c.Claim(t, namespace, name, class, size)
}

func grant(t *testing.T, namespace, claim string) {
	t.Helper()
	pair.Grant(t, namespace, claim)
}

func newTransfer(namespace, name string) *v1alpha1.Transfer {
	return clusters.NewTransfer(namespace, name)
}

// profiled waits until every node has its NodeProfile.
func (c *cluster) profiled(t *testing.T) {
	t.Helper()
	eventually(t, 6*time.Minute, "the NodeProfiles of "+c.name, func() (bool, string) {
		var nodes corev1.NodeList
		var profiles v1alpha1.NodeProfileList
		if err := errors.Join(c.List(context.Background(), &nodes), c.List(context.Background(), &profiles)); err != nil {
			return false, err.Error()
		}
		ready := 0
		for i := range profiles.Items {
			if meta.IsStatusConditionTrue(profiles.Items[i].Status.Conditions, v1alpha1.ConditionReady) {
				ready++
			}
		}
		return ready >= len(nodes.Items), fmt.Sprintf("%d of %d are ready", ready, len(nodes.Items))
	})
}

func waitFor(
	t *testing.T, transfer *v1alpha1.Transfer, condition string, status metav1.ConditionStatus, reason string,
) string {
	t.Helper()
	return pair.WaitFor(t, transfer, condition, status, reason)
}

func eventually(t *testing.T, limit time.Duration, what string, try func() (bool, string)) {
	t.Helper()
	clusters.Eventually(t, limit, what, try)
}

// claimAt is claim for a pod that the change is made to first: on a node, or as another user.
func (c *cluster) claimAt(t *testing.T, namespace, name string, change func(*corev1.PodSpec)) {
	t.Helper()
	c.Claim(t, namespace, name, "", "100Mi", func(pod *corev1.Pod) { change(&pod.Spec) })
}

// allow annotates a namespace so that agents in it may have privilege, and lifts its Pod Security Standard.
func (c *cluster) allow(t *testing.T, namespace string) {
	t.Helper()
	object := &corev1.Namespace{}
	if err := c.Get(context.Background(), client.ObjectKey{Name: namespace}, object); err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(object.DeepCopy())
	object.Labels["pod-security.kubernetes.io/enforce"] = "privileged"
	object.Annotations = map[string]string{v1alpha1.AllowPrivilegedAnnotation: "true"}
	if err := c.Patch(context.Background(), object, patch); err != nil {
		t.Fatalf("%s: annotate namespace %s: %v", c.name, namespace, err)
	}
	// Admission goes by what the API server has heard of its own namespaces, which may be a moment later.
	root := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "root"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "root", Image: c.Busybox()}}},
	}
	eventually(t, 6*time.Minute, "namespace "+namespace+" of "+c.name+" to take pods of root", func() (bool, string) {
		err := c.Create(context.Background(), root.DeepCopy(), client.DryRunAll)
		return err == nil, fmt.Sprint(err)
	})
}

// leavePlace suspends a Transfer of east, which holds its place at the destination from younger ones as long as it may
// run again.
func leavePlace(t *testing.T, transfer *v1alpha1.Transfer) {
	t.Helper()
	patch := client.MergeFrom(transfer.DeepCopy())
	transfer.Spec.Suspend = true
	if err := east.Patch(context.Background(), transfer, patch); err != nil {
		t.Fatalf("suspend Transfer %s: %v", transfer.Name, err)
	}
}

// folder is the volume of a claim on this machine, "" if the cluster is elsewhere.
func (c *cluster) folder(t *testing.T, namespace, claim string) string {
	t.Helper()
	ctx := context.Background()
	object, volume := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: claim}, object); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(ctx, client.ObjectKey{Name: object.Spec.VolumeName}, volume); err != nil {
		t.Fatal(err)
	}
	if volume.Spec.Local == nil {
		return ""
	}
	if _, err := os.Stat(volume.Spec.Local.Path); err != nil {
		return ""
	}
	return volume.Spec.Local.Path
}
