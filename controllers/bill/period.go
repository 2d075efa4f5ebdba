// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package bill

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const (
	monthForm = "2006-01"
	// maxMonths bounds a period.
	maxMonths = 120
)

// Period is a number of UTC days, from the first one to before the last one.
type Period struct{ begin, end time.Time }

// NewPeriod reads a month (YYYY-MM), or the first and the last day (YYYY-MM-DD, both included), or takes the month of
// now when all are empty. Without a last day the period ends with today. The error says how to write it.
func NewPeriod(month, from, to string, now time.Time) (Period, error) {
	if from == "" && to == "" {
		if month == "" {
			month = now.UTC().Format(monthForm)
		}
		begin, err := parseMonth(month)
		if err != nil {
			return Period{}, err
		}
		return Period{begin, begin.AddDate(0, 1, 0)}, nil
	}
	if month != "" {
		return Period{}, errors.New("write a month, or the first and the last day, not both")
	}
	if from == "" {
		return Period{}, errors.New("the first day is missing; write it as YYYY-MM-DD")
	}
	if to == "" {
		to = now.UTC().Format(time.DateOnly)
	}
	begin, err := parseDay(from)
	if err != nil {
		return Period{}, err
	}
	last, err := parseDay(to)
	if err != nil {
		return Period{}, err
	}
	p := Period{begin, last.AddDate(0, 0, 1)}
	switch {
	case last.Before(begin):
		return Period{}, fmt.Errorf("the last day, %s, is before the first one, %s", to, from)
	case begin.AddDate(0, maxMonths, 0).Before(p.end):
		return Period{}, fmt.Errorf("the period has more than %d months; choose a shorter one", maxMonths)
	}
	return p, nil
}

// Months are those that the period has days of.
func (p Period) Months() []string {
	var all []string
	first := time.Date(p.begin.Year(), p.begin.Month(), 1, 0, 0, 0, 0, time.UTC)
	for m := first; m.Before(p.end); m = m.AddDate(0, 1, 0) {
		all = append(all, m.Format(monthForm))
	}
	return all
}

// String has the first and the last day.
func (p Period) String() string {
	return p.begin.Format(time.DateOnly) + " to " + p.end.AddDate(0, 0, -1).Format(time.DateOnly)
}

// includes reports whether all of it is in the period, overlaps whether some of it is.
func (p Period) includes(begin, end time.Time) bool {
	return !begin.Before(p.begin) && !end.After(p.end)
}
func (p Period) overlaps(begin, end time.Time) bool { return begin.Before(p.end) && end.After(p.begin) }

func parseMonth(text string) (time.Time, error) {
	at, err := time.Parse(monthForm, text)
	if err != nil {
		return at, fmt.Errorf("%q is no month; write it as YYYY-MM, for example 2026-11", text)
	}
	return at, nil
}

func parseDay(text string) (time.Time, error) {
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return at, fmt.Errorf("%q is no day; write it as YYYY-MM-DD, for example 2026-11-23", text)
	}
	return at, nil
}

// dayOrMonth writes the day of a row, or the month where days are not known.
func dayOrMonth(begin, end time.Time) string {
	if begin.AddDate(0, 0, 1).Equal(end) {
		return begin.Format(time.DateOnly)
	}
	return begin.Format(monthForm)
}

// MarshalJSON writes the first and the last day, both included.
func (p Period) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{
		"from": p.begin.Format(time.DateOnly), "to": p.end.AddDate(0, 0, -1).Format(time.DateOnly),
	})
}
