// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agentreport reads what agents report: it bounds the report, which may be hostile, and turns it into what
// status shows. It is pure.
package agentreport

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
)

// News reports whether a report may change more of a status than progress. What plan and
// trialplan keep of a report for that question counts.
func News(before, after *wirev1.Report) bool {
	was, is := before.GetCompression(), after.GetCompression()
	return before.GetState() != after.GetState() || before.GetArchitecture() != after.GetArchitecture() ||
		was.GetCodec() != is.GetCodec() || was.GetEngine() != is.GetEngine() || was.GetReason() != is.GetReason()
}

const (
	gib          = 1 << 30
	maxOmissions = 16
	maxExamples  = 5
	// maxReasons bounds the reasons that are counted, of which there are fewer, and maxReason each in bytes.
	maxReasons, maxReason = 32, 64
)

// rateWindow is how far back the rate of a running attempt looks.
const rateWindow = 10 * time.Second

// Sample is how much an attempt had sent when.
type Sample struct {
	Time  time.Time
	Bytes uint64
}

// Samples are the recent ones of one attempt, oldest first. The manager keeps them in memory only.
type Samples []Sample

// Add returns the samples with one more and without those that are older than the window, of which one is kept to
// measure from.
func (s Samples) Add(sample Sample) Samples {
	all := append(append(Samples(nil), s...), sample)
	for len(all) > 2 && sample.Time.Sub(all[1].Time) >= rateWindow {
		all = all[1:]
	}
	return all
}

// Rate is in bytes per second; 0 when there are not two samples yet.
func (s Samples) Rate() int64 {
	if len(s) < 2 {
		return 0
	}
	first, last := s[0], s[len(s)-1]
	seconds := last.Time.Sub(first.Time).Seconds()
	if seconds <= 0 || last.Bytes < first.Bytes {
		return 0
	}
	return int64(float64(last.Bytes-first.Bytes) / seconds)
}

// Progress maps what an agent reports; rate is in bytes per second.
func Progress(report *wirev1.Report, rate, resumed int64) *v1alpha1.Progress {
	p := report.GetProgress()
	status := &v1alpha1.Progress{
		Files:          Clamp(p.GetFiles()),
		FilesTotal:     Clamp(p.GetFilesTotal()),
		Bytes:          Saturated(Clamp(p.GetBytes()), Clamp(p.GetPartialBytes())),
		PartialBytes:   Clamp(p.GetPartialBytes()),
		BytesTotal:     Clamp(p.GetBytesTotal()),
		BytesPerSecond: rate,
		UnchangedFiles: Clamp(p.GetUnchangedFiles()),
		UnchangedBytes: Clamp(p.GetUnchangedBytes()),
		ResumedBytes:   resumed,
		ResentBytes:    Clamp(p.GetResentBytes()),
		Removed:        Clamp(p.GetRemoved()),
		ReusedBytes:    Clamp(p.GetReusedBytes()),
		HoleBytes:      Clamp(p.GetHoleBytes()),
	}
	succeeded := report.GetState() == wirev1.AgentState_AGENT_STATE_SUCCEEDED
	switch {
	case succeeded:
		status.Percent = 100
	case status.BytesTotal > 0:
		status.Percent = percent(status.Bytes, status.BytesTotal)
	case status.FilesTotal > 0:
		status.Percent = percent(status.Files, status.FilesTotal)
	}
	left := status.BytesTotal - status.Bytes
	if !ended(report) && p.GetScanned() && rate > 0 && left > 0 {
		seconds := math.Ceil(float64(left) / float64(rate))
		if seconds < float64(math.MaxInt64/int64(time.Second)) {
			status.ETA = &metav1.Duration{Duration: time.Duration(seconds) * time.Second}
		}
	}
	return status
}

// Saturated is the sum of two numbers that are not negative, or the greatest number there is.
func Saturated(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }

func percent(part, whole int64) int32 {
	return int32(min(100, max(0, float64(part)/float64(whole)*100)))
}

// WholeRate is the rate over the whole attempt.
func WholeRate(report *wirev1.Report, bytes uint64) int64 {
	start, end := report.GetStartTime(), report.GetEndTime()
	if start == nil || end == nil {
		return 0
	}
	seconds := end.AsTime().Sub(start.AsTime()).Seconds()
	if seconds <= 0 {
		return 0
	}
	return int64(float64(bytes) / seconds)
}

func ended(report *wirev1.Report) bool {
	return report.GetState() == wirev1.AgentState_AGENT_STATE_SUCCEEDED ||
		report.GetState() == wirev1.AgentState_AGENT_STATE_FAILED
}

func operations(o *wirev1.Operations) v1alpha1.Operations {
	return v1alpha1.Operations{Operations: Clamp(o.GetOperations()), Bytes: Clamp(o.GetBytes())}
}

// CompressionStatus is what status shows of a report's compression.
func CompressionStatus(report *wirev1.Report) *v1alpha1.CompressionStatus {
	c := report.GetCompression()
	if c == nil {
		return nil
	}
	status := &v1alpha1.CompressionStatus{
		Codec:             c.GetCodec(),
		Engine:            c.GetEngine(),
		Level:             c.GetLevel(),
		Reason:            c.GetReason(),
		UncompressedBytes: Clamp(c.GetUncompressedBytes()),
		CompressedBytes:   Clamp(c.GetCompressedBytes()),
		Hardware:          operations(c.GetHardware()),
		Software:          operations(c.GetSoftware()),
		Stored:            operations(c.GetStored()),
	}
	if c.GetUncompressedBytes() > 0 && c.GetCompressedBytes() > 0 {
		plain, packed := float64(c.GetUncompressedBytes()), float64(c.GetCompressedBytes())
		status.Ratio = strconv.FormatFloat(plain/packed, 'f', 2, 64)
		status.SavedPercent = int32(max(math.MinInt32, math.Floor((1-packed/plain)*100)))
	}
	status.Reasons, status.Skipped = counts(c.GetReasons()), counts(c.GetSkipped())
	status.Estimate = estimate(c.GetEstimate())
	return status
}

// AllOperations are the blocks that were compressed or sent as they are.
func AllOperations(c *v1alpha1.CompressionStatus) int64 {
	return Saturated(Saturated(c.Hardware.Operations, c.Software.Operations), c.Stored.Operations)
}

// counts is nil when nothing was counted.
func counts(reported map[string]uint64) map[string]int64 {
	if len(reported) == 0 {
		return nil
	}
	m := make(map[string]int64, len(reported))
	for _, reason := range slices.Sorted(maps.Keys(reported)) {
		if len(reason) <= maxReason && len(m) < maxReasons {
			m[reason] = Clamp(reported[reason])
		}
	}
	return m
}

// estimate is nil when no sample was taken.
func estimate(e *wirev1.Estimate) *v1alpha1.EstimateStatus {
	if e == nil {
		return nil
	}
	status := &v1alpha1.EstimateStatus{
		Blocks:     Clamp(e.GetBlocks()),
		Wasted:     Clamp(e.GetWasted()),
		Probes:     Clamp(e.GetProbes()),
		Missed:     Clamp(e.GetMissed()),
		CPUSeconds: Seconds(float64(e.GetNanos())),
	}
	if e.GetBytes() > 0 {
		// An agent cannot be wrong by more than all.
		wrong := min(float64(e.GetErrorBytes())/float64(e.GetBytes()), 1)
		status.MeanErrorPercent = strconv.FormatFloat(100*wrong, 'f', 1, 64)
	}
	return status
}

// DecompressionStatus is what status shows of a report's decompression.
func DecompressionStatus(report *wirev1.Report) *v1alpha1.DecompressionStatus {
	d := report.GetDecompression()
	if d == nil {
		return nil
	}
	return &v1alpha1.DecompressionStatus{
		Hardware: operations(d.GetHardware()),
		Software: operations(d.GetSoftware()),
		Fallback: operations(d.GetFallback()),
		Reason:   d.GetReason(),
	}
}

// CPUStatus is what status shows of a report's CPU time. network is an estimate of that of the network stack in
// nanoseconds, nil when it is not known.
func CPUStatus(report *wirev1.Report, network *int64) *v1alpha1.CPUStatus {
	c := report.GetCpu()
	if c == nil {
		return nil
	}
	status := &v1alpha1.CPUStatus{
		SendSeconds:     Seconds(float64(c.GetSendNanos())),
		CompressSeconds: Seconds(float64(c.GetCompressNanos())),
	}
	if c.GetIdleNanos() > 0 {
		status.IdleSeconds = Seconds(float64(c.GetIdleNanos()))
	}
	// The sender hears from the receiver later. A process that has spent nothing has not reported.
	if c.GetReceiveNanos() > 0 {
		status.ReceiveSeconds = Seconds(float64(c.GetReceiveNanos()))
	}
	if c.GetReceiveNanos() > 0 || c.GetDecompressNanos() > 0 {
		status.DecompressSeconds = Seconds(float64(c.GetDecompressNanos()))
	}
	stack := 0.0
	if network != nil {
		stack = float64(*network)
		status.NetworkSeconds = Seconds(stack)
	}
	if plain := report.GetCompression().GetUncompressedBytes(); plain > 0 {
		total := float64(c.GetSendNanos()-min(c.GetIdleNanos(), c.GetSendNanos())) + float64(c.GetReceiveNanos()) + stack
		status.SecondsPerGiB = Seconds(total / (float64(plain) / gib))
	}
	return status
}

// Omissions have no examples until the agent has ended: with each of a run's progress they would be written again.
func Omissions(report *wirev1.Report) []v1alpha1.Omission {
	var list []v1alpha1.Omission
	seen := map[string]bool{}
	examples := 0
	if ended(report) {
		examples = maxExamples
	}
	for _, o := range report.GetOmissions() {
		if o.GetWhat() == "" || len(o.GetWhat()) > 64 || seen[o.GetWhat()] || len(list) == maxOmissions {
			continue
		}
		seen[o.GetWhat()] = true
		omission := v1alpha1.Omission{What: o.GetWhat(), Count: Clamp(o.GetCount())}
		for _, example := range o.GetExamples()[:min(len(o.GetExamples()), examples)] {
			omission.Examples = append(omission.Examples, conditions.Shorten(example))
		}
		list = append(list, omission)
	}
	return list
}

// Seconds writes nanoseconds as decimal seconds with two decimals, or more when there would be none left.
func Seconds(nanos float64) string {
	s := nanos / 1e9
	if s != 0 && math.Abs(s) < 0.01 {
		return Trimmed(s, 6)
	}
	return strconv.FormatFloat(s, 'f', 2, 64)
}

// Trimmed writes a number with at most that many decimals and no zeros at the end.
func Trimmed(value float64, decimals int) string {
	text := strconv.FormatFloat(value, 'f', decimals, 64)
	text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	if text == "" || text == "-0" {
		return "0"
	}
	return text
}

// Clamp is n, or the greatest int64.
func Clamp(n uint64) int64 {
	return int64(min(n, math.MaxInt64))
}

// HardwareUsed reports whether the accelerator does what is compressed. One that stopped working on the way, or that
// others keep busy, compressed some as well, and so did one beside which software had the most to do.
func HardwareUsed(status *v1alpha1.CompressionStatus) bool {
	switch status.Reason {
	case v1alpha1.CompressionHardwareUsed:
		return true
	case v1alpha1.CompressionSelfTestFailed, v1alpha1.CompressionAcceleratorBusy,
		v1alpha1.CompressionAcceleratorShare:
		return false
	}
	return status.Hardware.Operations > 0 && status.Hardware.Bytes >= status.Software.Bytes
}
