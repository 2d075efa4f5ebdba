// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package faults_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/test/clusters"
)

// parted is for how long a test disconnects clusters or managers, partedLong the same for tests that may take minutes.
const (
	parted     = 30 * time.Second
	partedLong = 5 * time.Minute
)

func TestPartition(t *testing.T) { partitionFor(t, parted) }

func TestPartitionForMinutes(t *testing.T) {
	long(t)
	partitionFor(t, partedLong)
}

// partitionFor parts the clusters in the middle of a run. Whether its connections live through that is not said; nobody
// is needed either way.
func partitionFor(t *testing.T, duration time.Duration) {
	r := start(t, 160<<20, options{limit: "8Mi"})
	r.underway(t, 10)
	heal := partition(t)
	// What was on its way arrives yet.
	time.Sleep(2 * time.Second)
	before := r.staged(t)
	time.Sleep(duration)
	if after := r.staged(t); before == 0 || before >= r.size || after > before {
		t.Errorf(
			"the destination had %d bytes when the clusters were parted and has %d now: the fault did not hit", before, after,
		)
	}
	heal()
	r.complete(t, r.wait(t))
}

func TestManagerCutOff(t *testing.T) { managerCutOffFor(t, parted) }

func TestManagerCutOffForMinutes(t *testing.T) {
	long(t)
	managerCutOffFor(t, partedLong)
}

// managerCutOffFor parts both managers from the agents of a run, which needs them no more, until it is shown in status
// and has lasted.
func managerCutOffFor(t *testing.T, duration time.Duration) {
	const rate = 2 << 20
	r := start(t, int64((40+duration.Seconds())*rate), options{limit: "2Mi"})
	r.underway(t, 2)
	var heals []func()
	for _, side := range []struct {
		cluster *clusters.Cluster
		mode    string
	}{{east, "send"}, {west, "receive"}} {
		agent := podOf(t, side.cluster, r.namespace, side.mode)
		pids := clusters.Processes(string(agent.UID), "agent")
		if len(pids) == 0 {
			t.Fatalf("no process of pod %s is on this machine", agent.Name)
		}
		// The managers ask and agents answer: nothing else comes to this port, whatever address the managers' nodes
		// give it.
		heals = append(heals, drop(t, [][]string{{
			"--net=/proc/" + strconv.Itoa(pids[0]) + "/ns/net", "iptables", "-w", "", "INPUT",
			"-p", "tcp", "--dport", strconv.Itoa(agentpod.ControlPort), "-j", "DROP",
		}}))
	}
	begin, before := time.Now(), r.staged(t)
	clusters.Eventually(t, patience, "the status to say that the agent does not answer", func() (bool, string) {
		r.refresh(t)
		ready := meta.FindStatusCondition(r.transfer.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil {
			return false, "no condition"
		}
		return strings.Contains(ready.Message, "does not answer the manager"), ready.Message
	})
	time.Sleep(duration - time.Since(begin))
	r.refresh(t)
	if after := r.staged(t); r.transfer.Status.Phase != v1alpha1.TransferComplete && after <= before {
		t.Errorf(
			"the destination had %d bytes when the managers were disconnected and has %d now: the run did not go on", before,
			after,
		)
	}
	for _, heal := range heals {
		heal()
	}
	r.complete(t, 1)
}

// podOf is the one running pod of a component.
func podOf(t *testing.T, c *clusters.Cluster, namespace, component string) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	clusters.Eventually(t, patience, "a pod "+component+" of "+c.Name, func() (bool, string) {
		var pods corev1.PodList
		if err := c.List(
			context.Background(), &pods, client.InNamespace(namespace),
			client.MatchingLabels{"app.kubernetes.io/component": component},
		); err != nil {
			return false, err.Error()
		}
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodRunning {
				found = &pods.Items[i]
				return true, ""
			}
		}
		return false, fmt.Sprintf("none of %d pods runs", len(pods.Items))
	})
	return found
}
