// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrlcontrollertest "sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/topology"
)

// fed is a Topology with the informers that feed it, and the number of lists that it has made.
type fed struct {
	*topology.Topology
	client                  client.Client
	nodes, profiles, agents *ctrlcontrollertest.FakeInformer
	lists                   atomic.Int64
}

func newFed(t *testing.T, objects ...client.Object) *fed {
	t.Helper()
	f := &fed{}
	counting := interceptor.NewClient(clusterOf(t, objects...), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			f.lists.Add(1)
			return c.List(ctx, list, options...)
		},
	})
	f.client, f.Topology = counting, topology.New(counting)
	informers := &informertest.FakeInformers{Scheme: schemeOfAll(t)}
	if err := f.Watch(t.Context(), informers); err != nil {
		t.Fatal(err)
	}
	for object, informer := range map[client.Object]**ctrlcontrollertest.FakeInformer{
		&corev1.Node{}: &f.nodes, &v1alpha1.NodeProfile{}: &f.profiles, &corev1.Pod{}: &f.agents,
	} {
		var err error
		if *informer, err = informers.FakeInformerFor(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f *fed) facts(t *testing.T) placement.Facts {
	t.Helper()
	facts, err := f.Facts(t.Context(), "bank", "")
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

func newNode(name, slots string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"x": "y"}},
		Status: corev1.NodeStatus{
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			Allocatable: corev1.ResourceList{v1alpha1.AcceleratorSlotsResource: resource.MustParse(slots)},
		},
	}
}

// TestUnchanged: as long as nothing changes that placement looks at, nothing is read again, however many ask.
func TestUnchanged(t *testing.T) {
	before := newNode("a", "1")
	f := newFed(t, before)
	f.facts(t)
	first := f.lists.Load()
	if first == 0 {
		t.Fatal("nothing was read")
	}
	heartbeat := before.DeepCopy()
	heartbeat.Status.Conditions[0].LastHeartbeatTime = metav1.Now()
	f.nodes.Update(before, heartbeat)
	profile := &v1alpha1.NodeProfile{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Status:     v1alpha1.NodeProfileStatus{MeasuredTime: &metav1.Time{Time: time.Unix(1e9, 0)}},
	}
	measured := profile.DeepCopy()
	measured.Status.MeasuredTime = &metav1.Time{Time: time.Unix(2e9, 0)}
	measured.Status.DataPaths = []v1alpha1.PathProfile{{Type: v1alpha1.DataPathTCP, CPUSecondsPerGiB: "1"}}
	f.profiles.Update(profile, measured)
	agent := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "agent", Labels: map[string]string{agentpod.AppLabel: agentpod.AppName}},
	}
	f.agents.Add(agent)
	started := agent.DeepCopy()
	started.Spec.NodeName = "a"
	f.agents.Update(agent, started)
	f.agents.Delete(started)
	for range 100 {
		if facts := f.facts(t); &facts.Nodes[0] != &f.facts(t).Nodes[0] {
			t.Fatal("the nodes are copied")
		}
	}
	if got := f.lists.Load(); got != first {
		t.Errorf("%d lists", got-first)
	}
}

// TestChanged: who asks after a change sees it.
func TestChanged(t *testing.T) {
	a := newNode("a", "2")
	f := newFed(t, a)
	if facts := f.facts(t); len(facts.Nodes) != 1 || facts.FreeSlots["a"] != 2 {
		t.Fatalf("%+v", facts)
	}
	b := newNode("b", "1")
	create(t, f.client, b)
	f.nodes.Add(b)
	agent := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "bank", Name: "agent", Labels: map[string]string{agentpod.AppLabel: agentpod.AppName},
		},
		Spec: corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{v1alpha1.AcceleratorSlotsResource: resource.MustParse("1")},
		}}}},
	}
	create(t, f.client, agent)
	f.agents.Add(agent)
	profile := &v1alpha1.NodeProfile{
		ObjectMeta: metav1.ObjectMeta{Name: "b"},
		Status:     v1alpha1.NodeProfileStatus{MeasuredTime: &metav1.Time{Time: time.Unix(1e9, 0)}},
	}
	create(t, f.client, profile)
	f.profiles.Add(profile)
	facts := f.facts(t)
	if len(facts.Nodes) != 2 || facts.FreeSlots["a"] != 1 || facts.FreeSlots["b"] != 1 || len(facts.Profiles) != 1 {
		t.Errorf("%+v", facts)
	}
	if err := f.client.Delete(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	f.nodes.Delete(a)
	if facts := f.facts(t); len(facts.Nodes) != 1 || len(facts.FreeSlots) != 1 {
		t.Errorf("%+v", facts)
	}
	cluster, err := f.Cluster(t.Context())
	if err != nil || len(cluster.Profiles()) != 1 {
		t.Errorf("%+v, %v", cluster, err)
	}
}

func create(t *testing.T, c client.Client, object client.Object) {
	t.Helper()
	if err := c.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// TestConcurrent is for the race detector: many ask and decide while nodes change.
func TestConcurrent(t *testing.T) {
	f := newFed(t, newNode("a", "1"), newNode("b", "1"))
	var askers sync.WaitGroup
	for range 4 {
		askers.Go(func() {
			for range 50 {
				facts := f.facts(t)
				placement.Decide(placement.Request{Placement: v1alpha1.PlacementPreferHardware}, facts)
				cluster, err := f.Cluster(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				decided, err := cluster.Decide(placement.Request{Placement: v1alpha1.PlacementPreferHardware})
				if err != nil {
					t.Error(err)
					return
				}
				decided.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].Weight++
			}
		})
	}
	for i := range 20 {
		node := newNode(fmt.Sprintf("n%d", i), "1")
		create(t, f.client, node)
		f.nodes.Add(node)
	}
	askers.Wait()
	if facts := f.facts(t); len(facts.Nodes) != 22 {
		t.Errorf("%d nodes", len(facts.Nodes))
	}
}

// TestDecisionsAreRemembered: what a caller does with a decision does not show in those of others, and a change of
// nodes makes another.
func TestDecisionsAreRemembered(t *testing.T) {
	hardware := newNode("z15", "1")
	hardware.Labels[v1alpha1.DeflateLabel] = placement.Hardware
	f := newFed(t, hardware)
	decide := func() placement.Plan {
		cluster, err := f.Cluster(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		decided, err := cluster.Decide(placement.Request{Placement: v1alpha1.PlacementRequireHardware})
		if err != nil {
			t.Fatal(err)
		}
		return decided
	}
	first := decide()
	if first.Blocked != nil || first.Slot {
		t.Fatalf("%+v", first)
	}
	first.Affinity.NodeAffinity, first.Status.Alternatives = nil, nil
	if again := decide(); again.Affinity.NodeAffinity == nil {
		t.Error("a decision was changed by who asked before")
	}
	if err := f.client.Delete(t.Context(), hardware); err != nil {
		t.Fatal(err)
	}
	f.nodes.Delete(hardware)
	if decide().Blocked == nil {
		t.Error("the node is gone")
	}
}

// TestWaiting: those who wait for a node are woken once for many changes, and not when a manager starts.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFed(t)
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		asked := 0
		waiter := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "bank", Name: "ledger"}}
		source := f.Waiting(func(context.Context) []reconcile.Request { asked++; return []reconcile.Request{waiter} })
		if err := source.Start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			f.nodes.Add(newNode("a", "1"))
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if asked != 1 || queue.Len() != 1 {
			t.Fatalf("asked %d times, %d woken", asked, queue.Len())
		}
		f.nodes.Delete(newNode("a", "1"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if asked != 2 {
			t.Errorf("asked %d times", asked)
		}
	})
}

// TestGatewayCost: what gateways spend is known of each node from when it is told.
func TestGatewayCost(t *testing.T) {
	f := newFed(t, newNode("a", "1"), &v1alpha1.NodeProfile{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Status: v1alpha1.NodeProfileStatus{
			MeasuredTime: &metav1.Time{Time: time.Unix(1e9, 0)}, NetworkCPUSecondsPerGiB: "0.5",
		},
	})
	for _, want := range []float64{0, 0.25, 0.125} {
		if want > 0 {
			f.SetGateway(want)
		}
		cluster, err := f.Cluster(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := cluster.Network("a"); got == nil || got.Gateway != want || got.PerGiB != 0.5 {
			t.Errorf("%+v, want %v", got, want)
		}
	}
}
