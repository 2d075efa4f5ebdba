// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/policy"
)

const (
	// maxPullPatterns bounds include and exclude together, in bytes: a gateway takes requests of 16 KiB.
	maxPullPatterns = 8 << 10
	// maxPullPath bounds each of the two paths, in bytes, for the same reason.
	maxPullPath = 2 << 10

	// pullPause is the wait between two questions about a run that is under way, and restPause about one that waits.
	pullPause = 5 * time.Second
	restPause = time.Minute
	// pullShare is the least of it for each Transfer that pulls from the same cluster: its gateway takes 10 requests of a
	// manager each second.
	pullShare = 250 * time.Millisecond
)

// PullFacts are what was seen of a Transfer that pulls.
type PullFacts struct {
	Now time.Time
	// NewRunID is the identifier of the next run, should one begin.
	NewRunID string
	// Peer is nil when it does not exist; so is Claim, the destination.
	Peer  *v1alpha1.Peer
	Claim *corev1.PersistentVolumeClaim
	// Others are the namespace's Transfers into the same claim; the Transfer itself may be among them.
	Others []v1alpha1.Transfer
	// Delivery is that of the attempt that status names; nil when it does not exist.
	Delivery *v1alpha1.Delivery
	// Pulling is how many Transfers pull from the same Peer, this one included.
	Pulling int
}

// PullHeard is what the other cluster says: exactly one of its fields is set.
type PullHeard struct {
	Answer *wirev1.PullResponse
	// Problem is why there is no answer.
	Problem *agentpod.Problem
}

// PullDecision is what to do for a Transfer that pulls.
type PullDecision struct {
	// Status to write, before anything else is done.
	Status v1alpha1.TransferStatus
	// Ask the other cluster so; nil: there is nothing to ask. What it may send is granted as long as it is asked, and not
	// otherwise.
	Ask *wirev1.PullRequest
	// Problem keeps it from being asked; it is heard in place of an answer.
	Problem *agentpod.Problem
	// Held: spec.pause or the windows keep anything from being received. The other cluster is asked to end its attempt.
	Held bool
	// RequeueAfter is when to look again if nothing happens before; 0 for never.
	RequeueAfter time.Duration
}

// Pulls reports whether a Transfer has another cluster send to this one.
func Pulls(transfer *v1alpha1.Transfer) bool { return transfer.Spec.Source.Peer != "" }

// PullNamespace is where the source of a Transfer that pulls is.
func PullNamespace(transfer *v1alpha1.Transfer) string {
	return cmp.Or(transfer.Spec.Source.Namespace, transfer.Namespace)
}

// PulledName is the name of the Transfer in the other cluster.
func PulledName(transfer *v1alpha1.Transfer) string {
	return PullName(transfer.Namespace, transfer.Name, string(transfer.UID))
}

// PullDelivery is the name of the Delivery of the attempt that an answer names, or without one the status; empty while
// none has begun.
func PullDelivery(transfer *v1alpha1.Transfer, answer *wirev1.PullResponse) string {
	runID, attempt := answer.GetRunId(), attemptNumber(answer.GetAttempt())
	if run, pull := transfer.Status.Run, transfer.Status.Pull; answer == nil && run != nil && pull != nil {
		runID, attempt = pull.RunID, run.Attempt
	}
	if attempt == 0 || !pulledRun.MatchString(runID) {
		return ""
	}
	return DeliveryName(transfer.Spec.Source.Peer, v1alpha1.TransferReference{
		Namespace: PullNamespace(transfer), Name: PulledName(transfer), Run: runID, Attempt: attempt,
	})
}

// pulledRun is what the identifier of a run can be.
var pulledRun = regexp.MustCompile(`^[a-z0-9]{1,6}$`)

// PullGrant is the PeerGrant that lets the other cluster's Transfer write what this one asks for, and nothing else.
func PullGrant(transfer *v1alpha1.Transfer) *v1alpha1.PeerGrant {
	to := transfer.Spec.Destination.PersistentVolumeClaim
	return &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: transfer.Namespace, Name: PulledName(transfer),
			OwnerReferences: []metav1.OwnerReference{agentpod.OwnerReference("Transfer", transfer)},
		},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{
				Peer: transfer.Spec.Source.Peer, Namespaces: []string{PullNamespace(transfer)},
				Transfers: []string{PulledName(transfer)},
			}},
			To: []v1alpha1.PeerGrantTo{{
				Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: to.ClaimName, Path: cmp.Or(cleanGrantPath(to.Path), "/"),
				AllowDelete: transfer.Spec.Delete,
			}},
		},
	}
}

// cleanGrantPath is a path as a PeerGrant has it.
func cleanGrantPath(path string) string {
	if relative := attempt.RelativePath(path); relative != "." {
		return "/" + relative
	}
	return "/"
}

// DecidePull decides about schedule and runs of a Transfer that pulls. It does not change its arguments.
func DecidePull(transfer *v1alpha1.Transfer, facts PullFacts) PullDecision {
	d := newPullDecision(transfer, facts)
	d.decidePull(facts)
	d.mirrorReceipt(received(transfer, facts.Delivery))
	if d.running() {
		d.transfer.Status.Run.WindowLimit = d.windowLimit()
	}
	out := d.pullDecision(transfer)
	if !d.running() {
		return out
	}
	out.Problem = CheckPeer(transfer.Spec.Source.Peer, facts.Peer)
	out.Held = d.held() != nil
	out.Ask = pullRequest(d.transfer, out.Held)
	out.Ask.Options.BandwidthLimit = bandwidthLimit(lower(d.transfer.Spec.BandwidthLimit, d.transfer.Status.Run.WindowLimit))
	return out
}

// HearPull shows what the other cluster says in the status that DecidePull gave. facts.Delivery is that of the attempt
// which the answer names.
func HearPull(transfer *v1alpha1.Transfer, facts PullFacts, heard PullHeard) PullDecision {
	facts.Delivery = received(transfer, facts.Delivery)
	d := newPullDecision(transfer, facts)
	_ = d.keepTimetable() // for the windows; DecidePull has shown what is wrong with them
	if heard.Problem != nil {
		d.stall(*heard.Problem)
	} else {
		d.hearPull(agentreport.Bounded(heard.Answer), facts.Delivery)
	}
	if d.running() {
		d.out.RequeueAfter = PullPause(d.transfer, facts.Pulling)
	}
	d.wakeForSchedule()
	d.mirrorReceipt(facts.Delivery)
	return d.pullDecision(transfer)
}

// PullPause is the wait before the other cluster is asked again.
func PullPause(transfer *v1alpha1.Transfer, pulling int) time.Duration {
	pause := pullPause
	switch phase := transfer.Status.Phase; {
	// A cluster that does not answer costs a worker 10 s each time.
	case unanswered(transfer), meta.IsStatusConditionTrue(transfer.Status.Conditions, v1alpha1.ConditionStalled),
		phase == v1alpha1.TransferPaused, phase == v1alpha1.TransferSuspended:
		pause = restPause
	}
	return max(pause, time.Duration(pulling)*pullShare)
}

// unanswered: the other cluster was asked, and cannot be reached.
func unanswered(transfer *v1alpha1.Transfer) bool {
	ready := meta.FindStatusCondition(transfer.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == v1alpha1.ReasonPeerUnreachable
}

// pullUnderWay is UnderWay of a Transfer that pulls, whose run is open: the other cluster goes on with it, or is being
// asked for it. What that sends although it does not say so has a Delivery, which keeps others away itself.
func pullUnderWay(transfer *v1alpha1.Transfer) bool {
	phase := transfer.Status.Phase
	return (phase == v1alpha1.TransferStarting || slices.Contains(livePhases, phase)) && !unanswered(transfer) &&
		!meta.IsStatusConditionTrue(transfer.Status.Conditions, v1alpha1.ConditionStalled)
}

// received is a Delivery of the run in status, or nil. The source cluster chooses the run and the attempt that it
// names, so that of an earlier run, which it had kept or says again, must not count for this one.
func received(transfer *v1alpha1.Transfer, delivery *v1alpha1.Delivery) *v1alpha1.Delivery {
	run := transfer.Status.Run
	if delivery == nil || run == nil || run.StartTime == nil {
		return nil
	}
	wanted, is := transfer.Spec.Destination.PersistentVolumeClaim, delivery.Spec.Destination.PersistentVolumeClaim
	// API servers keep whole seconds.
	if delivery.CreationTimestamp.Time.Before(run.StartTime.Truncate(time.Second)) ||
		is.ClaimName != wanted.ClaimName || cleanGrantPath(is.Path) != cleanGrantPath(wanted.Path) {
		return nil
	}
	return delivery
}

func newPullDecision(transfer *v1alpha1.Transfer, facts PullFacts) *transferDecision {
	d := &transferDecision{transfer: transfer.DeepCopy(), facts: TransferFacts{
		Now: facts.Now, NewRunID: facts.NewRunID, Peer: facts.Peer, Others: facts.Others,
	}}
	d.transfer.OwnerReferences = nil // whatever they say, it is no leg
	return d
}

func (d *transferDecision) pullDecision(transfer *v1alpha1.Transfer) PullDecision {
	d.watchObjective()
	d.watchDeadline()
	d.transfer.Status.ObservedGeneration = transfer.Generation
	d.transfer.Status.Peer = transfer.Spec.Source.Peer
	return PullDecision{Status: d.transfer.Status, RequeueAfter: d.out.RequeueAfter}
}

func (d *transferDecision) decidePull(facts PullFacts) {
	defer d.wakeForSchedule()
	problem := d.keepTimetable()
	held, spec, wanted := d.held(), d.transfer.Spec, d.wantsNewRun()
	switch {
	case held == nil && !spec.Suspend && problem == nil && wanted:
		d.beginPull(facts)
	case d.running(): // the other cluster says how it is
	case spec.Pause:
		d.rest(v1alpha1.TransferPaused, *held)
	case spec.Suspend:
		d.rest(v1alpha1.TransferSuspended, hold{v1alpha1.ReasonSuspended,
			"nothing starts while spec.suspend is true; set it to false to go on"})
	case problem != nil:
		d.stall(*problem)
	case held != nil && wanted:
		d.awaitWindow(*held)
	case d.transfer.Status.Run == nil:
		d.set(v1alpha1.TransferScheduled, conditions.Ready(v1alpha1.ReasonScheduled, fmt.Sprintf(
			"the first run starts at %s", d.transfer.Status.Schedule.NextTime.UTC().Format(time.RFC3339))))
	}
}

func (d *transferDecision) beginPull(facts PullFacts) {
	if problem := checkPull(d.transfer, facts); problem != nil {
		d.stall(*problem)
		return
	}
	now, status := metav1.NewTime(d.facts.Now), &d.transfer.Status
	d.leaveReceipt()
	status.Run = &v1alpha1.RunStatus{ID: d.facts.NewRunID, StartTime: &now, Route: v1alpha1.RouteGateway}
	status.Pull = &v1alpha1.PullStatus{Transfer: PulledName(d.transfer)}
	status.LastRunRequest = d.transfer.Annotations[v1alpha1.RunAnnotation]
	d.forgetAttempt()
	d.set(v1alpha1.TransferStarting, conditions.Reconciling(v1alpha1.ReasonPulling, fmt.Sprintf(
		"run %s: the source cluster is being asked", status.Run.ID)))
}

// checkPull looks for what keeps a run from being asked for.
func checkPull(transfer *v1alpha1.Transfer, facts PullFacts) *agentpod.Problem {
	to := transfer.Spec.Destination.PersistentVolumeClaim
	for _, problem := range []*agentpod.Problem{
		agentpod.SpecProblem(ValidateTransfer(transfer.Spec)),
		CheckPeer(transfer.Spec.Source.Peer, facts.Peer),
		checkConflict(transfer, TransferFacts{Now: facts.Now, Others: facts.Others}),
	} {
		if problem != nil {
			return problem
		}
	}
	if facts.Claim == nil || facts.Claim.DeletionTimestamp != nil {
		return &agentpod.Problem{Reason: v1alpha1.ReasonDestinationNotFound, Message: fmt.Sprintf(
			"there is no PersistentVolumeClaim %q in namespace %q; create it there", to.ClaimName, transfer.Namespace)}
	}
	return nil
}

// validatePull checks again what the API server checks of a Transfer that pulls, and what it cannot check.
func validatePull(spec v1alpha1.TransferSpec) error {
	const field = "spec.source.peer"
	source, to, patterns := &spec.Source, &spec.Destination, 0
	for _, pattern := range slices.Concat(spec.Include, spec.Exclude) {
		patterns += len(pattern)
	}
	switch {
	case source.Peer == "" && source.Namespace == "":
		return nil
	case source.Peer == "":
		return &policy.InvalidError{Field: "spec.source.namespace", Fix: "needs spec.source.peer; add that, or remove it"}
	case source.ObjectStore != nil || source.Form != "" || source.Hooks != nil ||
		source.CopyMethod != "" && source.CopyMethod != v1alpha1.CopyDirect:
		return &policy.InvalidError{Field: field, Fix: "reads a claim directly; remove objectStore, form, hooks and " +
			"copyMethod of spec.source, or create a Transfer with them in that cluster"}
	case len(spec.Destinations) > 0 || to.Peer != "" || to.Namespace != "" || to.PersistentVolumeClaim.ClaimName == "" ||
		to.PersistentVolumeClaim.Template != nil || to.Form != "" || to.Snapshot != nil:
		return &policy.InvalidError{Field: field, Fix: "needs as destination a claim of the Transfer's namespace that " +
			"exists; remove peer, namespace, template, form and snapshot of spec.destination"}
	case spec.Compression != nil || spec.PodTemplate != nil:
		return &policy.InvalidError{Field: field, Fix: "has the other cluster make the sending pod, by its own " +
			"CompressionPolicy; remove spec.compression and spec.podTemplate"}
	case patterns > maxPullPatterns:
		return &policy.InvalidError{Field: "spec.include and spec.exclude", Fix: fmt.Sprintf(
			"have %d bytes, and %d are the limit with spec.source.peer; put some together with * or **", patterns,
			maxPullPatterns)}
	case len(source.PersistentVolumeClaim.Path) > maxPullPath || len(to.PersistentVolumeClaim.Path) > maxPullPath:
		return &policy.InvalidError{Field: "path", Fix: fmt.Sprintf(
			"has more than %d bytes, which is the limit with spec.source.peer; use a directory nearer to the root", maxPullPath)}
	}
	return nil
}

// pullRequest asks for the run in status.
func pullRequest(transfer *v1alpha1.Transfer, pause bool) *wirev1.PullRequest {
	spec := transfer.Spec
	from, to := spec.Source.PersistentVolumeClaim, spec.Destination.PersistentVolumeClaim
	options := &wirev1.PullOptions{
		Include: spec.Include, Exclude: spec.Exclude, Delete: spec.Delete, AllowEmptySource: spec.AllowEmptySource,
		Verify: spec.Verify != v1alpha1.VerifyNone, Receipt: spec.Receipt, Streams: natural(spec.Streams),
		BandwidthLimit: bandwidthLimit(spec.BandwidthLimit), MaxAttempts: natural(spec.MaxAttempts),
	}
	if spec.CheckpointInterval != nil {
		options.CheckpointInterval = natural64(spec.CheckpointInterval.Value())
	}
	return &wirev1.PullRequest{
		ProtocolVersion: wirev1.ProtocolVersion, Namespace: transfer.Namespace, Name: transfer.Name,
		Uid: string(transfer.UID), Run: transfer.Status.Run.ID,
		Source:    &wirev1.ClaimPath{Namespace: PullNamespace(transfer), ClaimName: from.ClaimName, Path: from.Path},
		ClaimName: to.ClaimName, Path: cleanGrantPath(to.Path), Pause: pause, Suspend: spec.Suspend, Options: options,
	}
}

// conditionReason is what the API takes for a reason.
var conditionReason = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

// pulledReason is a reason that the other cluster gives.
func pulledReason(given string) string {
	if !conditionReason.MatchString(given) {
		return v1alpha1.ReasonPulling
	}
	return given
}

// livePhases are those in which a run goes on. Pending is none of them: of a Transfer that has a run it means that
// another one is wanted.
var livePhases = []v1alpha1.TransferPhase{
	v1alpha1.TransferQueued, v1alpha1.TransferOpening, v1alpha1.TransferTransferring, v1alpha1.TransferRetrying,
}

func (d *transferDecision) hearPull(answer *wirev1.PullResponse, delivery *v1alpha1.Delivery) {
	status := &d.transfer.Status
	run, reason := status.Run, pulledReason(answer.GetReason())
	message := cmp.Or(answer.GetMessage(), "the source cluster gave no message")
	state := conditions.Reconciling
	if answer.GetStalled() {
		state = conditions.Stalled
	}
	if answer.GetRun() != run.ID {
		status.Pull = &v1alpha1.PullStatus{Transfer: PulledName(d.transfer)}
		// How an earlier run ended says nothing of this one.
		phase := v1alpha1.TransferPhase(answer.GetPhase())
		if answer.GetRun() != "" && (phase == v1alpha1.TransferComplete || phase == v1alpha1.TransferFailed) {
			d.set(v1alpha1.TransferStarting, conditions.Reconciling(v1alpha1.ReasonPulling, fmt.Sprintf(
				"the source cluster has not begun run %s yet", run.ID)))
			return
		}
		if answer.GetRun() != "" && !answer.GetStalled() {
			message = "an earlier run ends first: " + message
		}
		d.set(v1alpha1.TransferStarting, state(reason, message))
		return
	}
	if pulledRun.MatchString(answer.GetRunId()) {
		status.Pull = &v1alpha1.PullStatus{Transfer: PulledName(d.transfer), RunID: answer.GetRunId()}
	}
	run.Attempt, run.Failures = attemptNumber(answer.GetAttempt()), attemptNumber(answer.GetFailures())
	d.mirrorFigures(answer, delivery)
	switch phase := v1alpha1.TransferPhase(answer.GetPhase()); {
	case phase == v1alpha1.TransferComplete:
		d.completePull(answer, delivery)
	case phase == v1alpha1.TransferFailed:
		d.endPull(reason, message)
	case phase == v1alpha1.TransferPaused, phase == v1alpha1.TransferSuspended:
		if held := d.held(); held != nil {
			reason, message = held.reason, held.message
		}
		d.set(phase, conditions.Resting(reason, message))
	case slices.Contains(livePhases, phase):
		d.set(phase, state(reason, message))
	default:
		d.set(v1alpha1.TransferStarting, state(reason, message))
	}
}

// mirrorFigures shows what the source cluster says of the run, and what the Delivery here knows better.
func (d *transferDecision) mirrorFigures(answer *wirev1.PullResponse, delivery *v1alpha1.Delivery) {
	status, report := &d.transfer.Status, answer.GetReport()
	if p := report.GetProgress(); p != nil {
		status.Progress = agentreport.Progress(report, agentreport.Clamp(answer.GetBytesPerSecond()),
			agentreport.Clamp(p.GetResumedBytes()))
	}
	if packed := agentreport.CompressionStatus(report); packed != nil {
		status.Compression = packed
		status.Conditions = conditions.Merge(
			status.Conditions, hardwareCondition(packed, nil), d.transfer.Generation, d.facts.Now,
		)
	}
	if delivery != nil {
		status.Decompression, status.Omissions = delivery.Status.Decompression, delivery.Status.Omissions
	}
	status.History = pulledHistory(status.History, status.Pull.RunID, answer.GetAttempts())
}

// pulledHistory is a history with the attempts of a run as the source cluster has them.
func pulledHistory(
	before []v1alpha1.AttemptRecord, runID string, attempts []*wirev1.PullAttempt,
) []v1alpha1.AttemptRecord {
	var all []v1alpha1.AttemptRecord
	for _, ended := range attempts[:min(len(attempts), maxHistory)] {
		record := v1alpha1.AttemptRecord{
			RunID: runID, Attempt: attemptNumber(ended.GetAttempt()), Reason: pulledReason(ended.GetReason()),
			StartTime: timeOf(ended.GetStartTime()), CompletionTime: timeOf(ended.GetCompletionTime()),
			Bytes:           agentreport.Clamp(ended.GetBytes()),
			CompressedBytes: agentreport.Clamp(ended.GetCompressedBytes()),
			ResumedBytes:    agentreport.Clamp(ended.GetResumedBytes()),
		}
		if record.StartTime != nil && record.CompletionTime != nil && !record.CompletionTime.Before(record.StartTime) {
			record.Duration = &metav1.Duration{Duration: record.CompletionTime.Sub(record.StartTime.Time)}
		}
		all = append(all, record)
	}
	for i := range before {
		if before[i].RunID != runID {
			all = append(all, before[i])
		}
	}
	return all[:min(len(all), maxHistory)]
}

// completePull believes that a run is complete only when this cluster has received it.
func (d *transferDecision) completePull(answer *wirev1.PullResponse, delivery *v1alpha1.Delivery) {
	status := &d.transfer.Status
	switch {
	case delivery == nil || delivery.Status.Phase == v1alpha1.DeliveryFailed:
		d.endPull(v1alpha1.ReasonNotReceived, fmt.Sprintf(
			"the source cluster says that run %s is complete, and no Delivery here is; give the annotation %s a new value to "+
				"run it again", status.Pull.RunID, v1alpha1.RunAnnotation))
		return
	case delivery.Status.Phase != v1alpha1.DeliveryComplete:
		d.set(v1alpha1.TransferTransferring, conditions.Reconciling(v1alpha1.ReasonTransferring,
			"the source cluster has sent everything; the receiving agent ends"))
		return
	}
	now := metav1.NewTime(d.facts.Now)
	status.Run.CompletionTime = &now
	status.RecoveryPoint = status.Run.StartTime.DeepCopy()
	if at := timeOf(answer.GetRecoveryPoint()); at != nil && !at.After(d.facts.Now) {
		status.RecoveryPoint = at
	}
	message := fmt.Sprintf("run %s is complete", status.Run.ID)
	if p := status.Progress; p != nil {
		message += fmt.Sprintf(": %d files, %d bytes, %d files of them unchanged", p.Files, p.Bytes, p.UnchangedFiles)
	}
	d.set(v1alpha1.TransferComplete, conditions.Ready(v1alpha1.ReasonSucceeded, message))
	if asked := d.transfer.Annotations[v1alpha1.RunAnnotation]; asked != "" && asked != status.LastRunRequest {
		d.out.RequeueAfter = time.Second
	}
}

func (d *transferDecision) endPull(reason, message string) {
	now := metav1.NewTime(d.facts.Now)
	d.transfer.Status.Run.CompletionTime = &now
	d.set(v1alpha1.TransferFailed, conditions.Stalled(reason, message))
}

// mirrorReceipt shows the receipt that this cluster has countersigned.
func (d *transferDecision) mirrorReceipt(delivery *v1alpha1.Delivery) {
	status := &d.transfer.Status
	if status.Phase != v1alpha1.TransferComplete || delivery == nil {
		return
	}
	if delivery.Status.Receipt == nil {
		status.Receipt = nil // that of an earlier run
		d.expectReceipt()
		return
	}
	receipt := delivery.Status.Receipt.DeepCopy()
	receipt.Part = ""
	status.Receipt = receipt
	d.expectReceipt()
	if signed := meta.FindStatusCondition(delivery.Status.Conditions, v1alpha1.ConditionReceiptSigned); signed != nil {
		status.Conditions = conditions.Merge(status.Conditions, []metav1.Condition{{
			Type: signed.Type, Status: signed.Status, Reason: signed.Reason, Message: signed.Message,
		}}, d.transfer.Generation, d.facts.Now)
	}
}

func attemptNumber(n uint32) int32 { return int32(min(n, 999_999)) } //nolint:gosec // it is bounded

func timeOf(at *timestamppb.Timestamp) *metav1.Time {
	if at == nil || at.CheckValid() != nil {
		return nil
	}
	t := metav1.NewTime(at.AsTime().Truncate(time.Second))
	if t.Year() < 1970 || t.Year() > 9999 {
		return nil
	}
	return &t
}
