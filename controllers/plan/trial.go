// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

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
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/policy"
)

// maxTrialAttempts is how many attempts of a trial may fail, but for those that only somebody can fix.
const maxTrialAttempts = 3

// TrialFacts are what was seen.
type TrialFacts struct {
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
	// Placement is what the nodes are like; it is looked at only where NeedsPlacement.
	Placement placement.Facts
}

// TrialDecision is what to do.
type TrialDecision struct {
	// Status to write, before anything is made.
	Status v1alpha1.CompressionTrialStatus
	// Start is the attempt that must exist; nil when none has to be made. Before it, all Jobs but its own are to be
	// removed.
	Start *Attempt
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

// DecideTrial is the heart of the CompressionTrial controller. It does not change its arguments.
func DecideTrial(trial *v1alpha1.CompressionTrial, facts TrialFacts, image AgentImage) TrialDecision {
	facts.Report = Bounded(facts.Report)
	d := &trialDecision{trial: trial.DeepCopy(), facts: facts, image: image}
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
		equality.Semantic.DeepEqual(trialState(d.out.Status), trialState(trial.Status)) {
		d.out.Status, d.out.Later = trial.Status, true
	}
	d.out.Clear = facts.Job != nil && d.out.Status.Phase == v1alpha1.TrialComplete
	return d.out
}

// trialDecision is one decision in the making; trial is a copy whose status becomes the result.
type trialDecision struct {
	trial *v1alpha1.CompressionTrial
	facts TrialFacts
	image AgentImage
	out   TrialDecision
}

// wantsNewRun: the first one, or one asked for by annotation, or one with another spec after one that got stuck.
func (d *trialDecision) wantsNewRun() bool {
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
func (d *trialDecision) begin(kept *v1alpha1.PolicyStatus, next func()) {
	resolved, problem := checkTrial(d.trial, kept, d.facts)
	var where placement.Plan
	if problem == nil {
		where, problem = d.place()
	}
	if problem != nil {
		phase := v1alpha1.TrialPending
		if kept != nil {
			phase = v1alpha1.TrialRetrying
		}
		d.out.RequeueAfter = stallLast
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
func (d *trialDecision) place() (placement.Plan, *Problem) {
	request := d.placement()
	where := placement.Decide(request, d.facts.Placement)
	where.Status = trialPlacement(request, where.Status)
	if blocked := placement.Admit(request, d.facts.Placement); blocked != nil {
		d.trial.Status.Placement = expected(where)
		return where, &Problem{
			blocked.Reason, blocked.Message + "; change spec.nodeClass, or what keeps these nodes from taking it",
		}
	}
	if where.Blocked != nil {
		d.trial.Status.Placement = expected(where)
		return where, &Problem{where.Blocked.Reason, where.Blocked.Message}
	}
	return where, nil
}

func (d *trialDecision) newRun() {
	now, status := metav1.NewTime(d.facts.Now), &d.trial.Status
	status.Run = &v1alpha1.RunStatus{ID: d.facts.NewRunID, Attempt: 1, StartTime: &now}
	status.LastRunRequest = d.trial.Annotations[v1alpha1.RunAnnotation]
	status.Links = d.trial.Spec.Links
	status.Sample, status.Cores, status.Accelerator, status.Results, status.Recommendation = nil, 0, nil, nil, nil
}

func (d *trialDecision) retry() {
	run := d.trial.Status.Run
	if wait := untilAttempt(run.NextAttemptTime, d.facts.Now); wait > 0 {
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
func (d *trialDecision) start(resolved policy.Resolved, where placement.Plan) {
	d.trial.Status.Placement = expected(where)
	_ = certify(d.trial.Status.Run, d.facts.Now, d.facts.CertificateLifetime)
	d.out.Start = TrialAttempt(d.trial, resolved, where, d.facts.Sampled, d.image)
	d.out.RequeueAfter = startGrace
	d.set(v1alpha1.TrialStarting, conditions.Reconciling(v1alpha1.ReasonStarting, d.startingMessage()))
}

func (d *trialDecision) startingMessage() string {
	return fmt.Sprintf(
		"attempt %d of run %s: the agent's pod is being started", d.trial.Status.Run.Attempt, d.trial.Status.Run.ID,
	)
}

// follow looks after the attempt that status names.
func (d *trialDecision) follow() {
	state := observe(d.facts.Job, d.facts.Pod)
	if state.node != "" {
		d.trial.Status.Run.Node = state.node
		d.trial.Status.Placement = placed(d.trial.Status.Placement, state.node, func(node string) v1alpha1.PlacementStatus {
			return trialPlacement(
				d.placement(), placement.Explain(d.placement(), asPlanned(d.facts.Placement, d.facts.Job), node),
			)
		})
	}
	switch state.phase {
	case agentAbsent:
		d.followAbsent()
	case agentStarting:
		d.followStarting(state)
		d.renew()
	case agentRunning:
		d.followRunning()
		d.renew()
	case agentEnded:
		d.finish(state.final)
	}
}

// followAbsent: status names an attempt and there is no Job. Before it started that is how it begins; later somebody
// removed it.
func (d *trialDecision) followAbsent() {
	if d.trial.Status.Phase != v1alpha1.TrialStarting || d.trial.Status.Run.Node != "" {
		d.finish(lost("the agent's Job was deleted by somebody else"))
		return
	}
	resolved, problem := checkTrial(d.trial, d.trial.Status.Policy, d.facts)
	if problem != nil {
		d.out.RequeueAfter = stallLast
		d.set(v1alpha1.TrialStarting, conditions.Stalled(problem.Reason, problem.Message))
		return
	}
	where := placement.Decide(d.placement(), d.facts.Placement)
	where.Status = trialPlacement(d.placement(), where.Status)
	present := d.trial.Status.Conditions
	d.start(resolved, where)
	if _, refused := refusedSince(present); refused || conditions.Refused(present) {
		// What they say stays until the start is not refused any more.
		d.trial.Status.Conditions = present
	}
}

// renew has the certificate of the agent renewed when it is due.
func (d *trialDecision) renew() {
	run := d.trial.Status.Run
	d.out.Renew = certify(run, d.facts.Now, d.facts.CertificateLifetime)
	d.out.RequeueAfter = sooner(d.out.RequeueAfter, untilRenewal(run, d.facts.Now, d.facts.CertificateLifetime))
}

func (d *trialDecision) followStarting(state agentState) {
	waited := d.facts.Now.Sub(state.since)
	d.out.RequeueAfter = untilFirst(waited, startGrace)
	if state.stuck != nil && state.stuck.Reason == v1alpha1.ReasonUnschedulable {
		where := waiting(d.placement(), d.facts.Placement, d.facts.Job)
		where.Status = trialPlacement(d.placement(), where.Status)
		d.trial.Status.Placement, state.stuck = expected(where), unplaced(where, state.stuck)
	}
	switch {
	case state.stuck == nil || waited < startGrace && state.stuck.Reason == v1alpha1.ReasonAgentNotStarted:
		d.set(v1alpha1.TrialStarting, conditions.Reconciling(v1alpha1.ReasonStarting, d.startingMessage()))
	case waited < startGrace:
		d.set(v1alpha1.TrialStarting, conditions.Reconciling(state.stuck.Reason, state.stuck.Message))
	default:
		d.set(v1alpha1.TrialStarting, conditions.Stalled(state.stuck.Reason, state.stuck.Message))
	}
}

func (d *trialDecision) followRunning() {
	report := d.facts.Report
	switch {
	case report == nil && d.facts.Silent && d.trial.Status.Phase == v1alpha1.TrialStarting:
		d.set(v1alpha1.TrialStarting, conditions.Reconciling(v1alpha1.ReasonStarting,
			"the agent runs and has not answered the manager yet; a NetworkPolicy must let the manager reach its port 9443"))
	case report == nil && d.facts.Silent:
		d.set(d.trial.Status.Phase, silent(d.trial.Status.Conditions))
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
func (d *trialDecision) finish(report *wirev1.Report) {
	d.out.Ended = true
	if report.GetArchitecture() != "" {
		d.trial.Status.Run.Architecture = report.GetArchitecture()
	}
	if report.GetState() == wirev1.AgentState_AGENT_STATE_SUCCEEDED {
		err := applyTrial(d.trial, report.GetTrial())
		if err == nil {
			d.complete()
			return
		}
		report = &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_FAILED, Failure: &wirev1.Failure{
			Reason:  wirev1.FailureReason_FAILURE_REASON_INTERNAL,
			Message: fmt.Sprintf("the agent's result cannot be used; are the manager and the agent of one version? %v", err),
		}}
	}
	reason, message := FailureReason(report.GetFailure().GetReason()), report.GetFailure().GetMessage()
	if message == "" {
		message = "the agent gave no message"
	}
	run := d.trial.Status.Run
	switch {
	case reason == v1alpha1.ReasonSourceEmpty:
		d.fail(reason, message+fmt.Sprintf("; a new value of the annotation %s begins another run", v1alpha1.RunAnnotation))
	case EndsRun(reason):
		d.fail(reason, message)
	case NeedsSomebody(reason):
		d.next(stallDelay(run.Attempt - run.Failures))
		d.set(v1alpha1.TrialRetrying, conditions.Stalled(reason, message))
	case reason == v1alpha1.ReasonEvicted:
		delay := retryDelay(run.Attempt - run.Failures)
		d.next(delay)
		d.set(v1alpha1.TrialRetrying, conditions.Reconciling(v1alpha1.ReasonRetrying, fmt.Sprintf(
			"attempt %d ended with %s: %s; that is not counted as a failure, next attempt in %s", run.Attempt, reason, message,
			delay)))
	default:
		run.Failures++
		if run.Failures >= maxTrialAttempts {
			d.fail(reason, fmt.Sprintf("%d attempts failed, the last one with: %s; fix the cause and give the annotation %s a "+
				"new value",
				run.Failures, message, v1alpha1.RunAnnotation))
			return
		}
		delay := retryDelay(run.Failures)
		d.next(delay)
		d.set(v1alpha1.TrialRetrying, conditions.Reconciling(v1alpha1.ReasonRetrying, fmt.Sprintf(
			"attempt %d ended with %s: %s; %d of %d failures, next attempt in %s", run.Attempt, reason, message, run.Failures,
			maxTrialAttempts, delay)))
	}
}

func (d *trialDecision) next(delay time.Duration) {
	at := metav1.NewTime(d.facts.Now.Add(delay))
	d.trial.Status.Run.NextAttemptTime = &at
	d.out.RequeueAfter = delay
}

func (d *trialDecision) complete() {
	now, status := metav1.NewTime(d.facts.Now), &d.trial.Status
	status.Run.CompletionTime = &now
	d.set(v1alpha1.TrialComplete, conditions.Ready(v1alpha1.ReasonSucceeded, fmt.Sprintf(
		"run %s is complete: %s", status.Run.ID, status.Recommendation.Message)))
	d.expire()
}

func (d *trialDecision) fail(reason, message string) {
	now := metav1.NewTime(d.facts.Now)
	d.trial.Status.Run.CompletionTime = &now
	d.set(v1alpha1.TrialFailed, conditions.Stalled(reason, message))
	d.expire()
}

// expire has a trial that has ended deleted when its time has come.
func (d *trialDecision) expire() {
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
func (d *trialDecision) set(phase v1alpha1.TrialPhase, wanted []metav1.Condition) {
	ready := wanted[0]
	wanted = append(wanted,
		conditions.New(v1alpha1.ConditionComplete, phase == v1alpha1.TrialComplete, ready.Reason, ready.Message),
		conditions.New(v1alpha1.ConditionFailed, phase == v1alpha1.TrialFailed, ready.Reason, ready.Message),
	)
	d.trial.Status.Phase = phase
	d.trial.Status.Conditions = conditions.Merge(d.trial.Status.Conditions, wanted, d.trial.Generation, d.facts.Now)
}
