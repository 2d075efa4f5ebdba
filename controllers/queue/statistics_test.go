// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/queue"
	"github.com/lighterage/lighterage/controllers/usage"
)

// TestAverages: what dead letters, notes and messages that did not shrink add to the sums, they add to what these are
// divided by.
func TestAverages(t *testing.T) {
	for name, test := range map[string]struct {
		content            *wirev1.QueueContent
		tried, nanos       uint64
		average            int64
		compress, perGiB   string
		processed, process uint64
		idle               uint64
	}{
		"one message beside dead letters": {
			content: &wirev1.QueueContent{Messages: 1, DeadLetters: 9_999, Kept: 10_001, Bytes: 10_001 << 20}, average: 1 << 20,
		},
		"dead letters alone": {content: &wirev1.QueueContent{DeadLetters: 2, Kept: 2, Bytes: 600}, average: 300},
		"a member of before": {
			content: &wirev1.QueueContent{Messages: 1, DeadLetters: 2, Bytes: 600}, average: 200,
		},
		"nothing":                   {content: &wirev1.QueueContent{}},
		"no message was compressed": {content: &wirev1.QueueContent{}, tried: 4, nanos: 4e6, compress: "0.001000"},
		"no engine worked":          {content: &wirev1.QueueContent{}},
		"an idle queue": {
			content: &wirev1.QueueContent{}, processed: 1 << 20, process: 3600e9, idle: 3600e9 - 1e6, perGiB: "1.02",
		},
		"a queue that was never idle": {content: &wirev1.QueueContent{}, processed: 1 << 30, process: 7e9, perGiB: "7.00"},
		"more idle than a process has": {
			content: &wirev1.QueueContent{}, processed: 1 << 30, process: 7e9, idle: 8e9, perGiB: "0.00",
		},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := want(t, newQueue(nil))
			facts := well(wanted)
			r := facts.Members[0].Report
			test.content.Leader = r.GetMember()
			r.Content = test.content
			r.Statistics.Tried, r.Statistics.TriedNanos = test.tried, test.nanos
			r.Compression = &wirev1.Compression{UncompressedBytes: test.processed}
			r.Cpu = &wirev1.CPU{SendNanos: test.process, IdleNanos: test.idle, CompressNanos: 9e9}
			status := queue.Observe(wanted.Queue, &wanted, facts)
			if s := status.Statistics; s.AverageSize != test.average || s.AverageCompressSeconds != test.compress {
				t.Errorf("average size %d, %q s each", s.AverageSize, s.AverageCompressSeconds)
			}
			if status.CPU.SecondsPerGiB != test.perGiB {
				t.Errorf("%q s for each GiB, want %q", status.CPU.SecondsPerGiB, test.perGiB)
			}
		})
	}
}

// TestDecisions: status shows what members decide about messages, and what the one that sends decides for the channel.
func TestDecisions(t *testing.T) {
	wanted := want(t, newQueue(func(s *v1alpha1.QueueSpec) { s.Replicas = 3 }))
	facts := well(wanted)
	if status := queue.Observe(wanted.Queue, &wanted, facts); status.Decisions != nil {
		t.Errorf("of members that decide nothing: %+v", status.Decisions)
	}
	wanted.Queue.Spec.Channel = &v1alpha1.QueueChannel{Peer: "west"}
	for i, reason := range []string{"DiskFaster", "", "DiskFaster"} {
		facts.Members[i].Report.Decisions = &wirev1.Decisions{
			Objective: "Elapsed", DiskBytesPerSecond: 3e8, Classes: []*wirev1.ClassDecision{{
				Content: "eu", Size: "<4Ki", Codec: "zstd", Reason: reason, Operations: 10, Bytes: 1000,
			}},
		}
	}
	facts.Members[1].Report.Channel = &wirev1.ChannelStatus{
		State: wirev1.ChannelState_CHANNEL_STATE_RUNNING, Codec: "zstd",
		Decisions: &wirev1.Decisions{Objective: "Cost", LinkBytesPerSecond: 5e6},
	}
	status := queue.Observe(wanted.Queue, &wanted, facts)
	if d := status.Decisions; d == nil || d.DiskBytesPerSecond != 3e8 || len(d.Classes) != 1 ||
		d.Classes[0].Choice != v1alpha1.ClassMixed || d.Classes[0].Operations != 30 {
		t.Errorf("of members: %+v", d)
	}
	if c := status.Channel; c == nil || c.Decisions == nil || c.Decisions.LinkBytesPerSecond != 5e6 ||
		c.Decisions.Objective != v1alpha1.ObjectiveCost {
		t.Errorf("of the channel: %+v", c)
	}
}

// TestCost: CPU time is charged with its idle part told apart, and of the bytes those with other clusters at the price
// for the channel's Peer.
func TestCost(t *testing.T) {
	tariff := v1alpha1.Tariff{
		ObjectMeta: metav1.ObjectMeta{Name: "t", Annotations: map[string]string{v1alpha1.DefaultTariffAnnotation: "true"}},
		Spec: v1alpha1.TariffSpec{
			Currency: "EUR", CPUHour: v1alpha1.CPUHourPrice{Price: "3.6"},
			NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "9", Rules: []v1alpha1.NetworkGiBRule{
				{Price: "2", Peers: []string{"west"}, Direction: v1alpha1.DirectionSend},
				{Price: "1", Direction: v1alpha1.DirectionReceive},
			}},
		},
	}
	for peer, network := range map[string]string{"west": "6.0000", "": "3.0000"} {
		wanted := want(t, newQueue(nil))
		facts := well(wanted)
		facts.Tariffs = []v1alpha1.Tariff{tariff}
		r := facts.Members[0].Report
		// A GiB has come through a gateway, and a thousand segments have arrived.
		facts.Members[0].Network = &usage.NetworkCost{Gateway: 1, Segments: &usage.SegmentCost{Segment: 1e-3}, PerGiB: 50}
		r.Traffic = &wirev1.Traffic{DataSegments: 1000}
		r.Cpu = &wirev1.CPU{SendNanos: 10e9, IdleNanos: 4e9, CompressNanos: 2e9, DecompressNanos: 1e9}
		r.WireBytes, r.ReceivedWireBytes = 7<<30, 1<<30
		r.Channel = &wirev1.ChannelStatus{WireBytes: 2 << 30}
		r.Compression = &wirev1.Compression{Estimate: &wirev1.Estimate{Blocks: 3, Bytes: 100, ErrorBytes: 25}}
		if peer != "" {
			wanted.Queue.Spec.Channel = &v1alpha1.QueueChannel{Peer: peer}
		}
		wanted.Queue.Status = queue.Observe(wanted.Queue, &wanted, facts)
		status := queue.Observe(wanted.Queue, &wanted, facts)
		if diff := cmp.Diff(wanted.Queue.Status, status); diff != "" {
			t.Errorf("the same report changes status: %s", diff)
		}
		if c := status.Cost; c == nil || c.CPU != "0.0120" || c.Idle != "0.004" || c.Network != network {
			t.Errorf("cost with peer %q: %+v", peer, c)
		}
		if diff := cmp.Diff(&v1alpha1.UsageStatus{
			Send: &v1alpha1.CPUUsage{
				ProcessSeconds: "10", IdleSeconds: "4", CompressSeconds: "2", DecompressSeconds: "1", NetworkSeconds: "2",
			},
			WireBytes: 10 << 30, ChannelBytes: 3 << 30,
		}, status.Usage); diff != "" {
			t.Error(diff)
		}
		if e := status.Compression.Estimate; e == nil || e.Blocks != 3 || e.MeanErrorPercent != "25.0" {
			t.Errorf("estimate: %+v", e)
		}
	}
}

// TestMetricsAgree: Prometheus is told what status shows.
func TestMetricsAgree(t *testing.T) {
	wanted := want(t, newQueue(func(s *v1alpha1.QueueSpec) { s.Replicas = 3 }))
	facts := well(wanted)
	reports := map[string]*wirev1.QueueReport{}
	for i, m := range facts.Members {
		r, n := m.Report, uint64(i+1)
		r.Content = &wirev1.QueueContent{
			Messages: 10 * n, DeadLetters: 4 * n, Kept: 20 * n, Bytes: 2000 * n, Leader: wanted.Config.GetMembers()[1].GetName(),
			Consumers:      n,
			Unacknowledged: 7 * n, Redelivered: 3 * n, OldestTime: timestamppb.New(now.Add(-time.Duration(n) * time.Minute)),
		}
		s := r.GetStatistics()
		s.Puts, s.Gets, s.Decompressions = &wirev1.QueueRate{Count: 11 * n}, &wirev1.QueueRate{Count: 12 * n},
			&wirev1.QueueRate{Count: 13 * n}
		s.StoredFormGets, s.RefusedPuts, s.Duplicates, s.Connections, s.Opened, s.RefusedConnections,
			s.FailedAuthentications = n,
			2*n, 3*n, 4*n, 5*n, 6*n, 7*n
		s.ForbiddenRequests = 8 * n
		s.FileBlocks, s.FileBytes, s.MemoryBytes = ptr.To(n), ptr.To(100*n), ptr.To(50*n)
		s.Sweeps, s.AbortedSweeps, s.SweptBytes = ptr.To(5*n), ptr.To(6*n), ptr.To(700*n)
		s.VolumeSyncs = &wirev1.QueueVolumeSyncs{Count: n, Failed: 2 * n}
		s.Checkpoints = &wirev1.QueueVolumeSyncs{Count: 3 * n, Failed: 4 * n, WaitingNanos: 1}
		r.Compression = &wirev1.Compression{
			UncompressedBytes: 8000 * n, CompressedBytes: 2000 * n, Hardware: &wirev1.Operations{Operations: n},
			Software: &wirev1.Operations{Operations: 2 * n},
			Stored:   &wirev1.Operations{Operations: 3 * n},
			Skipped:  map[string]uint64{v1alpha1.CompressionBelowMinimum: 2 * n, v1alpha1.CompressionDidNotShrink: n},
		}
		r.Decompression = &wirev1.Decompression{Fallback: &wirev1.Operations{Operations: n}}
		reports[m.Pod.Name] = r
	}
	status := queue.Observe(wanted.Queue, &wanted, facts)
	registry := prometheus.NewRegistry()
	metrics.NewQueues(registry, time.Time{}).Observe("bank", "uid-1", facts.Members[1].Report.GetContent(), reports, 0)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]int64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "lighterage_queue_")
			for _, label := range metric.GetLabel() {
				if label.GetName() != "namespace" {
					name += "/" + label.GetValue()
				}
			}
			shown[name] = int64(metric.GetCounter().GetValue() + metric.GetGauge().GetValue())
		}
	}
	s, c := status.Statistics, status.Compression
	for name, want := range map[string]int64{
		"depth": s.Depth, "stored_bytes": s.Persistent.Bytes, "dead_letters": s.DeadLetters, "consumers": s.Consumers,
		"unacknowledged": s.Unacknowledged,
		"redelivered":    s.Redelivered, "oldest_message_timestamp_seconds": s.OldestMessageTime.Unix(),
		"puts_total": s.Puts.Count, "gets_total": s.Gets.Count,
		"decompressions_total": s.Decompressions.Count, "stored_form_gets_total": s.StoredFormGets,
		"refused_puts_total": s.RefusedPuts, "duplicates_total": s.Duplicates,
		"connections": s.Connections, "opened_connections_total": s.Opens, "refused_connections_total": s.RefusedConnections,
		"failed_authentications_total": s.FailedAuthentications, "forbidden_requests_total": s.ForbiddenRequests,
		"file_blocks": *s.FileBlocks, "file_bytes": *s.FileBytes, "memory_bytes": *s.MemoryBytes,
		"sweeps_total": *s.Sweeps, "aborted_sweeps_total": *s.AbortedSweeps, "swept_bytes_total": *s.SweptBytes,
		"volume_syncs_total": s.VolumeSync.Count, "volume_sync_failures_total": s.VolumeSync.Failed,
		"checkpoints_total": s.Checkpoint.Count, "checkpoint_failures_total": s.Checkpoint.Failed,
		"checkpoints_in_progress": int64(len(reports)),
		"messages_total/hardware": c.Hardware.Operations, "messages_total/software": c.Software.Operations,
		"messages_total/stored":                    c.Stored.Operations,
		"stored_plain_messages_total/BelowMinimum": c.Skipped[v1alpha1.CompressionBelowMinimum],
		"stored_plain_messages_total/DidNotShrink": c.Skipped[v1alpha1.CompressionDidNotShrink],
		"uncompressed_bytes_total":                 c.UncompressedBytes, "compressed_bytes_total": c.CompressedBytes,
		"fallback_decompressions_total": status.Decompression.Fallback.Operations,
	} {
		if got, ok := shown[name]; got != want || !ok || want == 0 {
			t.Errorf("%s is %d in Prometheus and %d in status", name, got, want)
		}
	}
}
