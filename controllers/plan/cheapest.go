// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/deadlineplan"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/policy"
	"github.com/lighterage/lighterage/controllers/tariff"
)

// maxClasses is how many node selectors of a Tariff are looked at.
const maxClasses = 4

// planned is what strategy Cheapest makes of a run that is wanted and has not begun.
type planned struct {
	// plan is nil where the run starts as with Soonest, for the reason in message.
	plan    *v1alpha1.DeadlinePlan
	message string
	// waits: the run is to start later.
	waits bool
}

// planStart decides when and how the run begins that is wanted; nil where that is not by price.
func (d *transferDecision) planStart() *planned {
	spec, kept := &d.transfer.Spec, d.transfer.Status.Deadline
	if spec.Deadline == nil || spec.Deadline.Strategy != v1alpha1.DeadlineCheapest || validateDeadline(*spec) != nil ||
		spec.Suspend || spec.Pause || d.running() || !d.wantsNewRun() {
		return nil
	}
	resolved, problem := checkTransfer(d.transfer, nil, d.facts)
	if problem != nil {
		return nil // it is said why nothing begins
	}
	// The API server keeps whole seconds, and a second look is to plan the same.
	since := d.wanted().Truncate(time.Second)
	q := deadlineplan.Question{
		Now: d.facts.Now, Since: since, By: Deadline(spec.Deadline, since).Truncate(time.Second),
	}
	switch {
	case settled(kept) && ofTime(kept, spec.Deadline):
		return &planned{message: "a run was Complete for this deadline, and later ones have none"}
	case !d.facts.Now.Before(q.By):
		return &planned{message: "the deadline has passed"}
	case spec.Source.VolumeGroupSnapshotName != "": // a TransferSet takes no other one while members wait to read it
		return &planned{message: "the run reads a VolumeGroupSnapshot, which is there and would be kept for longer"}
	}
	// A time of the schedule that comes while the run waits, or is under way, would be missed.
	if s := d.transfer.Status.Schedule; s != nil && s.NextTime != nil && s.NextTime.Time.Before(q.By) {
		q.By = s.NextTime.Time
	}
	var err error
	if q.Terms, err = deadlineplan.NewTerms(spec); err != nil {
		return &planned{message: err.Error()}
	}
	if message := d.addOptions(&q, resolved); message != "" {
		return &planned{message: message}
	}
	answer, ok := deadlineplan.Choose(q)
	if !ok {
		return &planned{message: "no start is expected to be in time"}
	}
	p := &planned{plan: shownPlan(&q, &answer), waits: answer.Chosen.Start.After(d.facts.Now)}
	if kept != nil && kept.RunID == "" && p.same(kept.Plan, d.facts.Now) {
		p.plan = kept.Plan
	}
	return p
}

// same: the plan says what that one does. What a run costs at once changes with the clock; that is not shown.
func (p *planned) same(kept *v1alpha1.DeadlinePlan, now time.Time) bool {
	if kept == nil || kept.Objective != p.plan.Objective || kept.Currency != p.plan.Currency ||
		!maps.Equal(kept.NodeSelector, p.plan.NodeSelector) {
		return false
	}
	if !p.waits {
		return !kept.StartTime.After(now)
	}
	return kept.StartTime.Equal(&p.plan.StartTime) && kept.ExpectedCost == p.plan.ExpectedCost
}

// addOptions adds in which ways the run could be made, by what was measured of earlier ones; or says why it cannot.
func (d *transferDecision) addOptions(q *deadlineplan.Question, resolved policy.Resolved) (message string) {
	last := lastRun(d.transfer.Status.History, "")
	if last.active <= 0 {
		return "no run has been measured yet that was Complete"
	}
	request := sendPlacement(d.transfer, firstRoute(d.transfer, d.facts), resolved, d.image)
	nodes := map[string]map[string]string{}
	for i := range d.facts.Placement.Nodes {
		nodes[d.facts.Placement.Nodes[i].Name] = d.facts.Placement.Nodes[i].Labels
	}
	objectives := []v1alpha1.CompressionObjective{v1alpha1.ObjectiveCost}
	if resolved.Objective != v1alpha1.ObjectiveCost {
		objectives = append(objectives, resolved.Objective)
	}
	q.Usual, q.Hurried = len(objectives)-1, slices.Index(objectives, v1alpha1.ObjectiveElapsed)
	if q.Hurried < 0 && d.measuredBy(v1alpha1.ObjectiveElapsed, nil, nodes) != nil {
		q.Hurried, objectives = len(objectives), append(objectives, v1alpha1.ObjectiveElapsed)
	}
	for _, selector := range d.classes(resolved) {
		labels := d.labelsOf(selector, request, nodes)
		if labels == nil && selector != nil {
			continue // no node of the class can take the agent
		}
		prices, err := tariff.Follow(tariff.Query{
			Tariffs: d.facts.Tariffs, Name: resolved.TariffName, Stated: resolved.Prices, Node: labels,
			Peer: d.transfer.Spec.Destination.Peer, Direction: v1alpha1.DirectionSend,
		})
		switch {
		case err != nil:
			return err.Error()
		case prices == nil:
			return "no Tariff applies, and the CompressionPolicy states no prices"
		}
		for _, objective := range objectives {
			like := d.measuredBy(objective, selector, nodes)
			if like == nil {
				like = d.measuredBy(objective, nil, nodes)
			}
			if like == nil {
				like = d.measuredBy("", nil, nodes)
			}
			o := deadlineplan.Option{Objective: objective, Selector: selector, Prices: prices}
			d.scale(&o, like.RunID, last)
			q.Options = append(q.Options, o)
		}
	}
	return ""
}

// classes are any nodes, and those that rules of the Tariff select.
func (d *transferDecision) classes(resolved policy.Resolved) []map[string]string {
	all := []map[string]string{nil}
	if resolved.Prices != nil {
		return all
	}
	found, err := tariff.Find(d.facts.Tariffs, resolved.TariffName)
	if err != nil || found == nil {
		return all
	}
	for _, rule := range found.Spec.CPUHour.Rules {
		selector := rule.NodeSelector
		if selector != nil && len(all) <= maxClasses &&
			!slices.ContainsFunc(all, func(c map[string]string) bool { return maps.Equal(c, selector) }) {
			all = append(all, selector)
		}
	}
	return all
}

// labelsOf are those of a node of a class on which the agent may be: of all nodes, that of the last run if that is one;
// nil if there is none.
func (d *transferDecision) labelsOf(
	selector map[string]string, request placement.Request, nodes map[string]map[string]string,
) map[string]string {
	request.Selector = selector
	able := placement.Able(request, d.facts.Placement)
	if len(able) == 0 {
		return nil
	}
	if history := d.transfer.Status.History; selector == nil && len(history) > 0 && slices.Contains(able, history[0].Node) {
		return nodes[history[0].Node]
	}
	return nodes[able[0]]
}

// measuredBy is the last attempt of the newest run that was Complete with an objective, on a node of a class; nil if
// there is none. An empty objective is any.
func (d *transferDecision) measuredBy(
	objective v1alpha1.CompressionObjective, selector map[string]string, nodes map[string]map[string]string,
) *v1alpha1.AttemptRecord {
	for i := range d.transfer.Status.History {
		r := &d.transfer.Status.History[i]
		if r.Reason == v1alpha1.ReasonSucceeded && (objective == "" || r.Objective == objective) &&
			placement.Matches(selector, nodes[r.Node]) && ofRun(d.transfer.Status.History, r.RunID).active > 0 {
			return r
		}
	}
	return nil
}

// scale gives an option what a run of the history takes for as many bytes as the last one had.
func (d *transferDecision) scale(o *deadlineplan.Option, runID string, last measured) {
	history := d.transfer.Status.History
	like, by := ofRun(history, runID), 1.0
	if like.bytes > 0 && last.bytes > 0 {
		by = float64(last.bytes) / float64(like.bytes)
	}
	cpu, wire := 0.0, 0.0
	for i := range history {
		if history[i].RunID == runID {
			used := d.own(history[i].Usage)
			cpu, wire = cpu+float64(used.CPUNanos), wire+float64(used.WireBytes)
		}
	}
	duration := func(nanos float64) time.Duration {
		return time.Duration(min(by*nanos, float64(deadlineplan.MostActive)))
	}
	o.Work = deadlineplan.Work{
		Active: duration(float64(like.active)), WireBytes: int64(min(by*float64(like.wire), mostBytes)),
	}
	o.CPU, o.WireBytes = duration(cpu), int64(min(by*wire, mostBytes))
}

// shownPlan is the plan as status shows it.
func shownPlan(q *deadlineplan.Question, a *deadlineplan.Answer) *v1alpha1.DeadlinePlan {
	chosen := &q.Options[a.Chosen.Option]
	shown := &v1alpha1.DeadlinePlan{
		StartTime: seconds(a.Chosen.Start), PredictedTime: seconds(a.Chosen.End), Objective: chosen.Objective,
		NodeSelector: maps.Clone(chosen.Selector), Currency: chosen.Prices.Currency,
		ExpectedCost: tariff.Money(a.Chosen.Cost),
	}
	for _, other := range []struct {
		name v1alpha1.DeadlineAlternativeName
		is   *deadlineplan.Choice
	}{
		{v1alpha1.DeadlineNow, a.Now}, {v1alpha1.DeadlineNowHurried, a.Hurried}, {v1alpha1.DeadlineOtherNodes, a.Other},
		{v1alpha1.DeadlineLatest, a.Latest},
	} {
		if other.is != nil {
			shown.Alternatives = append(shown.Alternatives, v1alpha1.DeadlineAlternative{
				Name: other.name, StartTime: seconds(other.is.Start), PredictedTime: seconds(other.is.End),
				ExpectedCost: tariff.Money(other.is.Cost),
			})
		}
	}
	return shown
}

// seconds is a time as the API server keeps it.
func seconds(at time.Time) metav1.Time { return metav1.NewTime(at.Truncate(time.Second)) }

// awaitPrice has a run wait for its planned start.
func (d *transferDecision) awaitPrice() {
	plan := d.planned.plan
	message := fmt.Sprintf("the run starts at %s, where it is expected to cost %s %s (spec.deadline.strategy: Cheapest)",
		text(plan.StartTime.Time), plan.ExpectedCost, plan.Currency)
	for _, other := range plan.Alternatives {
		if other.Name == v1alpha1.DeadlineNow {
			message += fmt.Sprintf("; at %s it would have cost %s", text(other.StartTime.Time), other.ExpectedCost)
		}
	}
	d.awaitTime(v1alpha1.TransferPending, hold{v1alpha1.ReasonWaitingForPrice, message})
	wait := min(max(plan.StartTime.Sub(d.facts.Now), time.Second), clockPatience)
	d.out.RequeueAfter = attempt.Sooner(d.out.RequeueAfter, wait)
}

// byPlan is the policy of a run that begins with what was planned.
func (d *transferDecision) byPlan(resolved policy.Resolved) policy.Resolved {
	if d.planned == nil || d.planned.plan == nil {
		return d.hurry(resolved)
	}
	objective := d.planned.plan.Objective
	d.hurried = objective == v1alpha1.ObjectiveElapsed && resolved.Objective != objective
	resolved.Objective = objective
	return resolved
}

// preferred are labels of nodes that the plan of the run has.
func (d *transferDecision) preferred() map[string]string {
	kept, run := d.transfer.Status.Deadline, d.transfer.Status.Run
	switch {
	case d.planned != nil && d.planned.plan != nil:
		return d.planned.plan.NodeSelector
	case d.running() && kept != nil && kept.RunID == run.ID && kept.Plan != nil:
		return kept.Plan.NodeSelector
	}
	return nil
}
