// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

// codings are those that statistics know, in the order in which status shows them.
var codings = []string{"gzip", "deflate", "zstd", "identity"}

// maxSkippedReasons bounds what is taken of a report; there are fewer reasons.
const maxSkippedReasons = 32

// totals are the sums of what replicas report.
type totals struct {
	statistics *wirev1.HTTPStatistics
	// report has compression, CPU and bytes on the wire.
	report *wirev1.Report
	// reset is what every replica has acted upon; ok is false when they do not agree or none answers.
	reset   string
	resetOK bool
	// networkSecondsPerGiB is that of the replicas' nodes, weighed by their bytes; nil when it is not known of each.
	networkSecondsPerGiB *float64
}

// sum adds up the replicas that count: one that has nothing to serve with yet does not.
func sum(replicas []Replica) totals {
	t := totals{
		statistics: &wirev1.HTTPStatistics{ResponsesByCoding: map[string]uint64{}},
		report: &wirev1.Report{
			Compression: &wirev1.Compression{
				Hardware: &wirev1.Operations{}, Software: &wirev1.Operations{}, Stored: &wirev1.Operations{}, Skipped: map[string]uint64{},
			},
			Cpu: &wirev1.CPU{},
		},
	}
	var weight, weighted float64
	known := true
	var most uint64
	first := true
	for _, replica := range replicas {
		r := replica.Report
		if r.GetStatistics() == nil {
			continue
		}
		t.addStatistics(r.GetStatistics())
		t.addCompression(r.GetCompression())
		if done := operations(r.GetCompression()); first || done > most {
			c := r.GetCompression()
			t.report.Compression.Codec, t.report.Compression.Engine, t.report.Compression.Reason = c.GetCodec(), c.GetEngine(), c.GetReason()
			most = done
		}
		t.report.Cpu.SendNanos += r.GetCpu().GetSendNanos()
		t.report.Cpu.CompressNanos += r.GetCpu().GetCompressNanos()
		t.report.WireBytes += r.GetWireBytes()
		if replica.NetworkSecondsPerGiB == nil {
			known = false
		} else {
			weight += float64(r.GetWireBytes())
			weighted += float64(r.GetWireBytes()) * *replica.NetworkSecondsPerGiB
		}
		reset := r.GetStatistics().GetReset_()
		t.resetOK = first || t.resetOK && t.reset == reset
		t.reset = reset
		first = false
	}
	if known && weight > 0 {
		coefficient := weighted / weight
		t.networkSecondsPerGiB = &coefficient
	}
	return t
}

func operations(c *wirev1.Compression) uint64 {
	return c.GetHardware().GetOperations() + c.GetSoftware().GetOperations() + c.GetStored().GetOperations()
}

func (t *totals) addStatistics(s *wirev1.HTTPStatistics) {
	all := t.statistics
	all.ActiveConnections += s.GetActiveConnections()
	all.HighWaterConnections += s.GetHighWaterConnections()
	all.RefusedConnections += s.GetRefusedConnections()
	all.Reused += s.GetReused()
	all.TimedOut += s.GetTimedOut()
	all.UrlErrors += s.GetUrlErrors()
	all.HardwareResponses += s.GetHardwareResponses()
	all.SoftwareResponses += s.GetSoftwareResponses()
	all.UncompressedResponses += s.GetUncompressedResponses()
	all.CompressedPlainBytes += s.GetCompressedPlainBytes()
	all.CompressedBytes += s.GetCompressedBytes()
	for _, coding := range codings {
		if n := s.GetResponsesByCoding()[coding]; n > 0 {
			all.ResponsesByCoding[coding] += n
		}
	}
	if since := s.GetSince(); since != nil && (all.Since == nil || since.AsTime().Before(all.Since.AsTime())) {
		all.Since = since
	}
}

func (t *totals) addCompression(c *wirev1.Compression) {
	all := t.report.Compression
	all.UncompressedBytes += c.GetUncompressedBytes()
	all.CompressedBytes += c.GetCompressedBytes()
	for _, pair := range [][2]*wirev1.Operations{{all.Hardware, c.GetHardware()}, {all.Software, c.GetSoftware()}, {all.Stored, c.GetStored()}} {
		pair[0].Operations += pair[1].GetOperations()
		pair[0].Bytes += pair[1].GetBytes()
	}
	for reason, n := range c.GetSkipped() {
		if _, known := all.Skipped[reason]; known || len(all.Skipped) < maxSkippedReasons {
			all.Skipped[reason] += n
		}
	}
}

// statisticsStatus is what status shows of the sums; lastResetRequest is what it showed until now.
func (t *totals) statisticsStatus(lastResetRequest string) *v1alpha1.HTTPStatistics {
	s := t.statistics
	compressed := s.GetHardwareResponses() + s.GetSoftwareResponses()
	status := &v1alpha1.HTTPStatistics{
		Active:            clamp(s.GetActiveConnections()),
		HighWater:         clamp(s.GetHighWaterConnections()),
		Refused:           clamp(s.GetRefusedConnections()),
		Reused:            clamp(s.GetReused()),
		TimedOut:          clamp(s.GetTimedOut()),
		URLErrors:         clamp(s.GetUrlErrors()),
		Responses:         clamp(compressed + s.GetUncompressedResponses()),
		HardwareCount:     clamp(s.GetHardwareResponses()),
		SoftwareCount:     clamp(s.GetSoftwareResponses()),
		UncompressedCount: clamp(s.GetUncompressedResponses()),
		LastResetRequest:  lastResetRequest,
	}
	for _, coding := range codings {
		if n := s.GetResponsesByCoding()[coding]; n > 0 {
			status.Codings = append(status.Codings, v1alpha1.HTTPCodingCount{Coding: coding, Responses: clamp(n)})
		}
	}
	if compressed > 0 {
		status.AverageCompressSeconds = averageSeconds(t.report.GetCpu().GetCompressNanos(), compressed)
		status.AverageUncompressedSize = clamp(s.GetCompressedPlainBytes() / compressed)
	}
	if s.GetCompressedPlainBytes() > 0 && s.GetCompressedBytes() > 0 {
		status.AverageRatio = strconv.FormatFloat(float64(s.GetCompressedPlainBytes())/float64(s.GetCompressedBytes()), 'f', 2, 64)
	}
	if s.GetSince() != nil {
		status.LastReset = &metav1.Time{Time: s.GetSince().AsTime().Truncate(time.Second)}
	}
	if t.resetOK {
		status.LastResetRequest = t.reset
	}
	return status
}

// averageSeconds has microseconds: a response takes hundreds of them, where whole totals take seconds.
func averageSeconds(nanos, count uint64) string {
	return strconv.FormatFloat(float64(nanos)/float64(count)/1e9, 'f', 6, 64)
}

// replicaStatus shows the replicas by name, the first 32.
func replicaStatus(replicas []Replica, revision string) []v1alpha1.HTTPReplica {
	var list []v1alpha1.HTTPReplica
	for _, replica := range replicas {
		one := v1alpha1.HTTPReplica{Name: replica.Pod.Name, Node: replica.Pod.Spec.NodeName, State: "Starting"}
		if r := replica.Report; r != nil {
			one.Architecture, one.Engine = r.GetArchitecture(), r.GetCompression().GetEngine()
			one.Current = revision != "" && r.GetRevision() == revision
			switch r.GetState() {
			case wirev1.HTTPState_HTTP_STATE_SERVING:
				one.State = "Serving"
			case wirev1.HTTPState_HTTP_STATE_DRAINING:
				one.State = "Draining"
			}
		} else if replica.Asked {
			one.State = "Unreachable"
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b v1alpha1.HTTPReplica) int { return cmp.Compare(a.Name, b.Name) })
	return list[:min(len(list), maxReplicasShown)]
}

// refresh puts the sums into status.
func refresh(status *v1alpha1.HTTPEndpointStatus, replicas []Replica, prices *v1alpha1.Prices) {
	all := sum(replicas)
	lastResetRequest := ""
	if status.Statistics != nil {
		lastResetRequest = status.Statistics.LastResetRequest
	}
	status.Statistics = all.statisticsStatus(lastResetRequest)
	status.Compression = plan.CompressionStatus(all.report)
	status.CPU = plan.CPUStatus(all.report, all.networkSecondsPerGiB)
	if status.CPU != nil {
		// Request bodies are passed as they are, so that nothing is received and inflated.
		status.CPU.ReceiveSeconds, status.CPU.DecompressSeconds = "", ""
	}
	status.Cost = plan.CostStatus(all.report, all.networkSecondsPerGiB, prices)
}

func clamp(n uint64) int64 {
	return int64(min(n, 1<<63-1))
}
