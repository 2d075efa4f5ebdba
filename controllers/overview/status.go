// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/check"
	"github.com/lighterage/lighterage/controllers/table"
)

// Object is what all kinds have in common.
type Object struct {
	Namespace  string
	Name       string
	Conditions []metav1.Condition
}

// Kind is what was read of a kind.
type Kind struct {
	Name    string
	Objects check.Fact[[]Object]
	// Cut: there are more objects than those.
	Cut bool
}

// Facts are what a Status is made of.
type Facts struct {
	// Check are the facts of kubectl lighterage check; nil where they were not gathered.
	Check *check.Facts
	Kinds []Kind
	Runs  []Run
}

// Count is how many objects of a kind are in which state.
type Count struct {
	Kind   string        `json:"kind"`
	Total  int           `json:"total"`
	States map[State]int `json:"states,omitempty"`
	// Note says what is missing.
	Note string `json:"note,omitempty"`
}

// Problem is an object that somebody should look at.
type Problem struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
}

// Status is one screen about a cluster.
type Status struct {
	// Operator are results of checks: of versions, of the operator itself and of trust.
	Operator []check.Result `json:"operator"`
	// Nodes that have a NodeProfile, and those of them whose accelerator works.
	Nodes        int `json:"nodes"`
	Accelerators int `json:"accelerators"`
	// Errors and Warnings of all checks.
	Errors   int `json:"errors"`
	Warnings int `json:"warnings"`

	Kinds    []Count   `json:"kinds"`
	Problems []Problem `json:"problems"`
	// Runs that are under way or wait.
	Runs []Run `json:"runs"`
	// RunNotes say which are missing.
	RunNotes []string `json:"runNotes,omitempty"`
}

// HasRuns reports whether objects of a kind are runs, or have some.
func HasRuns(kind string) bool { return kind == "Transfer" || kind == "Delivery" || kind == trialKind }

// Summarise makes a Status of facts.
func Summarise(f *Facts) Status {
	s := Status{Problems: []Problem{}, Runs: []Run{}}
	if f.Check != nil {
		s.check(f.Check)
	}
	for _, kind := range f.Kinds {
		s.Kinds = append(s.Kinds, s.count(kind))
	}
	slices.SortFunc(s.Problems, func(a, b Problem) int {
		return cmp.Or(
			Worse(a.State, b.State), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.Name, b.Name),
		)
	})
	for _, kind := range s.Kinds {
		if kind.Note != "" && HasRuns(kind.Kind) {
			s.RunNotes = append(s.RunNotes, "runs may be missing: "+kind.Kind+": "+kind.Note)
		}
	}
	for i := range f.Runs {
		if !f.Runs[i].Idle() {
			s.Runs = append(s.Runs, f.Runs[i])
		}
	}
	Sort(s.Runs)
	return s
}

// check fills in what checks and nodes show.
func (s *Status) check(f *check.Facts) {
	results := check.Run(f)
	s.Errors, s.Warnings = check.Count(results, check.Error), check.Count(results, check.Warning)
	for _, r := range results {
		switch r.Check {
		case "kubernetes", "operator", "manager", "gateway", "node-agents", "ca":
			s.Operator = append(s.Operator, r)
		}
	}
	s.Nodes = len(f.NodeProfiles.Value)
	for i := range f.NodeProfiles.Value {
		a := f.NodeProfiles.Value[i].Status.Accelerator
		if a != nil && a.State == v1alpha1.AcceleratorVerified {
			s.Accelerators++
		}
	}
}

// count counts the objects of a kind and notes those with problems.
func (s *Status) count(kind Kind) Count {
	c := Count{Kind: kind.Name, Total: len(kind.Objects.Value), States: map[State]int{}}
	switch {
	case kind.Objects.Err != nil:
		c.Note = "cannot be read: " + kind.Objects.Err.Error()
	case kind.Cut:
		c.Note = fmt.Sprintf("the first %d only", c.Total)
	}
	for i := range kind.Objects.Value {
		o := &kind.Objects.Value[i]
		now, why := StateOf(o.Conditions)
		c.States[now]++
		told := now != Ready && now != Working && now != Resting
		for _, c := range unmet(o.Conditions) {
			if told && why != nil && c.Reason == why.Reason {
				continue // it is what keeps the object from being ready
			}
			s.Problems = append(s.Problems, Problem{
				Kind: kind.Name, Namespace: o.Namespace, Name: o.Name, State: now, Reason: c.Reason, Message: c.Message,
			})
		}
		if !told {
			continue
		}
		p := Problem{Kind: kind.Name, Namespace: o.Namespace, Name: o.Name, State: now}
		if why != nil {
			p.Reason, p.Message = why.Reason, why.Message
		} else {
			p.Message = "no controller has looked at it yet"
		}
		s.Problems = append(s.Problems, p)
	}
	return c
}

// promised are conditions that somebody should look at while they are False, whatever the state of the object is.
var promised = []string{
	v1alpha1.ConditionWithinObjective, v1alpha1.ConditionWithinDeadline, v1alpha1.ConditionRecoverable,
	v1alpha1.ConditionHooksSucceeded, v1alpha1.ConditionHistoryKept, v1alpha1.ConditionDestinationFits,
	v1alpha1.ConditionArchived, v1alpha1.ConditionConnected, v1alpha1.ConditionHandOffReady,
}

// momentary are reasons why one of them is False until something has started that is under way.
var momentary = []string{v1alpha1.ReasonArchivePending, v1alpha1.ReasonConnecting, v1alpha1.ReasonStarting}

// unmet are those of an object that are False, and not for a moment only.
func unmet(of []metav1.Condition) []metav1.Condition {
	var all []metav1.Condition
	for _, name := range promised {
		c := meta.FindStatusCondition(of, name)
		if c != nil && c.Status == metav1.ConditionFalse && !slices.Contains(momentary, c.Reason) {
			all = append(all, *c)
		}
	}
	return all
}

// Lines are the screen. Of problems and of runs there are at most as many as most, and lines are broken at width; 0 is
// any, of both.
func (s *Status) Lines(width, most int) []string {
	var lines []string
	line := func(format string, values ...any) {
		text := table.Wrap(fmt.Sprintf(format, values...), "    ", width)
		lines = append(lines, strings.Split(text, "\n")...)
	}
	line("Operator")
	for _, r := range s.Operator {
		line("  %-7s %s", r.Result, r.Message)
	}
	if s.Errors+s.Warnings > 0 {
		line("  %d errors, %d warnings of all checks; see kubectl lighterage check", s.Errors, s.Warnings)
	}
	line("  %d nodes measured, %d with a working accelerator", s.Nodes, s.Accelerators)
	line("Objects")
	none := []string{}
	for _, c := range s.Kinds {
		if c.Total == 0 && c.Note == "" {
			none = append(none, c.Kind)
			continue
		}
		line("  %-17s %s", c.Kind, c.text())
	}
	if len(none) > 0 {
		line("  none: %s", strings.Join(none, ", "))
	}
	line("Needs attention")
	for i, p := range s.Problems {
		if most > 0 && i == most {
			line("  ... and %d more; --all shows them", len(s.Problems)-i)
			break
		}
		line("  %s", p.text())
	}
	if len(s.Problems) == 0 {
		line("  nothing")
	}
	line("Runs")
	shown := s.Runs
	if most > 0 && len(shown) > most {
		shown = shown[:most]
	}
	line("  %s", Sum(s.Runs))
	for i := range shown {
		if width == 0 {
			line("  %s", shown[i].Text())
			continue
		}
		for _, text := range shown[i].block(max(width-2, 1)) {
			lines = append(lines, "  "+text)
		}
	}
	if n := len(s.Runs) - len(shown); n > 0 {
		line("  ... and %d more; --all or kubectl lighterage watch shows them", n)
	}
	for _, note := range s.RunNotes {
		line("  %s", note)
	}
	return lines
}

func (c *Count) text() string {
	var parts []string
	for _, s := range states {
		if n := c.States[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if c.Note != "" {
		parts = append(parts, c.Note)
	}
	return strings.Join(parts, ", ")
}

func (p *Problem) text() string {
	name := p.Name
	if p.Namespace != "" {
		name = p.Namespace + "/" + name
	}
	text := p.Kind + " " + name + " " + string(p.State)
	if p.Reason != "" {
		text += ", " + p.Reason
	}
	if p.Message != "" {
		text += ": " + p.Message
	}
	return text
}
