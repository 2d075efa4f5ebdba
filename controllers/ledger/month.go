// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
)

// Step is the one thing to do next with the Statements of a namespace. Exactly one field is set.
type Step struct {
	// Create a Statement of that month. It is opened in a step of its own.
	Create string
	// Write the status of a Statement.
	Write *v1alpha1.Statement
	// Delete a Statement that is older than what is kept.
	Delete *v1alpha1.Statement
	// Booked: nothing else is to be done before the next booking in this Statement.
	Booked *v1alpha1.Statement
}

// Next decides on the step that follows. keep is how many months are kept, the present one included. After each step
// but the last it is asked again, with what the API server has then. Whoever is killed between two steps leaves a state
// that the next step follows from.
func Next(all []v1alpha1.Statement, in Booking, keep int) Step {
	if len(all) == 0 {
		return Step{Create: MonthOf(in.Now)}
	}
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b v1alpha1.Statement) int { return cmp.Compare(a.Name, b.Name) })
	newest, earlier := &all[len(all)-1], all[:len(all)-1]
	// Two are open only if somebody made one by hand.
	for i := range earlier {
		if earlier[i].Status.State != v1alpha1.StatementClosed {
			return Step{Write: closed(&earlier[i], in.Now)}
		}
	}
	switch newest.Status.State {
	case "":
		var before *v1alpha1.Statement
		if len(earlier) > 0 {
			before = &earlier[len(earlier)-1]
		}
		return Step{Write: opened(newest, before, in)}
	case v1alpha1.StatementClosed:
		return Step{Create: max(MonthOf(in.Now), monthsAfter(newest.Name, 1), newest.Status.Successor)}
	}
	if step, any := tidy(earlier, newest, keep, in.Now); any {
		return step
	}
	if newest.Name < MonthOf(in.Now) {
		return Step{Write: closed(newest, in.Now)}
	}
	if !in.OnlyNewest {
		in.First = len(earlier) == 0
	}
	if booked := Book(newest, in); booked != nil {
		return Step{Write: booked}
	}
	return Step{Booked: newest}
}

// tidy notes the successor in the last closed Statement, sums up the days of those before it, and removes the oldest.
//
// What is old is counted from when the API server made the newest one: the manager's clock, by which that is named, may
// be years ahead.
func tidy(earlier []v1alpha1.Statement, newest *v1alpha1.Statement, keep int, now time.Time) (Step, bool) {
	oldest := monthsAfter(min(newest.Name, MonthOf(newest.CreationTimestamp.Time)), 1-keep)
	for i := range earlier {
		s := &earlier[i]
		switch {
		case s.Name < oldest:
			return Step{Delete: s}, true
		case i == len(earlier)-1 && s.Status.Successor != newest.Name:
			after := s.DeepCopy()
			after.Status.Successor = newest.Name
			judge(after, now, flaws{edited: digest(&s.Status) != s.Status.Digest})
			seal(&after.Status)
			return Step{Write: after}, true
		case i < len(earlier)-1 && (len(s.Status.Marks) > 0 || slices.ContainsFunc(
			s.Status.Rows, func(r v1alpha1.StatementRow) bool { return r.Day != "" },
		)):
			return Step{Write: folded(s, now)}, true
		}
	}
	return Step{}, false
}

// opened is a Statement that goes on from the marks of the one before it, nil if there is none. That one is closed. If
// it had a successor already, somebody deleted that, and what is in objects since is booked once more; if its marks are
// gone as well, what was booked is not known, and only what comes from now on is.
func opened(s, before *v1alpha1.Statement, in Booking) *v1alpha1.Statement {
	after := s.DeepCopy()
	after.Status = v1alpha1.StatementStatus{
		State: v1alpha1.StatementOpen, NamespaceUID: in.NamespaceUID, StartTime: &metav1.Time{Time: in.Now},
	}
	var found flaws
	if before != nil {
		after.Status.Marks = before.DeepCopy().Status.Marks
		found.rebuilt = before.Status.Successor != ""
		found.marksLost = found.rebuilt && len(before.Status.Marks) == 0
	}
	if found.marksLost {
		in.Adopt = true
		b := newBooking(after, in)
		for _, a := range in.Accounts {
			b.account(a)
		}
		after.Status.Marks = b.list()
	}
	judge(after, in.Now, found)
	seal(&after.Status)
	return after
}

// closed is a Statement in which nothing is booked any more. It keeps its marks for its successor.
func closed(s *v1alpha1.Statement, now time.Time) *v1alpha1.Statement {
	after := s.DeepCopy()
	after.Status.State, after.Status.CloseTime = v1alpha1.StatementClosed, &metav1.Time{Time: now}
	judge(after, now, flaws{
		edited: s.Status.State != "" && digest(&s.Status) != s.Status.Digest, unbooked: s.Status.UnbookedObjects,
	})
	seal(&after.Status)
	return after
}

// folded is a closed Statement without days and marks.
func folded(s *v1alpha1.Statement, now time.Time) *v1alpha1.Statement {
	after := s.DeepCopy()
	rows := readSheet(&s.Status)
	rows.fold()
	rows.write(&after.Status)
	after.Status.Marks = nil
	judge(after, now, flaws{edited: digest(&s.Status) != s.Status.Digest})
	seal(&after.Status)
	return after
}

// flaws are why figures may be missing or wrong.
type flaws struct {
	edited, rebuilt, marksLost, replaced, figuresLost bool
	unbooked                                          int32
}

// judge writes the conditions. What was found once about figures stays, except for objects that had no space.
func judge(s *v1alpha1.Statement, now time.Time, found flaws) {
	reason, message := v1alpha1.ReasonOpen, "figures are booked as objects report them"
	if n := withoutDay(s); n > 0 {
		message += fmt.Sprintf("; rows with a day are full, so that %d rows have figures of several days", n)
	}
	if s.Status.State == v1alpha1.StatementClosed {
		reason, message = v1alpha1.ReasonClosed, "the month is over"
	}
	wanted := append(conditions.Ready(reason, message), complete(s.Status.Conditions, found))
	s.Status.Conditions = conditions.Merge(s.Status.Conditions, wanted, s.Generation, now)
	s.Status.ObservedGeneration = s.Generation
}

func withoutDay(s *v1alpha1.Statement) int {
	n := 0
	for i := range s.Status.Rows {
		if s.Status.Rows[i].Day == "" {
			n++
		}
	}
	return n
}

func complete(before []metav1.Condition, found flaws) metav1.Condition {
	bad := func(reason, message string) metav1.Condition {
		return conditions.New(v1alpha1.ConditionComplete, false, reason, message)
	}
	known := meta.FindStatusCondition(before, v1alpha1.ConditionComplete)
	switch {
	case found.marksLost:
		return bad(v1alpha1.ReasonMarksLost, "Statements were deleted by hand, and what they had of objects that still "+
			"exist is not known; figures from before this one was opened are missing")
	case found.rebuilt:
		return bad(v1alpha1.ReasonRebuilt, "the Statement was deleted by hand and is rebuilt from objects that still exist; "+
			"figures of objects that were deleted are missing")
	case found.edited:
		return bad(v1alpha1.ReasonEdited, "rows or marks were edited by hand; figures may be missing, or be there twice")
	case found.replaced:
		return bad(v1alpha1.ReasonNamespaceReplaced, "the namespace was deleted and created again; what the former one "+
			"used after its last booking is missing")
	case found.figuresLost:
		return bad(v1alpha1.ReasonMarksLost, "the attempt of an object that was booked last is not in its history: more "+
			"than ten ended between two bookings, or its status was changed by hand; figures of attempts may be missing")
	case known != nil && known.Status == metav1.ConditionFalse && known.Reason != v1alpha1.ReasonNoSpace:
		return bad(known.Reason, known.Message)
	case found.unbooked > 0:
		return bad(v1alpha1.ReasonNoSpace, objectsText(found.unbooked)+" figures that there is no space for; they are "+
			"booked when other objects of the namespace are deleted; if rows are used up, with the next month")
	}
	return conditions.New(
		v1alpha1.ConditionComplete, true, v1alpha1.ReasonBooked, "all figures that objects showed are booked",
	)
}

// seal notes the digest of what is booked.
func seal(status *v1alpha1.StatementStatus) { status.Digest = digest(status) }

// digest is the same after a Statement has been written and read.
func digest(status *v1alpha1.StatementStatus) string {
	// These types have nothing that JSON cannot encode.
	text, _ := json.Marshal(struct {
		Prices []v1alpha1.StatementPrices
		Rows   []v1alpha1.StatementRow
		Marks  []v1alpha1.StatementMark
	}{status.Prices, status.Rows, status.Marks})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
