// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/placement"
)

const (
	// maxEngines, maxName and maxMessage are the bounds of the API.
	maxEngines = 16
	maxName    = 63
	maxMessage = 1024
	// maxModel is the longest kernel release and model of a processor that are kept.
	maxModel = 128
)

// levels of a CompressionPolicy, in their order.
var levels = []struct {
	wire wirev1.CompressionLevel
	api  v1alpha1.CompressionLevel
}{
	{wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST, v1alpha1.CompressionFast},
	{wirev1.CompressionLevel_COMPRESSION_LEVEL_BALANCED, v1alpha1.CompressionBalanced},
	{wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH, v1alpha1.CompressionHigh},
}

// states of an accelerator. What is not among them is as good as not known.
var states = map[wirev1.AcceleratorState]v1alpha1.AcceleratorState{
	wirev1.AcceleratorState_ACCELERATOR_STATE_ABSENT:   v1alpha1.AcceleratorAbsent,
	wirev1.AcceleratorState_ACCELERATOR_STATE_NOT_USED: v1alpha1.AcceleratorNotUsed,
	wirev1.AcceleratorState_ACCELERATOR_STATE_VERIFIED: v1alpha1.AcceleratorVerified,
}

// setMeasurement writes what the agent, which runs that image, measured into the status.
func setMeasurement(status *v1alpha1.NodeProfileStatus, measured *wirev1.NodeMeasurement, image string, now time.Time) {
	kernel, model := cut(measured.GetKernel(), maxModel), cut(measured.GetCpuModel(), maxModel)
	if change := changed(status, kernel, model, image, now); change != nil {
		status.LastChange, status.DataPaths = change, nil
	}
	status.Kernel, status.CPUModel, status.AgentImage = kernel, model, image
	status.Architecture = cut(measured.GetArchitecture(), maxName)
	status.Cores = int32(min(measured.GetCores(), math.MaxInt32))
	status.Engines = engines(measured.GetEngines())
	before := status.Accelerator
	if status.Accelerator = accelerator(measured.GetAccelerator()); before != nil && status.Accelerator != nil {
		// What follows from several answers stays.
		status.Accelerator.BusyFraction, status.Accelerator.Counters = before.BusyFraction, before.Counters
	}
	status.Network = network(measured.GetNetwork())
	status.NetworkCPUSecondsPerGiB, status.NetworkSpread = "", nil
	if measured.GetNetworkRuns() > 0 || measured.GetNetworkCpuNanosPerGib() > 0 {
		status.NetworkCPUSecondsPerGiB = decimal(float64(measured.GetNetworkCpuNanosPerGib())/1e9, 4)
	}
	if runs := measured.GetNetworkRuns(); runs > 0 {
		status.NetworkSpread = &v1alpha1.NetworkSpread{
			LeastSecondsPerGiB: decimal(float64(measured.GetNetworkCpuNanosPerGibLeast())/1e9, 4),
			MostSecondsPerGiB:  decimal(float64(measured.GetNetworkCpuNanosPerGibMost())/1e9, 4),
			Runs:               int32(min(runs, math.MaxInt32)),
		}
	}
	status.AgentVersion = cut(measured.GetVersion(), maxName)
	status.MeasuredTime = nil
	if stamp := measured.GetMeasuredTime(); stamp.IsValid() {
		// The API keeps whole seconds; anything finer would differ with every reading.
		at := metav1.NewTime(stamp.AsTime()).Rfc3339Copy()
		status.MeasuredTime = &at
	}
}

// accountings of interrupts.
var accountings = map[wirev1.InterruptAccounting]v1alpha1.InterruptAccounting{
	wirev1.InterruptAccounting_INTERRUPT_ACCOUNTING_ON:  v1alpha1.InterruptAccountingOn,
	wirev1.InterruptAccounting_INTERRUPT_ACCOUNTING_OFF: v1alpha1.InterruptAccountingOff,
}

// network is nil of an agent that does not calibrate.
func network(measured *wirev1.NetworkMeasurement) *v1alpha1.NetworkProfile {
	if measured == nil {
		return nil
	}
	profile := &v1alpha1.NetworkProfile{
		Reason:              cut(measured.GetReason(), maxName),
		BackgroundPercent:   ptr.To(int32(min(measured.GetBackgroundPercent(), 100))),
		InterruptAccounting: cmp.Or(accountings[measured.GetInterruptAccounting()], v1alpha1.InterruptAccountingUnknown),
	}
	if measured.GetCalibrated() {
		profile.PushMicrosecondsPerSegment = decimal(float64(measured.GetAcknowledgementPicos())/1e6, 6)
		profile.PullMicrosecondsPerSegment = decimal(float64(measured.GetSegmentPicos())/1e6, 6)
		profile.PullSecondsPerGiB = decimal(float64(measured.GetReceivedNanosPerGib())/1e9, 6)
	}
	return profile
}

// changed says what is not as it was when the node was measured before; nil when nothing is, or it is not known.
func changed(status *v1alpha1.NodeProfileStatus, kernel, model, image string, now time.Time) *v1alpha1.ProfileChange {
	var reasons, messages []string
	for _, part := range []struct{ reason, what, before, after string }{
		{v1alpha1.ReasonKernelChanged, "kernel", status.Kernel, kernel},
		{v1alpha1.ReasonCPUModelChanged, "processor", status.CPUModel, model},
		{v1alpha1.ReasonImageChanged, "image", status.AgentImage, image},
	} {
		if part.before == "" || part.after == "" || part.before == part.after {
			continue
		}
		reasons = append(reasons, part.reason)
		messages = append(messages, fmt.Sprintf("%s from %s to %s", part.what, part.before, part.after))
	}
	if len(reasons) == 0 {
		return nil
	}
	at := metav1.NewTime(now).Rfc3339Copy()
	return &v1alpha1.ProfileChange{
		Reason: strings.Join(reasons, ","), Message: cut(strings.Join(messages, "; "), maxMessage), Time: &at,
	}
}

// Bounds of what a machine can do, far beyond any that exists.
const (
	maxRate            = 1e12 // bytes per second and core
	maxNetworkNanosGiB = 1e12
	maxSegmentPicos    = 1e12 // a second
	maxCores           = 1 << 16
	maxClockSkew       = 24 * time.Hour
	// acceleratedArchitecture is the one that has the accelerator.
	acceleratedArchitecture = "s390x"
)

// implausible says what in a measurement cannot be; empty if nothing. kubelet is the architecture that the node's
// kubelet states. This finds agents that are broken or of another node: figures are the agent's word, and whoever has
// taken over a node with an accelerator can still claim to be a fast one.
func implausible(measured *wirev1.NodeMeasurement, kubelet string, now time.Time) string {
	verified := measured.GetAccelerator().GetState() == wirev1.AcceleratorState_ACCELERATOR_STATE_VERIFIED
	uses := func(e *wirev1.EngineMeasurement) bool {
		return e.GetName() == placement.EngineHardware && e.GetVerified() && e.GetCompressBytesPerSecond() > 0
	}
	listed := measured.GetEngines()[:min(len(measured.GetEngines()), maxEngines)]
	hardware := slices.ContainsFunc(listed, func(e *wirev1.EngineMeasurement) bool {
		return e.GetName() == placement.EngineHardware && e.GetVerified()
	})
	switch {
	case kubelet != "" && measured.GetArchitecture() != kubelet:
		return fmt.Sprintf("architecture %q on a node of architecture %q", cut(measured.GetArchitecture(), maxName), kubelet)
	case hardware && measured.GetArchitecture() != acceleratedArchitecture:
		return fmt.Sprintf("engine %s on architecture %q; only %s has it", placement.EngineHardware,
			cut(measured.GetArchitecture(), maxName), acceleratedArchitecture)
	case verified && measured.GetArchitecture() != acceleratedArchitecture:
		return fmt.Sprintf(
			"an accelerator on architecture %q; only %s has one", cut(measured.GetArchitecture(), maxName),
			acceleratedArchitecture,
		)
	case verified && !slices.ContainsFunc(listed, uses):
		return "an accelerator that works, and no figures of an engine that uses it"
	case measured.GetArchitecture() == "" || measured.GetCores() == 0 || !measured.GetMeasuredTime().IsValid():
		return "a measurement that lacks the architecture, the cores or its time"
	case measured.GetCores() > maxCores:
		return fmt.Sprintf("%d cores", measured.GetCores())
	case max(measured.GetNetworkCpuNanosPerGib(), measured.GetNetworkCpuNanosPerGibMost()) > maxNetworkNanosGiB:
		return fmt.Sprintf("%d ns of CPU time for a GiB on the network", measured.GetNetworkCpuNanosPerGib())
	case measured.GetNetwork().GetReceivedNanosPerGib() > maxNetworkNanosGiB ||
		max(measured.GetNetwork().GetAcknowledgementPicos(), measured.GetNetwork().GetSegmentPicos()) > maxSegmentPicos:
		return fmt.Sprintf("%d and %d ps of CPU time for a segment on the network",
			measured.GetNetwork().GetAcknowledgementPicos(), measured.GetNetwork().GetSegmentPicos())
	case measured.GetMeasuredTime().AsTime().After(now.Add(maxClockSkew)):
		return "a measurement in the future: " + measured.GetMeasuredTime().AsTime().Format(time.RFC3339)
	}
	for _, engine := range listed {
		rate := max(engine.GetCompressBytesPerSecond(), engine.GetDecompressBytesPerSecond())
		for _, level := range engine.GetLevels() {
			rate = max(rate, level.GetCompressBytesPerSecond())
		}
		if rate > maxRate {
			return fmt.Sprintf("%d bytes per second by engine %q on one core", rate, cut(engine.GetName(), maxName))
		}
	}
	return ""
}

// engines returns them fastest first. What has no name, or the name of another, is left out, and so is what an agent
// lists beyond the first maxEngines: no agent has as many, so the rest is not worth the time.
func engines(measured []*wirev1.EngineMeasurement) []v1alpha1.EngineProfile {
	var profiles []v1alpha1.EngineProfile
	for _, engine := range measured[:min(len(measured), maxEngines)] {
		name := cut(engine.GetName(), maxName)
		known := slices.ContainsFunc(profiles, func(p v1alpha1.EngineProfile) bool { return p.Name == name })
		if name == "" || known {
			continue
		}
		profile := v1alpha1.EngineProfile{
			Name:                     name,
			Codec:                    cut(engine.GetCodec(), maxName),
			Verified:                 engine.GetVerified(),
			CompressBytesPerSecond:   signed(engine.GetCompressBytesPerSecond()),
			DecompressBytesPerSecond: signed(engine.GetDecompressBytesPerSecond()),
			Ratio:                    ratio(engine.GetSampleBytes(), engine.GetSampleCompressedBytes()),
			Levels:                   engineLevels(engine),
			Inflates:                 engine.GetInflates(),
		}
		profiles = append(profiles, profile)
	}
	slices.SortStableFunc(profiles, func(a, b v1alpha1.EngineProfile) int {
		return cmp.Or(cmp.Compare(b.CompressBytesPerSecond, a.CompressBytesPerSecond), cmp.Compare(a.Name, b.Name))
	})
	return profiles
}

// engineLevels returns the levels that an engine was measured at, each once.
func engineLevels(engine *wirev1.EngineMeasurement) []v1alpha1.LevelProfile {
	var profiles []v1alpha1.LevelProfile
	for _, level := range levels {
		i := slices.IndexFunc(engine.GetLevels(), func(m *wirev1.LevelMeasurement) bool { return m.GetLevel() == level.wire })
		if i < 0 {
			continue
		}
		measured := engine.GetLevels()[i]
		profiles = append(profiles, v1alpha1.LevelProfile{
			Level:                  level.api,
			CompressBytesPerSecond: signed(measured.GetCompressBytesPerSecond()),
			Ratio:                  ratio(engine.GetSampleBytes(), measured.GetSampleCompressedBytes()),
			Selected:               measured.GetSelected(),
		})
	}
	return profiles
}

// accelerator is nil when the agent does not tell of one in terms that are known.
func accelerator(measured *wirev1.AcceleratorMeasurement) *v1alpha1.NodeAccelerator {
	state, known := states[measured.GetState()]
	if !known {
		return nil
	}
	return &v1alpha1.NodeAccelerator{AcceleratorProfile: v1alpha1.AcceleratorProfile{
		State:              state,
		Reason:             cut(measured.GetReason(), maxName),
		Message:            cut(measured.GetMessage(), maxMessage),
		SlowerThanSoftware: measured.GetSlowerThanSoftware(),
		InflateMinSize:     signed(measured.GetInflateMinSize()),
	}}
}

// deflate is the value of the node's label: hardware only when the accelerator was proved to be used.
func deflate(measured *wirev1.NodeMeasurement) string {
	if measured.GetAccelerator().GetState() == wirev1.AcceleratorState_ACCELERATOR_STATE_VERIFIED {
		return placement.Hardware
	}
	return placement.Software
}

// confirmed is the condition on what Node Feature Discovery announces; nil when that is nothing, or nothing is known to
// hold against it. An accelerator that was seen to work confirms nothing when label says that its agent is not trusted
// any more.
func confirmed(node *corev1.Node, profile *v1alpha1.NodeProfile, label string) *metav1.Condition {
	found := profile.Status.Accelerator
	if node.Labels[v1alpha1.NFDDeflateLabel] != "true" || found == nil {
		return nil
	}
	var condition metav1.Condition
	switch found.State {
	case v1alpha1.AcceleratorVerified:
		if label == placement.Software {
			return nil
		}
		condition = conditions.New(
			v1alpha1.ConditionFeatureConfirmed, true, v1alpha1.ReasonMeasured,
			"the accelerator that is announced was seen to work",
		)
	case v1alpha1.AcceleratorNotUsed:
		condition = conditions.New(v1alpha1.ConditionFeatureConfirmed, false, v1alpha1.CompressionSelfTestFailed, fmt.Sprintf(
			"label %s announces an accelerator whose use could not be proved (%s); agents are placed as on a node without one",
			v1alpha1.NFDDeflateLabel, found.Message))
	default:
		condition = conditions.New(v1alpha1.ConditionFeatureConfirmed, false, v1alpha1.CompressionNoAccelerator, fmt.Sprintf(
			"label %s announces an accelerator that the node agent does not find (%s); agents are placed as on a node without "+
				"one", v1alpha1.NFDDeflateLabel, found.Message))
	}
	return &condition
}

// ratio is empty when nothing was compressed.
func ratio(plain, compressed uint64) string {
	if compressed == 0 {
		return ""
	}
	return decimal(float64(plain)/float64(compressed), 2)
}

func signed(n uint64) int64 {
	return int64(min(n, math.MaxInt64))
}

// cut bounds what an agent says, in bytes.
func cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

// decimal formats without trailing zeros.
func decimal(value float64, places int) string {
	text := strconv.FormatFloat(value, 'f', places, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
