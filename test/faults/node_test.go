// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package faults_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/test/clusters"
)

// TestNodeLoss takes the node away that has the source's claim, with everything that runs there, until its cluster has
// noticed, and gives it back. The other node has the API server.
func TestNodeLoss(t *testing.T) {
	const node = "east-2"
	r := start(t, 160<<20, options{limit: "4Mi", sourceNode: node})
	r.underway(t, 10)
	if sender := podOf(t, east, r.namespace, "send"); sender.Spec.NodeName != node {
		t.Fatalf("the sender runs on %s, its claim is on %s", sender.Spec.NodeName, node)
	}
	r.unlimited(t)
	giveBack := takeNode(t, node)
	clusters.Eventually(t, patience, "the node not to be Ready", func() (bool, string) {
		ready, message := nodeReady(t, node)
		return !ready, message
	})
	r.refresh(t)
	if r.transfer.Status.Phase == v1alpha1.TransferComplete {
		t.Fatal("the Transfer completed without the node of its source")
	}
	giveBack()
	attempts := r.wait(t)
	if attempts < 2 {
		t.Errorf("want the node's loss to end an attempt, got %d", attempts)
	}
	east.WaitShell(t, r.namespace, "source")
	r.complete(t, attempts)
}

// takeNode cuts a node of east off and kills all of its processes, as a power failure does; giveBack starts it again.
func takeNode(t *testing.T, node string) (giveBack func()) {
	t.Helper()
	given := false
	giveBack = func() {
		if given {
			return
		}
		given = true
		command(t, "ip", "link", "set", "ltg-"+node, "up")
		clustersUp(t)
		clusters.Eventually(t, patience, "the node to be Ready", func() (bool, string) { return nodeReady(t, node) })
	}
	t.Cleanup(giveBack)
	command(t, "ip", "link", "set", "ltg-"+node, "down")
	killed := 0
	clusters.Eventually(t, patience, "the node's processes to be gone", func() (bool, string) {
		// Some start others while they are killed.
		pids := clusters.Processes("/lighterage/"+node+"/", "")
		for _, pid := range pids {
			if syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
			}
		}
		return len(pids) == 0, fmt.Sprintf("%d run", len(pids))
	})
	if killed == 0 {
		t.Fatalf("node %s had no processes", node)
	}
	t.Logf("node %s is gone with %d processes", node, killed)
	return giveBack
}

func nodeReady(t *testing.T, name string) (ready bool, message string) {
	t.Helper()
	var node corev1.Node
	if err := east.Get(context.Background(), client.ObjectKey{Name: name}, &node); err != nil {
		t.Fatal(err)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue, fmt.Sprintf("%s: %s", condition.Status, condition.Message)
		}
	}
	return false, "no condition"
}
