// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfersetplan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/usedby"
)

const (
	// refresh is how often the figures of members that run are summed up.
	refresh = 30 * time.Second
	// retryRejected is when the API server is asked again for what it has rejected.
	retryRejected = time.Minute
	// MaxRejections end a round of writing members. What rejects so many mostly rejects all.
	MaxRejections = 16
	// maxTroubled members whose first run failed, or that wait for somebody, end the making of others: what all lack,
	// such as a PeerGrant, shows before all exist.
	maxTroubled = 16
)

// Facts are what a decision needs beside a Selection.
type Facts struct {
	Now time.Time
	// Transfers of the namespace with the set's label.
	Transfers []v1alpha1.Transfer
	// Taken are the names of members that other Transfers have, without the set's label.
	Taken map[string]bool
	// Group is looked at only where the decision asks for it.
	Group GroupFacts
}

// Update of an object.
type Update[T any] struct{ Before, After T }

// Writes are to be done, deletions first.
type Writes[T any] struct {
	Create []T
	Update []Update[T]
	Delete []T
}

// Decision is what is to be done for a set. Status sums up.
type Decision struct {
	Writes[*v1alpha1.Transfer]
	// Group is what is to be done for the VolumeGroupSnapshot of the members, after which Status is to be written.
	Group GroupStep

	set      *v1alpha1.TransferSet
	now      time.Time
	problem  *problem
	states   []state
	retained int32
	// group and schedule are what status is to have of the VolumeGroupSnapshots, grouping is why there is none.
	group    *v1alpha1.TransferSetGroupStatus
	schedule *v1alpha1.ScheduleStatus
	grouping *problem
}

// problem of a set, or of a member.
type problem struct{ reason, message string }

// state of the member of a selected claim.
type state struct {
	Member
	// transfer is nil while there is none.
	transfer *v1alpha1.Transfer
	phase    phase
	problem  problem
}

type phase int

const (
	waiting phase = iota
	running
	complete
	failed
	// barred: something else has the destination or the name.
	barred
	// rejected by the API server.
	rejected
)

// Decide compares what a set selects with the Transfers that there are. It changes neither.
func Decide(set *v1alpha1.TransferSet, selection Selection, facts Facts) (*Decision, error) {
	d := &Decision{set: set, now: facts.Now}
	if selection.Problem != nil {
		d.group, d.schedule = set.Status.Group, set.Status.Schedule
		d.problem = &problem{selection.Problem.Reason, selection.Problem.Message}
		return d, nil
	}
	unwanted := map[string]*v1alpha1.Transfer{}
	foreign := map[string]bool{}
	for i := range facts.Transfers {
		if t := &facts.Transfers[i]; made(set, t) {
			unwanted[t.Name] = t
		} else {
			foreign[t.Name] = true
		}
	}
	for _, member := range selection.Members {
		one := state{Member: member, transfer: unwanted[member.Name]}
		switch {
		case member.Rival != "":
			one.transfer, one.phase = nil, barred
			one.problem = problem{v1alpha1.ReasonSetConflict, fmt.Sprintf(
				"TransferSet %s is older and moves to the same destination", member.Rival)}
		case facts.Taken[member.Name] || foreign[member.Name]:
			one.transfer, one.phase = nil, barred
			one.problem = problem{v1alpha1.ReasonSetConflict, fmt.Sprintf(
				"Transfer %s is not one that the set made; rename or delete it", member.Name)}
		case one.transfer != nil:
			delete(unwanted, member.Name)
			one.look()
		}
		d.states = append(d.states, one)
	}
	d.release(unwanted)
	d.decideGroup(facts.Group)
	return d, d.members()
}

// look classifies a member that exists.
func (s *state) look() {
	t := s.transfer
	ready := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case t.DeletionTimestamp != nil:
		s.phase = waiting // until another can be made
	case meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionFailed) ||
		meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionStalled):
		s.phase = failed
		if ready != nil {
			s.problem = problem{ready.Reason, ready.Message}
		}
	case t.Status.Phase == v1alpha1.TransferComplete:
		s.phase = complete
	case slices.Contains([]v1alpha1.TransferPhase{
		"", v1alpha1.TransferPending, v1alpha1.TransferQueued, v1alpha1.TransferScheduled, v1alpha1.TransferSuspended,
	}, t.Status.Phase):
		s.phase = waiting
	default:
		s.phase = running
	}
}

// release lets go of Transfers whose claims are not selected any more.
func (d *Decision) release(unwanted map[string]*v1alpha1.Transfer) {
	d.retained = int32(len(unwanted))
	for _, t := range unwanted {
		if t.DeletionTimestamp != nil {
			continue
		}
		if d.set.Spec.MemberPolicy != v1alpha1.MembersRetain {
			d.Delete = append(d.Delete, t)
			continue
		}
		if wanted := owners(d.set, t.OwnerReferences); !equality.Semantic.DeepEqual(wanted, t.OwnerReferences) {
			after := t.DeepCopy()
			after.OwnerReferences = wanted
			d.Update = append(d.Update, Update[*v1alpha1.Transfer]{Before: t, After: after})
		}
	}
	slices.SortFunc(d.Delete, func(a, b *v1alpha1.Transfer) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(d.Update, func(a, b Update[*v1alpha1.Transfer]) int { return cmp.Compare(a.Before.Name, b.Before.Name) })
}

// members makes those for which there are places, and has those that exist follow the template.
func (d *Decision) members() error {
	places, troubled := d.set.Spec.MaxConcurrent, 0
	for _, s := range d.states {
		switch {
		case s.transfer == nil || s.transfer.Status.RecoveryPoint != nil:
		case s.phase == failed:
			troubled++
		default:
			places--
		}
	}
	if d.set.Spec.Suspend || troubled >= maxTroubled {
		places = 0
	}
	for _, s := range d.states {
		if s.phase == barred || s.transfer == nil && places <= 0 ||
			s.transfer != nil && s.transfer.DeletionTimestamp != nil {
			continue
		}
		group, joins := d.groupOf(&s)
		if !joins {
			continue
		}
		spec := memberSpec(d.set, s.Claim, group)
		hash, err := hashOf(spec)
		if err != nil {
			return err
		}
		if s.transfer == nil {
			places--
			d.Create = append(d.Create, newMember(d.set, s.Member, spec, hash))
			continue
		}
		wanted := owners(d.set, s.transfer.OwnerReferences)
		same := s.transfer.Annotations[v1alpha1.TemplateHashAnnotation] == hash
		if same && equality.Semantic.DeepEqual(wanted, s.transfer.OwnerReferences) {
			continue
		}
		after := s.transfer.DeepCopy()
		after.OwnerReferences = wanted
		if !same {
			after.Spec, after.Annotations[v1alpha1.TemplateHashAnnotation] = spec, hash
			after.Spec.Pause = s.transfer.Spec.Pause // that is between the member and its users
			if group != "" && group != s.transfer.Spec.Source.VolumeGroupSnapshotName {
				after.Annotations[v1alpha1.RunAnnotation] = group
			}
		}
		d.Update = append(d.Update, Update[*v1alpha1.Transfer]{Before: s.transfer, After: after})
	}
	return nil
}

// Reject notes that the API server rejects a member, in its words. The member counts as failed.
func (d *Decision) Reject(member *v1alpha1.Transfer, words string) {
	for i := range d.states {
		if s := &d.states[i]; s.Name == member.Name {
			s.phase, s.problem = rejected, problem{v1alpha1.ReasonMembersRejected, words}
			return
		}
	}
}

// RequeueAfter is when to look again though nothing has changed; 0: not by the clock.
func (d *Decision) RequeueAfter() time.Duration {
	after := d.untilGroup()
	for _, s := range d.states {
		switch s.phase {
		case rejected:
			return attempt.Sooner(after, retryRejected)
		case running:
			after = attempt.Sooner(after, refresh)
		}
	}
	return after
}

// uses of the members.
func (d *Decision) uses() (uses []usedby.Use) {
	for _, s := range d.states {
		if s.transfer != nil {
			uses = append(uses, usedby.OfTransfer(s.transfer))
		}
	}
	return uses
}
