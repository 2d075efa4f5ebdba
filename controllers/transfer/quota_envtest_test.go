// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/pki"
)

// tenants are the Transfers of one namespace with quotas.
type tenants struct {
	*fixture
	ended map[types.UID]bool
}

func prepareTenants(t *testing.T) *tenants {
	return &tenants{fixture: prepare(t), ended: map[types.UID]bool{}}
}

// limit makes a DataQuota, and waits until the manager knows of it.
func (f *tenants) limit(name string, hard v1alpha1.DataQuotaResources) *v1alpha1.DataQuota {
	f.Helper()
	quota := &v1alpha1.DataQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: name}, Spec: v1alpha1.DataQuotaSpec{Hard: hard},
	}
	cluster.Create(f, quota)
	controllertest.Eventually(f, func() error {
		return cached.Get(context.Background(), client.ObjectKeyFromObject(quota), &v1alpha1.DataQuota{})
	})
	return quota
}

func slots(n int32) v1alpha1.DataQuotaResources {
	return v1alpha1.DataQuotaResources{RunningTransfers: &n}
}

// add creates a Transfer with a bandwidth limit; "": none.
func (f *tenants) add(name, bandwidth string) *v1alpha1.Transfer {
	f.Helper()
	transfer := f.make(name)
	if bandwidth != "" {
		transfer.Spec.BandwidthLimit = ptr.To(resource.MustParse(bandwidth))
	}
	cluster.Create(f, transfer)
	return transfer
}

// list sorts the namespace's Transfers into those that run and those that are queued, in their order.
func (f *tenants) list() (running, queued []v1alpha1.Transfer) {
	f.Helper()
	all := &v1alpha1.TransferList{}
	if err := cluster.Client.List(context.Background(), all, client.InNamespace(f.namespace)); err != nil {
		f.Fatal(err)
	}
	for _, transfer := range all.Items {
		switch run := transfer.Status.Run; {
		case transfer.Status.Queued != nil:
			queued = append(queued, transfer)
		case run != nil && run.CompletionTime == nil:
			running = append(running, transfer)
		}
	}
	slices.SortFunc(queued, func(a, b v1alpha1.Transfer) int {
		return cmp.Or(
			a.Status.Queued.Time.Compare(b.Status.Queued.Time.Time), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return running, queued
}

// settle waits until exactly those run, by their names, and so many are queued.
func (f *tenants) settle(queued int, names ...string) {
	f.Helper()
	controllertest.Eventually(f, func() error {
		running, waiting := f.list()
		var got []string
		for i := range running {
			got = append(got, running[i].Name)
		}
		slices.Sort(got)
		if !slices.Equal(got, names) || len(waiting) != queued {
			return fmt.Errorf("%v run and %d are queued, want %v and %d", got, len(waiting), names, queued)
		}
		return nil
	})
}

// pod runs the agent of a Transfer that has been started.
func (f *tenants) pod(transfer *v1alpha1.Transfer) *corev1.Pod {
	f.Helper()
	var pod *corev1.Pod
	controllertest.Eventually(f, func() error {
		jobs := cluster.Jobs(f, f.namespace, v1alpha1.TransferLabel, string(transfer.UID))
		if len(jobs) != 1 {
			return fmt.Errorf("%d Jobs", len(jobs))
		}
		agents.Say(pki.SendServerName(string(transfer.UID)), transferring())
		pod = cluster.RunPod(f, &jobs[0], "node-1")
		return nil
	})
	return pod
}

// end has the agent of a Transfer succeed.
func (f *tenants) end(transfer *v1alpha1.Transfer) {
	f.Helper()
	cluster.EndPod(f, f.pod(transfer), 0, encode(f, succeeded()))
	f.ended[transfer.UID] = true
}

// most follows the namespace from now on, and returns how many runs there were at once at most. It sees every state
// that was ever written.
func (f *tenants) most() func() int {
	f.Helper()
	list := &v1alpha1.TransferList{}
	if err := cluster.Client.List(context.Background(), list, client.InNamespace(f.namespace)); err != nil {
		f.Fatal(err)
	}
	watcher, err := cluster.Client.Watch(context.Background(), list, client.InNamespace(f.namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(watcher.Stop)
	var mu sync.Mutex
	running, most := map[types.UID]bool{}, 0
	go func() {
		for event := range watcher.ResultChan() {
			transfer, ok := event.Object.(*v1alpha1.Transfer)
			if !ok {
				continue
			}
			mu.Lock()
			run := transfer.Status.Run
			if run != nil && run.CompletionTime == nil && transfer.Status.Queued == nil {
				running[transfer.UID] = true
			} else {
				delete(running, transfer.UID)
			}
			most = max(most, len(running))
			mu.Unlock()
		}
	}()
	return func() int {
		f.Helper()
		controllertest.Eventually(f, func() error {
			mu.Lock()
			defer mu.Unlock()
			if len(running) > 0 {
				return fmt.Errorf("%d runs have not been seen to end", len(running))
			}
			return nil
		})
		mu.Lock()
		defer mu.Unlock()
		return most
	}
}

// TestManyTransfersShareTwoSlots: twelve that are created at once never run more than two at a time; the others begin
// as they came, and waiting costs no attempt.
func TestManyTransfersShareTwoSlots(t *testing.T) {
	f := prepareTenants(t)
	f.limit("team", slots(2))
	most := f.most()
	const all = 12
	var created sync.WaitGroup
	for i := range all {
		created.Go(func() { f.add(fmt.Sprintf("t%02d", i), "") })
	}
	created.Wait()
	var running, queued []v1alpha1.Transfer
	controllertest.Eventually(t, func() error {
		if running, queued = f.list(); len(running) != 2 || len(queued) != all-2 {
			return fmt.Errorf("%d run and %d are queued", len(running), len(queued))
		}
		return nil
	})
	for _, transfer := range queued {
		ready := meta.FindStatusCondition(transfer.Status.Conditions, v1alpha1.ConditionReady)
		if transfer.Status.Phase != v1alpha1.TransferQueued || transfer.Status.Run != nil ||
			ready.Reason != v1alpha1.ReasonQuotaExceeded ||
			!meta.IsStatusConditionTrue(transfer.Status.Conditions, v1alpha1.ConditionReconciling) ||
			!strings.Contains(ready.Message, `DataQuota "team"`) {
			t.Errorf("%s is %s: %+v", transfer.Name, transfer.Status.Phase, ready)
		}
	}
	for len(running) > 0 {
		ends := running[0]
		f.end(&ends)
		controllertest.Eventually(t, func() error {
			if running, _ = f.list(); slices.ContainsFunc(running, func(r v1alpha1.Transfer) bool { return r.UID == ends.UID }) {
				return errors.New("the run has not ended")
			}
			if len(queued) == 0 {
				return nil
			}
			if !slices.ContainsFunc(running, func(r v1alpha1.Transfer) bool { return r.UID == queued[0].UID }) {
				return fmt.Errorf("%s, whose turn it is, has not begun; %d run", queued[0].Name, len(running))
			}
			return nil
		})
		if len(queued) > 0 {
			queued = queued[1:]
		}
	}
	if len(f.ended) != all {
		t.Errorf("%d of %d have run", len(f.ended), all)
	}
	if n := most(); n != 2 {
		t.Errorf("%d ran at once, and 2 may", n)
	}
	list := &v1alpha1.TransferList{}
	if err := cluster.Client.List(context.Background(), list, client.InNamespace(f.namespace)); err != nil {
		t.Fatal(err)
	}
	for _, transfer := range list.Items {
		if run := transfer.Status.Run; run == nil || run.Attempt != 1 || run.Failures != 0 ||
			transfer.Status.Phase != v1alpha1.TransferComplete {
			t.Errorf("%s is %s: %+v", transfer.Name, transfer.Status.Phase, run)
		}
	}
}

// TestQuotaChanges: runs go on when the limit is made smaller, and others begin when it is made larger, or is deleted.
func TestQuotaChanges(t *testing.T) {
	f := prepareTenants(t)
	quota := f.limit("team", slots(3))
	change := func(n int32) {
		patch := client.MergeFrom(quota.DeepCopy())
		quota.Spec.Hard = slots(n)
		if err := cluster.Client.Patch(context.Background(), quota, patch); err != nil {
			t.Fatal(err)
		}
	}
	transfers := map[string]*v1alpha1.Transfer{}
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		transfers[name] = f.add(name, "")
		f.settle(max(0, i-2), []string{"a", "b", "c"}[:min(i+1, 3)]...)
	}
	change(1)
	f.end(transfers["a"])
	f.end(transfers["b"])
	f.settle(2, "c")
	change(2)
	f.settle(1, "c", "d")
	if err := cluster.Client.Delete(context.Background(), quota); err != nil {
		t.Fatal(err)
	}
	f.settle(0, "c", "d", "e")
}

// TestTwoQuotas: both must be satisfied. Bandwidth is granted by the Transfers' own limits, or in equal shares; one
// that needs much is not starved by those behind it, and a copy within one pod needs none.
func TestTwoQuotas(t *testing.T) {
	f := prepareTenants(t)
	f.limit("slots", slots(4))
	f.limit("wire", v1alpha1.DataQuotaResources{Bandwidth: ptr.To(resource.MustParse("100Mi"))})
	first := f.add("first", "60Mi")
	f.settle(0, "first")
	second := f.add("second", "80Mi")
	f.settle(1, "first")
	f.add("third", "10Mi") // there is enough for it, and it came later
	f.settle(2, "first")
	cluster.Claim(t, f.namespace, "copy")
	local := f.make("local")
	local.Spec.Destination.Peer = ""
	cluster.Create(t, local)
	f.settle(2, "first", "local")
	_, queued := f.list()
	for i := range queued {
		ready := meta.FindStatusCondition(queued[i].Status.Conditions, v1alpha1.ConditionReady)
		if !strings.Contains(ready.Message, `DataQuota "wire"`) || !strings.Contains(ready.Message, "bandwidth") {
			t.Errorf("%s: %s", queued[i].Name, ready.Message)
		}
	}
	f.end(first)
	f.settle(0, "local", "second", "third")
	f.end(second)
	f.settle(0, "local", "third")
	f.add("share", "") // a fourth of 100Mi
	f.settle(0, "local", "share", "third")
	running, _ := f.list()
	for i := range running {
		limit := running[i].Status.Run.BandwidthLimit
		if want, ok := map[string]string{"share": "25Mi", "third": "10Mi"}[running[i].Name]; ok && limit.String() != want {
			t.Errorf("%s may send %s, want %s", running[i].Name, limit, want)
		}
	}
}

// TestRemovingATransferFreesNothing: a tenant deletes a Transfer, takes its finalizer away and leaves its Job and pod
// behind. As long as the pod runs, it counts.
func TestRemovingATransferFreesNothing(t *testing.T) {
	f := prepareTenants(t)
	f.limit("team", slots(1))
	first := f.add("first", "")
	f.settle(0, "first")
	pod := f.pod(first)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := cluster.Client.Delete(context.Background(), first); err != nil {
		t.Fatal(err)
	}
	// The manager may be faster to put the finalizer to use, and the Transfer is gone in the end either way.
	if err := client.IgnoreNotFound(cluster.Client.Patch(context.Background(), first, patch)); err != nil {
		t.Fatal(err)
	}
	f.add("first", "") // again
	f.add("second", "")
	f.settle(2)
	cluster.EndPod(t, pod, 0, "")
	controllertest.Eventually(t, func() error {
		if running, queued := f.list(); len(running) != 1 || len(queued) != 1 {
			return fmt.Errorf("%d run and %d are queued", len(running), len(queued))
		}
		return nil
	})
}

// TestSuspendedHoldNothing: a Transfer that is suspended while it is queued does not stand in the way of others, has
// lost its place, and does not get a slot by being resumed.
func TestSuspendedHoldNothing(t *testing.T) {
	f := prepareTenants(t)
	f.limit("team", slots(1))
	first := f.add("first", "")
	f.settle(0, "first")
	second := f.add("second", "")
	f.settle(1, "first")
	suspend := func(value bool) {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
			`{"spec":{"suspend":%t},"metadata":{"annotations":{%q:%q}}}`,
			value, v1alpha1.RunAnnotation, time.Now().String()))
		if err := cluster.Client.Patch(context.Background(), second, patch); err != nil {
			t.Fatal(err)
		}
	}
	suspend(true)
	f.settle(0, "first")
	third := f.add("third", "")
	f.settle(1, "first")
	f.end(first)
	f.settle(0, "third")
	suspend(false)
	f.settle(1, "third")
	f.end(third)
	f.settle(0, "second")
}
