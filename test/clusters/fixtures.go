// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"bytes"
	"context"
	"fmt"
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

// Listing prints all that must be equal on both sides, by means of the shell alone.
const Listing = `cd /data
find . -type f -print0 | sort -z | xargs -0 sha256sum
find . \( -type f -o -type d \) ! -name . -print0 | sort -z | xargs -0 stat -c '%f %Y %n'
find . -type l -print0 | sort -z | xargs -0 -r -n1 readlink`

// Namespace makes a namespace of the same name in both clusters, under the restricted Pod Security Standard, and takes
// it away at the end, Transfers first.
func (p *Pair) Namespace(t *testing.T, prefix string) string {
	t.Helper()
	ctx := context.Background()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: prefix,
		Labels:       map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if err := p.East.Create(ctx, object); err != nil {
		t.Fatalf("create a namespace in east: %v", err)
	}
	name := object.Name
	if err := p.West.Create(
		ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: object.Labels}},
	); err != nil {
		t.Fatalf("create namespace %s in west: %v", name, err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			p.East.Dump(t, name)
			p.West.Dump(t, name)
		}
		_ = p.East.DeleteAllOf(ctx, &v1alpha1.Transfer{}, client.InNamespace(name))
		deadline := time.Now().Add(2 * time.Minute)
		for time.Now().Before(deadline) {
			var left v1alpha1.TransferList
			if err := p.East.List(ctx, &left, client.InNamespace(name)); err == nil && len(left.Items) == 0 {
				break
			}
			time.Sleep(500 * time.Millisecond)
		}
		for _, c := range []*Cluster{p.East, p.West} {
			_ = c.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
	})
	for _, c := range []*Cluster{p.East, p.West} {
		// Pods are refused before, and the API server waits for it no longer than a second or two.
		Eventually(t, 6*time.Minute, "the service account of pods in namespace "+name+" of "+c.Name, func() (bool, string) {
			err := c.Get(ctx, client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
			return err == nil, fmt.Sprint(err)
		})
	}
	return name
}

// Dump prints what an operator would look at after a failure.
func (c *Cluster) Dump(t *testing.T, namespace string) {
	t.Helper()
	for _, args := range [][]string{
		{"get", "transfersets,transfers,deliveries,objectstores,peergrants,jobs,pods,persistentvolumeclaims", "-o", "wide"},
		{"describe", "transfersets,transfers,deliveries,objectstores"},
		{"get", "events", "--sort-by=.lastTimestamp"},
		{"logs", "-l", "app.kubernetes.io/name=lighterage-agent", "--tail=40", "--prefix"},
	} {
		out, _ := c.Command(append([]string{"-n", namespace}, args...)...).CombinedOutput()
		t.Logf("%s: kubectl %s\n%s", c.Name, strings.Join(args, " "), out)
	}
}

// Sh runs a script in the shell pod of a claim and returns what it printed.
func (c *Cluster) Sh(t *testing.T, namespace, claim, script string) string {
	t.Helper()
	cmd := c.Command("-n", namespace, "exec", "shell-"+claim, "--", "sh", "-ec", script)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: sh -ec %q: %v\n%s%s", c.Name, script, err, out, stderr.String())
	}
	return string(out)
}

// Claim makes a claim and a shell pod that mounts it at /data, and waits for the pod. An empty class is the default
// one. The pod may be changed before, to choose its node.
func (c *Cluster) Claim(t *testing.T, namespace, name, class, size string, change ...func(*corev1.Pod)) {
	t.Helper()
	ctx := context.Background()
	spec := corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
		},
	}
	if class != "" {
		spec.StorageClassName = &class
	}
	object := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec}
	if err := c.Create(ctx, object); err != nil {
		t.Fatalf("%s: create claim %s: %v", c.Name, name, err)
	}
	c.Mount(t, namespace, name, change...)
}

// Mount makes the shell pod of a claim that exists, and waits for it.
func (c *Cluster) Mount(t *testing.T, namespace, name string, change ...func(*corev1.Pod)) {
	t.Helper()
	pod := c.shellPod(namespace, name)
	for _, f := range change {
		f(pod)
	}
	if err := c.Create(context.Background(), pod); err != nil {
		t.Fatalf("%s: create pod %s: %v", c.Name, pod.Name, err)
	}
	c.WaitShell(t, namespace, name)
}

// WaitShell waits until the shell pod of a claim is ready.
func (c *Cluster) WaitShell(t *testing.T, namespace, claim string) {
	t.Helper()
	pod := c.shellPod(namespace, claim)
	Eventually(t, 6*time.Minute, "pod "+pod.Name+" of "+c.Name+" to be ready", func() (bool, string) {
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(pod), pod); err != nil {
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

// Busybox is an image with a shell and small programs, which the cluster can pull.
func (c *Cluster) Busybox() string { return c.busybox }

func (c *Cluster) shellPod(namespace, claim string) *corev1.Pod {
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
				Name: "shell", Image: c.busybox,
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

// Grant lets namespace of east write the claim of the same namespace in p.West, mirror into it and keep owners there.
func (p *Pair) Grant(t *testing.T, namespace, claim string) {
	t.Helper()
	object := &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "from-east"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Peer: "east", Namespaces: []string{namespace}}},
			To: []v1alpha1.PeerGrantTo{{
				Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: claim, AllowDelete: true, AllowPrivileged: true,
			}},
		},
	}
	if err := p.West.Create(context.Background(), object); err != nil {
		t.Fatalf("create the grant: %v", err)
	}
}

// NewTransfer is from claim "source" of namespace to claim "copy" of the same namespace in p.West.
func NewTransfer(namespace, name string) *v1alpha1.Transfer {
	return &v1alpha1.Transfer{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.TransferSpec{
			Source: v1alpha1.TransferSource{
				PersistentVolumeClaim: v1alpha1.PersistentVolumeClaimPath{ClaimName: "source", Path: "/"},
			},
			Destination: v1alpha1.TransferDestination{
				Peer: "west",
				PersistentVolumeClaim: v1alpha1.DestinationClaim{
					PersistentVolumeClaimPath: v1alpha1.PersistentVolumeClaimPath{ClaimName: "copy", Path: "/"},
				},
			},
		},
	}
}

// WaitFor waits until a condition of the Transfer in p.East has the status and, when reason is not empty, the reason;
// it returns the message.
func (p *Pair) WaitFor(
	t *testing.T, transfer *v1alpha1.Transfer, condition string, status metav1.ConditionStatus, reason string,
) string {
	t.Helper()
	return p.East.WaitFor(t, transfer, condition, status, reason)
}

// WaitFor is Pair.WaitFor for a Transfer in this cluster.
func (c *Cluster) WaitFor(
	t *testing.T, transfer *v1alpha1.Transfer, condition string, status metav1.ConditionStatus, reason string,
) string {
	t.Helper()
	message := ""
	Eventually(t, 6*time.Minute, "Transfer "+transfer.Name+" to have "+condition+"="+string(status)+" "+
		reason, func() (bool, string) {
		if err := c.Get(context.Background(), client.ObjectKeyFromObject(transfer), transfer); err != nil {
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

// Eventually tries until it is done, for no longer than the limit.
func Eventually(t *testing.T, limit time.Duration, what string, try func() (bool, string)) {
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
