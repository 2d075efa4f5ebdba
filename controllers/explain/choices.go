// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/table"
	"github.com/lighterage/lighterage/controllers/tariff"
	"github.com/lighterage/lighterage/controllers/usage"
)

const (
	none = "none"
	// mostDeflate is the ratio that no deflate stream exceeds: a length of 258 bytes in two bits.
	mostDeflate = 1032
)

// weighing is what the estimates of choices are made of. Bytes are of the data that were compressed, unless said
// otherwise.
type weighing struct {
	status           *v1alpha1.TransferStatus
	measured         *Measured
	sender, receiver *v1alpha1.NodeProfile
	// packed are plain bytes that were compressed, stored those that were not, plain all.
	packed, stored, plain float64
	// ratioBy and cpuBy are by how much this data did better, or took longer, than the sample of the engine that
	// compressed; nil when that is not known. inflateBy is the same of the receiver's inflating.
	ratioBy, cpuBy, inflateBy *float64
	// sampling is the CPU time that predicting took.
	sampling float64
	// rates turn CPU time and bytes into money; nil where there are none.
	rates *tariff.Rates
}

// weigh adds the choices that there were, and what could not be said of them.
func (e *Explanation) weigh(in Input) {
	c := in.Transfer.Status.Compression
	if c.UncompressedBytes <= 0 {
		e.note("no data have been sent yet, so there is nothing to compare")
		return
	}
	w := &weighing{
		status: &in.Transfer.Status, measured: e.Measured, sender: in.Sender, receiver: in.Receiver,
		packed: float64(c.Hardware.Bytes) + float64(c.Software.Bytes), stored: float64(c.Stored.Bytes),
		plain: float64(c.UncompressedBytes),
	}
	if rates, ok := effective(w.status); ok {
		w.rates = &rates
	}
	if c.Estimate != nil {
		w.sampling = valueOrZero(decimal(c.Estimate.CPUSeconds))
	}
	if w.packed > 0 {
		e.Choices = append(e.Choices, w.uncompressed())
	}
	e.notesOfMeasured(w)
	if in.Sender == nil {
		e.note("choices of engines cannot be reckoned: %s", in.SenderUnknown)
		return
	}
	for _, profile := range []*v1alpha1.NodeProfile{in.Sender, in.Receiver} {
		if profile == nil {
			continue
		}
		if c := meta.FindStatusCondition(profile.Status.Conditions, v1alpha1.ConditionReady); c != nil &&
			c.Status != metav1.ConditionTrue {
			figures := "its figures may be old"
			if len(profile.Status.Engines) == 0 {
				figures = "there are no figures of that node"
			}
			e.note("the NodeProfile of node %s is not Ready (%s), so %s: %s", profile.Name, c.Reason, figures, c.Message)
		}
	}
	w.calibrate()
	e.notesOfCalibration(w, in)
	for _, engine := range in.Sender.Status.Engines {
		others := slices.ContainsFunc(in.Sender.Status.Engines, func(o v1alpha1.EngineProfile) bool {
			return o.Codec == engine.Codec && o.Name != engine.Name
		})
		// Where an agent has one engine of a codec there was none to verify it by, and agents use it.
		if !engine.Verified && others {
			e.note(
				"engine %s of node %s is left out: no other engine there was seen to inflate what it makes, see the log of the "+
					"node agent",
				engine.Name, in.Sender.Name,
			)
			continue
		}
		for _, level := range engine.Levels {
			if w.packed > 0 && engine.Name == c.Engine && string(level.Level) == c.Level {
				continue // that is what the run did
			}
			e.Choices = append(e.Choices, w.choice(engine, level))
		}
	}
	if slices.ContainsFunc(e.Choices, func(c Choice) bool { return c.AtLeast }) {
		why := "its NodeProfile does not say with which engine it inflates"
		if in.ReceiverUnknown != "" {
			why = in.ReceiverUnknown
		}
		e.note(
			"what inflating another codec takes at the receiver is not known, so CPU time and cost of such a choice are a "+
				"least: %s",
			why,
		)
	}
	e.assumptions(w)
	if w.packed > 0 {
		e.Best = e.best()
	}
}

func (e *Explanation) notesOfMeasured(w *weighing) {
	if w.status.CPU == nil {
		e.note("CPU time is not known: the agent has not reported any")
	} else {
		if e.Measured.ReceiveCPU == nil && !usage.OneProcess(w.status.Run.Route) {
			e.note("CPU time of the receiver is not known yet; the receiver reports it at the latest at the end")
		}
		if e.Measured.NetworkCPU == nil && w.status.Run.Route != v1alpha1.RoutePod {
			e.note("CPU time of the network stack is not known and in no total: it takes the NodeProfile of the sender's node")
		}
	}
	if w.rates == nil {
		e.note("money is not reckoned: no Tariff applies and the policy states no prices; name a Tariff in spec.tariffName " +
			"of the CompressionPolicy, or annotate one as the default")
	}
	if e.Measured.WireBytesPerSecond == nil && w.status.Run.Route != v1alpha1.RoutePod {
		e.note("elapsed times are not estimated: the goodput is not known")
	}
}

func (e *Explanation) notesOfCalibration(w *weighing, in Input) {
	c := w.status.Compression
	switch {
	case w.packed == 0:
		e.note(
			"nothing was compressed, so how these data would have done with an engine is not known; the sample's figures say "+
				"what the engines do on node %s",
			in.Sender.Name,
		)
	case w.ratioBy == nil:
		e.note(
			"the NodeProfile of node %s has no figures of %s at level %s, so that choices cannot be compared with what the "+
				"run did",
			in.Sender.Name, c.Engine, cmp.Or(c.Level, "unknown"),
		)
	}
	for _, reason := range []string{
		v1alpha1.CompressionNetworkFaster, v1alpha1.CompressionCPUBudget, v1alpha1.CompressionSoftwareDisabled,
		v1alpha1.CompressionPeerRefused,
	} {
		if n := c.Skipped[reason]; n > 0 && w.packed > 0 {
			e.note(
				"%d operations were stored for the reason %s; another choice might have compressed them, which the estimates "+
					"leave out",
				n, reason,
			)
		}
	}
}

// assumptions say what the estimates rest on.
func (e *Explanation) assumptions(w *weighing) {
	if w.packed == 0 {
		return
	}
	if w.ratioBy != nil {
		e.assume(
			"bytes: the ratio that each engine reached on the sample, times %.2f, which is how this run's engine did on these "+
				"data by its sample; what was stored stays stored",
			*w.ratioBy,
		)
	}
	if w.cpuBy != nil && slices.ContainsFunc(e.Choices, func(c Choice) bool { return c.CPU != nil }) {
		e.assume(
			"CPU: what the run took, with compressing as on the sample, times %.2f, which is how much longer this run's "+
				"engine took for these data, and the network's part by bytes; the agents' own part of TLS and sockets is left as "+
				"it was",
			*w.cpuBy,
		)
	}
	if e.Measured.WireBytesPerSecond != nil {
		e.assume("elapsed: as if the network carried %s and no more, and the sender's CPU time were spread over its %d "+
			"cores; where the network was not what held the run up, choices with more bytes take less than is said here",
			table.Rate(*e.Measured.WireBytesPerSecond), w.cores())
	}
	if cost := w.status.Cost; cost != nil && len(cost.Periods) > 1 {
		e.assume("money: the mean prices that the run paid, since they changed while it ran")
	}
	if w.status.Policy != nil && w.status.Policy.Mode == v1alpha1.CompressionAuto {
		e.assume(
			"in mode Auto blocks may differ in codec, engine and level: this run is reckoned as what compressed most of its " +
				"data",
		)
	}
}

// calibrate compares what the run did with what the same engine did on the sample.
func (w *weighing) calibrate() {
	c := w.status.Compression
	level := find(w.sender, c.Engine, c.Level)
	wire := float64(c.CompressedBytes) - w.stored
	if level == nil || w.packed == 0 || wire <= 0 {
		return
	}
	if sample := positive(valueOrZero(decimal(level.Ratio))); sample != nil {
		w.ratioBy = positive(w.packed / wire / *sample)
	}
	if took := w.measured.CompressCPU; took != nil && level.CompressBytesPerSecond > 0 {
		w.cpuBy = positive((*took - w.sampling) / (w.packed / float64(level.CompressBytesPerSecond)))
	}
	if took, at := w.measured.DecompressCPU, inflates(w.inflater(), c.Codec); took != nil && at > 0 {
		w.inflateBy = positive(*took / (w.packed / at))
	}
}

// inflater is the profile of the node that inflated.
func (w *weighing) inflater() *v1alpha1.NodeProfile {
	if usage.OneProcess(w.status.Run.Route) {
		return w.sender
	}
	return w.receiver
}

func (w *weighing) cores() int32 {
	if w.sender == nil {
		return 0
	}
	return w.sender.Status.Cores
}

func find(profile *v1alpha1.NodeProfile, engine, level string) *v1alpha1.LevelProfile {
	for i := range profile.Status.Engines {
		if profile.Status.Engines[i].Name != engine {
			continue
		}
		for j := range profile.Status.Engines[i].Levels {
			if l := &profile.Status.Engines[i].Levels[j]; string(l.Level) == level {
				return l
			}
		}
	}
	return nil
}

// inflates is at how many plain bytes a second a node inflates a codec; 0 when that is not known.
func inflates(profile *v1alpha1.NodeProfile, codec string) float64 {
	if profile == nil {
		return 0
	}
	for _, engine := range profile.Status.Engines {
		if engine.Codec == codec && engine.Inflates {
			return float64(engine.DecompressBytesPerSecond)
		}
	}
	return 0
}

// uncompressed is the choice to compress nothing.
func (w *weighing) uncompressed() Choice {
	choice := Choice{Codec: none, Engine: none, Bytes: &w.plain}
	if p := w.status.Policy; p != nil && p.Mode == v1alpha1.CompressionAlways {
		choice.Excluded = "mode Always"
	}
	if w.measured.CompressCPU != nil && w.measured.DecompressCPU != nil {
		w.reckon(&choice, *w.measured.CompressCPU, *w.measured.DecompressCPU, 0, 0)
	}
	w.time(&choice)
	return choice
}

// choice is what an engine at a level would have done.
func (w *weighing) choice(engine v1alpha1.EngineProfile, level v1alpha1.LevelProfile) Choice {
	choice := Choice{
		Codec: engine.Codec, Engine: engine.Name, Level: string(level.Level),
		SampleRatio:          positive(valueOrZero(decimal(level.Ratio))),
		SampleBytesPerSecond: positive(float64(level.CompressBytesPerSecond)),
		Excluded:             excluded(w.status.Policy, w.sender, engine.Codec, engine.Name, level),
	}
	if w.ratioBy == nil || choice.SampleRatio == nil {
		return choice
	}
	ratio := max(1, *choice.SampleRatio**w.ratioBy) // what does not shrink is stored
	if engine.Codec == string(v1alpha1.CodecDeflate) {
		ratio = min(ratio, mostDeflate)
	}
	choice.Bytes = new(w.packed/ratio + w.stored)
	if w.cpuBy != nil && choice.SampleBytesPerSecond != nil && w.measured.DecompressCPU != nil {
		inflate, known := w.inflating(engine.Codec)
		choice.AtLeast = !known
		w.reckon(
			&choice, *w.measured.CompressCPU-w.sampling, *w.measured.DecompressCPU,
			*w.cpuBy*w.packed / *choice.SampleBytesPerSecond, inflate,
		)
	}
	w.time(&choice)
	return choice
}

// inflating is what inflating the data takes in a codec, if that is known. All engines of a codec inflate the same
// format.
func (w *weighing) inflating(codec string) (seconds float64, known bool) {
	if codec == w.status.Compression.Codec {
		return *w.measured.DecompressCPU, true
	}
	at := inflates(w.inflater(), codec)
	if at <= 0 || w.inflateBy == nil {
		return 0, false
	}
	return *w.inflateBy * w.packed / at, true
}

// reckon estimates CPU time and money of a choice: what the run took, less what compressing and inflating took, and
// with what they would take.
func (w *weighing) reckon(choice *Choice, compressed, inflated, compress, inflate float64) {
	m := w.measured
	if m.SendCPU == nil || (m.ReceiveCPU == nil && !usage.OneProcess(w.status.Run.Route)) {
		return
	}
	choice.compress = &compress
	total := *m.SendCPU + valueOrZero(m.ReceiveCPU) - compressed - inflated + compress + inflate
	choice.send = max(*m.SendCPU-compressed+compress, 0)
	if m.NetworkCPU != nil && m.CompressedBytes > 0 {
		total += *m.NetworkCPU * *choice.Bytes / float64(m.CompressedBytes)
	}
	choice.CPU = new(max(total, 0))
	if w.rates == nil {
		return
	}
	money := w.rates.CPU(*choice.CPU * float64(time.Second))
	if w.status.Run.Route != v1alpha1.RoutePod {
		money += w.rates.Network(*choice.Bytes)
	}
	choice.Money = &money
}

// time estimates how long a choice would have taken: as long as the network takes for its bytes, or the sender for its
// work.
func (w *weighing) time(choice *Choice) {
	m := w.measured
	if m.WireBytesPerSecond == nil {
		return
	}
	elapsed := *choice.Bytes / *m.WireBytesPerSecond
	if w.cores() > 0 {
		elapsed = max(elapsed, choice.send/float64(w.cores()))
	}
	choice.Elapsed = &elapsed
}

// best names what has least of what the objective asks for, the run included. It is empty when nothing can be compared.
func (e *Explanation) best() string {
	best, least, compared := "what this run did", 0.0, false
	for i, a := range e.alternatives() {
		if i == 0 || a.More == nil {
			continue
		}
		compared = true
		if *a.More < least {
			c := e.Choices[i-1]
			best, least = strings.TrimSuffix(c.Engine+" at "+c.Level, " at "), *a.More
			if c.Excluded != "" {
				best += " (not open to this run: " + c.Excluded + ")"
			}
		}
	}
	switch {
	case !compared:
		return ""
	case least == 0:
		return fmt.Sprintf("by the objective %s: %s", e.objective, best)
	}
	return fmt.Sprintf(
		"by the objective %s: %s, with an estimated %.0f %% less than what this run did", e.objective, best, -least,
	)
}
