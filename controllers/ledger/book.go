// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Booking is what to book.
type Booking struct {
	// Accounts of all objects of the namespace.
	Accounts []Account
	// NamespaceUID of the namespace.
	NamespaceUID types.UID
	// Now, to the second.
	Now time.Time
	// First: there is no other Statement, so that what ended before its month is not of it.
	First bool
	// OnlyNewest: Next is given the newest Statement and no others, to which nothing is to be done.
	OnlyNewest bool
	// Adopt notes all figures as booked without booking them, because what was booked of them is not known.
	Adopt bool
}

// Book returns the Statement with what has come since it was booked last, or nil if there is nothing to write. The
// Statement must be open. It is not changed.
func Book(s *v1alpha1.Statement, in Booking) *v1alpha1.Statement {
	after := s.DeepCopy()
	b := newBooking(after, in)
	for _, a := range in.Accounts {
		b.account(a)
	}
	b.unbookedChanged(after)
	edited := digest(&s.Status) != s.Status.Digest
	replaced := in.NamespaceUID != "" && in.NamespaceUID != s.Status.NamespaceUID
	if !b.changed && !edited && !replaced {
		return nil
	}
	b.age()
	b.sheet.write(&after.Status)
	after.Status.Marks = b.list()
	if b.changed {
		after.Status.LastBookingTime = &metav1.Time{Time: in.Now}
	}
	if replaced {
		after.Status.NamespaceUID = in.NamespaceUID
	}
	judge(after, in.Now, flaws{
		edited: edited, replaced: replaced, figuresLost: b.figuresLost, unbooked: after.Status.UnbookedObjects,
	})
	seal(&after.Status)
	return after
}

// Pending reports whether an object has figures that are not in an open Statement.
func Pending(s *v1alpha1.Statement, a Account, now time.Time) bool {
	b := newBooking(s.DeepCopy(), Booking{Accounts: []Account{a}, Now: now})
	b.account(a)
	return b.changed || b.unbooked > 0
}

// booking is a Statement that is being booked.
type booking struct {
	Booking
	day, month string
	sheet      *sheet
	marks      map[types.UID]v1alpha1.StatementMark
	seen       map[types.UID]bool
	// expired are marks of objects that have been gone for longer than markGrace.
	expired  []types.UID
	changed  bool
	unbooked int32
	// figuresLost: an object does not show any more what was booked last, or what came after it.
	figuresLost bool
}

func newBooking(s *v1alpha1.Statement, in Booking) *booking {
	b := &booking{
		Booking: in, month: s.Spec.Month, day: dayIn(s.Spec.Month, in.Now), sheet: readSheet(&s.Status),
		marks: map[types.UID]v1alpha1.StatementMark{}, seen: map[types.UID]bool{},
	}
	for _, a := range in.Accounts {
		b.seen[a.UID] = true
	}
	for _, m := range s.Status.Marks {
		b.marks[m.UID] = m
		if !b.seen[m.UID] && m.GoneTime != nil && in.Now.Sub(m.GoneTime.Time) > markGrace {
			b.expired = append(b.expired, m.UID)
		}
	}
	return b
}

// account books what an object has used since its mark.
func (b *booking) account(a Account) {
	mark, known := b.marks[a.UID]
	if known && older(a.ResourceVersion, mark.ResourceVersion) {
		return
	}
	next := mark
	next.UID = a.UID
	if !known && !a.Used() && (len(a.Lives) == 0 || !a.Lives[0].Ended) {
		return
	}
	if !known && !b.hasSpace(a) {
		if a.Used() {
			b.unbooked++
		}
		return
	}
	complete := b.lives(a, known, mark, &next)
	b.stored(a, &next)
	if !complete {
		b.unbooked++
	}
	if reflect.DeepEqual(next, mark) || !known && reflect.DeepEqual(next, v1alpha1.StatementMark{UID: a.UID}) {
		return
	}
	next.ResourceVersion, next.GoneTime = a.ResourceVersion, nil
	b.marks[a.UID], b.changed = next, true
}

// lives books the life that the mark is of and those that began after it. It returns false when there was no space.
func (b *booking) lives(a Account, known bool, mark v1alpha1.StatementMark, next *v1alpha1.StatementMark) bool {
	marked, first := -1, 0
	if known {
		marked = slices.IndexFunc(a.Lives, func(l Life) bool { return l.ID == mark.Life })
	} else if a.Trimmed && !b.Adopt && !b.before(a, a.Lives[0]) {
		b.figuresLost = true
	}
	if known && marked < 0 && mark.Life != "" && len(a.Lives) > 0 {
		first = b.afterLost(a, mark)
		if first > 0 {
			skipped := a.Lives[first-1]
			next.Life, next.Final, next.Figures = skipped.ID, skipped.Ended, nil
			if !skipped.Ended {
				next.Figures = pack(skipped.Figures)
			}
		}
	}
	for i, life := range a.Lives {
		var base Figures
		switch {
		case i < first, i < marked, i == marked && mark.Final:
			continue
		case i == marked:
			base = unpack(mark.Figures)
		}
		more, top := life.Figures.since(base)
		if !known && b.before(a, life) {
			more = Figures{}
		}
		if !more.zero() && !b.Adopt && !b.sheet.book(b.day, life, more, 0) {
			return false
		}
		next.Life, next.Final, next.Figures = life.ID, life.Ended, nil
		if !life.Ended {
			next.Figures = pack(top)
		}
	}
	return true
}

// afterLost is the index of the first life that began after the marked one, which an object does not show any more. If
// lives were trimmed all did but those with a smaller number of the same run; unless the next number is shown, others
// may have been trimmed unbooked. If none were, somebody changed the object's status: what may have been booked is left
// out. In either case the Statement says so.
func (b *booking) afterLost(a Account, mark v1alpha1.StatementMark) int {
	run, number := attemptOf(mark.Life)
	first, later := 0, -1
	for i, life := range a.Lives {
		switch r, n := attemptOf(life.ID); {
		case r != run:
		case n <= number:
			first = i + 1
		case later < 0:
			later = i
		}
	}
	if a.Trimmed {
		oldest, n := attemptOf(a.Lives[0].ID)
		if !mark.Final || oldest != run || n > number+1 {
			b.figuresLost = true
		}
		return first
	}
	b.figuresLost = true
	last := len(a.Lives) - 1
	switch {
	case first > 0 || later >= 0:
		return max(first, later)
	case a.Lives[last].Ended:
		return last + 1
	}
	return last
}

// before reports whether a life is not of the object, since it began before that was made, or ended before the first
// month of the namespace.
func (b *booking) before(a Account, life Life) bool {
	if !life.StartTime.IsZero() && life.StartTime.Before(a.Created.Add(-restoredGrace)) {
		return true
	}
	return b.First && life.Ended && !life.EndTime.IsZero() && life.EndTime.Before(startOf(b.month).Add(-openingGrace))
}

// stored books bytes at rest. Their time is booked whether it is of the clock's past or future, and never twice: while
// the clock is behind what was booked nothing is.
func (b *booking) stored(a Account, next *v1alpha1.StatementMark) {
	now := &metav1.Time{Time: b.Now}
	if next.StoredTime == nil {
		if a.StoredBytes > 0 {
			next.StoredTime = now
		}
		return
	}
	passed := b.Now.Sub(next.StoredTime.Time)
	if passed < storedStep && !(a.Deleting && passed >= time.Minute) {
		return
	}
	if more := byteHours(a.StoredBytes, int64(min(passed, maxStoredStep))); more > 0 && !b.Adopt {
		if !b.sheet.book(b.day, a.Stored, Figures{}, more) {
			return
		}
	}
	if next.StoredTime = now; a.StoredBytes == 0 {
		next.StoredTime = nil
	}
}

// hasSpace for another mark, if need be in place of one whose object is gone.
func (b *booking) hasSpace(a Account) bool {
	most := maxMarks
	if a.Deleting {
		most += reservedMarks
	}
	if len(b.marks) < most {
		return true
	}
	if len(b.expired) == 0 {
		return false
	}
	delete(b.marks, b.expired[0])
	b.expired = b.expired[1:]
	return true
}

// age notes which objects are gone, and removes marks of those that have been for long. It is no reason to write.
func (b *booking) age() {
	for uid, m := range b.marks {
		switch {
		case b.seen[uid]:
			m.GoneTime = nil
		case m.GoneTime == nil:
			m.GoneTime = &metav1.Time{Time: b.Now}
		case b.Now.Sub(m.GoneTime.Time) > markGrace:
			delete(b.marks, uid)
			continue
		}
		b.marks[uid] = m
	}
}

func (b *booking) unbookedChanged(after *v1alpha1.Statement) {
	if after.Status.UnbookedObjects != b.unbooked {
		after.Status.UnbookedObjects, b.changed = b.unbooked, true
	}
}

func (b *booking) list() []v1alpha1.StatementMark {
	var all []v1alpha1.StatementMark
	for _, m := range b.marks {
		all = append(all, m)
	}
	slices.SortFunc(all, func(x, y v1alpha1.StatementMark) int { return cmp.Compare(x.UID, y.UID) })
	return all
}

// older reports whether a resource version is before another. Of two that cannot be compared neither is.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

func pack(f Figures) []int64 {
	n := len(f)
	for n > 0 && f[n-1] == 0 {
		n--
	}
	if n == 0 {
		return nil
	}
	return slices.Clone(f[:n])
}

func unpack(list []int64) Figures {
	var f Figures
	for i, n := range list[:min(len(list), len(f))] {
		f[i] = natural(n)
	}
	return f
}

// dayIn is the day to book on: today, or the day of the month that is next to it when the clock is in another month.
func dayIn(month string, now time.Time) string {
	first := startOf(month)
	last := first.AddDate(0, 1, -1)
	day := now.UTC()
	switch {
	case day.Before(first):
		day = first
	case !day.Before(last.AddDate(0, 0, 1)):
		day = last
	}
	return day.Format(time.DateOnly)
}

const monthFormat = "2006-01"

// MonthOf is the month of a time.
func MonthOf(t time.Time) string { return t.UTC().Format(monthFormat) }

// startOf a month. The API server admits no other names; one that it never saw is of the year 1.
func startOf(month string) time.Time {
	t, err := time.Parse(monthFormat, month)
	if err != nil {
		return time.Time{}
	}
	return t
}

// monthsAfter is the month so many after another.
func monthsAfter(month string, n int) string { return MonthOf(startOf(month).AddDate(0, n, 0)) }

func objectsText(n int32) string {
	if n == 1 {
		return "1 object has"
	}
	return fmt.Sprintf("%d objects have", n)
}
