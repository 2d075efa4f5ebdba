// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/canary"
	"github.com/lighterage/lighterage/controllers/replicas"
	"github.com/lighterage/lighterage/controllers/tariff"
	"github.com/lighterage/lighterage/controllers/usage"
)

// codings are those that statistics know, in the order in which status shows them.
var codings = []string{"gzip", "deflate", "zstd", "identity"}

// totals are the sums of what replicas report.
type totals struct {
	replicas.Sum
	statistics *wirev1.HTTPStatistics
	decisions  []*wirev1.Decisions
}

// sum adds up the replicas that count: one that has nothing to serve with yet does not.
func sum(list []Replica) *totals {
	t := &totals{statistics: &wirev1.HTTPStatistics{ResponsesByCoding: map[string]uint64{}}}
	for _, replica := range list {
		r := replica.Report
		if r.GetStatistics() == nil {
			continue
		}
		t.addStatistics(r.GetStatistics())
		t.decisions = append(t.decisions, r.GetDecisions())
		t.Add(counters(r).Report, r.GetStatistics().GetReset_(), replica.Network)
	}
	return t
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
	all.RecentOperations += s.GetRecentOperations()
	all.RecentPlainBytes += s.GetRecentPlainBytes()
	all.RecentBytes += s.GetRecentBytes()
	all.RecentNanos += s.GetRecentNanos()
	for _, coding := range codings {
		if n := s.GetResponsesByCoding()[coding]; n > 0 {
			all.ResponsesByCoding[coding] += n
		}
	}
	if since := s.GetSince(); since != nil && (all.Since == nil || since.AsTime().Before(all.Since.AsTime())) {
		all.Since = since
	}
}

// statisticsStatus is what status shows of the sums; lastResetRequest is what it showed until now.
func (t *totals) statisticsStatus(lastResetRequest string) *v1alpha1.HTTPStatistics {
	s := t.statistics
	compressed := s.GetHardwareResponses() + s.GetSoftwareResponses()
	status := &v1alpha1.HTTPStatistics{
		Active:            replicas.Clamp(s.GetActiveConnections()),
		HighWater:         replicas.Clamp(s.GetHighWaterConnections()),
		Refused:           replicas.Clamp(s.GetRefusedConnections()),
		Reused:            replicas.Clamp(s.GetReused()),
		TimedOut:          replicas.Clamp(s.GetTimedOut()),
		URLErrors:         replicas.Clamp(s.GetUrlErrors()),
		Responses:         replicas.Clamp(compressed + s.GetUncompressedResponses()),
		HardwareCount:     replicas.Clamp(s.GetHardwareResponses()),
		SoftwareCount:     replicas.Clamp(s.GetSoftwareResponses()),
		UncompressedCount: replicas.Clamp(s.GetUncompressedResponses()),
		LastResetRequest:  lastResetRequest,
	}
	for _, coding := range codings {
		if n := s.GetResponsesByCoding()[coding]; n > 0 {
			status.Codings = append(status.Codings, v1alpha1.HTTPCodingCount{Coding: coding, Responses: replicas.Clamp(n)})
		}
	}
	if compressed > 0 {
		status.AverageCompressSeconds = replicas.AverageSeconds(t.Report.GetCpu().GetCompressNanos(), compressed)
		status.AverageUncompressedSize = replicas.Clamp(s.GetCompressedPlainBytes() / compressed)
	}
	if n := s.GetRecentOperations(); n > 0 {
		status.RecentCompressSeconds = replicas.AverageSeconds(s.GetRecentNanos(), n)
		status.RecentUncompressedSize = replicas.Clamp(s.GetRecentPlainBytes() / n)
	}
	status.RecentRatio = replicas.Ratio(s.GetRecentPlainBytes(), s.GetRecentBytes())
	status.AverageRatio = replicas.Ratio(s.GetCompressedPlainBytes(), s.GetCompressedBytes())
	if s.GetSince() != nil {
		status.LastReset = &metav1.Time{Time: s.GetSince().AsTime().Truncate(time.Second)}
	}
	if t.ResetOK {
		status.LastResetRequest = t.Reset
	}
	return status
}

// replicaStatus shows the replicas by name, the first 32.
func replicaStatus(all []Replica, revision string) []v1alpha1.HTTPReplica {
	var list []v1alpha1.HTTPReplica
	for _, replica := range all {
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
func refresh(status *v1alpha1.HTTPEndpointStatus, wanted *Wanted, facts Facts) {
	all := sum(facts.Replicas)
	lastResetRequest := ""
	if status.Statistics != nil {
		lastResetRequest = status.Statistics.LastResetRequest
	}
	status.Statistics = all.statisticsStatus(lastResetRequest)
	uncounted := status.Usage == nil && status.CPU != nil // written by an earlier version
	status.Compression = agentreport.CompressionStatus(&all.Report)
	status.Decisions = agentreport.DecisionsStatus(all.decisions, status.Decisions)
	status.CPU = agentreport.CPUStatus(&all.Report, all.Network())
	if status.CPU != nil {
		// Request bodies are passed as they are, so that nothing is received and inflated.
		status.CPU.ReceiveSeconds, status.CPU.DecompressSeconds = "", ""
	}
	if used := replicas.Usage(facts.Replicas, counters); uncounted {
		status.Usage, status.ReplicaUsage = usage.Begin(used)
	} else {
		status.Usage, status.ReplicaUsage = usage.Count(status.Usage, status.ReplicaUsage, used)
	}
	if wanted == nil {
		return // a spec that cannot be used says nothing of prices
	}
	status.CanaryBaseline = canary.Baseline(status.CanaryBaseline, status.Policy, status.Usage)
	prices := replicas.Prices(facts.Replicas, counters, tariff.Query{
		Tariffs: facts.Tariffs, Name: wanted.Policy.TariffName, Stated: wanted.Policy.Prices,
		Direction: v1alpha1.DirectionSend, Time: facts.Now,
	})
	status.Cost = tariff.Charge(status.Cost, tariff.Used(usage.FromStatus(status.Usage)), prices, facts.Now)
}

// counters of a replica.
func counters(r *wirev1.HTTPReport) replicas.Counters {
	return replicas.Counters{
		Report: &wirev1.Report{
			Compression: r.GetCompression(), Cpu: r.GetCpu(), WireBytes: r.GetWireBytes(), Traffic: r.GetTraffic(),
		},
		Since: r.GetStatistics().GetSince(),
	}
}
