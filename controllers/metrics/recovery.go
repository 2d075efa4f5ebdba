// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

var (
	recoveryDescription = describe("lighterage_transfer_recovery_point_age_seconds",
		"Age of the oldest recovery point of a namespace's Transfers with an objective.", "namespace")
	outsideDescription = describe("lighterage_transfers_outside_objective",
		"Transfers with an objective whose recovery point is older than that allows, or that have none.", "namespace")
	lateDescription = describe("lighterage_transfers_outside_deadline",
		"Transfers with a deadline whose run was not complete by then (DeadlineMissed), or is not expected to be "+
			"(DeadlineOutOfReach), by reason.", "namespace", "reason")
	stagedDescription = describe("lighterage_staged_copies",
		"Snapshots and clones that runs of Transfers read, by state: Preparing, Snapshotting, Provisioning, Ready or "+
			"Removing.", "namespace", "state")
	stagedAgeDescription = describe("lighterage_staged_copy_age_seconds",
		"Time since the oldest of these copies of a namespace was begun.", "namespace")
	historyDescription = describe("lighterage_destination_snapshots",
		"VolumeSnapshots of destinations that keep history, by state: Pending, Taking, Taken, Ready, Failed or Removing.",
		"namespace", "state")
	historyAgeDescription = describe("lighterage_destination_snapshot_age_seconds",
		"Time since the run of the newest VolumeSnapshot of a destination that can be restored: the longest of a "+
			"namespace's Transfers that keep history.", "namespace")
	historyLacksDescription = describe("lighterage_transfers_without_snapshot",
		"Transfers, and Deliveries for peers, that keep history and whose last Complete run has no VolumeSnapshot, or none "+
			"that can be restored yet.",
		"namespace")
)

// recovery is what Transfers show of recovery points, of copies of their sources and of snapshots of their
// destinations, and Deliveries of snapshots for peers. Those without any are not kept.
type recovery struct {
	namespace string
	objective bool
	outside   bool
	// deadline: there is one; late is why it is not kept, empty if it is.
	deadline bool
	late     string
	point    time.Time
	state    v1alpha1.StagedState
	begun    time.Time
	// history: snapshots are to be taken of the destination; lacks: there is none of the last Complete run. snapshots are
	// those there are by state, and newest the run of the newest one that is Ready; zero: it keeps no history.
	history   bool
	lacks     bool
	snapshots map[v1alpha1.SnapshotState]int
	newest    time.Time
}

// recoveryOf is that of an object; kept is false when there is none.
func recoveryOf(object any) (r recovery, kept bool) {
	if d, ok := object.(*v1alpha1.Delivery); ok {
		r.namespace = d.Namespace
		r.countSnapshots(d.Spec.Destination.Snapshot != nil, d.Status.Snapshots, d.Status.Conditions)
		return r, len(r.snapshots) > 0 || r.lacks
	}
	t, ok := object.(*v1alpha1.Transfer)
	if !ok {
		return r, false
	}
	r.namespace, r.objective = t.Namespace, t.Spec.Objective != nil
	r.outside = meta.IsStatusConditionFalse(t.Status.Conditions, v1alpha1.ConditionWithinObjective)
	r.deadline = t.Spec.Deadline != nil
	if c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionWithinDeadline); c != nil &&
		c.Status == metav1.ConditionFalse {
		r.late = c.Reason
	}
	if t.Status.RecoveryPoint != nil {
		r.point = t.Status.RecoveryPoint.Time
	}
	if s := t.Status.Staged; s != nil {
		r.state, r.begun = s.State, s.StartTime.Time
	}
	r.countSnapshots(t.Spec.Destination.Snapshot != nil, t.Status.Snapshots, t.Status.Conditions)
	return r, r.objective || r.deadline || r.history || r.state != "" || len(r.snapshots) > 0
}

func (r *recovery) countSnapshots(wanted bool, all []v1alpha1.SnapshotStatus, of []metav1.Condition) {
	r.history = wanted
	r.lacks = r.history && meta.IsStatusConditionFalse(of, v1alpha1.ConditionHistoryKept)
	for i := range all {
		s := &all[i]
		if r.snapshots == nil {
			r.snapshots = map[v1alpha1.SnapshotState]int{}
		}
		r.snapshots[s.State]++
		if s.State == v1alpha1.SnapshotReady && r.newest.IsZero() && r.history {
			r.newest = s.Time.Time
		}
	}
}

// oldest are times of namespaces.
type oldest map[string]time.Time

func (o oldest) note(namespace string, at time.Time) {
	if known, ok := o[namespace]; !at.IsZero() && (!ok || at.Before(known)) {
		o[namespace] = at
	}
}

func (o oldest) show(out show, d *prometheus.Desc, now time.Time) {
	for namespace, at := range o {
		out(d, max(now.Sub(at), 0).Seconds(), namespace)
	}
}

func (i *Inventory) showRecovery(out show) {
	type group struct{ namespace, state string }
	points, begun, outside, staged := oldest{}, oldest{}, map[string]int{}, map[group]int{}
	newest, snapshots, lacks := oldest{}, map[group]int{}, map[string]int{}
	late := map[group]int{}
	for _, r := range i.recoveries {
		if r.deadline {
			late[group{r.namespace, v1alpha1.ReasonDeadlineMissed}] += 0
			late[group{r.namespace, v1alpha1.ReasonDeadlineOutOfReach}] += 0
		}
		if r.late != "" {
			late[group{r.namespace, r.late}]++
		}
		if r.objective {
			points.note(r.namespace, r.point)
			outside[r.namespace] += 0
			if r.outside {
				outside[r.namespace]++
			}
		}
		if r.state != "" {
			staged[group{r.namespace, string(r.state)}]++
			begun.note(r.namespace, r.begun)
		}
		for state, n := range r.snapshots {
			snapshots[group{r.namespace, string(state)}] += n
		}
		newest.note(r.namespace, r.newest)
		if r.history {
			lacks[r.namespace] += 0
		}
		if r.lacks {
			lacks[r.namespace]++
		}
	}
	points.show(out, recoveryDescription, i.clock.Now())
	begun.show(out, stagedAgeDescription, i.clock.Now())
	newest.show(out, historyAgeDescription, i.clock.Now())
	for of, n := range snapshots {
		out(historyDescription, float64(n), of.namespace, of.state)
	}
	for namespace, n := range lacks {
		out(historyLacksDescription, float64(n), namespace)
	}
	for namespace, n := range outside {
		out(outsideDescription, float64(n), namespace)
	}
	for of, n := range late {
		out(lateDescription, float64(n), of.namespace, of.state)
	}
	for of, n := range staged {
		out(stagedDescription, float64(n), of.namespace, of.state)
	}
}
