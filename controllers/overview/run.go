// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package overview sums up what a cluster has and does for the kubectl plugin: the state of all objects, the progress
// of runs, and what belongs to a Transfer. It is pure; the plugin reads the objects and shows the text.
package overview

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/tariff"
)

// State is how something is.
type State string

// States. Those of objects are all but Done, those of runs all but Ready and Resting.
const (
	Failed  State = "failed"
	Stalled State = "stalled"
	// Waiting: nobody has acted on it yet, or something must happen first.
	Waiting State = "waiting"
	Working State = "working"
	Ready   State = "ready"
	// Resting: nothing is done because the spec asks for that.
	Resting State = "resting"
	Done    State = "done"
)

// states in the order in which they are shown: what needs somebody comes first.
var states = []State{Failed, Stalled, Waiting, Working, Ready, Resting, Done}

// Worse compares states by that order.
func Worse(a, b State) int { return cmp.Compare(slices.Index(states, a), slices.Index(states, b)) }

// StateOf is the state of an object by its conditions, and the condition that says so; nil if there is none.
func StateOf(conditions []metav1.Condition) (State, *metav1.Condition) {
	is := func(name string, status metav1.ConditionStatus) *metav1.Condition {
		c := meta.FindStatusCondition(conditions, name)
		if c == nil || c.Status != status {
			return nil
		}
		return c
	}
	if c := is(v1alpha1.ConditionReady, metav1.ConditionFalse); c != nil &&
		meta.IsStatusConditionFalse(conditions, v1alpha1.ConditionReconciling) &&
		meta.IsStatusConditionFalse(conditions, v1alpha1.ConditionStalled) &&
		!meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionFailed) {
		return Resting, c
	}
	for _, rule := range []struct {
		condition string
		status    metav1.ConditionStatus
		means     State
	}{
		{v1alpha1.ConditionFailed, metav1.ConditionTrue, Failed},
		{v1alpha1.ConditionStalled, metav1.ConditionTrue, Stalled},
		{v1alpha1.ConditionReady, metav1.ConditionTrue, Ready},
		{v1alpha1.ConditionReconciling, metav1.ConditionTrue, Working},
		{v1alpha1.ConditionReady, metav1.ConditionFalse, Waiting},
		// A Statement has this one alone.
		{v1alpha1.ConditionComplete, metav1.ConditionTrue, Ready},
		{v1alpha1.ConditionComplete, metav1.ConditionFalse, Waiting},
	} {
		if c := is(rule.condition, rule.status); c != nil {
			return rule.means, c
		}
	}
	return Waiting, nil
}

// Run is the present or last run of a Transfer or CompressionTrial, or the next one once it is wanted, or the Delivery
// of a run.
type Run struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Peer is the other side. Store is the ObjectStore at the other side, of a Transfer into one or out of one.
	Peer  string `json:"peer,omitempty"`
	Store string `json:"store,omitempty"`
	// Pulls: the other side sends.
	Pulls   bool   `json:"pulls,omitempty"`
	State   State  `json:"state"`
	Phase   string `json:"phase,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	ID      string `json:"run,omitempty"`
	Attempt int32  `json:"attempt,omitempty"`
	Node    string `json:"node,omitempty"`

	Percent        int32 `json:"percent"`
	Files          int64 `json:"files"`
	FilesTotal     int64 `json:"filesTotal"`
	Bytes          int64 `json:"bytes"`
	BytesTotal     int64 `json:"bytesTotal"`
	BytesPerSecond int64 `json:"bytesPerSecond"`
	// ETASeconds is the time left at this rate; 0 while it is not known.
	ETASeconds int64 `json:"etaSeconds,omitempty"`
	// Late says why the run is not expected to be Complete by its deadline; "" if it is, or has none.
	Late string `json:"late,omitempty"`
	// Cost is that of the run so far, by currency. There is none without prices.
	Cost Costs `json:"cost,omitempty"`

	// sum: the rate is that of other runs together.
	sum bool
}

// Active reports whether somebody is at work on the run, or must be.
func (r *Run) Active() bool { return r.State == Working || r.State == Stalled }

// Ended reports whether it is over.
func (r *Run) Ended() bool { return r.State == Done || r.State == Failed }

// Idle reports whether it is over, or is not to begin now: by its schedule, or because it is suspended or
// paused.
func (r *Run) Idle() bool {
	return r.Ended() || r.State == Waiting &&
		slices.Contains([]v1alpha1.TransferPhase{
			v1alpha1.TransferScheduled, v1alpha1.TransferSuspended, v1alpha1.TransferPaused,
		}, v1alpha1.TransferPhase(r.Phase))
}

// Several reports whether the run is that of a Transfer with several destinations, whose legs are runs as well.
func (r *Run) Several() bool { return r.sum }

// Side is the other side, for people.
func (r *Run) Side() string {
	if r.Store != "" && (r.Peer == "" || r.Peer == v1alpha1.ThisCluster) {
		return "ObjectStore " + r.Store
	}
	return r.Peer
}

// Key tells runs of different objects apart.
func (r *Run) Key() string { return r.Kind + " " + r.Namespace + "/" + r.Name }

// Measured reports whether there are figures of progress. Agents of CompressionTrials report none.
func (r *Run) Measured() bool { return r.Kind != trialKind }

const trialKind = "CompressionTrial"

// OfTransfer is the run of a Transfer.
func OfTransfer(t *v1alpha1.Transfer) Run {
	r := Run{
		Kind: "Transfer", Namespace: t.Namespace, Name: t.Name, Peer: t.Status.Peer, Phase: string(t.Status.Phase),
		Pulls: t.Spec.Source.Peer != "", sum: len(t.Spec.Destinations) > 0,
	}
	for _, store := range []*v1alpha1.ObjectStorePath{t.Spec.Source.ObjectStore, t.Spec.Destination.ObjectStore} {
		if store != nil {
			r.Store = store.Name
		}
	}
	r.follow(&followed{
		object: t, conditions: t.Status.Conditions, run: t.Status.Run,
		rests:   t.Status.Queued != nil || t.Status.Phase == v1alpha1.TransferPaused,
		pending: t.Status.Phase == v1alpha1.TransferPending || t.Status.Phase == v1alpha1.TransferQueued,
		seen:    t.Status.ObservedGeneration,
		acted:   t.Status.LastRunRequest, suspended: t.Spec.Suspend || t.Spec.Pause,
	})
	c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionWithinDeadline)
	if c != nil && c.Status == metav1.ConditionFalse && !r.Ended() {
		r.Late = c.Reason + ": " + c.Message
	}
	if r.ID != "" {
		r.advance(t.Status.Progress)
		r.Cost = CostsOf(t.Status.Run.Cost)
	}
	return r
}

// OfTrial is the run of a CompressionTrial.
func OfTrial(t *v1alpha1.CompressionTrial) Run {
	r := Run{Kind: trialKind, Namespace: t.Namespace, Name: t.Name, Phase: string(t.Status.Phase)}
	r.follow(&followed{
		object: t, conditions: t.Status.Conditions, run: t.Status.Run, pending: t.Status.Phase == v1alpha1.TrialPending,
		seen: t.Status.ObservedGeneration, acted: t.Status.LastRunRequest,
	})
	if r.State == Done {
		r.Percent = 100
	}
	return r
}

// OfDelivery is the run that a Delivery receives.
func OfDelivery(d *v1alpha1.Delivery) Run {
	r := Run{
		Kind: "Delivery", Namespace: d.Namespace, Name: d.Name, Peer: cmp.Or(d.Status.Peer, d.Spec.Peer),
		Phase: string(d.Status.Phase), Cost: CostsOf(d.Status.Cost),
	}
	r.follow(&followed{object: d, conditions: d.Status.Conditions, run: d.Status.Run, seen: d.Generation})
	if d.Status.Phase == v1alpha1.DeliveryFailed { // it has no condition for that
		r.State = Failed
	}
	r.advance(d.Status.Progress)
	return r
}

// followed is what the state of a run follows from. The manager writes the run, the phase and all conditions at once:
// once a run has begun, none of them is of the run before.
type followed struct {
	object     metav1.Object
	conditions []metav1.Condition
	run        *v1alpha1.RunStatus
	// rests: it waits for a quota, or is paused.
	rests bool
	// pending: after a run that has ended, another one is wanted and cannot begin.
	pending bool
	// seen is the generation, and acted the request for a run, that the manager has acted upon.
	seen      int64
	acted     string
	suspended bool
}

// follow fills in what conditions and the run say.
func (r *Run) follow(f *followed) {
	found, why := StateOf(f.conditions)
	asked := f.object.GetAnnotations()[v1alpha1.RunAnnotation]
	requested := asked != "" && asked != f.acted
	// A change of the spec begins another run after one that stalled or failed.
	changed := f.seen != 0 && f.seen != f.object.GetGeneration() &&
		meta.IsStatusConditionTrue(f.conditions, v1alpha1.ConditionStalled)
	begun := f.run != nil && f.run.CompletionTime == nil
	again := f.run != nil && !begun && (requested || changed || f.pending)
	switch {
	case begun && f.rests, again && found != Stalled, again && !f.pending:
		r.State = Waiting
	case again || begun && found == Stalled:
		r.State = Stalled
	case begun:
		r.State = Working
	case found == Failed:
		r.State = Failed
	case f.run != nil || meta.IsStatusConditionTrue(f.conditions, v1alpha1.ConditionComplete):
		r.State = Done
	case found == Stalled:
		r.State = Stalled
	default:
		r.State = Waiting
	}
	switch {
	case again && !f.pending: // all that status says is of the run before
		r.Message = "another run is wanted, and the manager has not begun it yet"
		if f.suspended {
			r.Message = "another run is wanted, which begins when the Transfer is resumed"
		}
	case why != nil:
		r.Reason, r.Message = why.Reason, why.Message
	}
	if f.run != nil && !again {
		r.ID, r.Attempt, r.Node = f.run.ID, f.run.Attempt, f.run.Node
	}
}

// advance fills in progress. Figures that cannot be are taken for those next to them.
func (r *Run) advance(p *v1alpha1.Progress) {
	if p == nil {
		return
	}
	r.Percent = min(max(p.Percent, 0), 100)
	r.Files, r.FilesTotal = max(p.Files, 0), max(p.FilesTotal, 0)
	r.Bytes, r.BytesTotal, r.BytesPerSecond = max(p.Bytes, 0), max(p.BytesTotal, 0), max(p.BytesPerSecond, 0)
	if p.ETA != nil && r.Active() {
		r.ETASeconds = int64(math.Ceil(max(p.ETA.Duration, 0).Seconds()))
	}
}

// Costs are amounts by currency.
type Costs map[string]float64

// CostsOf is the price of CPU time and traffic of this cluster.
func CostsOf(c *v1alpha1.CostStatus) Costs {
	if c == nil || c.Currency == "" {
		return nil
	}
	sum := 0.0
	for _, text := range []string{c.CPU, c.Network} {
		amount, err := strconv.ParseFloat(text, 64)
		if err == nil && !math.IsNaN(amount) && !math.IsInf(amount, 0) {
			sum += amount
		}
	}
	return Costs{c.Currency: sum}
}

func (c Costs) add(other Costs) Costs {
	for currency, amount := range other {
		if c == nil {
			c = Costs{}
		}
		c[currency] += amount
	}
	return c
}

// String has an amount for each currency; they are never added.
func (c Costs) String() string {
	var parts []string
	for currency, amount := range c {
		parts = append(parts, currency+" "+tariff.Money(amount))
	}
	slices.Sort(parts)
	return strings.Join(parts, " + ")
}

// MarshalJSON writes amounts as decimals, as statuses do.
func (c Costs) MarshalJSON() ([]byte, error) {
	text := map[string]string{}
	for currency, amount := range c {
		text[currency] = tariff.Money(amount)
	}
	return json.Marshal(text) //nolint:wrapcheck // a map of strings is encoded without errors
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Costs) UnmarshalJSON(encoded []byte) error {
	var text map[string]string
	if err := json.Unmarshal(encoded, &text); err != nil {
		return fmt.Errorf("reading costs: %w", err)
	}
	*c = nil
	for currency, amount := range text {
		value, err := strconv.ParseFloat(amount, 64)
		if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
			return fmt.Errorf("reading costs: %q is no amount", amount)
		}
		*c = c.add(Costs{currency: value})
	}
	return nil
}

// left is a time as short as it may be: 28s, 4m12s, 1h02m, 3d04h.
func left(seconds int64) string {
	d := time.Duration(min(seconds, int64(100*365*24*time.Hour/time.Second))) * time.Second
	two := func(n time.Duration) string { return strconv.FormatInt(int64(n+100), 10)[1:] }
	one := func(n time.Duration) string { return strconv.FormatInt(int64(n), 10) }
	const day = 24 * time.Hour
	switch {
	case d >= day:
		return one(d/day) + "d" + two(d%day/time.Hour) + "h"
	case d >= time.Hour:
		return one(d/time.Hour) + "h" + two(d%time.Hour/time.Minute) + "m"
	case d >= time.Minute:
		return one(d/time.Minute) + "m" + two(d%time.Minute/time.Second) + "s"
	}
	return one(d/time.Second) + "s"
}
