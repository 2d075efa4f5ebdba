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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/policy"
	"github.com/lighterage/lighterage/controllers/quota"
	"github.com/lighterage/lighterage/controllers/usage"
)

// maxHistory is what the API allows.
const maxHistory = 10

// TransferFacts are what was seen.
type TransferFacts struct {
	Now time.Time
	// CertificateLifetime is how long certificates of agents are valid.
	CertificateLifetime time.Duration
	// NewRunID is the identifier of the next run, should one begin.
	NewRunID string
	// Peer is nil when it does not exist; so is Claim, the source.
	Peer *v1alpha1.Peer
	// Local is of a Transfer within this cluster.
	Local LocalFacts
	// Legs of a Transfer with several destinations, by the names of these, as far as they exist.
	Legs map[string]LegFacts
	// Whole is the Transfer that this one is a leg of; nil: it is none, or that is gone.
	Whole *v1alpha1.Transfer
	// Stores are the object stores that the Transfer names.
	Stores           StoreFacts
	Claim            *corev1.PersistentVolumeClaim
	PrivilegeAllowed bool
	// Others are the namespace's Transfers into the same claim; the Transfer itself may be among them.
	Others   []v1alpha1.Transfer
	Policies []v1alpha1.CompressionPolicy
	Tariffs  []v1alpha1.Tariff
	// NodeLabels of the node that the agent is on; nil when they are not known.
	NodeLabels map[string]string
	// Job and Pod of the attempt that status names; nil when they do not exist.
	Job *batchv1.Job
	Pod *corev1.Pod
	// Report is what the agent answered last; nil when it has not, or is silent.
	Report *wirev1.Report
	// Early: progress was shown a short while ago, so a report of nothing else is shown later.
	Early bool
	// Silent: the agent runs and has not answered for some time.
	Silent bool
	// agentreport.Samples of the attempt, Report's included.
	Samples agentreport.Samples
	// Network of the node, nil when it is not known.
	Network *usage.NetworkCost
	// Limits have the cores of both sides of a Transfer within this cluster.
	Limits usage.Limits
	// Placement is what the nodes are like; it is looked at only where attempt.NeedsPlacement.
	Placement placement.Facts
	Quota     QuotaFacts
	// PodsLeft: pods of the Transfer's agents have not ended. It is looked at only where Pausing.
	PodsLeft bool
	// Staging is looked at only where NeedsStaging.
	Staging StagingFacts
	// Hooks are looked at only where NeedsHooks.
	Hooks HookFacts
	// Template is looked at only where NeedsTemplate.
	Template TemplateFacts
	// History is looked at only where NeedsHistory.
	History HistoryFacts
	// PullsIntoSource is the name of a Transfer that pulls into the directory which this one sends, of one that was made
	// for another cluster; empty: there is none.
	PullsIntoSource string
}

// Finished is an attempt that has ended just now, for metrics.
type Finished struct {
	// Reason is Succeeded or why not.
	Reason string
	// RunEnded is true when no further attempt follows.
	RunEnded bool
	// Report has the figures of the last one that had any: an agent that was killed leaves none.
	Report *wirev1.Report
	// DataPath that it took; nil when that is not known.
	DataPath *v1alpha1.DataPath
	// PathCost is what it says of its path; nil: nothing.
	PathCost *PathCost
}

// TransferDecision is what to do.
type TransferDecision struct {
	// Ask, if set, must be admitted first: nothing else counts until it is decided again with the answer in QuotaFacts.
	Ask *quota.Request
	// Status to write, before anything is made.
	Status v1alpha1.TransferStatus
	// Start is the attempt that must exist; nil when none has to be made.
	Start *attempt.Attempt
	// Deliver is the Delivery that must exist; nil when none has to be made. Those of Withdraw are to be deleted.
	Deliver  *v1alpha1.Delivery
	Withdraw []v1alpha1.Delivery
	// Legs must exist with that spec and annotation; those of Dismiss are to be deleted.
	Legs    []v1alpha1.Transfer
	Dismiss []v1alpha1.Transfer
	// Stage is what is to be made of the copy that the run reads; nil: nothing. With Unstage all copies are to be
	// removed but that of Status, if that is not being removed.
	Stage   *Stage
	Unstage bool
	// Hook is what is to be done for a hook; nil: nothing.
	Hook *HookStep
	// Tell is what the annotations of the source are to say of its copy; nil: nothing new.
	Tell *CopyTold
	// History is what is to be done about the snapshots of the destination; nil: nothing.
	History *HistoryStep
	// Provision is what is to be done about the claim of the destination; nil: nothing.
	Provision *Provision
	// Renew is true when the certificate of the agent that runs is to be renewed, before Status is written.
	Renew bool
	// Limit is true when the agent that runs is to be given status.run.bandwidthLimit, before Status is written.
	Limit bool
	// Retire is true when whatever earlier attempts left is to be removed: all Jobs but that of the attempt in Status.
	Retire bool
	// Clear is true when the run is complete and its Job still there, or when an attempt is given up whose pod waits: all
	// Jobs are to be removed, after Status is written.
	Clear bool
	// Pause is true when the agent of the attempt is to be asked to end. It has until the next decision to do so; if it
	// cannot be asked, all Jobs are to be removed as by Clear.
	Pause bool
	// Finished is set when an attempt has ended just now. Its Secret is to be removed before Status is written, after
	// which nobody would look for it.
	Finished *Finished
	// Later is true when Status does not show Report yet, which has nothing but progress.
	Later bool
	// RequeueAfter is when to look again if nothing happens before; 0 for never.
	RequeueAfter time.Duration
}

// DecideTransfer is the heart of the Transfer controller. It does not change its arguments.
func DecideTransfer(transfer *v1alpha1.Transfer, facts TransferFacts, image agentpod.Image) TransferDecision {
	facts.Report = agentreport.Bounded(facts.Report)
	d := &transferDecision{transfer: transfer.DeepCopy(), facts: facts, image: image}
	d.observeHooks()
	d.observeHistory()
	d.observeStaged()
	d.decide()
	d.settleTrigger()
	d.keepHistory()
	d.releaseSource()
	d.unstage()
	d.forgetOverwritten()
	d.watchObjective()
	d.watchDeadline()
	if d.out.Start != nil {
		d.out.Start.Know(facts.Placement.Profiles)
		d.out.Start.UseDevices(sourceIsBlock(d.transfer, facts), destinationIsBlock(d.transfer, facts))
		d.out.Start.UseImage(imageOf(d.transfer, facts))
	}
	if HasLegs(transfer) {
		d.showLegs()
		d.dismissLegs()
	}
	d.out.Status = d.transfer.Status
	d.out.Status.ObservedGeneration = transfer.Generation
	d.out.Status.Peer = peerOf(transfer)
	if facts.Report != nil && facts.Early &&
		equality.Semantic.DeepEqual(transferState(d.out.Status), transferState(transfer.Status)) {
		d.out.Status, d.out.Later = transfer.Status, true
	}
	over := d.out.Status.Phase == v1alpha1.TransferComplete || halted(d.out.Status)
	d.out.Clear = d.out.Clear || facts.Job != nil && over
	if d.shares() {
		d.out.Clear, d.out.Retire = false, false // the pod is of all legs to claims
	}
	return d.out
}

// transferDecision is one decision in the making; transfer is a copy whose status becomes the result.
type transferDecision struct {
	transfer *v1alpha1.Transfer
	facts    TransferFacts
	image    agentpod.Image
	// due: a time of the schedule has come for which a run is to start, at dueTime.
	due     bool
	dueTime time.Time
	// hurried: the run that begins minimises its time for its deadline.
	hurried bool
	// planned is what strategy Cheapest makes of the run that is wanted; nil: nothing.
	planned *planned
	// deleting: the Transfer is being deleted, so that nothing goes on.
	deleting bool
	// bandwidth that the attempt which begins may use; nil: any.
	bandwidth *resource.Quantity
	// share of the bandwidth of the Peer or the cluster that it begins with; nil: any.
	share *resource.Quantity
	// window that runs are kept within; nil: none.
	window *window
	out    TransferDecision
}

func (d *transferDecision) decide() {
	defer d.wakeForSchedule()
	problem := d.keepTimetable()
	held, spec := d.held(), d.transfer.Spec
	if d.leg() && !d.mayBegin() {
		d.transfer.Status.Queued = nil // it takes nobody's turn
	}
	if problem == nil {
		d.planned = d.planStart()
	}
	switch {
	case held != nil && UnderWay(d.transfer), !d.leg() && Pausing(d.transfer):
		d.pause(held)
	case held == nil && d.planned != nil && d.planned.waits:
		d.awaitPrice()
	case held == nil && !spec.Suspend && problem == nil && d.wantsNewRun() && taking(d.transfer):
		d.awaitSnapshot()
	case held == nil && !spec.Suspend && problem == nil && d.wantsNewRun():
		d.begin(firstRoute(d.transfer, d.facts), nil, d.newRun)
	case d.running() && !d.waiting():
		d.follow()
	case spec.Pause && held != nil:
		d.rest(v1alpha1.TransferPaused, *held)
	case spec.Suspend:
		d.rest(v1alpha1.TransferSuspended, hold{v1alpha1.ReasonSuspended,
			"nothing starts while spec.suspend is true; set it to false to go on"})
	case problem != nil:
		d.stall(*problem)
	case held != nil && (d.running() || d.wantsNewRun()):
		d.awaitWindow(*held)
	case d.running():
		d.retry()
	case d.leg():
		d.awaitWhole()
	case d.transfer.Status.Run == nil:
		d.set(v1alpha1.TransferScheduled, conditions.Ready(v1alpha1.ReasonScheduled, fmt.Sprintf(
			"the first run starts at %s", d.transfer.Status.Schedule.NextTime.UTC().Format(time.RFC3339))))
	}
}

// pending: a run is wanted and something keeps it from beginning.
func (d *transferDecision) pending() bool {
	phase := d.transfer.Status.Phase
	return phase == v1alpha1.TransferPending || phase == v1alpha1.TransferQueued && !d.running()
}

func (d *transferDecision) running() bool {
	run := d.transfer.Status.Run
	return run != nil && run.CompletionTime == nil
}

// attempt.Waiting: an attempt has ended and the next one has not begun.
func (d *transferDecision) waiting() bool {
	return d.transfer.Status.Run.NextAttemptTime != nil
}

// wantsNewRun: the first one, or one whose time has come, or one asked for by annotation, or one with another spec
// after one that got stuck.
func (d *transferDecision) wantsNewRun() bool {
	if d.leg() {
		return d.legWantsRun()
	}
	status := &d.transfer.Status
	if status.Run == nil && (d.transfer.Spec.Schedule == nil || d.transfer.Spec.Schedule.Cron == "") {
		return true
	}
	stuck := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStalled)
	if d.running() && !stuck {
		return false
	}
	asked := d.transfer.Annotations[v1alpha1.RunAnnotation]
	return d.due || d.pending() || asked != "" && asked != status.LastRunRequest || d.newDestination() ||
		stuck && d.transfer.Generation != status.ObservedGeneration
}

// begin checks, and goes on with next when an attempt could begin. A run that has begun keeps its policy.
func (d *transferDecision) begin(route v1alpha1.Route, kept *v1alpha1.PolicyStatus, next func()) {
	resolved, problem := checkTransfer(d.transfer, kept, d.facts)
	if problem != nil {
		d.stall(*problem)
		return
	}
	request := sendPlacement(d.transfer, route, resolved, d.image)
	request.Prefer = d.preferred()
	where := placement.Decide(request, d.facts.Placement)
	if where.Blocked != nil {
		d.stall(agentpod.Problem{Reason: where.Blocked.Reason, Message: where.Blocked.Message})
		d.transfer.Status.Placement = attempt.Expected(where)
		return
	}
	if !d.admitted(route) {
		return
	}
	next()
	run := d.transfer.Status.Run
	run.BandwidthLimit, run.BandwidthShare, run.WindowLimit = d.bandwidth, d.share, d.window.bandwidth()
	if kept == nil {
		resolved = d.byPlan(resolved.Priced(d.facts.Tariffs, d.transfer.Spec.Destination.Peer, d.facts.Now))
	}
	d.transfer.Status.Policy = resolved.Status()
	d.start(resolved, where)
}

func (d *transferDecision) newRun() {
	now := metav1.NewTime(d.facts.Now)
	status := &d.transfer.Status
	d.leaveReceipt()
	status.Run = &v1alpha1.RunStatus{
		ID: d.facts.NewRunID, Attempt: 1, StartTime: &now, Route: firstRoute(d.transfer, d.facts),
	}
	status.LastRunRequest = d.transfer.Annotations[v1alpha1.RunAnnotation]
	d.forgetAttempt()
	d.newGathering()
}

// retry waits for the back-off, or for somebody, and then begins the next attempt.
func (d *transferDecision) retry() {
	run := d.transfer.Status.Run
	if d.leg() && !d.mayBegin() {
		return // the Transfer that it is of wakes it
	}
	if wait := attempt.UntilNext(run.NextAttemptTime, d.facts.Now); wait > 0 && !d.fixed() {
		d.out.RequeueAfter = wait
		return
	}
	if d.copyGone() {
		d.begin(firstRoute(d.transfer, d.facts), nil, d.newRun)
		return
	}
	d.begin(run.Route, d.transfer.Status.Policy, func() {
		run.Attempt++
		run.NextAttemptTime = nil
		run.Node, run.Architecture = "", ""
		d.forgetAttempt()
		d.newGathering()
	})
}

// start has the attempt in status made.
func (d *transferDecision) start(resolved policy.Resolved, where placement.Plan) {
	d.transfer.Status.Placement = attempt.Expected(where)
	d.out.Retire = true
	provision, ok := d.destination()
	if !ok || !d.quiesceForRun() || !d.stage() {
		return
	}
	d.out.Provision = provision
	if HasLegs(d.transfer) {
		d.gather(where)
		return
	}
	switch {
	case d.shares():
		defer d.ready()
	case d.leg() && !d.mayRead():
		d.staging(attempt.StallLast, fmt.Sprintf("Transfer %q has no copy of the source to read", WholeOf(d.transfer).Name))
		return
	default:
		_ = attempt.Certify(d.transfer.Status.Run, d.facts.Now, d.facts.CertificateLifetime)
	}
	if IsLocal(d.transfer) {
		d.startLocal(resolved, where)
		return
	}
	if d.transfer.Spec.Destination.Via != nil {
		d.out.Start = handOffAttempt(d.transfer, resolved, where, d.facts.Stores, d.image)
	} else {
		d.out.Start = SendAttempt(d.transfer, resolved, where, d.facts.Peer, d.image)
	}
	d.starting(v1alpha1.ReasonStarting, fmt.Sprintf(
		"attempt %d of run %s: the agent's pod is being started", d.transfer.Status.Run.Attempt, d.transfer.Status.Run.ID))
}

// stall says what keeps an attempt from beginning. Events wake it up; the clock does only in case one is missed.
func (d *transferDecision) stall(problem agentpod.Problem) {
	// Pending also says, after a run that has ended, that another one is wanted.
	phase := v1alpha1.TransferPending
	if d.running() {
		phase = v1alpha1.TransferRetrying
	}
	d.out.RequeueAfter = attempt.StallLast
	if problem.Reason == v1alpha1.ReasonPeerUnreachable || problem.Reason == v1alpha1.ReasonProbing ||
		problem.Reason == v1alpha1.ReasonStoreUnreachable || problem.Reason == v1alpha1.ReasonTakingSnapshot {
		// What does not answer may answer again by itself, and a snapshot is awaited for a while only.
		d.set(phase, conditions.Reconciling(problem.Reason, problem.Message))
		return
	}
	d.set(phase, conditions.Stalled(problem.Reason, problem.Message))
}

// follow looks after the attempt that status names.
func (d *transferDecision) follow() {
	state := d.state()
	if state.Suspended && d.facts.Pod == nil && d.transfer.Status.Run.Node != "" {
		state = state.Preempted()
	}
	// A Job that were resumed later would run beside that of the next attempt. That of legs stays until all have seen how
	// the pod ended, and goes when the next one is made.
	d.out.Clear = state.Suspended && state.Phase == attempt.Ended && !HasLegs(d.transfer)
	if state.Node != "" {
		d.transfer.Status.Run.Node = state.Node
		d.transfer.Status.Placement = attempt.Placed(d.transfer.Status.Placement, state.Node,
			func(node string) v1alpha1.PlacementStatus {
				return placement.Explain(d.placement(), attempt.AsPlanned(d.facts.Placement, d.facts.Job), node)
			})
	}
	switch state.Phase {
	case attempt.Absent:
		d.followAbsent()
	case attempt.Starting:
		if !d.followStaged() {
			d.followStarting(state)
			d.renew()
		}
	case attempt.Running:
		if !d.followStaged() {
			d.followRunning()
			d.changeLimit()
			d.renew()
		}
	case attempt.Ended:
		if HasLegs(d.transfer) {
			d.podEnded()
			return
		}
		d.finish(state.Final)
	}
}

// followAbsent: status names an attempt and there is no Job. Before it started that is how it begins; later somebody
// removed it.
func (d *transferDecision) followAbsent() {
	gathering := HasLegs(d.transfer) && d.transfer.Status.GatheringTime != nil // whatever pods legs have
	if !gathering && (d.transfer.Status.Phase != v1alpha1.TransferStarting || d.transfer.Status.Run.Node != "") {
		if HasLegs(d.transfer) {
			d.podEnded()
			return
		}
		d.finish(attempt.Lost("the agent's Job was deleted by somebody else"))
		return
	}
	resolved, problem := checkTransfer(d.transfer, d.transfer.Status.Policy, d.facts)
	if problem != nil {
		d.out.RequeueAfter = attempt.StallLast
		d.set(v1alpha1.TransferStarting, conditions.Stalled(problem.Reason, problem.Message))
		return
	}
	d.transfer.Status.Policy = resolved.Status()
	present := d.transfer.Status.Conditions
	// Where nothing can take the agent any more the pod waits, and its scheduler says so.
	d.start(resolved, placement.Decide(d.placement(), d.facts.Placement))
	if _, refused := attempt.RefusedSince(present); refused && d.out.Start != nil || conditions.Refused(present) {
		// What they say stays until the start is not refused any more.
		d.transfer.Status.Conditions = present
	}
}

// placement is what is wanted for the attempt that status names, by what its pod asks for if there is a Job.
func (d *transferDecision) placement() placement.Request {
	request := sendPlacement(d.transfer, d.transfer.Status.Run.Route, policy.Kept(d.transfer.Status.Policy), d.image)
	request.Prefer = d.preferred()
	if d.facts.Job != nil && placement.Avoids(d.facts.Job.Spec.Template.Spec.Affinity) {
		request.Shun = v1alpha1.PlacementReasonAcceleratorBusy
		if where := d.transfer.Status.Placement; where != nil && where.Reason == v1alpha1.PlacementReasonNoRoom {
			request.Shun = where.Reason
		}
	}
	return request
}

func (d *transferDecision) followStarting(state attempt.State) {
	waited := d.facts.Now.Sub(state.Since)
	d.out.RequeueAfter = attempt.UntilFirst(waited, attempt.StartGrace)
	scheduler := state.Stuck
	if state.Stuck != nil && state.Stuck.Reason == v1alpha1.ReasonUnschedulable {
		if !d.shares() && (d.fallBack(state) || d.comeBack(state)) {
			return
		}
		where := attempt.Waiting(d.placement(), d.facts.Placement, d.facts.Job)
		d.transfer.Status.Placement, state.Stuck = attempt.Expected(where), attempt.Unplaced(where, state.Stuck)
		d.out.RequeueAfter = attempt.UntilFirst(waited, attempt.StartGrace, slotPatience, d.slotPatience())
	}
	switch {
	case state.Suspended && d.facts.Pod == nil:
		d.out.RequeueAfter = attempt.StallLast
		d.set(v1alpha1.TransferQueued, conditions.Reconciling(state.Stuck.Reason, state.Stuck.Message))
	case state.Apart && waited >= attempt.StartGrace && d.transfer.Status.Run.Route == v1alpha1.RoutePod &&
		!Scrubs(d.transfer) && !d.transfer.Spec.Destination.Form.Archived():
		d.takeApart(*scheduler)
	case state.Stuck == nil || waited < attempt.StartGrace && state.Stuck.Reason == v1alpha1.ReasonAgentNotStarted:
		d.set(v1alpha1.TransferStarting, conditions.Reconciling(v1alpha1.ReasonStarting,
			fmt.Sprintf(
				"attempt %d of run %s: the agent's pod is being started", d.transfer.Status.Run.Attempt, d.transfer.Status.Run.ID,
			)))
	case waited < attempt.StartGrace:
		d.set(v1alpha1.TransferStarting, conditions.Reconciling(state.Stuck.Reason, state.Stuck.Message))
	default:
		d.set(v1alpha1.TransferStarting, conditions.Stalled(state.Stuck.Reason, state.Stuck.Message))
	}
}

func (d *transferDecision) followRunning() {
	if HasLegs(d.transfer) {
		d.followLegs()
		return
	}
	report := d.facts.Report
	if report == nil {
		if !d.facts.Silent {
			return
		}
		if d.transfer.Status.Phase == v1alpha1.TransferStarting {
			d.set(v1alpha1.TransferStarting, conditions.Reconciling(v1alpha1.ReasonStarting,
				"the agent runs and has not answered the manager yet; a NetworkPolicy must let the manager reach its port 9443"))
		} else {
			d.transfer.Status.Progress = withoutRate(d.transfer.Status.Progress)
			d.set(d.transfer.Status.Phase, attempt.Silent(d.transfer.Status.Conditions))
		}
		return
	}
	rate := d.facts.Samples.Rate()
	d.apply(report, rate)
	if report.GetState() == wirev1.AgentState_AGENT_STATE_FAILED {
		return // Its pod is about to say so.
	}
	if report.GetState() == wirev1.AgentState_AGENT_STATE_OPENING {
		message := report.GetDetail()
		if message == "" {
			message = "the other side is not ready yet"
		}
		d.set(v1alpha1.TransferOpening, conditions.Reconciling(v1alpha1.ReasonOpening, message))
		return
	}
	d.set(v1alpha1.TransferTransferring, conditions.Reconciling(v1alpha1.ReasonTransferring,
		fmt.Sprintf("attempt %d of run %s", d.transfer.Status.Run.Attempt, d.transfer.Status.Run.ID)))
}

// apply shows a report in status. A part that the report lacks stays as it was: a termination message may have been
// shortened.
func (d *transferDecision) apply(report *wirev1.Report, rate int64) {
	status := &d.transfer.Status
	if report.GetArchitecture() != "" {
		status.Run.Architecture = report.GetArchitecture()
	}
	if path := dataPath(status.Run.Route, report.GetDataPath()); path != nil {
		status.Run.DataPath = path
	}
	if report.GetProgress() != nil {
		status.Progress = agentreport.Progress(report, rate, d.resumed(report))
	}
	if packed := agentreport.CompressionStatus(report); packed != nil {
		status.Compression = packed
	}
	if report.GetDecisions() != nil {
		status.Decisions = agentreport.DecisionsStatus([]*wirev1.Decisions{report.GetDecisions()}, status.Decisions)
	}
	if inflated := agentreport.DecompressionStatus(report); inflated != nil {
		status.Decompression = inflated
	}
	if spent := agentreport.CPUStatus(report, d.facts.Network.Both(report)); spent != nil {
		status.CPU = spent
	}
	d.count(report)
	d.charge(report)
	d.noteCopyTime(report)
	status.Receipt = receiptStatus(report)
	if left := agentreport.Omissions(report); left != nil {
		status.Omissions = left
	}
	status.Placement = corrected(status.Placement, status.Compression)
	status.Conditions = conditions.Merge(
		status.Conditions, hardwareCondition(status.Compression, status.Placement), d.transfer.Generation, d.facts.Now,
	)
}

// set sets the phase and the conditions that go with it.
func (d *transferDecision) set(phase v1alpha1.TransferPhase, wanted []metav1.Condition) {
	ready := wanted[0]
	wanted = append(wanted,
		conditions.New(v1alpha1.ConditionComplete, phase == v1alpha1.TransferComplete, ready.Reason, ready.Message),
		conditions.New(v1alpha1.ConditionFailed, phase == v1alpha1.TransferFailed, ready.Reason, ready.Message),
	)
	d.transfer.Status.Phase, d.transfer.Status.Queued = phase, nil
	d.transfer.Status.Conditions = conditions.Merge(
		d.transfer.Status.Conditions, wanted, d.transfer.Generation, d.facts.Now,
	)
}
