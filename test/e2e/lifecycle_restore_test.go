// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && lifecycle

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/test/clusters"
)

// TestLifecycleRestoreEtcd restores the etcd of east from a copy that is two attempts of a run older, while agents run
// and the peer has seen these attempts. The run goes on after the peer's newest attempt, the Queue has every message,
// and the CA is the same.
func TestLifecycleRestoreEtcd(t *testing.T) {
	if !pair.Local {
		t.Skip("it replaces the etcd of a local cluster")
	}
	_, current := releases(t)
	west.install(t, current)
	east.install(t, current)
	f := beginTraffic(t)
	ca := east.publishedCA(t)

	data := east.stopControlPlane(t)
	saved := filepath.Join(t.TempDir(), "etcd")
	if err := os.CopyFS(saved, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}
	clustersUp(t)
	f.goesOn("after the copy was made")
	for range 2 {
		east.KillAgent(t, f.namespace, "send")
		f.goesOn("after the sending agent was killed")
	}
	f.refresh()
	ahead := f.transfer.Status.Run.Attempt
	if ahead < 3 {
		t.Fatalf("the run is at attempt %d", ahead)
	}

	// The leases of nodes are those of the copy too: until their kubelets renew them Kubernetes calls the nodes, and
	// with them every backend, not ready. Requests fail that come meanwhile.
	f.finishRequests()
	data = east.stopControlPlane(t)
	if err := os.RemoveAll(filepath.Join(data, "member")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(data, os.DirFS(saved)); err != nil {
		t.Fatal(err)
	}
	clustersUp(t)
	f.refresh()
	if restored := f.transfer.Status.Run.Attempt; restored >= ahead {
		t.Fatalf("the restored run is at attempt %d, the copy is of attempt 1", restored)
	}
	for _, namespace := range []string{"kube-system", system} {
		east.must(t, "-n", namespace, "rollout", "restart", "deployment")
		for name := range strings.FieldsSeq(east.must(t, "-n", namespace, "get", "deployments", "-o", "name")) {
			east.must(t, "-n", namespace, "rollout", "status", name, "--timeout=6m")
		}
	}
	exchange(t, "after the restore")
	east.must(t, "wait", "nodes", "--all", "--for=condition=Ready", "--timeout=3m")
	waitForEndpoint(t, f.endpoint, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	f.requests = f.front.start()
	f.goesOn("after the restore")
	if after := east.publishedCA(t); after != ca {
		t.Error("east has another CA")
	}
	f.refresh()
	if run := f.transfer.Status.Run; run.Attempt <= ahead {
		t.Errorf("the run is at attempt %d, the peer saw attempt %d", run.Attempt, ahead)
	}
	f.finish()
}

// TestLifecycleRestoreObjects creates a Queue with messages and a Transfer in the middle of a run again, as backup
// tools and GitOps do: with other UIDs. The Queue adopts its claims and has each message once, and the Transfer
// completes.
func TestLifecycleRestoreObjects(t *testing.T) {
	_, current := releases(t)
	west.install(t, current)
	east.install(t, current)
	f := beginTraffic(t)
	f.leaveMessages()
	f.refresh()

	transfer := f.transfer.DeepCopy()
	queue := &v1alpha1.Queue{}
	if err := east.Get(context.Background(), client.ObjectKeyFromObject(f.queue), queue); err != nil {
		t.Fatal(err)
	}
	stream, err := f.messages.looker.Stream(context.Background(), queue.Name) // status may be older
	if err != nil {
		t.Fatal(err)
	}
	kept := int64(stream.CachedInfo().State.Msgs) //nolint:gosec // few
	var claims corev1.PersistentVolumeClaimList
	if err := east.List(
		context.Background(), &claims, client.InNamespace(f.namespace),
		client.MatchingLabels{v1alpha1.QueueLabel: string(queue.UID)},
	); err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{queue.DeepCopy(), transfer.DeepCopy()} {
		east.deleteByForce(t, object)
	}
	for _, object := range []client.Object{queue, transfer} {
		object.SetUID("")
		object.SetResourceVersion("")
		object.SetFinalizers(nil)
	}
	queue.Status, transfer.Status = v1alpha1.QueueStatus{}, v1alpha1.TransferStatus{}
	for _, object := range []client.Object{queue, transfer} {
		if err := east.Create(context.Background(), object); err != nil {
			t.Fatal(err)
		}
	}
	f.queue, f.transfer = queue, transfer

	east.waitForQueue(t, queue, v1alpha1.ConditionStalled, v1alpha1.ReasonClaimsRemain)
	t.Logf("the Queue says: %s", meta.FindStatusCondition(queue.Status.Conditions, v1alpha1.ConditionStalled).Message)
	adopt := strings.TrimSuffix(strings.TrimPrefix(claims.Items[0].Name, "data-"), "-0")
	patch(t, queue, func() { queue.Spec.Storage.Adopt = adopt })
	east.waitForQueue(t, queue, v1alpha1.ConditionReady, v1alpha1.ReasonServing)
	east.see(t, queue, "have every message that was left", func(s v1alpha1.QueueStatus) bool {
		return s.Statistics != nil && s.Statistics.Depth == kept
	})
	f.getAgain()
	f.finishMessages()
	f.finishTransfer()
}

// refresh reads the Transfer.
func (f *traffic) refresh() {
	f.t.Helper()
	eventually(f.t, 6*time.Minute, "the API server of east to answer", func() (bool, string) {
		err := east.Get(context.Background(), client.ObjectKeyFromObject(f.transfer), f.transfer)
		return err == nil, fmt.Sprint(err)
	})
}

// getAgain gets what is left in a Queue that was created again; connections made before are to members that are gone.
func (f *traffic) getAgain() {
	f.t.Helper()
	conn, js := connected(f.t, f.connect)
	f.t.Cleanup(conn.Close)
	getting, end := context.WithCancel(context.Background())
	f.messages.end, f.messages.looker = end, js
	f.messages.getting.Go(func() { f.messages.get(getting, js) })
	eventually(f.t, 6*time.Minute, "the consumer to be there", func() (bool, string) {
		_, err := js.Consumer(getting, f.queue.Name, loadConsumer)
		return err == nil, fmt.Sprint(err)
	})
}

// deleteByForce removes an object together with its finalizers, and waits until what it owned is collected.
func (c *cluster) deleteByForce(t *testing.T, object client.Object) {
	t.Helper()
	ctx := context.Background()
	if err := c.Delete(ctx, object); err != nil {
		t.Fatal(err)
	}
	force := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	if err := client.IgnoreNotFound(c.Patch(ctx, object, force)); err != nil {
		t.Fatal(err)
	}
	eventually(t, 6*time.Minute, "pods of "+object.GetName()+" to be collected", func() (bool, string) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
			return false, fmt.Sprintf("it is still there: %v", err)
		}
		var pods corev1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(object.GetNamespace())); err != nil {
			return false, err.Error()
		}
		left := 0
		for i := range pods.Items {
			for _, label := range []string{v1alpha1.QueueLabel, v1alpha1.TransferLabel} {
				if pods.Items[i].Labels[label] == string(object.GetUID()) {
					left++
				}
			}
		}
		return left == 0, fmt.Sprintf("%d are left", left)
	})
}

// publishedCA is what the cluster gives peers to trust.
func (c *cluster) publishedCA(t *testing.T) string {
	t.Helper()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "lighterage-ca"}}
	if err := c.Get(context.Background(), client.ObjectKeyFromObject(config), config); err != nil {
		t.Fatal(err)
	}
	return config.Data["ca.crt"]
}

// stopControlPlane kills etcd and all that keeps copies of what it holds, the kubelets included, and returns etcd's
// directory. Containers run on.
func (c *cluster) stopControlPlane(t *testing.T) (data string) {
	t.Helper()
	etcd := clusters.Processes("/lighterage/"+c.name+"-1/system", "etcd\x00")
	if len(etcd) != 1 {
		t.Fatalf("want one etcd of %s, got %v", c.name, etcd)
	}
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", etcd[0]))
	if err != nil {
		t.Fatal(err)
	}
	for _, argument := range strings.Split(string(command), "\x00") {
		if directory, found := strings.CutPrefix(argument, "--data-dir="); found {
			data = directory
		}
	}
	if data == "" {
		t.Fatalf("etcd of %s runs as %q", c.name, command)
	}
	for _, program := range []string{
		"kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kube-apiserver", "etcd\x00",
	} {
		for _, pid := range clusters.Processes("/lighterage/"+c.name+"-", program) {
			if group, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid)); err != nil ||
				!strings.Contains(string(group), "/system") {
				continue
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Logf("kill %s (%d): %v", program, pid, err)
			}
		}
	}
	eventually(t, time.Minute, "etcd to be gone", func() (bool, string) {
		pids := clusters.Processes("/lighterage/"+c.name+"-1/system", "etcd\x00")
		return len(pids) == 0, fmt.Sprint(pids)
	})
	return data
}

// clustersUp starts again what of the nodes does not run.
func clustersUp(t *testing.T) {
	t.Helper()
	up := exec.Command("go", "run", "-C", "hack/cluster", ".", "up") //nolint:noctx // it has time limits of its own
	up.Dir = root
	if out, err := up.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(up.Args, " "), err, out)
	}
}
