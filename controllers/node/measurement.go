// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

const (
	// maxEngines, maxName and maxMessage are the bounds of the API.
	maxEngines = 16
	maxName    = 63
	maxMessage = 1024
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

// Values of the label v1alpha1.DeflateLabel.
const (
	deflateHardware = "hardware"
	deflateSoftware = "software"
)

// setMeasurement writes what the agent measured into the status.
func setMeasurement(status *v1alpha1.NodeProfileStatus, measured *wirev1.NodeMeasurement) {
	status.Architecture = cut(measured.GetArchitecture(), maxName)
	status.Cores = int32(min(measured.GetCores(), math.MaxInt32))
	status.Engines = engines(measured.GetEngines())
	status.Accelerator = accelerator(measured.GetAccelerator())
	status.NetworkCPUSecondsPerGiB = decimal(float64(measured.GetNetworkCpuNanosPerGib())/1e9, 4)
	status.AgentVersion = cut(measured.GetVersion(), maxName)
	status.MeasuredTime = nil
	if stamp := measured.GetMeasuredTime(); stamp.IsValid() {
		// The API keeps whole seconds; anything finer would differ with every reading.
		at := metav1.NewTime(stamp.AsTime()).Rfc3339Copy()
		status.MeasuredTime = &at
	}
}

// engines returns them fastest first. What has no name, or the name of another, is left out, and so is what an agent lists beyond
// the first maxEngines: no agent has as many, so the rest is not worth the time.
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
func accelerator(measured *wirev1.AcceleratorMeasurement) *v1alpha1.AcceleratorProfile {
	state, known := states[measured.GetState()]
	if !known {
		return nil
	}
	return &v1alpha1.AcceleratorProfile{
		State:              state,
		Reason:             cut(measured.GetReason(), maxName),
		Message:            cut(measured.GetMessage(), maxMessage),
		SlowerThanSoftware: measured.GetSlowerThanSoftware(),
		InflateMinSize:     signed(measured.GetInflateMinSize()),
	}
}

// deflate is the value of the node's label: hardware only when the accelerator was proved to be used.
func deflate(measured *wirev1.NodeMeasurement) string {
	if measured.GetAccelerator().GetState() == wirev1.AcceleratorState_ACCELERATOR_STATE_VERIFIED {
		return deflateHardware
	}
	return deflateSoftware
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
