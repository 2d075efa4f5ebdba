// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bytes"
	"cmp"
	_ "embed" // for what reasons mean
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/overview"
	"github.com/lighterage/lighterage/controllers/table"
)

// Report explains an object of any kind: its conditions and what to do about them, what was decided and why, what it
// cost, and what the alternatives are.
type Report struct {
	Kind      string         `json:"kind"`
	Namespace string         `json:"namespace,omitempty"`
	Name      string         `json:"name"`
	State     overview.State `json:"state"`
	// Conditions, with what their reasons mean.
	Conditions []Condition `json:"conditions"`
	// Sections are facts about the object, for people; programs read status.
	Sections []Section `json:"sections"`
	// Next says what to do.
	Next []string `json:"next"`
	// Explanation is that of a Transfer which runs or has run.
	*Explanation
}

// Condition is one of status.
type Condition struct {
	Type    string                 `json:"type"`
	Status  metav1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
	Since   *time.Time             `json:"since,omitempty"`
	// Means is what documents the reason; empty where the condition is as it should be.
	Means string `json:"means,omitempty"`
}

// Section is a table with a title. Rows begin with a name.
type Section struct {
	Title string     `json:"title"`
	Rows  table.Rows `json:"rows"`
	// titled: the first of Rows has titles, which are the same whatever is known.
	titled bool
}

// Legible are the rows for people. Programs get all columns.
func (s Section) Legible() table.Rows {
	if s.titled {
		return Legible(s.Rows)
	}
	return s.Rows
}

// Object is one that can be explained.
type Object interface {
	metav1.Object
	runtime.Object
}

// Of explains an object of any kind. What Input has beside the Transfer, which is the object then, is about Transfers.
func Of(object Object, in Input) (*Report, error) {
	kind := reflect.TypeOf(object).Elem().Name()
	facts, ok := kinds[kind]
	if !ok {
		return nil, fmt.Errorf("objects of kind %s cannot be explained", kind)
	}
	r := &Report{
		Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), Conditions: []Condition{}, Next: []string{},
		Sections: []Section{},
	}
	conditions := Conditions(object)
	r.State, _ = overview.StateOf(conditions)
	for _, c := range conditions {
		r.Conditions = append(r.Conditions, condition(c))
	}
	if in.Now.IsZero() {
		in.Now = time.Now()
	}
	facts(object, &sheet{report: r, now: in.Now})
	r.Sections = slices.DeleteFunc(r.Sections, func(s Section) bool { return len(s.Rows) == 0 })
	observed := reflect.ValueOf(object).Elem().FieldByName("Status").FieldByName("ObservedGeneration").Int()
	r.advise(object, observed, conditions)
	if kind != "Transfer" {
		return r, nil
	}
	var err error
	if r.Explanation, err = Explain(in); errors.Is(err, ErrNotRun) {
		r.Next = append(r.Next, waitsFor(&in.Transfer.Status))
		return r, nil
	}
	return r, err
}

// Conditions are those of an object of any kind that Of explains.
func Conditions(object Object) []metav1.Condition {
	status := reflect.ValueOf(object).Elem().FieldByName("Status")
	conditions, _ := status.FieldByName("Conditions").Interface().([]metav1.Condition)
	return conditions
}

//go:embed reasons.txt
var documented string

// meanings are what api/v1alpha1/conditions.go says of reasons of conditions; a test holds that they are the same.
var meanings = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(documented) {
		if reason, meaning, found := strings.Cut(strings.TrimSpace(line), ": "); found {
			all[reason] = meaning
		}
	}
	return all
})

func condition(c metav1.Condition) Condition {
	told := Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
	if !c.LastTransitionTime.IsZero() {
		told.Since = when(&c.LastTransitionTime)
	}
	// Of these, False is as it should be.
	bad := c.Type == v1alpha1.ConditionStalled || c.Type == v1alpha1.ConditionFailed
	usual := bad || c.Type == v1alpha1.ConditionReconciling
	if bad && c.Status == metav1.ConditionTrue || !usual && c.Status != metav1.ConditionTrue {
		told.Means = cmp.Or(meanings()[c.Reason], sentences[c.Reason])
	}
	return told
}

// advise says what to do: about the conditions, and to learn more.
func (r *Report) advise(object Object, observed int64, conditions []metav1.Condition) {
	advice := func(format string, values ...any) { r.Next = append(r.Next, fmt.Sprintf(format, values...)) }
	if object.GetDeletionTimestamp() != nil {
		advice("it is being deleted; these keep it until their work is done: %s",
			cmp.Or(strings.Join(object.GetFinalizers(), ", "), "no finalizers"))
	}
	const manager = "see whether the manager runs: kubectl lighterage check"
	switch {
	case len(conditions) == 0 && r.Kind != "Statement":
		advice("no controller has looked at it yet; %s", manager)
	case observed != object.GetGeneration() && object.GetGeneration() != 0:
		advice("status is about generation %d of the spec, and the present one is %d; %s", observed, object.GetGeneration(),
			manager)
	}
	name := strings.ToLower(r.Kind) + "/" + r.Name + " -n " + r.Namespace
	switch r.State {
	case overview.Failed:
		advice("remove the cause, then start another run: kubectl lighterage run %s", name)
	case overview.Stalled:
		advice("somebody must act, as the message of Stalled says; docs/operations/troubleshooting.md has each reason")
	case overview.Waiting, overview.Working, overview.Ready, overview.Resting, overview.Done:
	}
	switch r.Kind {
	case "Transfer":
		advice("see what belongs to it: kubectl lighterage tree %s", name)
		fallthrough
	case "Delivery", "CompressionTrial":
		if r.State == overview.Failed || r.State == overview.Stalled || r.State == overview.Working {
			advice("read what its agents log: kubectl lighterage logs %s", name)
		}
	case "HTTPEndpoint", "Queue":
		if r.State != overview.Ready {
			advice("read what its agents log: kubectl lighterage logs %s", name)
		}
	}
}

// WriteText writes a report for people.
func (r *Report) WriteText(to io.Writer) error {
	var out bytes.Buffer
	if r.Explanation != nil {
		if err := r.Explanation.WriteText(&out); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(&out, "%s %s: %s\n", r.Kind, table.Printable(strings.TrimPrefix(r.Namespace+"/"+r.Name, "/")), r.State)
	}
	r.writeConditions(&out)
	for _, s := range r.Sections {
		fmt.Fprintf(&out, "\n%s\n%s", table.Printable(s.Title), s.Legible().Text("  "))
	}
	bullets(&out, "Next", r.Next)
	if _, err := to.Write(out.Bytes()); err != nil {
		return fmt.Errorf("writing the explanation: %w", err)
	}
	return nil
}

// writeConditions writes conditions that say the same thing together.
func (r *Report) writeConditions(out *bytes.Buffer) {
	type said struct{ reason, message string }
	var order []said
	types, means := map[said][]string{}, map[said]string{}
	for _, c := range r.Conditions {
		key := said{c.Reason, c.Message}
		if len(types[key]) == 0 {
			order = append(order, key)
		}
		text := c.Type + " " + string(c.Status)
		if c.Since != nil {
			text += " since " + clock(*c.Since)
		}
		types[key] = append(types[key], text)
		means[key] = cmp.Or(means[key], c.Means)
	}
	if len(order) > 0 {
		fmt.Fprint(out, "\nConditions\n")
	}
	for _, key := range order {
		fmt.Fprintf(out, "  %s\n    %s\n", table.Printable(strings.Join(types[key], ", ")),
			table.Printable(strings.Trim(key.reason+": "+key.message, ": ")))
		if means[key] != "" {
			fmt.Fprintf(out, "    What it means: %s\n", table.Printable(means[key]))
		}
	}
}
