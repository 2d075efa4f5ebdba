// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfersetplan

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/usedby"
)

// Status is what the status of a set of several namespaces is to show.
func (d *Parts) Status() v1alpha1.TransferSetStatus {
	status := v1alpha1.TransferSetStatus{ObservedGeneration: d.set.Generation, Conditions: d.set.Status.Conditions}
	wanted := d.sum(&status)
	status.Conditions = conditions.Merge(status.Conditions, wanted, d.set.Generation, d.now)
	return status
}

// sum fills in figures and failures, and returns the conditions.
func (d *Parts) sum(status *v1alpha1.TransferSetStatus) []metav1.Condition {
	if d.problem != nil {
		return conditions.Stalled(d.problem.reason, d.problem.message)
	}
	members := &v1alpha1.TransferSetMembers{}
	covered, stale := true, 0
	var uses []usedby.Use
	var first *part
	for i := range d.states {
		s := &d.states[i]
		if found := s.failures(); len(found) > 0 {
			if first == nil || first.refused() && !s.refused() {
				first = s
			}
			status.Failures = append(status.Failures, found[:min(len(found), maxFailures-len(status.Failures))]...)
		}
		if s.stale {
			stale++
			covered = false
		}
		if s.set == nil {
			continue
		}
		of := &s.set.Status
		add(members, of.Members)
		if of.RecoveryPoint == nil {
			covered = covered && of.Members != nil && of.Members.Selected == 0
		} else if status.RecoveryPoint == nil || of.RecoveryPoint.Before(status.RecoveryPoint) {
			status.RecoveryPoint = of.RecoveryPoint.DeepCopy()
		}
		status.Bytes += max(of.Bytes, 0)
		status.BytesTotal += max(of.BytesTotal, 0)
		status.WireBytes += max(of.WireBytes, 0)
		for _, c := range of.Costs {
			uses = append(uses, usedby.Use{Cost: &v1alpha1.CostStatus{
				Currency: c.Currency, CPU: c.CPU, Network: c.Network, Saved: c.Saved,
			}})
		}
	}
	if !covered {
		status.RecoveryPoint = nil
	}
	status.Costs = usedby.Total(uses).Costs
	status.Members, status.Namespaces = members, int32(len(d.states))
	return d.conditions(*members, stale, first)
}

// add sums up members.
func add(sum, more *v1alpha1.TransferSetMembers) {
	if more == nil {
		return
	}
	sum.Selected += more.Selected
	sum.Complete += more.Complete
	sum.Running += more.Running
	sum.Waiting += more.Waiting
	sum.Failed += more.Failed
	sum.Retained += more.Retained
}

// failures of a part: those of its claims, or, where there are none, why none of its claims is moved.
func (p *part) failures() []v1alpha1.TransferSetFailure {
	whole := func(reason, message string) []v1alpha1.TransferSetFailure {
		return []v1alpha1.TransferSetFailure{{Namespace: p.namespace, Reason: reason, Message: shorten(message)}}
	}
	if p.problem != nil {
		return whole(p.problem.reason, p.problem.message)
	}
	if p.stale || !meta.IsStatusConditionTrue(p.set.Status.Conditions, v1alpha1.ConditionStalled) {
		return nil
	}
	if ready := meta.FindStatusCondition(p.set.Status.Conditions, v1alpha1.ConditionReady); ready != nil &&
		len(p.set.Status.Failures) == 0 {
		return whole(ready.Reason, ready.Message)
	}
	var found []v1alpha1.TransferSetFailure
	for _, f := range p.set.Status.Failures {
		f.Namespace = p.namespace
		found = append(found, f)
	}
	return found
}

// refused reports whether nobody is needed but the API server.
func (p *part) refused() bool { return p.problem != nil && p.problem.reason == v1alpha1.ReasonRefused }

// conditions by what needs somebody first: trouble is a part with failures, if there is one.
func (d *Parts) conditions(members v1alpha1.TransferSetMembers, stale int, trouble *part) []metav1.Condition {
	progress := fmt.Sprintf("%d of %d members in %d namespaces are complete, %d run, %d wait",
		members.Complete, members.Selected, len(d.states), members.Running, members.Waiting)
	if trouble != nil {
		first, what := trouble.failures()[0], ""
		if trouble.refused() {
			return conditions.Reconciling(v1alpha1.ReasonRefused, fmt.Sprintf("%s; the API server rejects some TransferSets, "+
				"which is tried again at least once a minute, see status.failures: namespace %s: %s",
				progress, first.Namespace, first.Message))
		}
		if first.ClaimName != "" {
			what = ", claim " + first.ClaimName
		}
		reason := first.Reason
		if first.ClaimName != "" && reason != v1alpha1.ReasonSetConflict && reason != v1alpha1.ReasonMembersRejected {
			reason = v1alpha1.ReasonMembersFailed
		}
		return conditions.Stalled(reason, fmt.Sprintf("%s; some need somebody, see status.failures: namespace %s%s: %s: %s",
			progress, first.Namespace, what, first.Reason, first.Message))
	}
	switch {
	case len(d.states) == 0:
		return conditions.Resting(v1alpha1.ReasonNoNamespaces,
			"spec.namespaceSelector finds no namespace; those that are created or labelled later join")
	case stale > 0:
		return conditions.Reconciling(v1alpha1.ReasonMembersRunning, progress)
	case members.Selected == 0:
		return conditions.Resting(v1alpha1.ReasonNoClaims,
			"spec.selector finds no claim in these namespaces; those that are created or labelled later join")
	case members.Complete == members.Selected:
		return conditions.Ready(v1alpha1.ReasonMembersComplete, fmt.Sprintf(
			"all %d members in %d namespaces are complete", members.Complete, len(d.states)))
	case d.set.Spec.Suspend && members.Running == 0:
		return conditions.Resting(v1alpha1.ReasonSuspended,
			progress+"; nothing starts while spec.suspend is true; set it to false to go on")
	}
	return conditions.Reconciling(v1alpha1.ReasonMembersRunning, progress)
}
