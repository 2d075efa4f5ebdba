// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package clusters

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// KillAgent kills the process of the agent that runs in a mode: by SIGKILL when its node is on this machine, otherwise
// by deleting the pod without grace.
func (c *Cluster) KillAgent(t *testing.T, namespace, mode string) {
	t.Helper()
	ctx := context.Background()
	var pods corev1.PodList
	err := c.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabels{
		"app.kubernetes.io/name": "lighterage-agent", "app.kubernetes.io/component": mode,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase != corev1.PodRunning {
			continue
		}
		c.KillPod(t, pod)
		return
	}
	t.Fatalf("no agent in mode %s runs in %s", mode, c.Name)
}

// KillPod kills the agent of a pod without warning: its process if that is on this machine, else the pod.
func (c *Cluster) KillPod(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if pids := Processes(string(pod.UID), "agent"); len(pids) > 0 {
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Errorf("kill process %d of %s: %v", pid, pod.Name, err)
			}
		}
		t.Logf("killed %s of %s", pod.Name, c.Name)
		return
	}
	if err := c.Delete(context.Background(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	t.Logf("deleted %s of %s", pod.Name, c.Name)
}

// Processes returns the processes on this machine that run in a cgroup with a name, for example that of a pod's UID,
// and whose command line contains a word.
func Processes(cgroup, word string) []int {
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return nil
	}
	var pids []int
	for _, name := range groups {
		group, err := os.ReadFile(name) //nolint:gosec // below /proc
		if err != nil || !bytes.Contains(group, []byte(cgroup)) {
			continue
		}
		command, err := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline")) //nolint:gosec // below /proc
		if err != nil || !bytes.Contains(command, []byte(word)) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
