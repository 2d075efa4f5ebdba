// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/node"
	"github.com/lighterage/lighterage/controllers/plan"
)

// pathBench is a node of two cores whose profile shows what runs say of paths.
func pathBench(t *testing.T) (*bench, *node.Paths) {
	t.Helper()
	object := nodeNamed()
	object.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
	b, paths := newBench(t, object, agentPod("agent", "z15-a", "10.0.0.1", 0)), node.NewPaths()
	b.reconciler = node.NewReconciler(b.api, node.Options{
		Profiles:  controllertest.Asking[*wirev1.NodeMeasurement](b.agents.Profile),
		Namespace: operator, Clock: b.clock, Paths: paths,
	})
	return b, paths
}

// run of two GiB that took as many CPU seconds for each.
func run(path v1alpha1.DataPathType, seconds float64) plan.PathCost {
	return plan.PathCost{
		Node: "z15-a", Type: path, Bytes: 2 << 30, CPU: time.Duration(2 * seconds * float64(time.Second)), Took: time.Hour,
	}
}

func (b *bench) shows(want ...v1alpha1.PathProfile) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.profile().Status.DataPaths); diff != "" {
		b.t.Error(diff)
	}
}

func path(name v1alpha1.DataPathType, seconds string, runs int32, at time.Time) v1alpha1.PathProfile {
	return v1alpha1.PathProfile{
		Type: name, CPUSecondsPerGiB: seconds, Runs: runs, MeasuredTime: metav1.NewTime(at).Rfc3339Copy(),
	}
}

// TestPaths: runs become figures every five minutes at most, and nothing is written besides.
func TestPaths(t *testing.T) {
	b, paths := pathBench(t)
	b.reconcile()
	b.shows()
	elsewhere := run(v1alpha1.DataPathTCP, 9)
	elsewhere.Node = "z15-b"
	for _, cost := range []plan.PathCost{
		run(v1alpha1.DataPathTCP, 1), elsewhere, run(v1alpha1.DataPathPod, 0.25), run(v1alpha1.DataPathTCP, 2),
	} {
		paths.Measured(cost)
	}
	first := b.clock.Now()
	b.reconcile()
	pod := path(v1alpha1.DataPathPod, "0.25", 1, first)
	b.shows(pod, path(v1alpha1.DataPathTCP, "1.5", 2, first))

	version := b.profile().ResourceVersion
	unwritten := func() {
		t.Helper()
		if b.profile().ResourceVersion != version {
			t.Error("it was written")
		}
	}
	b.reconcile()
	unwritten()
	b.clock.SetTime(first.Add(2 * time.Minute))
	paths.Measured(run(v1alpha1.DataPathTCP, 3))
	if again := b.reconcile(); again != 3*time.Minute {
		t.Errorf("looked at again after %v", again)
	}
	unwritten()
	second := first.Add(5 * time.Minute)
	b.clock.SetTime(second)
	b.reconcile()
	b.shows(pod, path(v1alpha1.DataPathTCP, "2", 3, second))

	// A figure follows what changes: an eighth at a time.
	for i := range 40 {
		at := second.Add(time.Duration(i+1) * time.Hour)
		b.clock.SetTime(at)
		paths.Measured(run(v1alpha1.DataPathTCP, 4))
		b.reconcile()
		if got := b.profile().Status.DataPaths[1]; i == 5 && (got.CPUSecondsPerGiB < "3" || got.CPUSecondsPerGiB > "3.5") {
			t.Errorf("after %d runs: %+v", i, got)
		}
	}
	if got := b.profile().Status.DataPaths[1]; got.CPUSecondsPerGiB < "3.9" || got.Runs != 43 {
		t.Errorf("in the end: %+v", got)
	}

	// A clock that was set back keeps nobody waiting for more than that.
	b.clock.SetTime(first)
	paths.Measured(run(v1alpha1.DataPathTCP, 4))
	if again := b.reconcile(); again <= 0 || again > 5*time.Minute {
		t.Errorf("looked at again after %v", again)
	}
	// Figures of another machine go.
	b.agents.measured.Kernel = "6.1"
	b.reconcile()
	b.agents.measured.Kernel = "6.9"
	b.reconcile()
	if got := b.profile().Status.DataPaths; len(got) != 0 {
		t.Errorf("of another kernel: %+v", got)
	}
	paths.Measured(run(v1alpha1.DataPathTCP, 4))
	b.reconcile()
	if got := b.profile().Status.DataPaths; len(got) != 1 || got[0].Runs != 1 {
		t.Errorf("of this kernel: %+v", got)
	}
}

// TestPathsOfHostileAgents: nothing that a machine cannot have done is shown, and what waits is bounded.
func TestPathsOfHostileAgents(t *testing.T) {
	b, paths := pathBench(t)
	for name, change := range map[string]func(*plan.PathCost){
		"for nothing":             func(c *plan.PathCost) { c.CPU = 1 },
		"all time there is":       func(c *plan.PathCost) { c.CPU = math.MaxInt64 },
		"more than two cores can": func(c *plan.PathCost) { c.CPU, c.Took = 9*time.Second, 4*time.Second },
		"all bytes there are":     func(c *plan.PathCost) { c.Bytes, c.CPU = math.MaxInt64, 7000*time.Second },
		"no bytes":                func(c *plan.PathCost) { c.Bytes = 0 },
		"no time":                 func(c *plan.PathCost) { c.Took = 0 },
		"before it began":         func(c *plan.PathCost) { c.Took = -time.Hour },
	} {
		cost := run(v1alpha1.DataPathTCP, 1)
		change(&cost)
		paths.Measured(cost)
		if b.reconcile(); len(b.profile().Status.DataPaths) > 0 {
			t.Errorf("%s: %+v", name, b.profile().Status.DataPaths)
		}
	}
	for i := range 20_000 {
		cost := run(v1alpha1.DataPathTCP, 1)
		cost.Node = fmt.Sprint("made-up-", i)
		paths.Measured(cost)
	}
	paths.Measured(run(v1alpha1.DataPathTCP, 1)) // there is no place for it
	b.reconcile()
	b.shows()

	b, paths = pathBench(t)
	for i := range 100 {
		paths.Measured(run(v1alpha1.DataPathTCP, 1+float64(i)))
	}
	b.reconcile()
	if got := b.profile().Status.DataPaths; len(got) != 1 || got[0].Runs != 32 || got[0].CPUSecondsPerGiB < "90" {
		t.Errorf("the newest are kept: %+v", got)
	}
}
