// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

const (
	// pathWindow is how long what was written of paths stays, so that a node costs a write in a window at most.
	pathWindow = 5 * time.Minute
	// pathRuns is how many runs a figure is the mean of, about: each further one moves it by one part of so many.
	pathRuns = 8
	// maxPathCosts is how many runs of a node wait to be written; the oldest give way. maxPathNodes is of how many nodes.
	maxPathCosts, maxPathNodes = 32, 10_000

	// Bounds of what runs can take, far beyond any that there is.
	leastPathSeconds, mostPathSeconds = 0.001, 1000 // for a GiB
	maxPathRate                       = 1e11        // bytes per second
)

// Paths gathers what runs that have ended say of paths, until NodeProfiles do. It is safe for concurrent use. What is
// gathered is lost with the manager.
type Paths struct {
	news chan event.GenericEvent

	mu    sync.Mutex
	costs map[string][]plan.PathCost // by node
}

// NewPaths returns one that knows of no run.
func NewPaths() *Paths {
	return &Paths{news: make(chan event.GenericEvent, maxPathCosts), costs: map[string][]plan.PathCost{}}
}

// Measured takes in what a run says.
func (p *Paths) Measured(cost plan.PathCost) {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting, known := p.costs[cost.Node]
	if !known && len(p.costs) == maxPathNodes {
		return
	}
	p.costs[cost.Node] = append(waiting[max(len(waiting)+1-maxPathCosts, 0):], cost)
	select {
	case p.news <- event.GenericEvent{Object: &v1alpha1.NodeProfile{ObjectMeta: metav1.ObjectMeta{Name: cost.Node}}}:
	default: // the node is looked at with the next run
	}
}

// source wakes the nodes of which something was taken in.
func (p *Paths) source() source.Source {
	return source.Channel(p.news, &handler.EnqueueRequestForObject{})
}

// any reports whether something of a node was not taken yet.
func (p *Paths) any(node string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.costs[node]) > 0
}

// take returns what was taken in of a node since the last time.
func (p *Paths) take(node string) []plan.PathCost {
	p.mu.Lock()
	defer p.mu.Unlock()
	costs := p.costs[node]
	delete(p.costs, node)
	return costs
}

// paths brings the figures of paths up to date, and returns when to do so again; 0: nothing is known that they lack.
func (r *Reconciler) paths(profile *v1alpha1.NodeProfile, cores int64, now time.Time) time.Duration {
	if r.options.Paths == nil || !r.options.Paths.any(profile.Name) {
		return 0
	}
	if wait := untilPaths(profile.Status.DataPaths, now); wait > 0 {
		return wait
	}
	profile.Status.DataPaths = withCosts(profile.Status.DataPaths, r.options.Paths.take(profile.Name), cores, now)
	return 0
}

// untilPaths is for how long what was written of paths stays.
func untilPaths(shown []v1alpha1.PathProfile, now time.Time) time.Duration {
	var wait time.Duration
	for _, path := range shown {
		wait = max(wait, path.MeasuredTime.Add(pathWindow).Sub(now))
	}
	return min(wait, pathWindow) // the clock may have been set back
}

// withCosts are the figures with those of further runs, oldest first, on a node with so many cores; 0: not known.
func withCosts(
	shown []v1alpha1.PathProfile, costs []plan.PathCost, cores int64, now time.Time,
) []v1alpha1.PathProfile {
	shown = slices.Clone(shown)
	for _, cost := range costs {
		seconds := cost.CPU.Seconds() / (float64(cost.Bytes) / (1 << 30))
		if !possible(cost, seconds, cores) {
			continue
		}
		i := slices.IndexFunc(shown, func(p v1alpha1.PathProfile) bool { return p.Type == cost.Type })
		if i < 0 {
			i, shown = len(shown), append(shown, v1alpha1.PathProfile{Type: cost.Type})
		}
		path := &shown[i]
		mean, err := strconv.ParseFloat(path.CPUSecondsPerGiB, 64)
		if err != nil {
			path.Runs = 0
		}
		path.Runs = min(path.Runs, 1<<30) + 1
		mean += (seconds - mean) / float64(min(path.Runs, pathRuns))
		path.CPUSecondsPerGiB, path.MeasuredTime = decimal(mean, 4), metav1.NewTime(now).Rfc3339Copy()
	}
	slices.SortFunc(shown, func(a, b v1alpha1.PathProfile) int { return cmp.Compare(a.Type, b.Type) })
	return shown
}

// possible reports whether a machine can have done what a run says, which is the word of an agent whose pod may be its
// namespace's own.
func possible(cost plan.PathCost, seconds float64, cores int64) bool {
	if cores == 0 {
		cores = maxCores
	}
	return seconds >= leastPathSeconds && seconds <= mostPathSeconds &&
		cost.CPU.Seconds() <= cost.Took.Seconds()*float64(cores) && float64(cost.Bytes) <= cost.Took.Seconds()*maxPathRate
}
