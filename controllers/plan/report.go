// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

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

// progress maps what an agent reports; rate is in bytes per second.
func progress(report *wirev1.Report, rate, resumed int64) *v1alpha1.Progress {
	p := report.GetProgress()
	status := &v1alpha1.Progress{
		Files:          clamp(p.GetFiles()),
		FilesTotal:     clamp(p.GetFilesTotal()),
		Bytes:          saturated(clamp(p.GetBytes()), clamp(p.GetPartialBytes())),
		PartialBytes:   clamp(p.GetPartialBytes()),
		BytesTotal:     clamp(p.GetBytesTotal()),
		BytesPerSecond: rate,
		UnchangedFiles: clamp(p.GetUnchangedFiles()),
		UnchangedBytes: clamp(p.GetUnchangedBytes()),
		ResumedBytes:   resumed,
		ResentBytes:    clamp(p.GetResentBytes()),
		Removed:        clamp(p.GetRemoved()),
		ReusedBytes:    clamp(p.GetReusedBytes()),
		HoleBytes:      clamp(p.GetHoleBytes()),
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

// saturated is the sum of two numbers that are not negative, or the greatest number there is.
func saturated(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }

func percent(part, whole int64) int32 {
	return int32(min(100, max(0, float64(part)/float64(whole)*100)))
}

// wholeRate is the rate over the whole attempt.
func wholeRate(report *wirev1.Report, bytes uint64) int64 {
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
	return v1alpha1.Operations{Operations: clamp(o.GetOperations()), Bytes: clamp(o.GetBytes())}
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
		UncompressedBytes: clamp(c.GetUncompressedBytes()),
		CompressedBytes:   clamp(c.GetCompressedBytes()),
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

// counts is nil when nothing was counted.
func counts(reported map[string]uint64) map[string]int64 {
	if len(reported) == 0 {
		return nil
	}
	m := make(map[string]int64, len(reported))
	for _, reason := range slices.Sorted(maps.Keys(reported)) {
		if len(reason) <= maxReason && len(m) < maxReasons {
			m[reason] = clamp(reported[reason])
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
		Blocks:     clamp(e.GetBlocks()),
		Wasted:     clamp(e.GetWasted()),
		Probes:     clamp(e.GetProbes()),
		Missed:     clamp(e.GetMissed()),
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
	}
}

// networkNanos estimates what the network stack spent on nobody's account; perGiB is in seconds, nil when it is not
// known.
func networkNanos(wireBytes uint64, perGiB *float64) float64 {
	if perGiB == nil {
		return 0
	}
	return float64(wireBytes) / gib * *perGiB * 1e9
}

// CPUStatus is what status shows of a report's CPU time. perGiB is the network's CPU seconds per GiB, nil when it is not
// known.
func CPUStatus(report *wirev1.Report, perGiB *float64) *v1alpha1.CPUStatus {
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
	network := networkNanos(report.GetWireBytes(), perGiB)
	if perGiB != nil {
		status.NetworkSeconds = Seconds(network)
	}
	if plain := report.GetCompression().GetUncompressedBytes(); plain > 0 {
		total := float64(c.GetSendNanos()-min(c.GetIdleNanos(), c.GetSendNanos())) + float64(c.GetReceiveNanos()) + network
		status.SecondsPerGiB = Seconds(total / (float64(plain) / gib))
	}
	return status
}

// omissions have no examples until the agent has ended: with each of a run's progress they would be written again.
func omissions(report *wirev1.Report) []v1alpha1.Omission {
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
		omission := v1alpha1.Omission{What: o.GetWhat(), Count: clamp(o.GetCount())}
		for _, example := range o.GetExamples()[:min(len(o.GetExamples()), examples)] {
			omission.Examples = append(omission.Examples, conditions.Shorten(example))
		}
		list = append(list, omission)
	}
	return list
}

// hardwareMessages say what each reason means, for the condition HardwareCompression.
var hardwareMessages = map[string]string{
	v1alpha1.CompressionHardwareUsed:  "the accelerator compresses",
	v1alpha1.CompressionSoftwareUsed:  "software compresses, as the policy asks",
	v1alpha1.CompressionNoAccelerator: "software compresses: the node has no accelerator that is known to work",
	v1alpha1.CompressionSelfTestFailed: "software compresses: the node has an accelerator, but its use could not be " +
		"proved or it was not used for most blocks; status.accelerator of the NodeProfile says why",
	v1alpha1.CompressionLevelNotAccelerated: "software compresses: the node's accelerator does not compress at the " +
		"policy's level; status.accelerator of the NodeProfile says at which it does",
	v1alpha1.CompressionCodecNotAccelerated: "software compresses: the codec agreed with the peer is zstd, which no " +
		"accelerator does; to use one, name only deflate in codecs",
	v1alpha1.CompressionBelowMinimum: "most blocks are smaller than the policy's minSize and are sent as they are",
	v1alpha1.CompressionSoftwareDisabled: "nothing is compressed: the node has no accelerator that is known to work, " +
		"and the policy forbids software",
	v1alpha1.CompressionIncompressible: "most data is sent as it is: samples predict that it would not shrink",
	v1alpha1.CompressionNetworkFaster: "most data is sent as it is: that takes less time over this network than " +
		"compressing, and the objective is Elapsed; to save bytes set prices, or the objective Bytes",
	v1alpha1.CompressionCPUBudget: "most data is sent as it is: compressing would take more CPU time than the policy's " +
		"objective finds it worth, or the sender's cores are too busy",
	v1alpha1.CompressionAcceleratorBusy: "software compresses: the accelerator takes several times as long as before, " +
		"as it does when others use it",
	v1alpha1.CompressionDidNotShrink:  "most data is sent as it is: it did not shrink",
	v1alpha1.CompressionPolicyNever:   "nothing is compressed: the policy says Never",
	v1alpha1.CompressionPeerRefused:   "nothing is compressed: the peer accepts none of the policy's codecs",
	v1alpha1.CompressionNoNetwork:     "nothing is compressed: the data cross no network",
	v1alpha1.CompressionNothingToSend: "nothing had to be sent",
}

// corrected is where an agent is, after it has found no accelerator on a node that is taken for one with an
// accelerator.
func corrected(where *v1alpha1.PlacementStatus, found *v1alpha1.CompressionStatus) *v1alpha1.PlacementStatus {
	if where == nil || found == nil || where.Node == "" || where.Reason != v1alpha1.PlacementReasonHardware ||
		found.Reason != v1alpha1.CompressionNoAccelerator {
		return where
	}
	truth := where.DeepCopy()
	truth.Engine, truth.Reason = found.Engine, v1alpha1.CompressionNoAccelerator
	truth.Message = "the agent finds no accelerator on this node, although its NodeProfile or a label says that one " +
		"works there; see whether the node agent runs the manager's version, and restart it"
	return truth
}

// hardwareCondition is absent until something was decided. Where there is no accelerator it says why the agent is where
// it is.
func hardwareCondition(status *v1alpha1.CompressionStatus, where *v1alpha1.PlacementStatus) []metav1.Condition {
	if status == nil {
		return nil
	}
	reason, used := status.Reason, HardwareUsed(status)
	if used {
		reason = v1alpha1.CompressionHardwareUsed
	}
	message, known := hardwareMessages[reason]
	if !known {
		return nil
	}
	if reason == v1alpha1.CompressionNoAccelerator && where != nil && where.Message != "" &&
		where.Reason != v1alpha1.PlacementReasonHardware {
		message += "; " + where.Message
	}
	return []metav1.Condition{conditions.New(v1alpha1.ConditionHardwareCompression, used, reason, message)}
}

// Seconds writes nanoseconds as decimal seconds with two decimals, or more when there would be none left.
func Seconds(nanos float64) string {
	s := nanos / 1e9
	if s != 0 && math.Abs(s) < 0.01 {
		return trimmed(s, 6)
	}
	return strconv.FormatFloat(s, 'f', 2, 64)
}

func trimmed(value float64, decimals int) string {
	text := strconv.FormatFloat(value, 'f', decimals, 64)
	text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	if text == "" || text == "-0" {
		return "0"
	}
	return text
}

func clamp(n uint64) int64 {
	return int64(min(n, math.MaxInt64))
}
