// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"net"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/quota"
	"github.com/lighterage/lighterage/controllers/usage"
)

// DeliveryFacts are what was seen.
type DeliveryFacts struct {
	Now time.Time
	// CertificateLifetime is how long certificates of agents are valid.
	CertificateLifetime time.Duration
	// Peer is nil when it does not exist; so is Claim, the destination.
	Peer  *v1alpha1.Peer
	Claim *corev1.PersistentVolumeClaim
	// ClaimRefusal says that no PeerGrant lets the claim of the template be created, or made larger, and what to do; empty
	// when one does. It and, past the cache, the Claim are looked at where DeliveryNeedsTemplate.
	ClaimRefusal string
	// Refusal says that no PeerGrant allows the Delivery, and what to do; empty when it is allowed. It is looked at
	// before the agent starts.
	Refusal string
	// PrivilegeAllowed: the namespace is annotated so that agents may have privilege.
	PrivilegeAllowed bool
	// Others are the namespace's Deliveries into the claim that have not ended; the Delivery itself may be among them.
	// Transfers are those that OccupiesClaim. They are looked at until the run has begun.
	Others    []v1alpha1.Delivery
	Transfers []v1alpha1.Transfer
	// Job and Pod of the Delivery; nil when they do not exist.
	Job *batchv1.Job
	Pod *corev1.Pod
	// Report is what the agent answered last; nil when it has not, or is silent.
	Report *wirev1.Report
	// Early: progress was shown a short while ago, so a report of nothing else is shown later.
	Early bool
	// Silent: the agent runs and has not answered for some time.
	Silent  bool
	Samples agentreport.Samples
	// Network and NodeLabels are of the node that the agent is on; nil when they are not known.
	Network    *usage.NetworkCost
	NodeLabels map[string]string
	Tariffs    []v1alpha1.Tariff
	// Placement is what the nodes are like; it is looked at only where attempt.NeedsPlacement.
	Placement placement.Facts
	Quota     QuotaFacts
	// History is looked at only where DeliveryNeedsHistory.
	History HistoryFacts
	// Retention is how long a Delivery stays after it has ended; 0 for ever.
	Retention time.Duration
}

// DeliveryDecision is what to do.
type DeliveryDecision struct {
	// Ask, if set, must be admitted first: nothing else counts until it is decided again with the answer in QuotaFacts.
	Ask *quota.Request
	// Status to write, before anything is made.
	Status v1alpha1.DeliveryStatus
	// Detail is what only this cluster's people may know beyond the conditions, for an event; empty if there is none.
	Detail string
	// Provision is what is to be done about the claim, before Start; nil: nothing.
	Provision *Provision
	// History is what is to be done about the snapshots of the claim; nil: nothing.
	History *HistoryStep
	// Start is the attempt that must exist; nil when none has to be made.
	Start *attempt.Attempt
	// Renew is true when the certificate of the agent that runs is to be renewed, before Status is written.
	Renew bool
	// Ended is true when the agent has ended just now. Its Secret is to be removed before Status is written, after
	// which nobody would look for it.
	Ended bool
	// Final is what the agent that has ended reported last, for metrics: of one that was killed what status has. It is
	// nil if none has ended.
	Final *wirev1.Report
	// Clear is true when the Delivery is complete and its Job still there, which is to be removed, after Status is
	// written.
	Clear bool
	// Expired is true when the Delivery has been kept long enough and is to be deleted.
	Expired bool
	// Later is true when Status does not show Report yet, which has nothing but progress.
	Later bool
	// RequeueAfter is when to look again if nothing happens before; 0 for never.
	RequeueAfter time.Duration
}

// DecideDelivery is the heart of the Delivery controller. It does not change its arguments.
func DecideDelivery(delivery *v1alpha1.Delivery, facts DeliveryFacts, image agentpod.Image) DeliveryDecision {
	facts.Report = agentreport.Bounded(facts.Report)
	d := &deliveryDecision{delivery: delivery.DeepCopy(), facts: facts, image: image}
	d.decide()
	if d.out.Start != nil {
		d.out.Start.Know(facts.Placement.Profiles)
		d.out.Start.UseDevices(false, attempt.IsBlock(facts.Claim))
	}
	d.out.Status = d.delivery.Status
	d.out.Status.ObservedGeneration = delivery.Generation
	d.out.Status.Peer = peerName(delivery.Spec.Peer)
	if facts.Report != nil && facts.Early &&
		equality.Semantic.DeepEqual(deliveryState(d.out.Status), deliveryState(delivery.Status)) {
		d.out.Status, d.out.Later = delivery.Status, true
	}
	d.out.Clear = facts.Job != nil && d.out.Status.Phase == v1alpha1.DeliveryComplete
	return d.out
}

type deliveryDecision struct {
	delivery *v1alpha1.Delivery
	facts    DeliveryFacts
	image    agentpod.Image
	out      DeliveryDecision
}

// DeliveryEnded reports whether a Delivery will receive no more.
func DeliveryEnded(delivery *v1alpha1.Delivery) bool {
	return delivery.Status.Phase == v1alpha1.DeliveryComplete || delivery.Status.Phase == v1alpha1.DeliveryFailed
}

func (d *deliveryDecision) decide() {
	switch {
	case DeliveryEnded(d.delivery):
		d.keepHistory()
		d.retain()
	case d.delivery.Status.Run == nil:
		d.admit()
	default:
		d.follow()
	}
}

// retain keeps a Delivery that has ended for people to look at.
func (d *deliveryDecision) retain() {
	completed := d.delivery.Status.Run
	if d.facts.Retention <= 0 || DeliveryNeedsHistory(d.delivery) {
		return
	}
	since := d.delivery.CreationTimestamp.Time
	if completed != nil && completed.CompletionTime != nil {
		since = completed.CompletionTime.Time
	}
	left := since.Add(d.facts.Retention).Sub(d.facts.Now)
	if left <= 0 {
		d.out.Expired = true
		return
	}
	d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, left)
}

// admit starts the agent, or refuses, or waits for what an earlier attempt left.
func (d *deliveryDecision) admit() {
	spec := d.delivery.Spec
	claim := spec.Destination.PersistentVolumeClaim.ClaimName
	switch {
	case !IsGenuine(d.delivery):
		d.fail(v1alpha1.ReasonInvalidSpec, "the name or the labels of this Delivery are not those of the attempt that its "+
			"spec names; delete it and make a Transfer: the gateway or the manager makes its Delivery")
		return
	case d.peerGone():
		d.fail(v1alpha1.ReasonPeerNotFound, fmt.Sprintf("Peer %q does not exist any more", spec.Peer))
		return
	case d.facts.Refusal != "": // before anything is said of what exists
		d.fail(v1alpha1.ReasonNotGranted, d.facts.Refusal)
		return
	case d.facts.Claim == nil && spec.Destination.Template == nil,
		d.facts.Claim != nil && d.facts.Claim.DeletionTimestamp != nil:
		d.fail(v1alpha1.ReasonDestinationNotFound, fmt.Sprintf(
			"there is no PersistentVolumeClaim %q in namespace %q of the receiving cluster; create it there", claim,
			d.delivery.Namespace))
		return
	case attempt.IsBlock(d.facts.Claim) && attempt.RelativePath(spec.Destination.PersistentVolumeClaim.Path) != ".":
		// A PeerGrant may allow that directory and nothing beside it.
		d.fail(v1alpha1.ReasonInvalidSpec, fmt.Sprintf(
			"PersistentVolumeClaim %q has volumeMode: Block, which has no directories; make a Transfer without "+
				"spec.destination.persistentVolumeClaim.path, for which the PeerGrant must allow the path /", claim))
		return
	}
	if problem := checkReceivedMode(d.delivery, d.facts.Claim); problem != "" {
		d.fail(v1alpha1.ReasonVolumeModeMismatch, problem)
		return
	}
	for i := range d.facts.Others {
		other := &d.facts.Others[i]
		if !d.inTheWay(other) {
			continue
		}
		if sameTransfer(other, d.delivery) || other.DeletionTimestamp != nil {
			d.out.RequeueAfter = endingInterval
			d.set(v1alpha1.DeliveryPending, conditions.Reconciling(v1alpha1.ReasonPending,
				"another Delivery, which writes into the same place, is being ended"))
			return
		}
		// The gateway passes the message on to the sender, whom the other peer's Transfers do not concern.
		d.out.Detail = fmt.Sprintf("Delivery %q from %s writes into %q of the same claim",
			other.Name, peerName(other.Spec.Peer), other.Spec.Destination.PersistentVolumeClaim.Path)
		d.fail(v1alpha1.ReasonDestinationInUse,
			"another Delivery writes into the same place of this claim; wait until it has ended, or choose a path outside of it")
		return
	}
	if message := d.awaitedFirst(); message != "" {
		d.out.RequeueAfter = endingInterval
		d.set(v1alpha1.DeliveryPending, conditions.Reconciling(v1alpha1.ReasonTakingSnapshot, message))
		return
	}
	for i := range d.facts.Transfers {
		other := &d.facts.Transfers[i]
		destination := other.Spec.Destination.PersistentVolumeClaim
		if !OccupiesClaim(other) || isOwnDelivery(other, d.delivery) || destination.ClaimName != claim ||
			!Overlap(destination.Path, spec.Destination.PersistentVolumeClaim.Path) {
			continue
		}
		if !UnderWay(other) {
			if !awaited(other, d.facts.Now) {
				continue
			}
			d.out.RequeueAfter = endingInterval
			d.out.Detail = fmt.Sprintf("the VolumeSnapshot of the claim after the last run of Transfer %q is to be taken first",
				other.Name)
			d.set(v1alpha1.DeliveryPending, conditions.Reconciling(v1alpha1.ReasonTakingSnapshot, awaitedElsewhere))
			return
		}
		d.out.Detail = fmt.Sprintf(
			"Transfer %q of this namespace writes into %q of the same claim", other.Name, destination.Path,
		)
		d.fail(v1alpha1.ReasonDestinationInUse,
			"a Transfer within the receiving cluster writes into the same place of this claim; wait until it has ended, or "+
				"choose a path outside of it")
		return
	}
	if !d.admitted() {
		return
	}
	now := metav1.NewTime(d.facts.Now)
	d.delivery.Status.Run = &v1alpha1.RunStatus{ID: spec.Transfer.Run, Attempt: spec.Transfer.Attempt, StartTime: &now}
	d.start()
}

// peerGone: the Peer whose CA vouched for the sender does not exist any more.
func (d *deliveryDecision) peerGone() bool {
	return d.delivery.Spec.Peer != "" && d.facts.Peer == nil
}

// inTheWay: another Delivery may still write into the same place, and has it by right: it was first, or it is of an
// older attempt.
func (d *deliveryDecision) inTheWay(other *v1alpha1.Delivery) bool {
	mine, theirs := d.delivery.Spec.Destination.PersistentVolumeClaim, other.Spec.Destination.PersistentVolumeClaim
	if other.UID == d.delivery.UID || mine.ClaimName != theirs.ClaimName || !Overlap(mine.Path, theirs.Path) {
		return false
	}
	if DeliveryEnded(other) {
		return false
	}
	return other.Status.Run != nil || olderDelivery(other, d.delivery)
}

func olderDelivery(a, b *v1alpha1.Delivery) bool {
	if sameTransfer(a, b) && a.Spec.Transfer.Run == b.Spec.Transfer.Run {
		return a.Spec.Transfer.Attempt < b.Spec.Transfer.Attempt
	}
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.UID < b.UID
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

func sameTransfer(a, b *v1alpha1.Delivery) bool {
	return a.Spec.Peer == b.Spec.Peer && a.Spec.Transfer.Namespace == b.Spec.Transfer.Namespace &&
		a.Spec.Transfer.Name == b.Spec.Transfer.Name
}

func (d *deliveryDecision) start() {
	provision, ok := d.destination()
	if !ok {
		return
	}
	d.out.Provision = provision
	where := placement.Decide(receivePlacement(d.image), d.facts.Placement)
	d.delivery.Status.Placement = attempt.Expected(where)
	_ = attempt.Certify(d.delivery.Status.Run, d.facts.Now, d.facts.CertificateLifetime)
	d.out.Start = ReceiveAttempt(d.delivery, d.facts.PrivilegeAllowed, where, d.image)
	if d.facts.Peer != nil {
		d.out.Start.Revoke(d.facts.Peer.Spec.RevokedBefore)
	}
	d.out.RequeueAfter = attempt.StartGrace
	message := "the agent's pod is being started"
	if d.delivery.Spec.Privilege == v1alpha1.AgentPrivilegeKeepOwners && !d.facts.PrivilegeAllowed {
		// The Delivery goes on, as what its agent cannot keep is counted; whoever wants it kept reads how.
		message = fmt.Sprintf("the agent's pod is being started without the privilege to keep owners that the Transfer "+
			"asks for; to give it, annotate namespace %q of the receiving cluster with %s: \"true\"", d.delivery.Namespace,
			v1alpha1.AllowPrivilegedAnnotation)
	}
	d.set(v1alpha1.DeliveryStarting, conditions.Reconciling(v1alpha1.ReasonStarting, message))
}

func (d *deliveryDecision) follow() {
	state := attempt.Observe(d.facts.Job, d.facts.Pod).Heard(d.facts.Report)
	status := &d.delivery.Status
	if state.Node != "" {
		status.Run.Node = state.Node
		status.Placement = attempt.Placed(status.Placement, state.Node, func(node string) v1alpha1.PlacementStatus {
			return placement.Explain(receivePlacement(d.image), attempt.AsPlanned(d.facts.Placement, d.facts.Job), node)
		})
	}
	status.Endpoint, status.ServerName = "", ""
	// An agent that has answered serves the sender, too, which the kubelet says up to a second later.
	if state.Phase == attempt.Running && (state.Ready || d.facts.Report != nil) {
		status.Endpoint = net.JoinHostPort(state.IP, strconv.Itoa(agentpod.DataPort))
		status.ServerName = pki.ReceiveServerName(string(d.delivery.UID))
	}
	switch state.Phase {
	case attempt.Absent:
		if status.Phase != v1alpha1.DeliveryStarting || status.Run.Node != "" || d.peerGone() {
			d.finish(attempt.Lost("the agent's Job was deleted by somebody else"))
			return
		}
		present := d.delivery.Status.Conditions
		d.start()
		if conditions.Refused(present) {
			// What they say stays until the start is not refused any more.
			d.delivery.Status.Conditions = present
		}
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

// renew has the certificate of the agent renewed when it is due. Without the Peer there is no sender to show it to.
func (d *deliveryDecision) renew() {
	if d.peerGone() {
		return
	}
	run := d.delivery.Status.Run
	d.out.Renew = attempt.Certify(run, d.facts.Now, d.facts.CertificateLifetime)
	d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, attempt.UntilRenewal(run, d.facts.Now,
		d.facts.CertificateLifetime))
}

func (d *deliveryDecision) followStarting(state attempt.State) {
	waited := d.facts.Now.Sub(state.Since)
	d.out.RequeueAfter = attempt.UntilFirst(waited, attempt.StartGrace)
	if state.Stuck != nil && state.Stuck.Reason == v1alpha1.ReasonUnschedulable {
		d.delivery.Status.Placement = attempt.Expected(attempt.Waiting(receivePlacement(d.image), d.facts.Placement,
			d.facts.Job))
	}
	if state.Stuck == nil || waited < attempt.StartGrace && state.Stuck.Reason != v1alpha1.ReasonUnschedulable {
		d.set(v1alpha1.DeliveryStarting, conditions.Reconciling(v1alpha1.ReasonStarting, "the agent's pod is being started"))
		return
	}
	// Not Stalled: the gateway would refuse the sender, and here the scheduler or the kubelet may still succeed.
	d.set(v1alpha1.DeliveryStarting, conditions.Reconciling(state.Stuck.Reason, state.Stuck.Message))
}

func (d *deliveryDecision) followRunning() {
	report := d.facts.Report
	if report == nil {
		if !d.facts.Silent {
			return
		}
		if d.delivery.Status.Phase == v1alpha1.DeliveryStarting {
			d.set(v1alpha1.DeliveryStarting, conditions.Reconciling(v1alpha1.ReasonStarting,
				"the agent runs and has not answered the manager yet; a NetworkPolicy must let the manager reach its port 9443"))
		} else {
			d.delivery.Status.Progress = withoutRate(d.delivery.Status.Progress)
			d.set(d.delivery.Status.Phase, attempt.Silent(d.delivery.Status.Conditions))
		}
		return
	}
	if report.GetState() == wirev1.AgentState_AGENT_STATE_WAITING {
		d.apply(report, 0)
		d.set(
			v1alpha1.DeliveryWaiting,
			conditions.Reconciling(v1alpha1.ReasonOpening, "the agent waits for the sender to connect"),
		)
		return
	}
	d.apply(report, d.facts.Samples.Rate())
	if report.GetState() == wirev1.AgentState_AGENT_STATE_FAILED {
		return // Its pod is about to say so.
	}
	d.set(v1alpha1.DeliveryReceiving, conditions.Reconciling(v1alpha1.ReasonTransferring, "data is arriving"))
}

func (d *deliveryDecision) apply(report *wirev1.Report, rate int64) {
	status := &d.delivery.Status
	if report.GetArchitecture() != "" {
		status.Run.Architecture = report.GetArchitecture()
	}
	if report.GetProgress() != nil {
		status.Progress = agentreport.Progress(report, rate, agentreport.Clamp(report.GetProgress().GetResumedBytes()))
	}
	if packed := agentreport.CompressionStatus(report); packed != nil {
		status.Compression = packed
	}
	if inflated := agentreport.DecompressionStatus(report); inflated != nil {
		status.Decompression = inflated
	}
	stack := d.facts.Network.Nanos(report)
	if stack != nil {
		*stack += d.gateways(report)
	}
	if spent := agentreport.CPUStatus(report, stack); spent != nil {
		spent.SendSeconds, spent.CompressSeconds = "", ""
		status.CPU = spent
	}
	d.charge(report)
	status.Receipt = receiptStatus(report)
	if left := agentreport.Omissions(report); left != nil {
		status.Omissions = left
	}
}

func (d *deliveryDecision) finish(report *wirev1.Report) {
	status, now := &d.delivery.Status, metav1.NewTime(d.facts.Now)
	progressed := report.GetProgress()
	d.apply(report, agentreport.WholeRate(report, progressed.GetBytes()-min(progressed.GetBytes(),
		progressed.GetUnchangedBytes())))
	if status.Progress != nil {
		status.Progress.ETA = nil
	}
	status.Run.CompletionTime = &now
	d.out.Ended, d.out.Final = true, report
	if report.GetCpu() == nil { // it was killed
		d.out.Final = usage.FromStatus(status.Usage).Report()
	}
	if report.GetState() == wirev1.AgentState_AGENT_STATE_SUCCEEDED {
		d.set(v1alpha1.DeliveryComplete, conditions.Ready(v1alpha1.ReasonSucceeded, "everything was received and synced"))
		d.announceSnapshot()
		d.retain()
		return
	}
	d.fail(agentreport.FailureReason(report.GetFailure().GetReason()), report.GetFailure().GetMessage())
	if report.GetFailure().GetReason() == wirev1.FailureReason_FAILURE_REASON_PAUSED {
		d.set(v1alpha1.DeliveryFailed, conditions.Resting(v1alpha1.ReasonPaused,
			"the sending cluster has paused the run; what was received stays, and the next attempt has another Delivery"))
	}
}

// fail is final for a Delivery: the sender's next attempt gets a new one.
func (d *deliveryDecision) fail(reason, message string) {
	if message == "" {
		message = "the agent gave no message"
	}
	if d.delivery.Status.Run == nil {
		now := metav1.NewTime(d.facts.Now)
		d.delivery.Status.Run = &v1alpha1.RunStatus{
			ID: d.delivery.Spec.Transfer.Run, Attempt: d.delivery.Spec.Transfer.Attempt, CompletionTime: &now,
		}
	}
	d.delivery.Status.Endpoint, d.delivery.Status.ServerName = "", ""
	d.set(v1alpha1.DeliveryFailed, conditions.Stalled(reason, message))
	d.retain()
}

func (d *deliveryDecision) set(phase v1alpha1.DeliveryPhase, wanted []metav1.Condition) {
	d.delivery.Status.Phase = phase
	d.delivery.Status.Conditions = conditions.Merge(
		d.delivery.Status.Conditions, wanted, d.delivery.Generation, d.facts.Now,
	)
}

const (
	// endingInterval is the time between two looks at what is being ended, in case no event tells of its end.
	endingInterval = 5 * time.Second
)
