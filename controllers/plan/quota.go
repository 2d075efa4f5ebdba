// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/quota"
)

// QuotaFacts are what limits the namespace, and what it answered.
type QuotaFacts struct {
	// Quotas of the namespace. Where there are none, nothing has to be admitted.
	Quotas []v1alpha1.DataQuota
	// Answer to the Ask of a decision; nil when nothing was asked yet.
	Answer *quota.Answer
}

// admitted reports whether an attempt may begin that takes a route. It may not before the answer is known, or when that
// is no.
func (d *transferDecision) admitted(route v1alpha1.Route) bool {
	if HasLegs(d.transfer) {
		return true // each leg is
	}
	d.bandwidth = d.transfer.Spec.BandwidthLimit
	if len(d.facts.Quota.Quotas) == 0 {
		return true
	}
	if _, holds := quota.TransferHolds(d.transfer); holds {
		d.keepBandwidth()
		return true
	}
	answer := d.facts.Quota.Answer
	if answer == nil {
		request := quota.TransferRequest(d.transfer, route)
		d.out.Ask = &request
		return false
	}
	if answer.Exceeded != nil {
		d.queue(route, *answer.Exceeded)
		return false
	}
	if limit := d.bandwidth; answer.Bandwidth != quota.Unlimited && (limit == nil || limit.Value() > answer.Bandwidth) {
		d.bandwidth = resource.NewQuantity(answer.Bandwidth, resource.BinarySI)
	}
	return true
}

// keepBandwidth keeps the next attempt of a run within what the run was granted, whatever the spec says now.
func (d *transferDecision) keepBandwidth() {
	granted := d.transfer.Status.Run.BandwidthLimit
	limited := false
	for i := range d.facts.Quota.Quotas {
		limited = limited || d.facts.Quota.Quotas[i].Spec.Hard.Bandwidth != nil
	}
	if limited && granted != nil && (d.bandwidth == nil || d.bandwidth.Cmp(*granted) > 0) {
		d.bandwidth = granted
	}
}

// changeLimit has the agent that runs take another limit of bandwidth, as far as the run was granted it.
func (d *transferDecision) changeLimit() {
	run := d.transfer.Status.Run
	if d.facts.Report == nil {
		return
	}
	d.bandwidth = d.transfer.Spec.BandwidthLimit
	d.keepBandwidth()
	if !equality.Semantic.DeepEqual(d.bandwidth, run.BandwidthLimit) {
		run.BandwidthLimit, d.out.Limit = d.bandwidth, true
	}
}

// queue has a run, or its next attempt, wait until the namespace has what it needs. Events wake it up.
func (d *transferDecision) queue(route v1alpha1.Route, exceeded quota.Exceeded) {
	queued := &v1alpha1.QueuedStatus{Time: metav1.NewTime(d.facts.Now), Route: route}
	if before := d.transfer.Status.Queued; before != nil {
		queued.Time = before.Time
	}
	phase := v1alpha1.TransferPending
	if d.running() {
		phase = v1alpha1.TransferRetrying
	}
	wait := conditions.Reconciling
	if exceeded.Never() {
		wait = conditions.Stalled
	}
	d.out.RequeueAfter = attempt.StallLast
	d.set(phase, wait(v1alpha1.ReasonQuotaExceeded, transferExceeds(exceeded)))
	d.transfer.Status.Queued = queued
}

// transferExceeds says which limit a Transfer waits for.
func transferExceeds(e quota.Exceeded) string {
	limit := e.Resource.Text(e.Limit)
	switch {
	case e.Resource == quota.RunningTransfers && e.Never():
		return fmt.Sprintf("%s %q allows no running Transfers in this namespace; ask the platform team to raise spec.hard.%s",
			e.Kind, e.Name, e.Resource)
	case e.Resource == quota.RunningTransfers:
		return fmt.Sprintf("%s %q allows %s running Transfers in this namespace (spec.hard.%s), and all are taken; this one "+
			"starts by itself when it is its turn, first come, first served", e.Kind, e.Name, limit, e.Resource)
	default:
		return fmt.Sprintf("%s %q allows %s bytes per second in this namespace (spec.hard.%s); this Transfer needs %s of "+
			"them, and less is free or kept for Transfers that have waited for longer; it starts by itself when it is its "+
			"turn; a smaller spec.bandwidthLimit is free sooner", e.Kind, e.Name, limit, e.Resource, e.Resource.Text(e.Wanted))
	}
}

// admitted is the same for a Delivery.
func (d *deliveryDecision) admitted() bool {
	if len(d.facts.Quota.Quotas) == 0 {
		return true
	}
	answer := d.facts.Quota.Answer
	if answer == nil {
		request := quota.DeliveryRequest(d.delivery)
		d.out.Ask = &request
		return false
	}
	exceeded := answer.Exceeded
	if exceeded == nil {
		return true
	}
	d.out.RequeueAfter = attempt.StallLast
	// The gateway passes the message on to the sender, whom neither the quota's name nor what else runs here concerns.
	d.out.Detail = fmt.Sprintf("%s %q allows %s running Deliveries in this namespace (spec.hard.%s), and all are taken; "+
		"this one starts by itself when it is its turn",
		exceeded.Kind, exceeded.Name, exceeded.Resource.Text(exceeded.Limit), exceeded.Resource)
	d.set(v1alpha1.DeliveryPending, conditions.Reconciling(v1alpha1.ReasonQuotaExceeded,
		"a quota of the receiving namespace on runningDeliveries is exhausted; this one starts by itself when it is its "+
			"turn"))
	return false
}
