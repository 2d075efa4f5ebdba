// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"strings"

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
	// Quotas of the namespace. Where there are none, nor any Shared, nothing has to be admitted.
	Quotas []v1alpha1.DataQuota
	// Shared are the limits of the Transfer's Peer and of the cluster.
	Shared []quota.Limits
	// Priority among the Transfers of the namespace.
	Priority int32
	// Share is what the run is to have of the bandwidth of Shared; 0: that is not limited.
	Share int64
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
	if _, holds := quota.TransferHolds(d.transfer); holds {
		d.keepBandwidth()
		d.share = d.transfer.Status.Run.BandwidthShare
		return true
	}
	if len(d.facts.Quota.Quotas)+len(d.facts.Quota.Shared) == 0 {
		return true
	}
	answer := d.facts.Quota.Answer
	if answer == nil {
		request := quota.TransferRequest(d.transfer, route)
		request.Priority = d.facts.Quota.Priority
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
	d.share = quantityOf(answer.Share)
	return true
}

// quantityOf a limit; nil of 0.
func quantityOf(limit int64) *resource.Quantity {
	if limit == 0 {
		return nil
	}
	return resource.NewQuantity(limit, resource.BinarySI)
}

// Bandwidth is what the agent of a run keeps to, in bytes per second; nil: any.
func Bandwidth(run *v1alpha1.RunStatus) *resource.Quantity {
	return lower(lower(run.BandwidthLimit, run.BandwidthShare), run.WindowLimit)
}

// lower of two limits; nil: none.
func lower(a, b *resource.Quantity) *resource.Quantity {
	if a == nil || b != nil && b.Cmp(*a) < 0 {
		return b
	}
	return a
}

// Raised reports whether a run is to have more of what is shared, which takes that nobody else is given it.
func (d TransferDecision) Raised(transfer *v1alpha1.Transfer) bool {
	if !d.Limit {
		return false
	}
	before, after := transfer.Status.Run.BandwidthShare, d.Status.Run.BandwidthShare
	return before != nil && after != nil && after.Cmp(*before) > 0
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

// windowLimit is what the windows allow the run that is under way.
func (d *transferDecision) windowLimit() *resource.Quantity {
	if d.window == nil && d.transfer.Spec.Schedule != nil {
		return d.transfer.Status.Run.WindowLimit // the schedule cannot be used, and what is under way goes on as it is
	}
	return d.window.bandwidth()
}

// changeLimit has the agent that runs take another limit of bandwidth, as far as the run was granted it.
func (d *transferDecision) changeLimit() {
	run := d.transfer.Status.Run
	if d.facts.Report == nil {
		return
	}
	d.bandwidth = d.transfer.Spec.BandwidthLimit
	d.keepBandwidth()
	share, windowed := quantityOf(d.facts.Quota.Share), d.windowLimit()
	if !equality.Semantic.DeepEqual(d.bandwidth, run.BandwidthLimit) ||
		!equality.Semantic.DeepEqual(share, run.BandwidthShare) ||
		!equality.Semantic.DeepEqual(windowed, run.WindowLimit) {
		run.BandwidthLimit, run.BandwidthShare, run.WindowLimit, d.out.Limit = d.bandwidth, share, windowed, true
	}
}

// queue has a run, or its next attempt, wait until there is what it needs. Events wake it up.
func (d *transferDecision) queue(route v1alpha1.Route, exceeded quota.Exceeded) {
	queued := &v1alpha1.QueuedStatus{
		Time: metav1.NewTime(d.facts.Now), Route: route, Priority: d.facts.Quota.Priority,
		Place: int32(exceeded.Place), Waiting: int32(exceeded.Waiting), //nolint:gosec // At most 1000.
	}
	if before := d.transfer.Status.Queued; before != nil {
		queued.Time = before.Time
	}
	wait := conditions.Reconciling
	if exceeded.Never() {
		wait = conditions.Stalled
	}
	d.out.RequeueAfter = attempt.StallLast
	d.set(v1alpha1.TransferQueued, wait(v1alpha1.ReasonQuotaExceeded, transferExceeds(exceeded)))
	d.transfer.Status.Queued = queued
}

// transferExceeds says which limit a Transfer waits for, and its place.
func transferExceeds(e quota.Exceeded) string {
	limit := fmt.Sprintf("%s %q allows", e.Kind, e.Name)
	scope, field := "in this namespace", fmt.Sprintf("spec.hard.%s", e.Resource)
	switch e.Kind {
	case quota.KindPeer:
		scope, field = "of all namespaces to it", "spec.limits.runningTransfers"
	case quota.KindCluster:
		limit, scope, field = "the cluster allows", "of all namespaces", "the Helm value limits.runningTransfers"
	}
	if e.Never() {
		return fmt.Sprintf("%s no running Transfers %s; ask the platform team to raise %s", limit, scope, field)
	}
	wait := "; it starts by itself when it is its turn"
	if e.Place > 0 {
		wait = fmt.Sprintf("; this one is number %d of %d that wait for that, and starts by itself", e.Place, e.Waiting)
	}
	amount := e.Resource.Text(e.Limit)
	switch e.Resource {
	case quota.RunningTransfers:
		return fmt.Sprintf("%s %s running Transfers %s (%s), and all are taken%s", limit, amount, scope, field, wait)
	case quota.Share:
		field = strings.Replace(field, "runningTransfers", "bandwidth", 1)
		if e.Part {
			return fmt.Sprintf("%s %s bytes per second %s (%s); by its weight, this namespace has too small a part of them for "+
				"another run of %s%s", limit, amount, scope, field, e.Resource.Text(e.Wanted), wait)
		}
		return fmt.Sprintf("%s %s bytes per second %s (%s); this Transfer needs %s of them, which others have or wait for%s",
			limit, amount, scope, field, e.Resource.Text(e.Wanted), wait)
	default:
		return fmt.Sprintf("%s %s bytes per second %s (%s); this Transfer needs %s of them, which others have or wait for%s; "+
			"a smaller spec.bandwidthLimit is free sooner", limit, amount, scope, field, e.Resource.Text(e.Wanted), wait)
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
