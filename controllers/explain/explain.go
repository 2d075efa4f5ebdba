// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/deadlineplan"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/usage"
)

// ErrNotRun is wrapped by the error of a Transfer that has not run yet.
var ErrNotRun = errors.New("has not run yet")

// Explain explains a Transfer that runs or has run. The error wraps ErrNotRun, and says what the Transfer waits for.
func Explain(in Input) (*Explanation, error) {
	transfer, status := in.Transfer, &in.Transfer.Status
	name := transfer.Namespace + "/" + transfer.Name
	if status.Run == nil || status.Run.ID == "" {
		return nil, fmt.Errorf("nothing to explain: Transfer %s %w: %s", name, ErrNotRun, waitsFor(status))
	}
	e := &Explanation{
		Transfer:  name,
		Phase:     string(status.Phase),
		Running:   status.Run.CompletionTime == nil,
		Placement: placement(status.Placement),
		Policy:    resolved(status.Policy, transfer.Spec.Compression),
		Decision:  decided(status.Compression, status.Decompression),
		Measured:  measured(status),
		Choices:   []Choice{},
		Run: Run{
			ID: status.Run.ID, Attempt: status.Run.Attempt, Route: string(status.Run.Route), Peer: status.Peer,
			Node: status.Run.Node, DataPath: status.Run.DataPath.DeepCopy(),
			Architecture: status.Run.Architecture, Start: when(status.Run.StartTime),
			Completion: when(status.Run.CompletionTime),
		},
	}
	if status.Policy != nil {
		e.objective = status.Policy.Objective
	}
	if e.Decision != nil {
		e.Decision.Auto = status.Decisions
	}
	if d := status.Deadline; d != nil && d.RunID == status.Run.ID { // and not that of a run that is awaited, or was before
		e.Deadline = d.DeepCopy()
	}
	e.stalled(status)
	if len(transfer.Spec.Destinations) > 0 {
		e.note("each destination has a Transfer of its own, which has figures and decisions: see status.destinations")
		toStore := func(d v1alpha1.NamedDestination) bool { return d.ObjectStore != nil }
		if slices.ContainsFunc(transfer.Spec.Destinations, toStore) {
			e.note("each ObjectStore has a pod of its own, which reads and compresses for it alone: what is read and " +
				"compressed once is for claims")
		}
		return e, nil
	}
	if transfer.Spec.Source.Peer != "" {
		e.note("the cluster of Peer %s chose and measured; there, kubectl lighterage explain transfer/%s -n %s says why",
			transfer.Spec.Source.Peer, plan.PulledName(transfer), plan.PullNamespace(transfer))
		return e, nil
	}
	if status.Compression == nil {
		e.note("the agent has not reported what it decided; ask again when data move")
		return e, nil
	}
	e.Samples = status.Compression.Estimate
	e.weigh(in)
	e.endings(transfer)
	return e, nil
}

// maxSeconds and maxBytes bound estimates: what takes longer ends in no forecast, and would not fit a Duration.
const (
	maxSeconds = 1 << 33
	maxBytes   = 1 << 60
)

// endings say when the run would have been complete with other choices, by the forecast that decided its start.
func (e *Explanation) endings(transfer *v1alpha1.Transfer) {
	if e.Deadline == nil || e.Running || e.Run.Start == nil {
		return
	}
	told := false
	for i := range e.Choices {
		c := &e.Choices[i]
		if c.Elapsed == nil || c.Bytes == nil {
			continue
		}
		work := deadlineplan.Work{ // a forecast ends after a year, and estimates may be anything
			Active:    time.Duration(min(*c.Elapsed, maxSeconds) * float64(time.Second)),
			WireBytes: int64(min(*c.Bytes, maxBytes)),
		}
		if end, ok := deadlineplan.Forecast(&transfer.Spec, work, *e.Run.Start); ok {
			c.End, told = new(end.Truncate(time.Second)), true
		}
	}
	if told {
		e.assume("ends: as if the run had begun when it did and had taken one attempt, within its windows and limits of " +
			"bandwidth")
	}
}

func (e *Explanation) note(format string, arguments ...any) {
	e.Notes = append(e.Notes, fmt.Sprintf(format, arguments...))
}

func (e *Explanation) assume(format string, arguments ...any) {
	e.Assumptions = append(e.Assumptions, fmt.Sprintf(format, arguments...))
}

// stalled says what keeps the Transfer from going on.
func (e *Explanation) stalled(status *v1alpha1.TransferStatus) {
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled)
	if status.Queued != nil { // it waits for nobody, and goes on by itself
		c = meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	}
	if c == nil || c.Status != metav1.ConditionTrue && status.Queued == nil {
		return
	}
	e.Stalled = c.Reason + ": " + c.Message
	e.NextRun = (status.Phase == v1alpha1.TransferPending || status.Queued != nil) && !e.Running
	if e.NextRun && e.Placement != nil && e.Placement.Node != e.Run.Node {
		e.Placement = nil // where the next one might be, which Stalled tells
	}
}

// waitsFor is what status says of a Transfer without a run.
func waitsFor(status *v1alpha1.TransferStatus) string {
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if ready != nil && (ready.Reason == v1alpha1.ReasonOutsideWindow || ready.Reason == v1alpha1.ReasonWaitingForPrice) {
		return ready.Reason + ": " + ready.Message
	}
	if status.Schedule != nil && status.Schedule.NextTime != nil && status.Queued == nil {
		return fmt.Sprintf(
			"its schedule starts it at %s; to start it now give the annotation %s a new value",
			clock(status.Schedule.NextTime.Time), v1alpha1.RunAnnotation,
		)
	}
	for _, kind := range []string{v1alpha1.ConditionStalled, v1alpha1.ConditionReconciling, v1alpha1.ConditionReady} {
		if c := meta.FindStatusCondition(status.Conditions, kind); c != nil && c.Message != "" &&
			(c.Status == metav1.ConditionTrue) == (kind != v1alpha1.ConditionReady) {
			return c.Reason + ": " + c.Message
		}
	}
	return "its status does not say why; see whether the manager runs (kubectl get deployments --all-namespaces " +
		"--selector app.kubernetes.io/name=lighterage)"
}

func placement(status *v1alpha1.PlacementStatus) *Placement {
	if status == nil {
		return nil
	}
	p := &Placement{Node: status.Node, Engine: status.Engine, Reason: status.Reason, Sentence: status.Message}
	if p.Sentence == "" && p.Reason != "" {
		p.Sentence = sentence(placementSentences, p.Reason)
	}
	for _, a := range status.Alternatives {
		p.Alternatives = append(
			p.Alternatives,
			AlternativeNode{Node: a.Node, Engine: a.Engine, Reason: a.Reason, Sentence: sentence(placementSentences, a.Reason)},
		)
	}
	return p
}

// decided is what compression did and why; nil where nothing is known.
func decided(c *v1alpha1.CompressionStatus, inflated *v1alpha1.DecompressionStatus) *Decision {
	if c == nil {
		return nil
	}
	d := &Decision{
		Codec: c.Codec, Engine: c.Engine, Level: c.Level, Reason: c.Reason, Sentence: sentence(sentences, c.Reason),
		Hardware: c.Hardware, Software: c.Software, Stored: c.Stored, Decompression: inflated,
	}
	for compressed, counts := range map[bool]map[string]int64{true: c.Reasons, false: c.Skipped} {
		for reason, n := range counts {
			d.Reasons = append(
				d.Reasons, Count{Reason: reason, Operations: n, Compressed: compressed, Sentence: sentence(sentences, reason)},
			)
		}
	}
	slices.SortFunc(d.Reasons, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Operations, a.Operations), cmp.Compare(a.Reason, b.Reason))
	})
	return d
}

func measured(status *v1alpha1.TransferStatus) *Measured {
	c := status.Compression
	if c == nil {
		return nil
	}
	m := &Measured{
		UncompressedBytes: c.UncompressedBytes, CompressedBytes: c.CompressedBytes, Ratio: decimal(c.Ratio),
		Cost: status.Cost, RunUsage: status.Run.Usage, RunCost: status.Run.Cost,
	}
	for _, record := range status.History {
		if record.RunID == status.Run.ID && record.Attempt == status.Run.Attempt && record.Duration != nil {
			m.Elapsed = positive(record.Duration.Seconds())
			break
		}
	}
	if status.Progress != nil {
		m.BytesPerSecond = positive(float64(status.Progress.BytesPerSecond))
	}
	if m.BytesPerSecond != nil && c.UncompressedBytes > 0 && status.Run.Route != v1alpha1.RoutePod {
		m.WireBytesPerSecond = positive(*m.BytesPerSecond * float64(c.CompressedBytes) / float64(c.UncompressedBytes))
	}
	if status.CPU != nil {
		// A process that did anything has used CPU time: 0 is that of one that has not reported.
		m.SendCPU, m.ReceiveCPU = positive(valueOrZero(decimal(status.CPU.SendSeconds))), positive(
			valueOrZero(decimal(status.CPU.ReceiveSeconds)),
		)
		m.CompressCPU, m.NetworkCPU = decimal(status.CPU.CompressSeconds), decimal(status.CPU.NetworkSeconds)
		if m.ReceiveCPU != nil || usage.OneProcess(status.Run.Route) {
			m.DecompressCPU = decimal(status.CPU.DecompressSeconds)
		}
		m.TotalCPU = sum(m.SendCPU, m.ReceiveCPU, m.NetworkCPU)
	}
	if status.Cost != nil {
		m.Money = sum(decimal(status.Cost.CPU), decimal(status.Cost.Network))
	}
	return m
}

// decimal is a number that status holds as text; nil when there is none, or none that a measurement can have.
func decimal(text string) *float64 {
	if value := signed(text); value != nil && *value >= 0 {
		return value
	}
	return nil
}

// signed is decimal for what may be below 0.
func signed(text string) *float64 {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return nil
	}
	return &value
}

func positiveDecimal(text string) *float64 { return positive(valueOrZero(decimal(text))) }

func positive(value float64) *float64 {
	if value > 0 && !math.IsInf(value, 0) {
		return &value
	}
	return nil
}

// sum is that of the numbers that are known, nil when none is.
func sum(numbers ...*float64) *float64 {
	var total *float64
	for _, n := range numbers {
		if n != nil {
			total = new(valueOrZero(total) + *n)
		}
	}
	return total
}

func valueOrZero(number *float64) float64 {
	if number == nil {
		return 0
	}
	return *number
}
