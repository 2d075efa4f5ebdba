// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
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

// newNamespace makes a namespace of the same name in both clusters, under the restricted Pod Security Standard, and takes it
// away at the end, Transfers first.
func newNamespace(t *testing.T) string {
	t.Helper()
	ctx := context.Background()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "e2e-",
		Labels:       map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if err := east.Create(ctx, object); err != nil {
		t.Fatalf("create a namespace in east: %v", err)
	}
	name := object.Name
	if err := west.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: object.Labels}}); err != nil {
		t.Fatalf("create namespace %s in west: %v", name, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			east.dump(t, name)
			west.dump(t, name)
		}
		_ = east.DeleteAllOf(ctx, &v1alpha1.Transfer{}, client.InNamespace(name))
		deadline := time.Now().Add(2 * time.Minute)
		for time.Now().Before(deadline) {
			var left v1alpha1.TransferList
			if err := east.List(ctx, &left, client.InNamespace(name)); err == nil && len(left.Items) == 0 {
				break
			}
			time.Sleep(500 * time.Millisecond)
		}
		for _, c := range []*cluster{east, west} {
			_ = c.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	})
	return name
}

// dump prints what an operator would look at after a failure.
func (c *cluster) dump(t *testing.T, namespace string) {
	t.Helper()
	for _, args := range [][]string{
		{"get", "transfers,deliveries,peergrants,jobs,pods,persistentvolumeclaims", "-o", "wide"},
		{"describe", "transfers,deliveries"},
		{"get", "events", "--sort-by=.lastTimestamp"},
		{"logs", "-l", "app.kubernetes.io/name=lighterage-agent", "--tail=40", "--prefix"},
	} {
		out, _ := c.command(append([]string{"-n", namespace}, args...)...).CombinedOutput()
		t.Logf("%s: kubectl %s\n%s", c.name, strings.Join(args, " "), out)
	}
}

func (c *cluster) command(args ...string) *exec.Cmd {
	return exec.Command(c.kubectl, append([]string{"--kubeconfig", c.kubeconfig}, args...)...) //nolint:gosec // the test's own arguments
}

// sh runs a script in the shell pod of a claim and returns what it printed.
func (c *cluster) sh(t *testing.T, namespace, claim, script string) string {
	t.Helper()
	cmd := c.command("-n", namespace, "exec", "shell-"+claim, "--", "sh", "-ec", script)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: sh -ec %q: %v\n%s%s", c.name, script, err, out, stderr.String())
	}
	return string(out)
}

// claim makes a claim and, when image is wanted, a shell pod that mounts it at /data, and waits for the pod.
func (c *cluster) claim(t *testing.T, namespace, name, class, size string) {
	t.Helper()
	ctx := context.Background()
	spec := corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
	}
	if class != "" {
		spec.StorageClassName = &class
	}
	object := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
	if err := c.Create(ctx, object); err != nil {
		t.Fatalf("%s: create claim %s: %v", c.name, name, err)
	}
	pod := shellPod(namespace, name)
	if err := c.Create(ctx, pod); err != nil {
		t.Fatalf("%s: create pod %s: %v", c.name, pod.Name, err)
	}
	eventually(t, 6*time.Minute, "pod "+pod.Name+" of "+c.name+" to be ready", func() (bool, string) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return false, err.Error()
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady {
				return condition.Status == corev1.ConditionTrue, condition.Message
			}
		}
		return false, string(pod.Status.Phase)
	})
}

func shellPod(namespace, claim string) *corev1.Pod {
	yes, no, user, grace := true, false, int64(65532), int64(1)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shell-" + claim},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken:  &no,
			TerminationGracePeriodSeconds: &grace,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user, FSGroup: &user,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "shell", Image: busybox,
				Command:      []string{"/bin/sh", "-c", "trap exit TERM; while :; do sleep 1; done"},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no,
					Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}}},
		},
	}
}

// grant lets namespace of east write the claim of the same namespace in west.
func grant(t *testing.T, namespace, claim string) {
	t.Helper()
	object := &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "from-east"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: "east", Namespaces: []string{namespace}}},
			To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: claim}},
		},
	}
	if err := west.Create(context.Background(), object); err != nil {
		t.Fatalf("create the grant: %v", err)
	}
}

// newTransfer is from claim "source" of namespace to claim "copy" of the same namespace in west.
func newTransfer(namespace, name string) *v1alpha1.Transfer {
	return &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.TransferSpec{
			Source: v1alpha1.TransferSource{PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "source", Path: "/"}},
			Destination: v1alpha1.TransferDestination{
				Peer:                  "west",
				PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/"},
			},
		},
	}
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

// waitFor waits until a condition of the Transfer has the status and, when reason is not empty, the reason; it returns the message.
func waitFor(t *testing.T, transfer *v1alpha1.Transfer, condition string, status metav1.ConditionStatus, reason string) string {
	t.Helper()
	message := ""
	eventually(t, 6*time.Minute, "Transfer "+transfer.Name+" to have "+condition+"="+string(status)+" "+reason, func() (bool, string) {
		if err := east.Get(context.Background(), client.ObjectKeyFromObject(transfer), transfer); err != nil {
			return false, err.Error()
		}
		found := meta.FindStatusCondition(transfer.Status.Conditions, condition)
		if found == nil {
			return false, "no such condition yet"
		}
		message = found.Message
		return found.Status == status && (reason == "" || found.Reason == reason),
			string(found.Status) + " " + found.Reason + ": " + found.Message
	})
	return message
}

func eventually(t *testing.T, limit time.Duration, what string, try func() (bool, string)) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		done, state := try()
		if done {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s; last seen: %s", limit, what, state)
		}
		time.Sleep(250 * time.Millisecond)
	}
}
