// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objectstoreplan decides when an ObjectStore is probed and what makes it Ready. Like plan it is pure.
package objectstoreplan

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
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/attempt"
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

// required are all that there are. A store can be Ready without those that are false, see decision 078.
var required = map[v1alpha1.StorePromiseType]bool{
	v1alpha1.StoreReadAfterWrite: true, v1alpha1.StoreRangedGet: true, v1alpha1.StoreList: true,
	v1alpha1.StoreMultipart: true, v1alpha1.StoreConditionalPut: true, v1alpha1.StoreConditionalComplete: false,
	v1alpha1.StoreAbort: true, v1alpha1.StoreDelete: true,
}

// unfit are the reasons that do not pass as outages do. Probes that come this far may write megabytes.
var unfit = []string{v1alpha1.ReasonPromiseNotKept, v1alpha1.ReasonStoreUnfit, v1alpha1.ReasonBucketNotFound}

// Facts are what was seen.
type Facts struct {
	Now time.Time
	// NewID is that of the next probe, should one begin.
	NewID string
	// Dial is what the agent may dial. Service is the one that the endpoint names; nil: none, or none that may be used.
	Dial    *wirev1.DialPolicy
	Service *corev1.Service
	// agentpod.Problem is why there is nothing to probe; nil if there is none.
	Problem *agentpod.Problem
	// Job and Pod of the probe that status names; nil when they do not exist.
	Job *batchv1.Job
	Pod *corev1.Pod
	// Gateway is the Service of this cluster's gateway; nil: there is none.
	Gateway *corev1.Service
	// RelayJob and RelayPod are those of RelayName; nil when they do not exist.
	RelayJob *batchv1.Job
	RelayPod *corev1.Pod
}

// Decision is what to do.
type Decision struct {
	// Status to write, before anything is made.
	Status v1alpha1.ObjectStoreStatus
	// Start is the probe that must exist, and Relay the relay; nil when none has to be made. Before it, all Jobs but
	// those of Keep are to be removed.
	Start, Relay *attempt.Attempt
	Keep         []string
	// Ended: a probe has ended. Its Secret is to be removed before Status is written.
	Ended bool
	// RelayEnded is why a relay has ended that is removed now; empty if none is.
	RelayEnded string
	// RequeueAfter is when to look again if nothing happens before.
	RequeueAfter time.Duration
}

// Decide is the heart of the ObjectStore controller. It does not change its arguments.
func Decide(
	store *v1alpha1.ObjectStore, facts Facts, image agentpod.Image,
) Decision {
	if bundle := store.Spec.CABundle; len(bundle) > 0 {
		if _, err := pki.ParseBundle(bundle); err != nil {
			facts.Problem = &agentpod.Problem{
				Reason: v1alpha1.ReasonInvalidSpec, Message: "spec.caBundle must be CA certificates as PEM: " + err.Error(),
			}
		}
	}
	d := &decision{store: store.DeepCopy(), facts: facts, image: image}
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
	if now := d.store.Status.Probe; now.CompletionTime == nil {
		d.out.Keep = append(d.out.Keep, ProbeName(d.store))
	}
	d.handOff()
	d.out.Status = d.store.Status
	d.out.Status.ObservedGeneration = store.Generation
	return d.out
}

// probeDue reports whether a probe has to begin. No wait is planned that is longer than that of a store that is Ready:
// if one is, the clock was set back since, or somebody else wrote it.
func probeDue(planned *metav1.Time, now time.Time) bool {
	return planned == nil || !planned.After(now) || planned.Sub(now) > probeInterval*3/2
}

// decision is one decision in the making; store is a copy whose status becomes the result.
type decision struct {
	store *v1alpha1.ObjectStore
	facts Facts
	image agentpod.Image
	out   Decision
}

// begin begins a probe. What is known of a store that is only probed again stays until it ends.
func (d *decision) begin() {
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

func (d *decision) start() {
	d.out.Start = Attempt(d.store, d.facts.Dial, d.facts.Service, d.facts.Gateway, d.image)
	d.out.RequeueAfter = attempt.StartGrace
}

// follow looks after the probe that status names.
func (d *decision) follow() {
	state := attempt.Observe(d.facts.Job, d.facts.Pod)
	switch state.Phase {
	case attempt.Absent: // not started yet, or somebody removed it
		if d.facts.Problem != nil {
			d.fail(d.facts.Problem.Reason, d.facts.Problem.Message)
			return
		}
		d.start()
	case attempt.Starting:
		waited := d.facts.Now.Sub(state.Since)
		d.out.RequeueAfter = attempt.UntilFirst(waited, attempt.StartGrace)
		if state.Stuck != nil && waited >= attempt.StartGrace {
			d.set(conditions.Stalled(state.Stuck.Reason, state.Stuck.Message))
		}
	case attempt.Running:
		ran := d.facts.Now.Sub(agentpod.ContainerStatus(d.facts.Pod).State.Running.StartedAt.Time)
		if d.out.RequeueAfter = probePatience - ran; d.out.RequeueAfter <= 0 {
			d.out.Ended = true
			d.fail(v1alpha1.ReasonAgentLost, fmt.Sprintf(
				"the agent that probes the store has run for %s and does not end; is node %s up?", probePatience, state.Node))
		}
	case attempt.Ended:
		d.out.Ended = true
		d.finish(agentreport.Bounded(state.Final))
	}
}

// finish judges what a probe found.
func (d *decision) finish(report *wirev1.Report) {
	if report.GetState() != wirev1.AgentState_AGENT_STATE_SUCCEEDED {
		message := report.GetFailure().GetMessage()
		if message == "" {
			message = "the agent that probes the store gave no message"
		}
		d.fail(agentreport.FailureReason(report.GetFailure().GetReason()), message)
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
		case required[promise.Type]:
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
	for kind := range required {
		i := slices.IndexFunc(report.GetPromises(), func(p *wirev1.StorePromise) bool { return p.GetType() == string(kind) })
		if i < 0 {
			return nil
		}
		kept := report.GetPromises()[i].GetKept()
		promise := v1alpha1.StorePromise{Type: kind, Kept: &kept}
		if !kept {
			promise.Message = agentreport.Plain(report.GetPromises()[i].GetMessage(), maxPromise)
		}
		promises = append(promises, promise)
	}
	slices.SortFunc(promises, func(a, b v1alpha1.StorePromise) int {
		return strings.Compare(
			string(a.Type), string(b.Type),
		)
	})
	return promises
}

// fail ends a probe after which the store is not Ready.
func (d *decision) fail(reason, message string) {
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
func (d *decision) next(delay time.Duration) {
	probe := d.store.Status.Probe
	delay = attempt.Spread(delay, d.store.UID, int64(probe.Failures))
	now, at := metav1.NewTime(d.facts.Now), metav1.NewTime(d.facts.Now.Add(delay))
	probe.CompletionTime, probe.NextTime = &now, &at
	d.out.RequeueAfter = delay
}

func (d *decision) set(wanted []metav1.Condition) {
	status := &d.store.Status
	status.Conditions = conditions.Merge(status.Conditions, wanted, d.store.Generation, d.facts.Now)
}

// Refuse is the decision when what Decide wanted started was rejected: the probe has failed.
func Refuse(store *v1alpha1.ObjectStore, problem agentpod.Problem, now time.Time) Decision {
	d := &decision{store: store.DeepCopy(), facts: Facts{Now: now}}
	d.fail(problem.Reason, problem.Message)
	d.out.Status = d.store.Status
	return d.out
}
