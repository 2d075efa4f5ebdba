// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/index"
)

const (
	// useLook is how often it is gathered what agents of a node with an accelerator reported, and useWindow for how long
	// before status says so.
	useLook   = time.Minute
	useWindow = 5 * time.Minute
	// useStep is the least change that is written: with it a node costs a write in a window at most.
	useStep = 0.05
	// countersPatience is how long a window stays open for counters that were not read since it began.
	countersPatience = 3 * useWindow

	countersCounting   = "Counting"
	countersNotEnabled = "NotEnabled"
)

// window is the time over which a fraction is computed.
type window struct {
	began    time.Time
	looked   time.Time
	calls    time.Duration
	counters *wirev1.AcceleratorCounters // as they were when it began
}

// figures are what a window gives. NaN stands for what is not known.
type figures struct{ calls, busy, contention float64 }

// look gathers what agents on a node did since the last look.
func (r *Reconciler) look(ctx context.Context, node string) (time.Duration, error) {
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.MatchingFields{index.Node: node}); err != nil {
		return 0, fmt.Errorf("listing the agents on node %s: %w", node, err)
	}
	var addresses []string
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.PodIP == "" {
			continue
		}
		if over(pod) {
			taken, err := r.inherited(ctx, pod.Status.PodIP)
			if err != nil {
				return 0, err
			}
			if taken {
				continue
			}
		}
		addresses = append(addresses, pod.Status.PodIP)
	}
	return r.options.Use.take(addresses), nil
}

// over reports whether a pod has ended, after which another may have its address.
func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// inherited reports whether an agent that has not ended, on any node, has an address.
func (r *Reconciler) inherited(ctx context.Context, address string) (bool, error) {
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, client.MatchingFields{index.IP: address}); err != nil {
		return false, fmt.Errorf("listing the agents at %s: %w", address, err)
	}
	return slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return !over(&pod) }), nil
}

// use brings the figures of the accelerator's use up to date. It returns when to look again; 0: there is no
// accelerator.
func (r *Reconciler) use(
	ctx context.Context, profile *v1alpha1.NodeProfile, said *wirev1.AcceleratorUse, now time.Time,
) (time.Duration, error) {
	accelerator := profile.Status.Accelerator
	if accelerator == nil || r.options.Use == nil {
		return 0, nil
	}
	verified := accelerator.State == v1alpha1.AcceleratorVerified
	if verified {
		r.sharing(profile.Name, said)
	}
	setCounters(accelerator, said, verified)
	if !verified {
		accelerator.BusyFraction = ""
		r.forgetUse(profile.Name)
		return 0, nil
	}
	spent, err := r.look(ctx, profile.Name)
	if err != nil {
		return 0, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.windows[profile.Name]
	if w == nil {
		w = &window{began: now, looked: now, counters: said.GetCounters()}
		r.windows[profile.Name] = w
	}
	// A call keeps a processor busy, so agents that report more are broken.
	spent = min(spent, max(now.Sub(w.looked), useLook)*time.Duration(max(profile.Status.Cores, 1)))
	r.options.Metrics.Called(profile.Name, spent)
	w.calls += spent
	w.looked = now
	passed := now.Sub(w.began)
	if passed < useWindow || passed < countersPatience && w.unread(said.GetCounters()) {
		return useLook, nil
	}
	f := w.figures(said.GetCounters(), now)
	r.windows[profile.Name] = &window{began: now, looked: now, counters: said.GetCounters()}
	r.options.Metrics.Used(profile.Name, f.busy, f.contention)
	accelerator.BusyFraction = stepped(accelerator.BusyFraction, f.calls)
	if accelerator.Counters != nil {
		accelerator.Counters.BusyFraction = stepped(accelerator.Counters.BusyFraction, f.busy)
		accelerator.Counters.Contention = stepped(accelerator.Counters.Contention, f.contention)
	}
	return useLook, nil
}

func (r *Reconciler) forgetUse(node string) {
	r.options.Metrics.Forget(node)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.windows, node)
}

// setCounters says whether they are read. An agent that does not know of them, or that did not answer, changes nothing.
func setCounters(accelerator *v1alpha1.NodeAccelerator, said *wirev1.AcceleratorUse, verified bool) {
	switch reason := cut(said.GetCountersReason(), maxName); {
	case reason == "":
		return
	case reason == countersNotEnabled && !verified:
		accelerator.Counters = nil
	case accelerator.Counters == nil || accelerator.Counters.Reason != reason || reason != countersCounting:
		accelerator.Counters = &v1alpha1.AcceleratorCounters{
			Reason: reason, Message: cut(said.GetCountersMessage(), maxMessage),
		}
	}
}

// unread reports whether these counters are those with which the window began: the node agent has not read them since.
func (w *window) unread(end *wirev1.AcceleratorCounters) bool {
	return w.counters != nil && end != nil && end.GetElapsedNanos() == w.counters.GetElapsedNanos()
}

// figures of a window that ends with these counters.
func (w *window) figures(end *wirev1.AcceleratorCounters, now time.Time) figures {
	f := figures{calls: min(w.calls.Seconds()/now.Sub(w.began).Seconds(), 1), busy: math.NaN(), contention: math.NaN()}
	begin := w.counters
	if begin == nil || end == nil || end.GetElapsedNanos() <= begin.GetElapsedNanos() ||
		end.GetAccessCycles() < begin.GetAccessCycles() || end.GetBusyCycles() < begin.GetBusyCycles() {
		return f // they were not read all the time, or began again
	}
	access := float64(end.GetAccessCycles() - begin.GetAccessCycles())
	busy := float64(end.GetBusyCycles() - begin.GetBusyCycles())
	if access+busy > 0 {
		f.contention = access / (access + busy)
	} else {
		f.contention = 0
	}
	if capacity := end.GetCyclesPerSecond(); capacity > 0 {
		elapsed := float64(end.GetElapsedNanos()-begin.GetElapsedNanos()) / 1e9
		f.busy = min(busy/(elapsed*float64(capacity)), 1)
	}
	return f
}

// stepped is what status shows of a fraction: what it showed before, unless that is a step away, or use began or ended.
func stepped(before string, now float64) string {
	if math.IsNaN(now) {
		return ""
	}
	was, err := strconv.ParseFloat(before, 64)
	text := decimal(now, 2)
	if err == nil && math.Abs(now-was) < useStep && (was == 0) == (text == "0") {
		return before
	}
	return text
}
