// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
)

const (
	defaultHookTimeout = 5 * time.Minute
	// hookFirst and hookLast bound the waits between two looks at the Job of a hook.
	hookFirst = time.Second
	hookLast  = 5 * time.Second
	// hookEndPatience is how long a Job that was deleted may take until it is gone: its node may be.
	hookEndPatience = 2 * time.Minute
	// hookMinTTL is how long a Job has to stay after its end, so that its end is seen.
	hookMinTTL = 60
)

// HookFacts are what was seen of hooks.
type HookFacts struct {
	// Seen is false when nobody looked: see NeedsHooks.
	Seen bool
	// Problem is what keeps the manager from looking; nil if nothing does.
	Problem *agentpod.Problem
	Before  HookSeen
	After   HookSeen
}

// HookSeen is what was seen of one hook.
type HookSeen struct {
	// CronJob is nil when it does not exist.
	CronJob *batchv1.CronJob
	// Job is nil when it does not exist. Foreign: a Job of that name is not of this hook.
	Job     *batchv1.Job
	Foreign bool
}

// HookStep is what is to be done for a hook.
type HookStep struct {
	// Start is the Job to be made; nil: none.
	Start *batchv1.Job
	// After: it is that of the after-hook.
	After bool
	// End is the Job to be deleted; nil: none.
	End *batchv1.Job
}

// NeedsHooks reports whether a decision about a Transfer needs HookFacts: while hooks are under way.
func NeedsHooks(transfer *v1alpha1.Transfer) bool {
	h := transfer.Status.Hooks
	return h != nil && !h.After.Ended()
}

// hookName is the name of the Job of a hook: the same however often it is decided.
func hookName(transfer *v1alpha1.Transfer, which string) string {
	run := transfer.Status.Run
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d/%s", transfer.UID, run.ID, run.Attempt, which))
	return fmt.Sprintf("lighterage-%s-%s", which, hex.EncodeToString(sum[:8]))
}

// quiesceForCopy reports whether the copy may be made. The time before does not count against its deadline.
func (d *transferDecision) quiesceForCopy(s *v1alpha1.StagedStatus) bool {
	if d.transfer.Spec.Source.Hooks == nil {
		return true
	}
	if !d.quiesce() {
		return false
	}
	if s.State == v1alpha1.StagedPreparing {
		s.StartTime = metav1.NewTime(d.facts.Now)
	}
	return true
}

// quiesceForRun reports whether a run that reads the source itself may go on.
func (d *transferDecision) quiesceForRun() bool {
	return Stages(d.transfer) || d.transfer.Spec.Source.Hooks == nil || d.quiesce()
}

// quiesce reports whether the before-hook has ended so that the source may be read. If not, it has begun it, or says
// what is in the way.
func (d *transferDecision) quiesce() bool {
	status := &d.transfer.Status
	h, run := status.Hooks, status.Run
	held := h != nil && h.RunID == run.ID && h.After.State == v1alpha1.HookPending
	switch {
	case held, h != nil && h.RunID == run.ID && h.Attempt == run.Attempt:
	case h != nil && !h.After.Ended():
		d.quiescing(hookFirst, fmt.Sprintf("the after-hook of an earlier copy, Job %q, is to end first", h.After.Job))
		return false
	default:
		d.beginHooks()
		d.quiescing(time.Millisecond, "the before-hook is being prepared")
		return false
	}
	if facts := d.facts.Hooks; facts.Problem != nil && !h.Before.Ended() && h.Before.State != v1alpha1.HookRunning {
		d.endHook(&h.Before, v1alpha1.HookRejected, facts.Problem.Message)
		d.failStaging(*facts.Problem)
		return false
	}
	switch h.Before.State {
	case v1alpha1.HookStarting:
		return d.startBefore(h)
	case v1alpha1.HookFailed, v1alpha1.HookRejected:
		if d.continues() {
			return true
		}
		d.failBefore(h)
		return false
	case v1alpha1.HookComplete, v1alpha1.HookSkipped:
		return true
	}
	d.quiescing(d.nextHookLook(&h.Before), fmt.Sprintf("Job %q of the before-hook runs", h.Before.Job))
	return false
}

func (d *transferDecision) quiescing(again time.Duration, message string) {
	d.out.RequeueAfter = again
	d.set(v1alpha1.TransferStarting, conditions.Reconciling(v1alpha1.ReasonQuiescing, message))
}

// beginHooks notes what is going to run. It is written before anything is made, so that what is made is never
// forgotten, and what the spec says later changes nothing of it.
func (d *transferDecision) beginHooks() {
	status, spec := &d.transfer.Status, d.transfer.Spec.Source.Hooks
	h := &v1alpha1.HooksStatus{
		RunID: status.Run.ID, Attempt: status.Run.Attempt,
		Before: v1alpha1.HookStatus{State: v1alpha1.HookSkipped}, After: v1alpha1.HookStatus{State: v1alpha1.HookPending},
	}
	if spec.Before != nil {
		begun := metav1.NewTime(d.facts.Now)
		h.Before = v1alpha1.HookStatus{
			CronJob: spec.Before.CronJob, Job: hookName(d.transfer, "before"), State: v1alpha1.HookStarting, StartTime: &begun,
		}
	}
	if spec.After != nil {
		h.After.CronJob, h.After.Job = spec.After.CronJob, hookName(d.transfer, "after")
	}
	status.Hooks = h
	meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionHooksSucceeded)
}

// startBefore has the Job of the before-hook made, if that of the after-hook can be, too.
func (d *transferDecision) startBefore(h *v1alpha1.HooksStatus) bool {
	facts := &d.facts.Hooks
	if !facts.Seen {
		d.quiescing(time.Millisecond, "the before-hook is being prepared")
		return false
	}
	problem := checkHook(&h.Before, facts.Before)
	if problem == "" && h.After.CronJob != "" {
		problem = checkHook(&h.After, facts.After)
	}
	if problem != "" || d.hookLate(&h.Before) {
		if problem == "" {
			problem = "its Job could not be made in time"
		}
		d.endHook(&h.Before, v1alpha1.HookRejected, problem)
		return d.quiesce()
	}
	d.out.Hook = &HookStep{Start: hookJob(d.transfer, &h.Before, facts.Before.CronJob)}
	d.quiescing(hookFirst, fmt.Sprintf("Job %q of the before-hook is being made", h.Before.Job))
	return false
}

// continues reports whether the run goes on without its before-hook.
func (d *transferDecision) continues() bool {
	spec := d.transfer.Spec.Source.Hooks
	return spec != nil && (spec.Before == nil || spec.Before.OnFailure == v1alpha1.HookContinue)
}

// failBefore ends an attempt whose before-hook has not succeeded: nothing is read.
func (d *transferDecision) failBefore(h *v1alpha1.HooksStatus) {
	reason := v1alpha1.ReasonBeforeHookFailed
	if h.Before.State == v1alpha1.HookRejected {
		reason = v1alpha1.ReasonBeforeHookRejected
	}
	d.failStaging(agentpod.Problem{Reason: reason, Message: fmt.Sprintf(
		"the before-hook, CronJob %q, did not succeed, so nothing was read: %s", h.Before.CronJob, h.Before.Message)})
}

// RefuseHook decides what follows when the API server does not accept the Job of a hook. That of an after-hook is tried
// until its time is over.
func RefuseHook(transfer *v1alpha1.Transfer, step *HookStep, words string, now time.Time) TransferDecision {
	d := &transferDecision{transfer: transfer.DeepCopy(), facts: TransferFacts{Now: now}}
	h := d.transfer.Status.Hooks
	message := fmt.Sprintf("the API server rejects its Job: %s", conditions.Shorten(words))
	d.out.RequeueAfter = hookLast
	if step.After {
		h.After.Message = message
	} else {
		d.endHook(&h.Before, v1alpha1.HookRejected, message)
		d.out.RequeueAfter = hookFirst
	}
	d.out.Status = d.transfer.Status
	return d.out
}

// checkHook is why no Job can be made of a CronJob; empty if one can.
func checkHook(s *v1alpha1.HookStatus, seen HookSeen) string {
	c := seen.CronJob
	switch {
	case c == nil || c.DeletionTimestamp != nil:
		return fmt.Sprintf("CronJob %q does not exist; create it with spec.suspend: true, or correct spec.source.hooks",
			s.CronJob)
	case c.Spec.Suspend == nil || !*c.Spec.Suspend:
		return fmt.Sprintf("CronJob %q is not suspended, so it would run by its own schedule, too; set its spec.suspend to true",
			s.CronJob)
	case seen.Foreign:
		return fmt.Sprintf("Job %q is there already and not of this hook; delete it", s.Job)
	}
	template := &c.Spec.JobTemplate.Spec
	zero := func(n *int32) bool { return n != nil && *n == 0 }
	switch {
	case template.Suspend != nil && *template.Suspend:
		return fmt.Sprintf("Jobs of CronJob %q would never start; remove spec.jobTemplate.spec.suspend", s.CronJob)
	case zero(c.Spec.SuccessfulJobsHistoryLimit) || zero(c.Spec.FailedJobsHistoryLimit):
		return fmt.Sprintf("Jobs of CronJob %q are removed before their end is seen; set successfulJobsHistoryLimit and "+
			"failedJobsHistoryLimit to 1 or more", s.CronJob)
	case template.TTLSecondsAfterFinished != nil && *template.TTLSecondsAfterFinished < hookMinTTL:
		return fmt.Sprintf("Jobs of CronJob %q are removed before their end is seen; set ttlSecondsAfterFinished of its "+
			"template to %d or more, or remove it", s.CronJob, hookMinTTL)
	}
	return ""
}

// hookJob is what kubectl create job --from makes, and says which Transfer it is for.
func hookJob(transfer *v1alpha1.Transfer, s *v1alpha1.HookStatus, from *batchv1.CronJob) *batchv1.Job {
	template := from.Spec.JobTemplate.DeepCopy()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: transfer.Namespace, Name: s.Job, Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{{
				// BlockOwnerDeletion would need the right to CronJobs' finalizers.
				APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "CronJob", Name: from.Name, UID: from.UID,
				Controller: ptr.To(true),
			}},
		},
		Spec: template.Spec,
	}
	metav1.SetMetaDataLabel(&job.ObjectMeta, v1alpha1.HookLabel, from.Name)
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, "cronjob.kubernetes.io/instantiate", "manual")
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, v1alpha1.HookAnnotation, string(transfer.UID))
	return job
}

// observeHooks shows how far the Jobs of hooks are.
func (d *transferDecision) observeHooks() {
	h, facts := d.transfer.Status.Hooks, &d.facts.Hooks
	if h == nil || !facts.Seen || facts.Problem != nil {
		return
	}
	d.observeHook(&h.Before, facts.Before)
	d.observeHook(&h.After, facts.After)
}

func (d *transferDecision) observeHook(s *v1alpha1.HookStatus, seen HookSeen) {
	switch s.State {
	case v1alpha1.HookStarting, v1alpha1.HookRunning, v1alpha1.HookEnding:
	default:
		return
	}
	job := seen.Job
	switch {
	case job == nil && s.State == v1alpha1.HookStarting:
		return
	case job == nil && s.State == v1alpha1.HookEnding:
		d.endHook(s, v1alpha1.HookFailed, s.Message)
		return
	case job == nil:
		d.endHook(s, v1alpha1.HookFailed, fmt.Sprintf("Job %q was deleted before its end was seen", s.Job))
		return
	}
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			d.endHook(s, v1alpha1.HookComplete, "")
			return
		case batchv1.JobFailed:
			d.endHook(s, v1alpha1.HookFailed, fmt.Sprintf("Job %q failed; look at its log: kubectl -n %s logs job/%s (%s)",
				s.Job, d.transfer.Namespace, s.Job, conditions.Shorten(c.Message)))
			return
		}
	}
	switch {
	case s.State == v1alpha1.HookEnding && d.since(s) > hookEndPatience+d.timeout(s):
		d.endHook(s, v1alpha1.HookFailed, s.Message)
	case s.State == v1alpha1.HookEnding:
	case d.hookLate(s):
		s.State, s.Message = v1alpha1.HookEnding, fmt.Sprintf(
			"Job %q did not end within %s (timeout) and was deleted; make it faster, or raise the timeout", s.Job, d.timeout(s))
	default:
		s.State, s.Message = v1alpha1.HookRunning, ""
	}
}

func (d *transferDecision) endHook(s *v1alpha1.HookStatus, state v1alpha1.HookState, message string) {
	now := metav1.NewTime(d.facts.Now)
	s.State, s.CompletionTime, s.Message = state, &now, conditions.Shorten(message)
}

func (d *transferDecision) since(s *v1alpha1.HookStatus) time.Duration {
	if s.StartTime == nil {
		return 0
	}
	return d.facts.Now.Sub(s.StartTime.Time)
}

func (d *transferDecision) hookLate(s *v1alpha1.HookStatus) bool { return d.since(s) >= d.timeout(s) }

// timeout of a hook, by the spec as it is now.
func (d *transferDecision) timeout(s *v1alpha1.HookStatus) time.Duration {
	spec, h := d.transfer.Spec.Source.Hooks, d.transfer.Status.Hooks
	if spec == nil {
		return defaultHookTimeout
	}
	hook := spec.After
	if s == &h.Before {
		hook = nil
		if spec.Before != nil {
			hook = &spec.Before.Hook
		}
	}
	if hook == nil || hook.Timeout == nil {
		return defaultHookTimeout
	}
	return hook.Timeout.Duration
}

// nextHookLook is how long to wait until the next look at a hook.
func (d *transferDecision) nextHookLook(s *v1alpha1.HookStatus) time.Duration {
	wait := min(max(d.since(s)/8, hookFirst), hookLast)
	if left := d.timeout(s) - d.since(s); left > 0 {
		wait = min(wait, left)
	}
	return wait
}

// releaseSource has the after-hook run when the source is not needed any more.
func (d *transferDecision) releaseSource() {
	h, facts := d.transfer.Status.Hooks, &d.facts.Hooks
	if h == nil {
		return
	}
	if h.After.Ended() {
		d.judgeHooks(h)
		return
	}
	if h.After.State == v1alpha1.HookPending && d.released(h) {
		d.release(h)
	}
	d.stepHooks(h, facts)
	if h.After.Ended() {
		d.judgeHooks(h)
		return
	}
	wait := d.nextHookLook(&h.Before)
	switch {
	case facts.Problem != nil:
		wait = attempt.StallLast
	case h.After.State == v1alpha1.HookStarting && !facts.Seen:
		wait = time.Millisecond
	case h.After.State != v1alpha1.HookPending:
		wait = d.nextHookLook(&h.After)
	case h.Before.Ended():
		return // others wake, and say when the source is not needed
	}
	d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, wait)
}

// released reports whether nothing needs the source as the before-hook left it.
func (d *transferDecision) released(h *v1alpha1.HooksStatus) bool {
	status := &d.transfer.Status
	switch {
	case d.deleting, !d.running(), h.RunID != status.Run.ID,
		h.Before.State == v1alpha1.HookRejected,
		h.Before.State == v1alpha1.HookFailed && !d.continues():
		return true
	case !Stages(d.transfer):
		return d.waiting() && (d.transfer.Spec.Suspend || status.Phase == v1alpha1.TransferPaused)
	case d.waiting(), d.mounted():
		return true
	}
	return d.copied()
}

// mounted reports whether an agent has mounted what the run reads. While legs are gathered none of this Transfer has,
// whatever those of legs do.
func (d *transferDecision) mounted() bool {
	switch status := &d.transfer.Status; status.Phase {
	case v1alpha1.TransferOpening, v1alpha1.TransferTransferring:
		return status.GatheringTime == nil
	}
	return false
}

// copied reports whether the copy of the run has its point in time.
func (d *transferDecision) copied() bool {
	status := &d.transfer.Status
	s := status.Staged
	if s == nil || s.RunID != status.Run.ID || s.State == v1alpha1.StagedRemoving {
		return false
	}
	snapshot := d.facts.Staging.snapshot(s)
	return !stagedSourceNeeded(d.transfer) || snapshot != nil && !snapshot.Created.IsZero() && snapshot.Failure == ""
}

// release goes one step from a before-hook to its after-hook. They never run at the same time.
func (d *transferDecision) release(h *v1alpha1.HooksStatus) {
	switch h.Before.State {
	case v1alpha1.HookStarting:
		if d.facts.Hooks.Seen && d.facts.Hooks.Problem == nil && d.facts.Hooks.Before.Job == nil {
			d.endHook(&h.Before, v1alpha1.HookRejected, "the run ended before its Job was made")
			d.out.Hook = nil
			d.release(h)
		}
	case v1alpha1.HookRunning:
		h.Before.State, h.Before.Message = v1alpha1.HookEnding, "the run ended before the hook did"
	case v1alpha1.HookEnding:
	case v1alpha1.HookRejected:
		d.endHook(&h.After, v1alpha1.HookSkipped, "")
	default:
		if h.After.CronJob == "" {
			d.endHook(&h.After, v1alpha1.HookSkipped, "")
			return
		}
		begun := metav1.NewTime(d.facts.Now)
		h.After.State, h.After.StartTime = v1alpha1.HookStarting, &begun
	}
}

// stepHooks has made or deleted what is to be. The status is written first.
func (d *transferDecision) stepHooks(h *v1alpha1.HooksStatus, facts *HookFacts) {
	if facts.Seen && h.After.State == v1alpha1.HookStarting && d.hookLate(&h.After) && h.After.Message == "" {
		// The manager was away and has tried nothing, so the time for tries begins now.
		begun := metav1.NewTime(d.facts.Now)
		h.After.StartTime = &begun
	}
	if !facts.Seen || facts.Problem != nil {
		if h.After.State == v1alpha1.HookStarting && facts.Problem != nil {
			h.After.Message = conditions.Shorten(facts.Problem.Message)
			if d.hookLate(&h.After) {
				d.endHook(&h.After, v1alpha1.HookRejected, facts.Problem.Message)
			}
		}
		return
	}
	ends := func(s v1alpha1.HookStatus, job *batchv1.Job) bool {
		return s.State == v1alpha1.HookEnding && job != nil && job.DeletionTimestamp == nil
	}
	switch {
	case ends(h.Before, facts.Before.Job):
		d.out.Hook = &HookStep{End: facts.Before.Job}
		return
	case ends(h.After, facts.After.Job):
		d.out.Hook = &HookStep{End: facts.After.Job}
		return
	}
	if h.After.State != v1alpha1.HookStarting || facts.After.Job != nil {
		return
	}
	problem := checkHook(&h.After, facts.After)
	switch {
	case d.hookLate(&h.After), problem != "" && d.deleting:
		if problem == "" {
			problem = cmp.Or(h.After.Message, "its Job could not be made in time")
		}
		d.endHook(&h.After, v1alpha1.HookRejected, problem)
	case problem != "":
		h.After.Message = problem
	default:
		d.out.Hook = &HookStep{Start: hookJob(d.transfer, &h.After, facts.After.CronJob), After: true}
	}
}

// judgeHooks shows how the hooks went.
func (d *transferDecision) judgeHooks(h *v1alpha1.HooksStatus) {
	verdict := conditions.New(v1alpha1.ConditionHooksSucceeded, true, v1alpha1.ReasonHooksComplete, "the hooks have succeeded")
	failed := func(reason, message string) {
		verdict = conditions.New(v1alpha1.ConditionHooksSucceeded, false, reason, message)
	}
	switch {
	case h.After.State == v1alpha1.HookFailed || h.After.State == v1alpha1.HookRejected:
		failed(v1alpha1.ReasonAfterHookFailed, fmt.Sprintf(
			"the after-hook did not succeed and the application may still be quiesced; run it by hand: kubectl -n %s create "+
				"job --from=cronjob/%s lighterage-after-by-hand: %s", d.transfer.Namespace, h.After.CronJob, h.After.Message))
	case h.Before.State == v1alpha1.HookRejected:
		failed(v1alpha1.ReasonBeforeHookRejected, h.Before.Message)
	case h.Before.State == v1alpha1.HookFailed:
		failed(v1alpha1.ReasonBeforeHookFailed, h.Before.Message)
	}
	d.transfer.Status.Conditions = conditions.Merge(
		d.transfer.Status.Conditions, []metav1.Condition{verdict}, d.transfer.Generation, d.facts.Now,
	)
}

// ReleaseHooks decides what is to be done for the hooks of a Transfer that is being deleted. Its agents have ended. The
// Transfer may go when the after-hook is not needed, or its Job was made.
func ReleaseHooks(transfer *v1alpha1.Transfer, facts HookFacts, now time.Time) (out TransferDecision, done bool) {
	d := &transferDecision{
		transfer: transfer.DeepCopy(), facts: TransferFacts{Now: now, Hooks: facts}, deleting: true,
	}
	d.observeHooks()
	d.releaseSource()
	d.out.Status = d.transfer.Status
	h := d.transfer.Status.Hooks
	return d.out, h == nil || h.After.Ended() || h.After.State == v1alpha1.HookRunning
}
