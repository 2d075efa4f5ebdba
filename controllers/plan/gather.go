// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/policy"
	"github.com/lighterage/lighterage/controllers/route"
)

const (
	// gatherPatience is how long destinations that are ready wait for those that are not, before a pod is made.
	gatherPatience = time.Minute
	// gatherSettle is how long what a leg says of the time before may be what it says.
	gatherSettle = 5 * time.Second
	// legsInterval is how often progress of legs is summed up.
	legsInterval = 10 * time.Second
)

// severalResources are those of a pod that sends to several: to what one takes come blocks that wait for receivers, and
// a walk that is kept (see agent/transfer/send).
func severalResources() *corev1.ResourceRequirements {
	return &corev1.ResourceRequirements{
		Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("768Mi")},
	}
}

// legState is how far a leg is, for the next pod.
type legState int

const (
	// legComing: it may soon be ready.
	legComing legState = iota
	legReady
	// legApart: its own pod is at work, or may soon be.
	legApart
	// legBlocked: it waits for somebody, for a quota or for its back-off.
	legBlocked
	legComplete
	legFailed
)

// legState judges a leg by its status.
func (d *transferDecision) legState(to v1alpha1.NamedDestination) legState {
	leg, coming := d.facts.Legs[to.Name].Transfer, legComing
	if to.ObjectStore != nil {
		coming = legApart
	}
	if leg == nil || leg.DeletionTimestamp != nil {
		return coming
	}
	gathering := d.facts.Now
	if at := d.transfer.Status.GatheringTime; at != nil {
		gathering = at.Time
	}
	status := &leg.Status
	stalled := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStalled)
	settled := d.facts.Now.Sub(gathering) >= gatherSettle
	current := status.LastRunRequest == d.transfer.Status.Run.ID
	switch {
	case isReady(leg):
		return legReady
	case status.Queued != nil:
		return legBlocked
	case HasPod(leg) && UnderWay(leg) && current && !stalled:
		return legApart
	case leg.Spec.Suspend:
		return legBlocked
	case status.Run == nil, status.Run.CompletionTime != nil && !current:
		if status.Phase == v1alpha1.TransferPending && stalled && settled {
			return legBlocked
		}
		return coming
	case status.Run.CompletionTime != nil && status.Phase == v1alpha1.TransferComplete:
		return legComplete
	case status.Run.CompletionTime != nil:
		return legFailed
	case status.Run.NextAttemptTime != nil:
		if d.idle() {
			gathering = d.facts.Now // for then gathering would begin again
		}
		if stalled || status.Run.NextAttemptTime.After(gathering.Add(gatherPatience)) {
			return legBlocked
		}
		return coming
	case stalled && settled:
		return legBlocked
	}
	return coming
}

// idle reports whether at the last look nobody was to be gathered while pods of legs were at work.
func (d *transferDecision) idle() bool {
	return d.transfer.Status.GatheringTime != nil && d.transfer.Status.Phase == v1alpha1.TransferTransferring
}

// newGathering forgets for whom the last pod was.
func (d *transferDecision) newGathering() {
	status := &d.transfer.Status
	status.GatheringTime = nil
	for i := range status.Destinations {
		status.Destinations[i].Sent = 0
	}
}

// newDestination: after a run there is a destination that was in none.
func (d *transferDecision) newDestination() bool {
	return d.transfer.Status.Run != nil && slices.ContainsFunc(d.transfer.Spec.Destinations,
		func(to v1alpha1.NamedDestination) bool { return d.facts.Legs[to.Name].Transfer == nil })
}

// gather waits for legs to get ready, and then has a pod made that sends to them.
func (d *transferDecision) gather(where placement.Plan) {
	status := &d.transfer.Status
	d.wantLegs()
	d.showLegs()
	if status.GatheringTime == nil {
		if chosen := d.chosen(); len(chosen) > 0 {
			d.send(where, chosen) // this was decided before
			return
		}
		now := metav1.NewTime(d.facts.Now)
		status.GatheringTime = &now
	}
	ready, states := []string(nil), map[legState]int{}
	for _, to := range d.transfer.Spec.Destinations {
		state := d.legState(to)
		if state == legReady && !d.reachable(to) {
			state = legComing
		}
		states[state]++
		if state == legReady {
			ready = append(ready, to.Name)
		}
	}
	if d.idle() && states[legReady]+states[legComing] > 0 {
		now := metav1.NewTime(d.facts.Now)
		status.GatheringTime = &now
	}
	waited := d.facts.Now.Sub(status.GatheringTime.Time)
	switch {
	case len(ready) > 0 && (states[legComing] == 0 || waited >= gatherPatience):
		for i := range status.Destinations {
			one := &status.Destinations[i]
			if slices.Contains(ready, one.Name) {
				one.Sent = d.facts.Legs[one.Name].Transfer.Status.Run.Attempt
			}
		}
		status.GatheringTime = nil
		d.send(where, ready)
	case len(ready) == 0 && states[legComing] == 0 && states[legBlocked] == 0 && states[legApart] == 0:
		d.endLegs()
	case len(ready) == 0 && states[legComing] == 0 && states[legApart] == 0:
		d.out.RequeueAfter = attempt.StallLast
		d.showBlocked()
	case len(ready) == 0 && states[legComing] == 0:
		d.followLegs()
	default:
		d.out.RequeueAfter = attempt.UntilFirst(waited, gatherSettle, gatherPatience)
		d.set(v1alpha1.TransferStarting, conditions.Reconciling(v1alpha1.ReasonGathering, fmt.Sprintf(
			"%d of %d destinations are ready and wait up to %s for the others", len(ready),
			len(d.transfer.Spec.Destinations), gatherPatience)))
	}
}

// reachable reports whether it is known how the agent of a destination is reached.
func (d *transferDecision) reachable(to v1alpha1.NamedDestination) bool {
	leg := d.facts.Legs[to.Name]
	if to.Peer != "" {
		return leg.Peer != nil && route.Reaches(leg.Peer)
	}
	return leg.Delivery != nil && leg.Delivery.Status.Endpoint != "" && leg.Delivery.Status.ServerName != ""
}

// showBlocked says why nothing goes on.
func (d *transferDecision) showBlocked() {
	stuck := true
	var why []string
	for _, to := range d.transfer.Spec.Destinations {
		leg := d.facts.Legs[to.Name].Transfer
		if d.legState(to) != legBlocked {
			continue
		}
		stuck = stuck && meta.IsStatusConditionTrue(leg.Status.Conditions, v1alpha1.ConditionStalled)
		if ready := meta.FindStatusCondition(leg.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
			why = append(why, fmt.Sprintf("%s waits with %s: %s", to.Name, ready.Reason, ready.Message))
		}
	}
	message := conditions.Shorten(strings.Join(why, "; "))
	if stuck {
		d.set(v1alpha1.TransferStarting, conditions.Stalled(v1alpha1.ReasonGathering, message))
		return
	}
	d.set(v1alpha1.TransferStarting, conditions.Reconciling(v1alpha1.ReasonGathering, message))
}

// chosen are the destinations that a pod which may not exist yet is for.
func (d *transferDecision) chosen() []string {
	var names []string
	for _, to := range d.transfer.Spec.Destinations {
		leg := d.facts.Legs[to.Name].Transfer
		if leg != nil && Sends(d.transfer, leg) && UnderWay(leg) && d.reachable(to) {
			names = append(names, to.Name)
		}
	}
	return names
}

// send has the pod made. The first destination decides how it compresses in mode Auto.
func (d *transferDecision) send(where placement.Plan, names []string) {
	run := d.transfer.Status.Run
	spec := sendSpec(d.transfer, where, d.image)
	if spec.Template.Resources == nil {
		spec.Template.Resources = severalResources()
	}
	first := d.facts.Legs[names[0]].Transfer
	config := sendConfig(first, policy.Kept(first.Status.Policy))
	config.RunId, config.Attempt, config.Destination, config.BandwidthLimit, config.Form = "", 0, nil, 0, 0
	for _, name := range names {
		leg := d.facts.Legs[name]
		own := sendConfig(leg.Transfer, policy.Kept(leg.Transfer.Status.Policy))
		receiver := &wirev1.SendReceiver{
			Name: name, RunId: own.GetRunId(), Attempt: own.GetAttempt(), Destination: own.GetDestination(),
			BandwidthLimit: own.GetBandwidthLimit(), Form: own.GetForm(),
		}
		if leg.Peer != nil {
			to, _ := route.To(leg.Peer, d.image.Tunnels)
			receiver.GatewayEndpoint, receiver.GatewayTunnel = to.Endpoint, to.Tunnel
		} else {
			receiver.ReceiverEndpoint, receiver.ReceiverServerName = leg.Delivery.Status.Endpoint, leg.Delivery.Status.ServerName
		}
		config.Receivers = append(config.Receivers, receiver)
	}
	spec.Config = config
	d.out.Start = attempt.New(spec)
	_ = attempt.Certify(run, d.facts.Now, d.facts.CertificateLifetime)
	d.starting(v1alpha1.ReasonStarting, fmt.Sprintf(
		"attempt %d of run %s: the pod that sends to %d destinations is being started", run.Attempt, run.ID, len(names)))
}

// followLegs looks after a pod that runs, or those that legs have.
func (d *transferDecision) followLegs() {
	d.wantLegs()
	d.out.RequeueAfter = legsInterval
	run, complete := d.transfer.Status.Run, 0
	for _, to := range d.transfer.Spec.Destinations {
		if d.legState(to) == legComplete {
			complete++
		}
	}
	d.set(v1alpha1.TransferTransferring, conditions.Reconciling(v1alpha1.ReasonTransferring, fmt.Sprintf(
		"attempt %d of run %s: %d of %d destinations are complete", run.Attempt, run.ID, complete,
		len(d.transfer.Spec.Destinations))))
}

// podEnded goes on with those who did not get everything, when all have taken note of how it ended. Without a Job there
// is nothing to take note of for those that have not seen the pod.
func (d *transferDecision) podEnded() {
	for name, leg := range Receivers(d.transfer, d.facts.Legs) {
		if UnderWay(leg.Transfer) && (d.facts.Job != nil || !isReady(leg.Transfer)) {
			d.out.RequeueAfter = legsInterval
			d.set(d.transfer.Status.Phase, conditions.Reconciling(v1alpha1.ReasonTransferring, fmt.Sprintf(
				"the pod has ended, and what it did for destination %q is being looked at", name)))
			return
		}
	}
	unfinished := slices.ContainsFunc(d.transfer.Spec.Destinations, func(to v1alpha1.NamedDestination) bool {
		state := d.legState(to)
		return state != legComplete && state != legFailed
	})
	if !unfinished {
		d.endLegs()
		return
	}
	run := d.transfer.Status.Run
	run.Attempt++
	run.Node, run.Architecture = "", ""
	d.newGathering()
	d.set(v1alpha1.TransferStarting, conditions.Reconciling(v1alpha1.ReasonGathering,
		"the pod has ended, and another one follows for destinations that did not get everything"))
	d.out.RequeueAfter = time.Millisecond
}

// endLegs ends the run: all legs have.
func (d *transferDecision) endLegs() {
	status := &d.transfer.Status
	status.GatheringTime = nil
	d.showLegs()
	if status.Progress != nil {
		status.Progress.ETA = nil
	}
	var failed []string
	for _, to := range d.transfer.Spec.Destinations {
		if d.legState(to) == legFailed {
			failed = append(failed, to.Name)
		}
	}
	if len(failed) == 0 {
		d.complete()
		return
	}
	now := metav1.NewTime(d.facts.Now)
	status.Run.CompletionTime = &now
	d.set(v1alpha1.TransferFailed, conditions.Stalled(v1alpha1.ReasonDestinationsFailed, conditions.Shorten(fmt.Sprintf(
		"%d of %d destinations did not get everything: %s; see status.destinations, fix the cause and give the annotation "+
			"%s a new value", len(failed), len(d.transfer.Spec.Destinations), strings.Join(failed, ", "),
		v1alpha1.RunAnnotation))))
}

// wantLegs has legs made and changed.
func (d *transferDecision) wantLegs() {
	d.out.Legs = nil
	for _, to := range d.transfer.Spec.Destinations {
		wanted := legOf(d.transfer, to)
		present := d.facts.Legs[to.Name].Transfer
		if present != nil && leadsElsewhere(present, wanted) {
			continue // dismissed
		}
		if present == nil || present.DeletionTimestamp == nil && (!equality.Semantic.DeepEqual(present.Spec, wanted.Spec) ||
			present.Annotations[v1alpha1.RunAnnotation] != wanted.Annotations[v1alpha1.RunAnnotation]) {
			d.out.Legs = append(d.out.Legs, wanted)
		}
	}
}

// leadsElsewhere: the destination was removed, and another one was added under its name before anybody looked.
func leadsElsewhere(present *v1alpha1.Transfer, wanted v1alpha1.Transfer) bool {
	return !equality.Semantic.DeepEqual(present.Spec.Destination, wanted.Spec.Destination)
}

// dismissLegs has legs of destinations deleted that were removed.
func (d *transferDecision) dismissLegs() {
	for name, leg := range d.facts.Legs {
		wanted := slices.ContainsFunc(d.transfer.Spec.Destinations, func(to v1alpha1.NamedDestination) bool {
			return to.Name == name && (leg.Transfer == nil || !leadsElsewhere(leg.Transfer, legOf(d.transfer, to)))
		})
		if !wanted && leg.Transfer != nil && leg.Transfer.DeletionTimestamp == nil {
			d.out.Dismiss = append(d.out.Dismiss, *leg.Transfer)
		}
	}
}

// showLegs sums up the legs in status.
func (d *transferDecision) showLegs() {
	status := &d.transfer.Status
	sent := map[string]int32{}
	for i := range status.Destinations {
		sent[status.Destinations[i].Name] = status.Destinations[i].Sent
	}
	status.Destinations = nil
	var sum *v1alpha1.Progress
	for _, to := range d.transfer.Spec.Destinations {
		one := v1alpha1.DestinationStatus{
			Name: to.Name, Transfer: LegName(d.transfer.Name, to.Name), Peer: peerName(to.Peer), Sent: sent[to.Name],
		}
		if leg := d.facts.Legs[to.Name].Transfer; leg != nil {
			showLeg(&one, leg)
			if run := status.Run; run != nil && leg.Status.LastRunRequest == run.ID && leg.Status.Progress != nil {
				sum = addProgress(sum, leg.Status.Progress)
			}
		}
		status.Destinations = append(status.Destinations, one)
	}
	// A destination that was removed is forgotten when its leg is gone.
	for name, leg := range d.facts.Legs {
		if _, known := sent[name]; known && leg.Transfer != nil && destinationOf(d.transfer, leg.Transfer.Name) == "" {
			one := v1alpha1.DestinationStatus{Name: name, Transfer: leg.Transfer.Name}
			showLeg(&one, leg.Transfer)
			status.Destinations = append(status.Destinations, one)
		}
	}
	status.Progress = sum
}

func showLeg(one *v1alpha1.DestinationStatus, leg *v1alpha1.Transfer) {
	status := &leg.Status
	one.Phase = status.Phase
	if ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); ready != nil {
		one.Reason, one.Message = ready.Reason, ready.Message
	}
	if run := status.Run; run != nil {
		one.RunID, one.Attempt, one.Failures = run.ID, run.Attempt, run.Failures
		one.CompletionTime = run.CompletionTime.DeepCopy()
		if IsLocal(leg) && IntoClaim(leg) {
			one.Delivery = LocalDelivery(leg).Name
		}
	}
	if p := status.Progress; p != nil {
		one.Percent, one.Files, one.Bytes, one.BytesTotal = p.Percent, p.Files, p.Bytes, p.BytesTotal
	}
	if status.Receipt != nil {
		one.Receipt = status.Receipt.ConfigMapName
	}
}

// addProgress adds the progress of a leg to that of others. The sum is over all destinations.
func addProgress(sum, p *v1alpha1.Progress) *v1alpha1.Progress {
	if sum == nil {
		sum = &v1alpha1.Progress{}
	}
	add := agentreport.Saturated
	sum.Files, sum.FilesTotal = add(sum.Files, p.Files), add(sum.FilesTotal, p.FilesTotal)
	sum.Bytes, sum.BytesTotal = add(sum.Bytes, p.Bytes), add(sum.BytesTotal, p.BytesTotal)
	sum.PartialBytes, sum.BytesPerSecond = add(sum.PartialBytes, p.PartialBytes), add(sum.BytesPerSecond, p.BytesPerSecond)
	sum.UnchangedFiles = add(sum.UnchangedFiles, p.UnchangedFiles)
	sum.UnchangedBytes = add(sum.UnchangedBytes, p.UnchangedBytes)
	sum.ResumedBytes, sum.ResentBytes = add(sum.ResumedBytes, p.ResumedBytes), add(sum.ResentBytes, p.ResentBytes)
	sum.Removed, sum.ReusedBytes = add(sum.Removed, p.Removed), add(sum.ReusedBytes, p.ReusedBytes)
	sum.HoleBytes = add(sum.HoleBytes, p.HoleBytes)
	if p.ETA != nil && (sum.ETA == nil || p.ETA.Duration > sum.ETA.Duration) {
		sum.ETA = p.ETA
	}
	switch {
	case sum.BytesTotal > 0:
		sum.Percent = int32(min(float64(sum.Bytes)/float64(sum.BytesTotal)*100, 100))
	case sum.FilesTotal > 0:
		sum.Percent = int32(min(float64(sum.Files)/float64(sum.FilesTotal)*100, 100))
	}
	return sum
}
