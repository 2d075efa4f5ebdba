// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package faults_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/test/clusters"
)

const system = "lighterage-system"

// TestKill kills everything that takes part in a run, one after the other, by SIGKILL.
func TestKill(t *testing.T) {
	slowLink(t, 8<<10)
	r := start(t, 160<<20, options{})

	r.underway(t, 10)
	east.KillAgent(t, r.namespace, "send")
	wantReason(t, r.ended(t, 1), v1alpha1.ReasonAgentLost)

	r.underway(t, 30)
	west.KillAgent(t, r.namespace, "receive")
	wantReason(t, r.ended(t, 2), v1alpha1.ReasonConnectionLost, v1alpha1.ReasonPeerUnreachable)

	r.underway(t, 50)
	killComponent(t, west, "gateway")
	wantReason(t, r.ended(t, 3), v1alpha1.ReasonConnectionLost, v1alpha1.ReasonPeerUnreachable)

	// Agents do not need a manager while they move data.
	r.underway(t, 65)
	for _, c := range []*clusters.Cluster{east, west} {
		killComponent(t, c, "manager")
	}
	r.complete(t, 4)
}

// TestKillManagerAndAgents: when the managers come back, both agents have died behind their backs.
func TestKillManagerAndAgents(t *testing.T) {
	r := start(t, 160<<20, options{limit: "8Mi"})
	r.underway(t, 20)
	// All are found before the first dies, because an agent ends by itself soon after the other.
	var pids []int
	for _, pod := range []struct {
		cluster                    *clusters.Cluster
		namespace, component, word string
	}{
		{east, system, "manager", "/manager"},
		{west, system, "manager", "/manager"},
		{west, r.namespace, "receive", "agent"},
		{east, r.namespace, "send", "agent"},
	} {
		found := clusters.Processes(string(podOf(t, pod.cluster, pod.namespace, pod.component).UID), pod.word)
		if len(found) == 0 {
			t.Fatalf("no process %q of %s in %s is on this machine", pod.word, pod.component, pod.cluster.Name)
		}
		pids = append(pids, found...)
	}
	for _, c := range []*clusters.Cluster{east, west} {
		replaceAfter(t, c, "manager")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatalf("kill process %d: %v", pid, err)
		}
	}
	r.ended(t, 1)
	r.complete(t, 2)
}

// TestKillKubelet: while the receiver's kubelet is away the run goes on; and an agent that dies then is noticed when it
// is back.
func TestKillKubelet(t *testing.T) {
	slowLink(t, 4<<10)
	r := start(t, 120<<20, options{})
	r.underway(t, 10)
	killNodeProcess(t, "west-1", "/kubelet")
	t.Cleanup(func() { clustersUp(t) })
	before := r.transfer.Status.Progress
	clusters.Eventually(t, patience, "the run to go on without the kubelet", func() (bool, string) {
		r.refresh(t)
		now := r.transfer.Status.Compression
		if now == nil || before == nil {
			return false, "no progress yet"
		}
		return now.UncompressedBytes > r.size/3 &&
			r.transfer.Status.Run.Attempt == 1, fmt.Sprintf("%d bytes", now.UncompressedBytes)
	})
	if err := killPodProcess(
		west, r.namespace, client.MatchingLabels{"app.kubernetes.io/component": "receive"}, "agent",
	); err != nil {
		t.Fatal(err)
	}
	clustersUp(t)
	r.ended(t, 1)
	r.complete(t, 2)
}

func wantReason(t *testing.T, record v1alpha1.AttemptRecord, reasons ...string) {
	t.Helper()
	for _, reason := range reasons {
		if record.Reason == reason {
			return
		}
	}
	t.Errorf("want the attempt to end with one of %v, got %s: %s", reasons, record.Reason, record.Message)
}

// killComponent kills the process of the manager or the gateway of a cluster and waits until another one is ready. When
// the test ends its pod is replaced.
func killComponent(t *testing.T, c *clusters.Cluster, component string) {
	t.Helper()
	replaceAfter(t, c, component)
	labels := client.MatchingLabels{"app.kubernetes.io/component": component}
	before := restarts(t, c, labels)
	if err := killPodProcess(c, system, labels, "/"+component); err != nil {
		t.Fatal(err)
	}
	clusters.Eventually(t, patience, "the "+component+" of "+c.Name+" to be started again", func() (bool, string) {
		n := restarts(t, c, labels)
		return n > before, fmt.Sprintf("%d restarts", n)
	})
}

// replaceAfter has a component's pod replaced when the test ends: the kubelet waits twice as long each time before it
// starts what was killed within ten minutes, up to five minutes, which tests that kill it next would see as a fault of
// their own.
func replaceAfter(t *testing.T, c *clusters.Cluster, component string) {
	t.Helper()
	labels := client.MatchingLabels{"app.kubernetes.io/component": component}
	t.Cleanup(func() {
		if err := c.DeleteAllOf(context.Background(), &corev1.Pod{}, client.InNamespace(system), labels); err != nil {
			t.Errorf("replace the %s of %s: %v", component, c.Name, err)
			return
		}
		clusters.Eventually(t, patience, "the "+component+" of "+c.Name+" to be a new one", func() (bool, string) {
			n := restarts(t, c, labels)
			return n == 0, fmt.Sprintf("%d restarts", n)
		})
	})
}

// restarts of the one pod with the labels; -1 while it is not ready.
func restarts(t *testing.T, c *clusters.Cluster, labels client.MatchingLabels) int32 {
	t.Helper()
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods, client.InNamespace(system), labels); err != nil {
		t.Fatal(err)
	}
	if len(pods.Items) != 1 || pods.Items[0].DeletionTimestamp != nil ||
		len(pods.Items[0].Status.ContainerStatuses) != 1 || !pods.Items[0].Status.ContainerStatuses[0].Ready {
		return -1
	}
	return pods.Items[0].Status.ContainerStatuses[0].RestartCount
}

// killPodProcess kills the processes of the running pod with the labels whose command line contains a word.
func killPodProcess(c *clusters.Cluster, namespace string, labels client.MatchingLabels, word string) error {
	var pods corev1.PodList
	if err := c.List(context.Background(), &pods, client.InNamespace(namespace), labels); err != nil {
		return err
	}
	killed := 0
	for i := range pods.Items {
		for _, pid := range clusters.Processes(string(pods.Items[i].UID), word) {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				return fmt.Errorf("kill process %d of pod %s: %w", pid, pods.Items[i].Name, err)
			}
			killed++
		}
	}
	if killed == 0 {
		return fmt.Errorf("no process %q in the pods %v of %s", word, labels, c.Name)
	}
	return nil
}

// killNodeProcess kills a process that belongs to a node itself.
func killNodeProcess(t *testing.T, node, program string) {
	t.Helper()
	pids := clusters.Processes("/lighterage/"+node+"/system", program)
	if len(pids) != 1 {
		t.Fatalf("want one %s of node %s, got %v", program, node, pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// clustersUp starts again what of the nodes does not run.
func clustersUp(t *testing.T) {
	t.Helper()
	up := exec.Command("go", "run", "-C", "hack/cluster", ".", "up")
	up.Dir = root
	if out, err := up.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(up.Args, " "), err, out)
	}
}
