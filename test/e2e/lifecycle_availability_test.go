// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && lifecycle

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/test/clusters"
)

// inPairs runs two managers and two gateways in a cluster until the test ends.
func (c *cluster) inPairs(t *testing.T, release installable) {
	t.Helper()
	single := release
	release.replicas = 2
	c.install(t, release)
	t.Cleanup(func() { c.install(t, single) })
}

// leader is the pod of the manager that leads, with since when.
func (c *cluster) leader(t *testing.T) (pod string, since time.Time) {
	t.Helper()
	eventually(t, 6*time.Minute, "a manager of "+c.name+" that leads", func() (bool, string) {
		var lease coordinationv1.Lease
		if err := c.Get(
			context.Background(), client.ObjectKey{Namespace: system, Name: "manager.lighterage.dev"}, &lease,
		); err != nil {
			return false, err.Error()
		}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || lease.Spec.AcquireTime == nil {
			return false, "none leads"
		}
		pod, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "_")
		since = lease.Spec.AcquireTime.Time
		return true, ""
	})
	return pod, since
}

// takeLease gives the lease to nobody, for longer than a leader that cannot renew it goes on.
func (c *cluster) takeLease(t *testing.T) {
	t.Helper()
	const longer = 100 // seconds, with a lease of two minutes: see controllers/cmd/manager
	c.must(t, "-n", system, "patch", "lease", "manager.lighterage.dev", "--type=merge", "--patch", fmt.Sprintf(
		`{"spec":{"holderIdentity":"nobody","leaseDurationSeconds":%d,"renewTime":%q}}`, longer,
		time.Now().UTC().Format("2006-01-02T15:04:05.000000Z07:00")))
}

// ledByAnother waits until a manager leads that acquired the lease after a time.
func (c *cluster) ledByAnother(t *testing.T, than time.Time) {
	t.Helper()
	began := time.Now()
	eventually(t, 6*time.Minute, "another manager of "+c.name+" to lead", func() (bool, string) {
		pod, since := c.leader(t)
		return pod != "nobody" && since.After(than), pod + " since " + since.Format(time.TimeOnly)
	})
	t.Logf("%s: another manager leads after %s", c.name, time.Since(began).Round(time.Second))
}

// TestLifecycleHandover: two managers and two gateways. The manager that leads is killed, its lease is taken away, both
// gateways go one after the other, all in the middle of traffic.
func TestLifecycleHandover(t *testing.T) {
	_, current := releases(t)
	for _, c := range []*cluster{west, east} {
		c.inPairs(t, current)
	}
	f := beginTraffic(t)
	for _, c := range []*cluster{east, west} {
		pod, since := c.leader(t)
		c.must(t, "-n", system, "delete", "pod", pod, "--grace-period=0", "--force")
		c.ledByAnother(t, since)
		f.goesOn("after the leading manager of " + c.name + " was killed")
		_, since = c.leader(t)
		c.takeLease(t)
		c.ledByAnother(t, since)
		f.goesOn("after the lease of " + c.name + " was lost")
	}
	var gateways corev1.PodList
	if err := west.List(
		context.Background(), &gateways, client.InNamespace(system),
		client.MatchingLabels{"app.kubernetes.io/component": "gateway"},
	); err != nil {
		t.Fatal(err)
	}
	if len(gateways.Items) != 2 {
		t.Fatalf("west has %d gateways", len(gateways.Items))
	}
	for i := range gateways.Items {
		west.must(t, "-n", system, "delete", "pod", gateways.Items[i].Name)
		west.must(t, "-n", system, "rollout", "status", "deployment/lighterage-gateway", "--timeout=6m")
		f.goesOn("after a gateway of west was replaced")
	}
	exchange(t, "after all of that")
	f.finish()
}

// TestLifecycleOutage: the API server of east does not answer for five minutes. What serves goes on serving, the run
// goes on, and managers are there when it is back.
func TestLifecycleOutage(t *testing.T) {
	if !pair.Local {
		t.Skip("it stops the API server of a local cluster")
	}
	const outage = 5 * time.Minute
	_, current := releases(t)
	west.install(t, current)
	east.install(t, current)
	f := beginTraffic(t)
	before := f.staged()

	pids := clusters.Processes("/lighterage/east-1/system", "kube-apiserver")
	if len(pids) != 1 {
		t.Fatalf("want one API server of east, got %v", pids)
	}
	resume := func() { _ = syscall.Kill(pids[0], syscall.SIGCONT) }
	t.Cleanup(resume)
	asked := f.requests.count()
	if err := syscall.Kill(pids[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(outage)
	answered, staged := f.requests.count()-asked, f.staged()
	resume()
	t.Logf("in %s without an API server %d requests were answered and %d bytes arrived", outage, answered, staged-before)
	if answered < 100 {
		t.Errorf("only %d requests were answered", answered)
	}
	if staged <= before {
		t.Errorf("nothing of the Transfer arrived: %d bytes are staged, %d were", staged, before)
	}
	f.goesOn("after the outage")
	exchange(t, "after the outage")
	f.finish()
	if n := len(f.transfer.Status.History); n > 2 { // the last one for its limit was removed
		t.Errorf("the run took %d attempts", n)
	}
}

// evictMembers evicts the members of the Queue on a cordoned node. Their volumes are on that node, so that each comes
// back when the node may be used again, which is before the next is evicted: with two nodes one of them has two of the
// three members, and the disruption budget keeps one of them as long as the other is away.
func (f *traffic) evictMembers(node string) {
	f.t.Helper()
	var pods corev1.PodList
	if err := east.List(
		context.Background(), &pods, client.InNamespace(f.namespace), client.HasLabels{v1alpha1.QueueLabel},
	); err != nil {
		f.t.Fatal(err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Spec.NodeName != node {
			continue
		}
		east.must(f.t, "cordon", node)
		eventually(f.t, 6*time.Minute, "the eviction of "+pod.Name, func() (bool, string) {
			err := east.SubResource("eviction").Create(context.Background(), pod, &policyv1.Eviction{})
			return err == nil || apierrors.IsNotFound(err), fmt.Sprint(err)
		})
		f.messages.goesOn("after the eviction of " + pod.Name)
		east.must(f.t, "uncordon", node)
		f.memberIsBack(pod)
	}
	east.must(f.t, "uncordon", node)
}

// memberIsBack waits for the pod that replaces one that was evicted.
func (f *traffic) memberIsBack(evicted *corev1.Pod) {
	f.t.Helper()
	eventually(f.t, 6*time.Minute, evicted.Name+" to be back", func() (bool, string) {
		var pod corev1.Pod
		if err := east.Get(context.Background(), client.ObjectKeyFromObject(evicted), &pod); err != nil {
			return false, err.Error()
		}
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
		return pod.UID != evicted.UID && i >= 0 &&
			pod.Status.Conditions[i].Status == corev1.ConditionTrue, fmt.Sprint(pod.Status.Conditions)
	})
	east.waitForQueue(f.t, f.queue, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
}

// TestLifecycleDrain drains every node in turn, with two managers and two gateways. Clients of the Queue and the
// HTTPEndpoint are served all the time, and evictions of the sending agent do not count as failures.
func TestLifecycleDrain(t *testing.T) {
	_, current := releases(t)
	west.install(t, current)
	east.inPairs(t, current)
	f := beginTraffic(t)
	var nodes corev1.NodeList
	if err := east.List(context.Background(), &nodes); err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) < 2 {
		t.Skip("with one node there is nowhere to go")
	}
	for i := range nodes.Items {
		node := nodes.Items[i].Name
		uncordon := func() { east.must(t, "uncordon", node) }
		t.Cleanup(uncordon)
		// What the test itself runs as pods without a controller stays.
		east.must(t, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=6m",
			"--pod-selector=app.kubernetes.io/name in (lighterage,lighterage-agent),!"+v1alpha1.QueueLabel)
		f.messages.goesOn("with " + node + " drained of all but members")
		f.evictMembers(node)
		f.goesOn("with " + node + " back")
		waitForEndpoint(t, f.endpoint, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	}
	if err := east.Get(context.Background(), client.ObjectKeyFromObject(f.transfer), f.transfer); err != nil {
		t.Fatal(err)
	}
	if run := f.transfer.Status.Run; run.Attempt < 2 || run.Failures != 0 {
		t.Errorf("after the eviction of its agent the run has %d attempts and %d failures", run.Attempt, run.Failures)
	}
	f.finish()
}
