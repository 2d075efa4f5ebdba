// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package transfersetplan decides what Transfers a TransferSet is to have, and what its status shows of them. It is
// pure: it reads no cluster.
package transfersetplan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/populateplan"
)

const (
	// MaxSets are compared with each other in a namespace. Each claim is matched with the selector of each of them, so
	// the work that a tenant can cause grows with it.
	MaxSets = 64
	// maxExpressions and maxValues bound a selector, for the same reason.
	maxExpressions = 64
	maxValues      = 1024
)

// Member is a Transfer that a set is to have.
type Member struct {
	// Claim that it reads.
	Claim string
	// Created is when the claim was.
	Created metav1.Time
	// Name of the Transfer.
	Name string
	// Rival is the older set that moves to the same destination; empty if none does.
	Rival string
}

// Selection is what a set selects.
type Selection struct {
	// Problem, if there is one, is why nothing can be said of members.
	Problem *agentpod.Problem
	// Members in the order of their claims' names.
	Members []Member
}

// Select finds the members of a set among the claims of its namespace. sets are those of the namespace, which may have
// the set itself. Nothing is changed.
func Select(
	set *v1alpha1.TransferSet, claims []corev1.PersistentVolumeClaim, sets []v1alpha1.TransferSet,
) Selection {
	match, problem := selectorOf(set)
	if problem != nil {
		return Selection{Problem: problem}
	}
	older := olderThan(set, sets)
	if len(older) >= MaxSets {
		return Selection{Problem: &agentpod.Problem{
			Reason: v1alpha1.ReasonTooManySets,
			Message: fmt.Sprintf("%d TransferSets of this namespace are older, and %d of a namespace are looked at; delete some",
				len(older), MaxSets),
		}}
	}
	var members []Member
	selected := namesOf(set, match, claims)
	created := make(map[string]metav1.Time, len(claims))
	for i := range claims {
		created[claims[i].Name] = claims[i].CreationTimestamp
	}
	for _, claim := range selected {
		members = append(members, Member{Claim: claim, Created: created[claim], Name: MemberName(set.Name, claim)})
	}
	for _, rival := range older {
		mark(members, set, rival, claims)
	}
	return Selection{Members: members}
}

// mark notes a rival of a set in those members that it conflicts with. An older rival is not replaced.
func mark(members []Member, set, rival *v1alpha1.TransferSet, claims []corev1.PersistentVolumeClaim) {
	mine, theirs := set.Spec.Template.Destination, rival.Spec.Template.Destination
	if place(set) != place(rival) || (mine.ObjectStore == nil) != (theirs.ObjectStore == nil) {
		return
	}
	if mine.ObjectStore == nil && !plan.Overlap(claimOf(mine).Path, claimOf(theirs).Path) {
		return
	}
	match, problem := selectorOf(rival)
	if problem != nil {
		return
	}
	selected := namesOf(rival, match, claims)
	if len(selected) == 0 {
		return
	}
	written := make(map[string]bool, len(selected))
	for _, claim := range selected {
		written[claimOf(theirs).NamePrefix+claim] = true
	}
	conflicts := func(m Member) bool { return written[claimOf(mine).NamePrefix+m.Claim] }
	if mine.ObjectStore != nil {
		conflicts = inStore(mine.ObjectStore.Path, theirs.ObjectStore.Path, written)
	}
	for i := range members {
		if members[i].Rival == "" && conflicts(members[i]) {
			members[i].Rival = rival.Name
		}
	}
}

// inStore says which members conflict that write below a directory of an object store, while those of the claims that
// are written write below another directory of it.
func inStore(mine, theirs string, written map[string]bool) func(Member) bool {
	mine, theirs = attempt.RelativePath(mine), attempt.RelativePath(theirs)
	if mine == theirs {
		return func(m Member) bool { return written[m.Claim] }
	}
	if first, inside := below(mine, theirs); inside {
		return func(Member) bool { return written[first] }
	}
	if first, inside := below(theirs, mine); inside {
		return func(m Member) bool { return m.Claim == first }
	}
	return func(Member) bool { return false }
}

// below reports whether a directory is in another one, and the first name on the way from that to it.
func below(inner, outer string) (first string, inside bool) {
	rest := inner
	if outer != "." {
		if rest, inside = strings.CutPrefix(inner, outer+"/"); !inside {
			return "", false
		}
	}
	first, _, _ = strings.Cut(rest, "/")
	return first, true
}

// place is the same for two sets that write into the same namespace or object store.
func place(set *v1alpha1.TransferSet) string {
	to := set.Spec.Template.Destination
	if to.ObjectStore != nil {
		return "objectstores/" + to.ObjectStore.Name
	}
	return to.Peer + "/" + cmp.Or(to.Namespace, set.Namespace)
}

// claimOf is the destination's, from the root where none is named.
func claimOf(to v1alpha1.TransferSetDestination) v1alpha1.TransferSetClaim {
	claim := v1alpha1.TransferSetClaim{}
	if to.PersistentVolumeClaim != nil {
		claim = *to.PersistentVolumeClaim
	}
	claim.Path = cmp.Or(claim.Path, "/")
	return claim
}

// olderThan are the sets that come before a set, the oldest first. Those that are being deleted make way.
func olderThan(set *v1alpha1.TransferSet, sets []v1alpha1.TransferSet) []*v1alpha1.TransferSet {
	var older []*v1alpha1.TransferSet
	for i := range sets {
		s := &sets[i]
		if s.UID != set.UID && s.DeletionTimestamp == nil && s.Spec.NamespaceSelector == nil && compareAge(s, set) < 0 {
			older = append(older, s)
		}
	}
	slices.SortFunc(older, compareAge)
	return older
}

func compareAge(a, b *v1alpha1.TransferSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// here reports whether a set writes claims of its own namespace.
func here(set *v1alpha1.TransferSet) bool {
	to := set.Spec.Template.Destination
	return to.ObjectStore == nil && to.Peer == "" && cmp.Or(to.Namespace, set.Namespace) == set.Namespace
}

// selectorOf checks again what the API server checks, and what it does not bound.
func selectorOf(set *v1alpha1.TransferSet) (labels.Selector, *agentpod.Problem) {
	match, problem := bounded("spec.selector", set.Spec.Selector)
	if problem != nil {
		return nil, problem
	}
	if here(set) && claimOf(set.Spec.Template.Destination).NamePrefix == "" {
		return nil, invalid("a claim is not moved to itself: set persistentVolumeClaim.namePrefix of " +
			"spec.template.destination, or another namespace")
	}
	return match, nil
}

func invalid(message string) *agentpod.Problem {
	return &agentpod.Problem{Reason: v1alpha1.ReasonInvalidSpec, Message: message}
}

// bounded is a selector, of a field, that is not too large.
func bounded(field string, selector *metav1.LabelSelector) (labels.Selector, *agentpod.Problem) {
	if selector == nil {
		return nil, invalid(field + " must be set; write {} for all")
	}
	values := len(selector.MatchLabels)
	for _, e := range selector.MatchExpressions {
		values += len(e.Values)
	}
	if len(selector.MatchExpressions) > maxExpressions || values > maxValues {
		return nil, invalid(fmt.Sprintf("%s must have at most %d expressions and %d labels and values; give what it is to "+
			"find one label of its own", field, maxExpressions, maxValues))
	}
	match, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, invalid(field + " cannot be used: " + err.Error())
	}
	return match, nil
}

// namesOf are the claims that a set selects, sorted. Copies of sources, claims of Queues and those in whose place
// others are populated come and go by themselves. What a set of the same namespace writes it would copy again and
// again.
func namesOf(set *v1alpha1.TransferSet, match labels.Selector, claims []corev1.PersistentVolumeClaim) []string {
	written := ""
	if here(set) {
		written = claimOf(set.Spec.Template.Destination).NamePrefix
	}
	var names []string
	for i := range claims {
		c := &claims[i]
		if c.DeletionTimestamp != nil || c.Labels[v1alpha1.RunLabel] != "" || c.Labels[v1alpha1.QueueLabel] != "" ||
			c.Labels[agentpod.ComponentLabel] == populateplan.Component ||
			written != "" && strings.HasPrefix(c.Name, written) || !match.Matches(labels.Set(c.Labels)) {
			continue
		}
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return names
}
