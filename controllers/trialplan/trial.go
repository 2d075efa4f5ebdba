// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trialplan decides what is to be done for a CompressionTrial. Like plan it is pure.
package trialplan

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/policy"
)

// Waits reports whether the agent has no node yet, or there is none, so that a change of what the trial is about
// may help.
func Waits(trial *v1alpha1.CompressionTrial) bool {
	switch trial.Status.Phase {
	case v1alpha1.TrialComplete, v1alpha1.TrialFailed, v1alpha1.TrialMeasuring:
		return false
	}
	return attempt.NeedsPlacement(trial.Status.Run, trial.Status.Placement)
}

// withoutProgress is the same of a CompressionTrial, whose agent tells in the messages how far it is.
func withoutProgress(status v1alpha1.CompressionTrialStatus) v1alpha1.CompressionTrialStatus {
	status.Conditions = attempt.WithoutMessages(status.Conditions)
	return status
}

// Refuse is plan.RefuseTransfer for a CompressionTrial.
func Refuse(trial *v1alpha1.CompressionTrial, problem agentpod.Problem, now time.Time) Decision {
	d := &decision{trial: trial.DeepCopy(), facts: Facts{Now: now}}
	d.out.RequeueAfter = attempt.RefusedDelay(trial.Status.Conditions, now)
	d.set(v1alpha1.TrialStarting, conditions.Stalled(problem.Reason, problem.Message))
	d.out.Status = d.trial.Status
	return d.out
}

// maxAttempts is how many attempts of a trial may fail, but for those that only somebody can fix.
const maxAttempts = 3

// Facts are what was seen.
type Facts struct {
	Now time.Time
	// CertificateLifetime is how long certificates of agents are valid.
	CertificateLifetime time.Duration
	// NewRunID is the identifier of the next run, should one begin.
	NewRunID string
	// Claim is the source, nil when it does not exist or another kind is.
	Claim *corev1.PersistentVolumeClaim
	// Sampled is the HTTPEndpoint or Queue that is the source, nil when it does not exist or a claim is.
	Sampled          *Sampled
	PrivilegeAllowed bool
	Policies         []v1alpha1.CompressionPolicy
	Tariffs          []v1alpha1.Tariff
	// Job and Pod of the attempt that status names; nil when they do not exist.
	Job *batchv1.Job
	Pod *corev1.Pod
	// Report is what the agent answered last; nil when it has not, or is silent.
	Report *wirev1.Report
	// Early: progress was shown a short while ago, so a report of nothing else is shown later.
	Early bool
	// Silent: the agent runs and has not answered for some time.
	Silent bool
	// Placement is what the nodes are like; it is looked at only where attempt.NeedsPlacement.
	Placement placement.Facts
}

// Decision is what to do.
type Decision struct {
	// Status to write, before anything is made.
	Status v1alpha1.CompressionTrialStatus
	// Start is the attempt that must exist; nil when none has to be made. Before it, all Jobs but its own are to be
	// removed.
	Start *attempt.Attempt
	// Renew is true when the certificate of the agent that runs is to be renewed, before Status is written.
	Renew bool
	// Ended: an attempt has ended just now. Its Secret is to be removed before Status is written, after which nobody
	// would look for it.
	Ended bool
	// Clear: the run is complete and its Job still there; all Jobs are to be removed, after Status is written.
	Clear bool
	// Expired: the trial is to be deleted.
	Expired bool
	// Later is true when Status does not show Report yet, which has nothing but progress.
	Later bool
	// RequeueAfter is when to look again if nothing happens before; 0 for never.
	RequeueAfter time.Duration
}

// Decide is the heart of the CompressionTrial controller. It does not change its arguments.
func Decide(trial *v1alpha1.CompressionTrial, facts Facts, image agentpod.Image) Decision {
	facts.Report = agentreport.Bounded(facts.Report)
	d := &decision{trial: trial.DeepCopy(), facts: facts, image: image}
	run := d.trial.Status.Run
	switch {
	case d.wantsNewRun():
		d.begin(nil, d.newRun)
	case run.CompletionTime != nil:
		d.expire()
	case run.NextAttemptTime != nil:
		d.retry()
	default:
		d.follow()
	}
	d.out.Status = d.trial.Status
	d.out.Status.ObservedGeneration = trial.Generation
	if facts.Report != nil && facts.Early &&
		equality.Semantic.DeepEqual(withoutProgress(d.out.Status), withoutProgress(trial.Status)) {
		d.out.Status, d.out.Later = trial.Status, true
	}
	d.out.Clear = facts.Job != nil && d.out.Status.Phase == v1alpha1.TrialComplete
	return d.out
}

// decision is one decision in the making; trial is a copy whose status becomes the result.
type decision struct {
	trial *v1alpha1.CompressionTrial
	facts Facts
	image agentpod.Image
	out   Decision
}

// wantsNewRun: the first one, or one asked for by annotation, or one with another spec after one that got stuck.
func (d *decision) wantsNewRun() bool {
	status := &d.trial.Status
	if status.Run == nil {
		return true
	}
	stuck := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStalled)
	if status.Run.CompletionTime == nil && !stuck {
		return false
	}
	asked := d.trial.Annotations[v1alpha1.RunAnnotation]
	return status.Phase == v1alpha1.TrialPending || asked != "" && asked != status.LastRunRequest ||
		stuck && d.trial.Generation != status.ObservedGeneration
}

// begin checks, and goes on with next when an attempt can begin. A run that has begun keeps its policy and links.
func (d *decision) begin(kept *v1alpha1.PolicyStatus, next func()) {
	resolved, problem := check(d.trial, kept, d.facts)
	var where placement.Plan
	if problem == nil {
		where, problem = d.place()
	}
	if problem != nil {
		phase := v1alpha1.TrialPending
		if kept != nil {
			phase = v1alpha1.TrialRetrying
		}
		d.out.RequeueAfter = attempt.StallLast
		d.set(phase, conditions.Stalled(problem.Reason, problem.Message))
		return
	}
	next()
	if kept == nil {
		resolved = resolved.Priced(d.facts.Tariffs, "", d.facts.Now)
	}
	d.trial.Status.Policy = resolved.Status()
	d.start(resolved, where)
}

// place decides where the agent may run.
func (d *decision) place() (placement.Plan, *agentpod.Problem) {
	request := d.placement()
	where := placement.Decide(request, d.facts.Placement)
	where.Status = describe(request, where.Status)
	if blocked := placement.Admit(request, d.facts.Placement); blocked != nil {
		d.trial.Status.Placement = attempt.Expected(where)
		return where, &agentpod.Problem{
			Reason:  blocked.Reason,
			Message: blocked.Message + "; change spec.nodeClass, or what keeps these nodes from taking it",
		}
	}
	if where.Blocked != nil {
		d.trial.Status.Placement = attempt.Expected(where)
		return where, &agentpod.Problem{Reason: where.Blocked.Reason, Message: where.Blocked.Message}
	}
	return where, nil
}

func (d *decision) newRun() {
	now, status := metav1.NewTime(d.facts.Now), &d.trial.Status
	status.Run = &v1alpha1.RunStatus{ID: d.facts.NewRunID, Attempt: 1, StartTime: &now}
	status.LastRunRequest = d.trial.Annotations[v1alpha1.RunAnnotation]
	status.Links = d.trial.Spec.Links
	status.Sample, status.Cores, status.Accelerator, status.Results, status.Recommendation = nil, 0, nil, nil, nil
	status.Dictionary, status.Dictionaries = nil, nil
}

func (d *decision) retry() {
	run := d.trial.Status.Run
	if wait := attempt.UntilNext(run.NextAttemptTime, d.facts.Now); wait > 0 {
		d.out.RequeueAfter = wait
		return
	}
	d.begin(d.trial.Status.Policy, func() {
		run.Attempt++
		run.NextAttemptTime = nil
		run.Node, run.Architecture = "", ""
	})
}

// start has the attempt in status made.
func (d *decision) start(resolved policy.Resolved, where placement.Plan) {
	d.trial.Status.Placement = attempt.Expected(where)
	_ = attempt.Certify(d.trial.Status.Run, d.facts.Now, d.facts.CertificateLifetime)
	d.out.Start = Attempt(d.trial, resolved, where, d.facts.Sampled, d.image)
	d.out.RequeueAfter = attempt.StartGrace
	d.set(v1alpha1.TrialStarting, conditions.Reconciling(v1alpha1.ReasonStarting, d.startingMessage()))
}

func (d *decision) startingMessage() string {
	return fmt.Sprintf(
		"attempt %d of run %s: the agent's pod is being started", d.trial.Status.Run.Attempt, d.trial.Status.Run.ID,
	)
}

// follow looks after the attempt that status names.
func (d *decision) follow() {
	state := attempt.Observe(d.facts.Job, d.facts.Pod).Heard(d.facts.Report)
	if state.Node != "" {
		d.trial.Status.Run.Node = state.Node
		explain := func(node string) v1alpha1.PlacementStatus {
			return describe(
				d.placement(), placement.Explain(d.placement(), attempt.AsPlanned(d.facts.Placement, d.facts.Job), node),
			)
		}
		d.trial.Status.Placement = attempt.Placed(d.trial.Status.Placement, state.Node, explain)
	}
	switch state.Phase {
	case attempt.Absent:
		d.followAbsent()
	case attempt.Starting:
		d.followStarting(state)
		d.renew()
	case attempt.Running:
		d.followRunning()
		d.renew()
	case attempt.Ended:
		d.finish(state.Final)
	}
}

// followAbsent: status names an attempt and there is no Job. Before it started that is how it begins; later somebody
// removed it.
func (d *decision) followAbsent() {
	if d.trial.Status.Phase != v1alpha1.TrialStarting || d.trial.Status.Run.Node != "" {
		d.finish(attempt.Lost("the agent's Job was deleted by somebody else"))
		return
	}
	resolved, problem := check(d.trial, d.trial.Status.Policy, d.facts)
	if problem != nil {
		d.out.RequeueAfter = attempt.StallLast
		d.set(v1alpha1.TrialStarting, conditions.Stalled(problem.Reason, problem.Message))
		return
	}
	where := placement.Decide(d.placement(), d.facts.Placement)
	where.Status = describe(d.placement(), where.Status)
	present := d.trial.Status.Conditions
	d.start(resolved, where)
	if _, refused := attempt.RefusedSince(present); refused || conditions.Refused(present) {
		// What they say stays until the start is not refused any more.
		d.trial.Status.Conditions = present
	}
}

// renew has the certificate of the agent renewed when it is due.
func (d *decision) renew() {
	run := d.trial.Status.Run
	d.out.Renew = attempt.Certify(run, d.facts.Now, d.facts.CertificateLifetime)
	d.out.RequeueAfter = attempt.Sooner(
		d.out.RequeueAfter, attempt.UntilRenewal(run, d.facts.Now, d.facts.CertificateLifetime),
	)
}

func (d *decision) followStarting(state attempt.State) {
	waited := d.facts.Now.Sub(state.Since)
	d.out.RequeueAfter = attempt.UntilFirst(waited, attempt.StartGrace)
	if state.Stuck != nil && state.Stuck.Reason == v1alpha1.ReasonUnschedulable {
		where := attempt.Waiting(d.placement(), d.facts.Placement, d.facts.Job)
		where.Status = describe(d.placement(), where.Status)
		d.trial.Status.Placement, state.Stuck = attempt.Expected(where), attempt.Unplaced(where, state.Stuck)
	}
	switch {
	case state.Stuck == nil || waited < attempt.StartGrace && state.Stuck.Reason == v1alpha1.ReasonAgentNotStarted:
		d.set(v1alpha1.TrialStarting, conditions.Reconciling(v1alpha1.ReasonStarting, d.startingMessage()))
	case waited < attempt.StartGrace:
		d.set(v1alpha1.TrialStarting, conditions.Reconciling(state.Stuck.Reason, state.Stuck.Message))
	default:
		d.set(v1alpha1.TrialStarting, conditions.Stalled(state.Stuck.Reason, state.Stuck.Message))
	}
}

func (d *decision) followRunning() {
	report := d.facts.Report
	switch {
	case report == nil && d.facts.Silent && d.trial.Status.Phase == v1alpha1.TrialStarting:
		d.set(v1alpha1.TrialStarting, conditions.Reconciling(v1alpha1.ReasonStarting,
			"the agent runs and has not answered the manager yet; a NetworkPolicy must let the manager reach its port 9443"))
	case report == nil && d.facts.Silent:
		d.set(d.trial.Status.Phase, attempt.Silent(d.trial.Status.Conditions))
	case report != nil:
		if report.GetArchitecture() != "" {
			d.trial.Status.Run.Architecture = report.GetArchitecture()
		}
		message := fmt.Sprintf("attempt %d of run %s", d.trial.Status.Run.Attempt, d.trial.Status.Run.ID)
		if report.GetDetail() != "" {
			message += ": " + report.GetDetail()
		}
		d.set(v1alpha1.TrialMeasuring, conditions.Reconciling(v1alpha1.ReasonMeasuring, message))
	}
}

// finish decides what follows an attempt that has ended.
func (d *decision) finish(report *wirev1.Report) {
	d.out.Ended = true
	if report.GetArchitecture() != "" {
		d.trial.Status.Run.Architecture = report.GetArchitecture()
	}
	if report.GetState() == wirev1.AgentState_AGENT_STATE_SUCCEEDED {
		err := apply(d.trial, report.GetTrial())
		if err == nil {
			d.complete()
			return
		}
		report = &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_FAILED, Failure: &wirev1.Failure{
			Reason:  wirev1.FailureReason_FAILURE_REASON_INTERNAL,
			Message: fmt.Sprintf("the agent's result cannot be used; are the manager and the agent of one version? %v", err),
		}}
	}
	reason, message := agentreport.FailureReason(report.GetFailure().GetReason()), report.GetFailure().GetMessage()
	if message == "" {
		message = "the agent gave no message"
	}
	run := d.trial.Status.Run
	switch {
	case reason == v1alpha1.ReasonSourceEmpty:
		d.fail(reason, message+fmt.Sprintf("; a new value of the annotation %s begins another run", v1alpha1.RunAnnotation))
	case attempt.EndsRun(reason):
		d.fail(reason, message)
	case attempt.NeedsSomebody(reason):
		d.next(attempt.StallDelay(run.Attempt - run.Failures))
		d.set(v1alpha1.TrialRetrying, conditions.Stalled(reason, message))
	case reason == v1alpha1.ReasonEvicted:
		delay := attempt.RetryDelay(run.Attempt - run.Failures)
		d.next(delay)
		d.set(v1alpha1.TrialRetrying, conditions.Reconciling(v1alpha1.ReasonRetrying, fmt.Sprintf(
			"attempt %d ended with %s: %s; that is not counted as a failure, next attempt in %s", run.Attempt, reason, message,
			delay)))
	default:
		run.Failures++
		if run.Failures >= maxAttempts {
			d.fail(reason, fmt.Sprintf("%d attempts failed, the last one with: %s; fix the cause and give the annotation %s a "+
				"new value",
				run.Failures, message, v1alpha1.RunAnnotation))
			return
		}
		delay := attempt.RetryDelay(run.Failures)
		d.next(delay)
		d.set(v1alpha1.TrialRetrying, conditions.Reconciling(v1alpha1.ReasonRetrying, fmt.Sprintf(
			"attempt %d ended with %s: %s; %d of %d failures, next attempt in %s", run.Attempt, reason, message, run.Failures,
			maxAttempts, delay)))
	}
}

func (d *decision) next(delay time.Duration) {
	at := metav1.NewTime(d.facts.Now.Add(delay))
	d.trial.Status.Run.NextAttemptTime = &at
	d.out.RequeueAfter = delay
}

func (d *decision) complete() {
	now, status := metav1.NewTime(d.facts.Now), &d.trial.Status
	status.Run.CompletionTime = &now
	d.set(v1alpha1.TrialComplete, conditions.Ready(v1alpha1.ReasonSucceeded, fmt.Sprintf(
		"run %s is complete: %s", status.Run.ID, status.Recommendation.Message)))
	d.expire()
}

func (d *decision) fail(reason, message string) {
	now := metav1.NewTime(d.facts.Now)
	d.trial.Status.Run.CompletionTime = &now
	d.set(v1alpha1.TrialFailed, conditions.Stalled(reason, message))
	d.expire()
}

// expire has a trial that has ended deleted when its time has come.
func (d *decision) expire() {
	ttl := d.trial.Spec.TTLSecondsAfterFinished
	if ttl == nil {
		return
	}
	left := d.trial.Status.Run.CompletionTime.Add(time.Duration(*ttl) * time.Second).Sub(d.facts.Now)
	// What has ended just now is written first.
	d.out.Expired = left <= 0 && !d.out.Ended
	if !d.out.Expired {
		d.out.RequeueAfter = max(left, time.Second)
	}
}

// set sets the phase and the conditions that go with it.
func (d *decision) set(phase v1alpha1.TrialPhase, wanted []metav1.Condition) {
	ready := wanted[0]
	wanted = append(wanted,
		conditions.New(v1alpha1.ConditionComplete, phase == v1alpha1.TrialComplete, ready.Reason, ready.Message),
		conditions.New(v1alpha1.ConditionFailed, phase == v1alpha1.TrialFailed, ready.Reason, ready.Message),
	)
	d.trial.Status.Phase = phase
	d.trial.Status.Conditions = conditions.Merge(d.trial.Status.Conditions, wanted, d.trial.Generation, d.facts.Now)
}
