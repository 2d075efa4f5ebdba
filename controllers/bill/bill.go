// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package bill sums up Statements: by namespace, kind, peer and so on as tables, JSON and CSV, and as charges of
// package focus. It is pure, and its arithmetic is exact.
//
// Amounts in different currencies are never added. What compression avoided is shown next to a cost and never deducted
// from it.
package bill

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Dimension is what entries of a bill can be told apart by.
type Dimension string

// The dimensions that Statements have.
const (
	ByNamespace Dimension = "namespace"
	ByKind      Dimension = "kind"
	ByPeer      Dimension = "peer"
	ByDirection Dimension = "direction"
	ByEngine    Dimension = "engine"
	ByNodeClass Dimension = "nodeclass"
	ByDay       Dimension = "day"
)

// Dimensions are all that there are.
func Dimensions() []Dimension {
	return []Dimension{ByNamespace, ByKind, ByPeer, ByDirection, ByEngine, ByNodeClass, ByDay}
}

// ParseDimensions reads names of dimensions. The error lists those that there are.
func ParseDimensions(names []string) ([]Dimension, error) {
	var all []Dimension
	for _, name := range names {
		d := Dimension(name)
		if !slices.Contains(Dimensions(), d) {
			return nil, fmt.Errorf("a bill has no %q; write one or more of %s", name, list(Dimensions()))
		}
		if slices.Contains(all, d) {
			return nil, fmt.Errorf("%s is named twice", d)
		}
		all = append(all, d)
	}
	return all, nil
}

func list(dimensions []Dimension) string {
	var names []string
	for _, d := range dimensions {
		names = append(names, string(d))
	}
	return strings.Join(names, ", ")
}

// Gap is a Statement that says itself that figures are missing or may be wrong.
type Gap struct {
	// Statement as NAMESPACE/MONTH.
	Statement string `json:"statement"`
	// Reason and Message of its condition Complete.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Account is what Statements have of a period.
type Account struct {
	period Period
	lines  []line
	// Statements that were added and have figures.
	Statements int
	// Gaps are those of them that are not complete.
	Gaps []Gap
}

// NewAccount returns an empty one.
func NewAccount(period Period) *Account { return &Account{period: period} }

// Add adds the rows of a Statement that are in the period. The error names a value that no manager writes, or says that
// the days of the Statement were summed up and the period has only some of them. The account must not be used then.
func (a *Account) Add(s *v1alpha1.Statement) error {
	name := s.Namespace + "/" + s.Spec.Month
	month, err := parseMonth(s.Spec.Month)
	if err != nil {
		return fmt.Errorf("reading Statement %s: spec.month: %w", name, err)
	}
	if s.Status.State == "" || !a.period.overlaps(month, month.AddDate(0, 1, 0)) {
		return nil
	}
	a.Statements++
	complete := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionComplete)
	if c := complete; c != nil && c.Status == metav1.ConditionFalse {
		a.Gaps = append(a.Gaps, Gap{name, c.Reason, c.Message})
	}
	prices, err := parsePrices(s.Status.Prices)
	if err != nil {
		return fmt.Errorf("reading Statement %s: %w", name, err)
	}
	for i := range s.Status.Rows {
		row, err := newLine(s.Namespace, month, &s.Status.Rows[i], prices)
		if err != nil {
			return fmt.Errorf("reading Statement %s: status.rows[%d]: %w", name, i, err)
		}
		switch {
		case a.period.includes(row.begin, row.end):
			a.lines = append(a.lines, row)
		case a.period.overlaps(row.begin, row.end):
			return fmt.Errorf(
				"the days of Statement %s were summed up, as they are in months older than the previous one; choose whole "+
					"months, such as --from %s --to %s",
				name, row.begin.Format(time.DateOnly), row.end.AddDate(0, 0, -1).Format(time.DateOnly),
			)
		}
	}
	return nil
}

// Bill is an account by dimensions.
type Bill struct {
	Period Period      `json:"period"`
	By     []Dimension `json:"by"`
	// Entries by the dimensions, then by currency.
	Entries []Entry `json:"entries"`
	// Totals by currency. One without a currency is of what was not charged.
	Totals []Entry `json:"totals"`
	Gaps   []Gap   `json:"gaps,omitempty"`
}

// Entry is a sum.
type Entry struct {
	keys     []string
	by       []Dimension
	currency string
	sums     sums
}

// By sums up what is the same in the dimensions and has one currency.
func (a *Account) By(dimensions []Dimension) Bill {
	return Bill{
		Period: a.period, By: dimensions, Entries: a.sum(dimensions), Totals: a.sum(nil), Gaps: a.Gaps,
	}
}

func (a *Account) sum(by []Dimension) []Entry {
	entries := map[string]*Entry{}
	for i := range a.lines {
		l := &a.lines[i]
		var keys []string
		for _, d := range by {
			keys = append(keys, l.key(d))
		}
		id := strings.Join(append(keys[:len(keys):len(keys)], l.currency), "\x00")
		if entries[id] == nil {
			entries[id] = &Entry{keys: keys, by: by, currency: l.currency}
		}
		entries[id].sums.add(&l.sums)
	}
	all := make([]Entry, 0, len(entries))
	for _, e := range entries {
		all = append(all, *e)
	}
	slices.SortFunc(all, func(x, y Entry) int {
		return cmp.Or(slices.Compare(x.keys, y.keys), cmp.Compare(x.currency, y.currency))
	})
	return all
}
