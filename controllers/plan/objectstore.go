// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/pki"
)

const (
	// probeInterval is how often a store that is Ready is probed.
	probeInterval = 24 * time.Hour
	// probeFirst and probeLast are how soon after a failure, doubled with each.
	probeFirst, probeLast = 30 * time.Second, 10 * time.Minute
	// probeUnfit is the longest of these waits after failures that only somebody can fix, see unfit.
	probeUnfit = 6 * time.Hour
	// probePatience is how long an agent may run: it takes two and a half minutes at most.
	probePatience = 5 * time.Minute
	// maxPromise is the longest message of a promise in bytes.
	maxPromise = 256
)

// storePromises are all that there are. A store can be Ready without those that are false, see decision 078.
var storePromises = map[v1alpha1.StorePromiseType]bool{
	v1alpha1.StoreReadAfterWrite: true, v1alpha1.StoreRangedGet: true, v1alpha1.StoreList: true,
	v1alpha1.StoreMultipart: true, v1alpha1.StoreConditionalPut: true, v1alpha1.StoreConditionalComplete: false,
	v1alpha1.StoreAbort: true, v1alpha1.StoreDelete: true,
}

// unfit are the reasons that do not pass as outages do. Probes that come this far may write megabytes.
var unfit = []string{v1alpha1.ReasonPromiseNotKept, v1alpha1.ReasonStoreUnfit, v1alpha1.ReasonBucketNotFound}

// ObjectStoreFacts are what was seen.
type ObjectStoreFacts struct {
	Now time.Time
	// NewID is that of the next probe, should one begin.
	NewID string
	// Dial is what the agent may dial. Service is the one that the endpoint names; nil: none, or none that may be used.
	Dial    *wirev1.DialPolicy
	Service *corev1.Service
	// Problem is why there is nothing to probe; nil if there is none.
	Problem *Problem
	// Job and Pod of the probe that status names; nil when they do not exist.
	Job *batchv1.Job
	Pod *corev1.Pod
}

// ObjectStoreDecision is what to do.
type ObjectStoreDecision struct {
	// Status to write, before anything is made.
	Status v1alpha1.ObjectStoreStatus
	// Start is the probe that must exist; nil when none has to be made. Before it, all Jobs but its own are to be
	// removed.
	Start *Attempt
	// Ended: a probe has ended. Its Secret is to be removed before Status is written, and its Job after it.
	Ended bool
	// RequeueAfter is when to look again if nothing happens before.
	RequeueAfter time.Duration
}

// DecideObjectStore is the heart of the ObjectStore controller. It does not change its arguments.
func DecideObjectStore(
	store *v1alpha1.ObjectStore, facts ObjectStoreFacts, image AgentImage,
) ObjectStoreDecision {
	if bundle := store.Spec.CABundle; len(bundle) > 0 {
		if _, err := pki.ParseBundle(bundle); err != nil {
			facts.Problem = &Problem{
				v1alpha1.ReasonInvalidSpec, "spec.caBundle must be CA certificates as PEM: " + err.Error(),
			}
		}
	}
	d := &storeDecision{store: store.DeepCopy(), facts: facts, image: image}
	probe := d.store.Status.Probe
	switch {
	case probe == nil || probe.Generation != store.Generation:
		d.begin()
	case probe.CompletionTime == nil:
		d.follow()
	case probeDue(probe.NextTime, facts.Now):
		d.begin()
	default:
		d.out.RequeueAfter = probe.NextTime.Sub(facts.Now)
	}
	d.out.Status = d.store.Status
	d.out.Status.ObservedGeneration = store.Generation
	return d.out
}

// probeDue reports whether a probe has to begin. No wait is planned that is longer than that of a store that is Ready:
// if one is, the clock was set back since, or somebody else wrote it.
func probeDue(planned *metav1.Time, now time.Time) bool {
	return planned == nil || !planned.After(now) || planned.Sub(now) > probeInterval*3/2
}

// storeDecision is one decision in the making; store is a copy whose status becomes the result.
type storeDecision struct {
	store *v1alpha1.ObjectStore
	facts ObjectStoreFacts
	image AgentImage
	out   ObjectStoreDecision
}

// begin begins a probe. What is known of a store that is only probed again stays until it ends.
func (d *storeDecision) begin() {
	status, before := &d.store.Status, d.store.Status.Probe
	probe := &v1alpha1.StoreProbe{
		ID: d.facts.NewID, Generation: d.store.Generation, StartTime: metav1.NewTime(d.facts.Now),
	}
	again := before != nil && before.Generation == d.store.Generation
	if again {
		probe.Failures = before.Failures
	} else {
		status.Promises, status.LastProbeTime = nil, nil
	}
	status.Probe = probe
	if d.facts.Problem != nil {
		d.out.Ended = before != nil && before.CompletionTime == nil // what it was for is not wanted any more
		d.fail(d.facts.Problem.Reason, d.facts.Problem.Message)
		return
	}
	if !again {
		d.set(conditions.Reconciling(v1alpha1.ReasonProbing, "the agent that probes the store is being started"))
	}
	d.start()
}

func (d *storeDecision) start() {
	d.out.Start = ProbeAttempt(d.store, d.facts.Dial, d.facts.Service, d.image)
	d.out.RequeueAfter = startGrace
}

// follow looks after the probe that status names.
func (d *storeDecision) follow() {
	state := observe(d.facts.Job, d.facts.Pod)
	switch state.phase {
	case agentAbsent: // not started yet, or somebody removed it
		if d.facts.Problem != nil {
			d.fail(d.facts.Problem.Reason, d.facts.Problem.Message)
			return
		}
		d.start()
	case agentStarting:
		waited := d.facts.Now.Sub(state.since)
		d.out.RequeueAfter = untilFirst(waited, startGrace)
		if state.stuck != nil && waited >= startGrace {
			d.set(conditions.Stalled(state.stuck.Reason, state.stuck.Message))
		}
	case agentRunning:
		ran := d.facts.Now.Sub(agentContainerStatus(d.facts.Pod).State.Running.StartedAt.Time)
		if d.out.RequeueAfter = probePatience - ran; d.out.RequeueAfter <= 0 {
			d.out.Ended = true
			d.fail(v1alpha1.ReasonAgentLost, fmt.Sprintf(
				"the agent that probes the store has run for %s and does not end; is node %s up?", probePatience, state.node))
		}
	case agentEnded:
		d.out.Ended = true
		d.finish(Bounded(state.final))
	}
}

// finish judges what a probe found.
func (d *storeDecision) finish(report *wirev1.Report) {
	if report.GetState() != wirev1.AgentState_AGENT_STATE_SUCCEEDED {
		message := report.GetFailure().GetMessage()
		if message == "" {
			message = "the agent that probes the store gave no message"
		}
		d.fail(FailureReason(report.GetFailure().GetReason()), message)
		return
	}
	promises := promisesOf(report)
	if promises == nil {
		d.fail(v1alpha1.ReasonInternal, "the agent's report lacks promises; are the manager and the agent of one version?")
		return
	}
	status, now := &d.store.Status, metav1.NewTime(d.facts.Now)
	status.Promises, status.LastProbeTime = promises, &now
	var broken, spared []string
	for _, promise := range promises {
		switch {
		case *promise.Kept:
		case storePromises[promise.Type]:
			broken = append(broken, fmt.Sprintf("%s (%s)", promise.Type, promise.Message))
		default:
			spared = append(spared, string(promise.Type))
		}
	}
	if len(broken) > 0 {
		d.fail(v1alpha1.ReasonPromiseNotKept, "the store does not keep "+strings.Join(broken, "; ")+
			"; permit the credentials what is missing, or use another server")
		return
	}
	message := "the store keeps all promises"
	if len(spared) > 0 {
		message = "the store keeps all promises that are required, and not " + strings.Join(spared, ", ")
	}
	status.Probe.Failures = 0
	d.next(probeInterval)
	d.set(conditions.Ready(v1alpha1.ReasonPromisesKept, message))
}

// promisesOf are those of a report in the order of their types; nil if it lacks one.
func promisesOf(report *wirev1.Report) []v1alpha1.StorePromise {
	var promises []v1alpha1.StorePromise
	for kind := range storePromises {
		i := slices.IndexFunc(report.GetPromises(), func(p *wirev1.StorePromise) bool { return p.GetType() == string(kind) })
		if i < 0 {
			return nil
		}
		kept := report.GetPromises()[i].GetKept()
		promise := v1alpha1.StorePromise{Type: kind, Kept: &kept}
		if !kept {
			promise.Message = plain(report.GetPromises()[i].GetMessage(), maxPromise)
		}
		promises = append(promises, promise)
	}
	slices.SortFunc(promises, func(a, b v1alpha1.StorePromise) int { return strings.Compare(string(a.Type), string(b.Type)) })
	return promises
}

// fail ends a probe after which the store is not Ready.
func (d *storeDecision) fail(reason, message string) {
	probe := d.store.Status.Probe
	delay, longest := probeFirst, probeLast
	if slices.Contains(unfit, reason) {
		longest = probeUnfit
	}
	for range min(probe.Failures, 10) {
		delay = min(2*delay, longest)
	}
	if probe.Failures < 1<<30 {
		probe.Failures++
	}
	d.next(delay)
	d.set(conditions.Stalled(reason, message))
}

// next plans the next probe for after a delay, or a little later.
func (d *storeDecision) next(delay time.Duration) {
	probe := d.store.Status.Probe
	delay = spread(delay, d.store.UID, int64(probe.Failures))
	now, at := metav1.NewTime(d.facts.Now), metav1.NewTime(d.facts.Now.Add(delay))
	probe.CompletionTime, probe.NextTime = &now, &at
	d.out.RequeueAfter = delay
}

func (d *storeDecision) set(wanted []metav1.Condition) {
	status := &d.store.Status
	status.Conditions = conditions.Merge(status.Conditions, wanted, d.store.Generation, d.facts.Now)
}

// RefuseObjectStore is the decision when what DecideObjectStore wanted started was rejected: the probe has failed.
func RefuseObjectStore(store *v1alpha1.ObjectStore, problem Problem, now time.Time) ObjectStoreDecision {
	d := &storeDecision{store: store.DeepCopy(), facts: ObjectStoreFacts{Now: now}}
	d.fail(problem.Reason, problem.Message)
	d.out.Status = d.store.Status
	return d.out
}
