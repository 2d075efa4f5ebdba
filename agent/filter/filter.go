// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"fmt"
	"strings"
)

// Filter decides what of a tree is moved. It is safe for concurrent use; nil moves everything.
type Filter struct {
	include, exclude []pattern
}

// New returns the filter of patterns. An error says which pattern is wrong and how to fix it. Patterns of a peer may
// be passed: the work for a path is bounded by MaxPatterns and MaxPattern.
func New(include, exclude []string) (*Filter, error) {
	f := &Filter{}
	for _, list := range []struct {
		name   string
		texts  []string
		parsed *[]pattern
	}{{"include", include, &f.include}, {"exclude", exclude, &f.exclude}} {
		if len(list.texts) > MaxPatterns {
			return nil, fmt.Errorf(
				"%d %s patterns; the limit is %d: put some together with \"*\" or \"**\"", len(list.texts), list.name, MaxPatterns,
			)
		}
		for i, text := range list.texts {
			p, err := parse(text)
			if err == nil && p.negated && list.parsed == &f.include {
				err = errNegated
			}
			if err != nil {
				return nil, fmt.Errorf("%s pattern %d (%.100q): %w", list.name, i+1, text, err)
			}
			*list.parsed = append(*list.parsed, p)
		}
	}
	return f, nil
}

// Match reports whether an entry moves itself. directory says what it is. path is relative to the root, with "/"
// between elements; the root, ".", always moves.
func (f *Filter) Match(path string, directory bool) bool {
	match, _ := f.look(path, directory)
	return match
}

// Enter reports whether anything in a directory could move.
func (f *Filter) Enter(path string) bool {
	_, enter := f.look(path, true)
	return enter
}

// look follows a path from the root, because what holds for a directory holds for what is in it.
func (f *Filter) look(path string, directory bool) (match, enter bool) {
	if f == nil || path == "." || len(f.include)+len(f.exclude) == 0 {
		return true, true
	}
	var includeStates, excludeStates [MaxPatterns]states
	begin(f.include, &includeStates)
	begin(f.exclude, &excludeStates)
	included := len(f.include) == 0
	excluded := -1 // the last pattern that excludes, -1 for none
	for name, rest, more := strings.Cut(path, "/"); ; name, rest, more = strings.Cut(rest, "/") {
		if !included {
			included = last(f.include, &includeStates, name, directory || more) >= 0
		}
		switch i := last(f.exclude, &excludeStates, name, directory || more); {
		case i < 0:
		case !f.exclude[i].negated:
			excluded = max(excluded, i)
		case i > excluded:
			excluded = -1
		}
		if !more {
			break
		}
	}
	match = included && excluded < 0
	if !directory {
		return match, false
	}
	enter = included || anyOpen(f.include, &includeStates)
	if enter && excluded >= 0 {
		enter = anyOpenNegated(f.exclude, &excludeStates, excluded)
	}
	return match, enter
}

func begin(patterns []pattern, s *[MaxPatterns]states) {
	for i := range patterns {
		s[i] = patterns[i].start()
	}
}

// last takes an element of a path and returns the index of the last pattern that matches, -1 if none does.
func last(patterns []pattern, s *[MaxPatterns]states, name string, directory bool) int {
	found := -1
	for i := range patterns {
		if s[i] == 0 {
			continue
		}
		s[i] = patterns[i].next(s[i], name)
		if patterns[i].matched(s[i], directory) {
			found = i
		}
	}
	return found
}

func anyOpen(patterns []pattern, s *[MaxPatterns]states) bool {
	for i := range patterns {
		if patterns[i].open(s[i]) {
			return true
		}
	}
	return false
}

// anyOpenNegated reports whether a pattern after the one that excludes could take something back.
func anyOpenNegated(patterns []pattern, s *[MaxPatterns]states, excluded int) bool {
	for i := excluded + 1; i < len(patterns); i++ {
		if patterns[i].negated && patterns[i].open(s[i]) {
			return true
		}
	}
	return false
}
