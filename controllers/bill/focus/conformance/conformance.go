// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conformance checks a table against the rules of FOCUS 1.4 for the dataset Cost and Usage. It reads values as
// they are written and knows nothing of how they were made.
//
// It checks presence, types, nulls and formats of all columns that it knows, the allowed values, the rules between
// columns that package focus writes, and what that package promises besides: all four costs are equal, a row is usage
// of one UTC day or month, and no charge occurs twice. It rejects FOCUS columns of which it does not know the rules.
// Requirements on documents, invoices and other datasets are not in a table, and not checked.
package conformance

import (
	"fmt"
	"slices"

	"github.com/lighterage/lighterage/controllers/bill/focus"
)

// Violation is a rule that a table breaks.
type Violation struct {
	// Row counts from 0; -1 where the violation is of the table.
	Row int
	// Column that breaks the rule.
	Column string
	// Rule is what is demanded of it.
	Rule string
	// Value that it has; nil is null.
	Value *string
}

// Error says what is wrong.
func (v Violation) Error() string {
	switch {
	case v.Row < 0:
		return fmt.Sprintf("FOCUS %s: column %s %s", focus.Version, v.Column, v.Rule)
	case v.Value == nil:
		return fmt.Sprintf("FOCUS %s: row %d: %s %s, and is null", focus.Version, v.Row, v.Column, v.Rule)
	}
	return fmt.Sprintf("FOCUS %s: row %d: %s %s, and is %q", focus.Version, v.Row, v.Column, v.Rule, *v.Value)
}

// Check returns what breaks a rule, in the order of the rows; nil for a table that conforms.
func Check(t focus.Table) []Violation {
	found := checkColumns(t)
	if len(found) > 0 {
		return found // without its columns a row has no meaning
	}
	for i, cells := range t.Rows {
		if len(cells) != len(t.Columns) {
			found = append(found, Violation{i, "", fmt.Sprintf("must be one of %d", len(t.Columns)), nil})
			continue
		}
		r := row{number: i, cells: map[string]*string{}}
		for c, column := range t.Columns {
			r.cells[column.Name] = cells[c]
		}
		for _, column := range t.Columns {
			r.checkValue(column)
		}
		// Rules between columns are for values that are valid each for itself.
		if len(r.found) == 0 {
			r.checkRelations()
			r.checkPromises()
		}
		found = append(found, r.found...)
	}
	if len(found) == 0 {
		found = checkRows(t)
	}
	return found
}

// row is a row that is checked.
type row struct {
	number int
	cells  map[string]*string
	found  []Violation
}

// demand notes a violation unless a rule is kept.
func (r *row) demand(kept bool, column, format string, values ...any) {
	if !kept {
		r.found = append(r.found, Violation{r.number, column, fmt.Sprintf(format, values...), r.cells[column]})
	}
}

// is reports whether a column has the value.
func (r *row) is(column, value string) bool {
	return r.cells[column] != nil && *r.cells[column] == value
}

// null reports whether a column is null.
func (r *row) null(column string) bool { return r.cells[column] == nil }

// checkColumns holds the columns to those of the specification.
func checkColumns(t focus.Table) []Violation {
	var found []Violation
	demand := func(kept bool, column, rule string) {
		if !kept {
			found = append(found, Violation{-1, column, rule, nil})
		}
	}
	present := map[string]bool{}
	for _, c := range t.Columns {
		known, ok := columns[c.Name]
		demand(!present[c.Name], c.Name, "must occur once")
		demand(ok || custom.MatchString(c.Name), c.Name, "must be one of the specification, or begin with x_")
		demand(!ok || known.of == c.Type, c.Name, "must be of type "+string(known.of))
		present[c.Name] = true
	}
	for name, c := range columns {
		demand(c.presence != mandatory || present[name], name, "must be present")
		for _, other := range c.with {
			demand(!present[name] || present[other], other, "must be present where "+name+" is")
		}
	}
	slices.SortFunc(found, func(a, b Violation) int {
		return slices.Compare([]string{a.Column, a.Rule}, []string{b.Column, b.Rule})
	})
	return found
}
