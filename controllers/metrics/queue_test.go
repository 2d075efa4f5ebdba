// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/metrics"
)

func TestQueues(t *testing.T) {
	started := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	report := func(since time.Time, puts uint64) *wirev1.QueueReport {
		return &wirev1.QueueReport{
			Statistics: &wirev1.QueueStatistics{Since: timestamppb.New(since), Puts: &wirev1.QueueRate{Count: puts}, Connections: 2, FileBytes: new(uint64(50))},
			Compression: &wirev1.Compression{
				UncompressedBytes: 400 * puts, CompressedBytes: 100 * puts, Hardware: &wirev1.Operations{Operations: puts},
			},
			Decompression: &wirev1.Decompression{Fallback: &wirev1.Operations{Operations: puts}},
			Cpu:           &wirev1.CPU{SendNanos: 6e9 * puts, CompressNanos: 2e9 * puts, DecompressNanos: 1e9 * puts},
			Channel: &wirev1.ChannelStatus{
				State: wirev1.ChannelState_CHANNEL_STATE_RUNNING, Messages: 3 * puts, Batches: puts, PlainBytes: 60 * puts, PayloadBytes: 20 * puts,
				Recoded: puts, Starts: puts, InDoubt: 4, WireBytes: 30 * puts, DeadLetters: 5 * puts,
			},
			Received: []*wirev1.ReceivedChannel{
				{Queue: "a", Messages: puts, PayloadBytes: 7 * puts, Connected: true}, {Queue: "b", Messages: puts, PayloadBytes: puts},
			},
			ReceivedWireBytes: 11 * puts,
		}
	}
	registry := prometheus.NewRegistry()
	queues := metrics.NewQueues(registry, started)
	before, after := started.Add(-time.Hour), started.Add(time.Minute)
	holds := &wirev1.QueueContent{Messages: 7, Bytes: 700, Unacknowledged: 1}

	// What an earlier manager saw is the base; what began since counts from 0.
	queues.Observe("bank", "q1", holds, map[string]*wirev1.QueueReport{"old": report(before, 100), "new": report(after, 5)})
	// A member that does not answer loses nothing, and what is held stays while nobody knows.
	queues.Observe("bank", "q1", nil, nil)
	queues.Observe("bank", "q1", holds, map[string]*wirev1.QueueReport{"old": report(before, 103), "new": report(after, 5)})
	// A reset begins anew.
	queues.Observe("bank", "q1", holds, map[string]*wirev1.QueueReport{"old": report(after, 2), "new": report(after, 6)})
	queues.Observe("bank", "q2", &wirev1.QueueContent{Messages: 3}, map[string]*wirev1.QueueReport{"one": report(after, 0)})
	queues.ObserveArchive("bank", "q1", 12, &wirev1.QueueArchiveStatus{Sequence: 9, Bytes: 900, Ranges: 4, LastError: &wirev1.Failure{}})
	queues.ObserveArchive("bank", "q2", 5, &wirev1.QueueArchiveStatus{Sequence: 9, Bytes: 100, Ranges: 1})
	queues.ObserveArchive("bank", "q3", 5, nil)
	queues.ObserveRestore("bank", "q2", true)
	queues.ObserveRestore("bank", "q3", true)
	queues.Forget("q2")

	const puts = 5 + 3 + 2 + 1
	for name, want := range map[string]float64{
		"lighterage_queue_puts_total{bank}":                            puts,
		"lighterage_queue_messages_total{bank,hardware}":               puts,
		"lighterage_queue_fallback_decompressions_total{bank}":         puts,
		"lighterage_queue_uncompressed_bytes_total{bank}":              400 * puts,
		"lighterage_queue_compressed_bytes_total{bank}":                100 * puts,
		"lighterage_queue_cpu_seconds_total{bank,compress}":            2 * puts,
		"lighterage_queue_cpu_seconds_total{bank,decompress}":          puts,
		"lighterage_queue_cpu_seconds_total{bank,other}":               3 * puts,
		"lighterage_queue_channel_sent_messages_total{bank}":           3 * puts,
		"lighterage_queue_channel_sent_batches_total{bank}":            puts,
		"lighterage_queue_channel_sent_uncompressed_bytes_total{bank}": 60 * puts,
		"lighterage_queue_channel_sent_bytes_total{bank}":              20 * puts,
		"lighterage_queue_channel_recoded_messages_total{bank}":        puts,
		"lighterage_queue_channel_starts_total{bank}":                  puts,
		"lighterage_queue_channel_dead_letters_total{bank}":            5 * puts,
		"lighterage_queue_channel_wire_bytes_total{send,bank}":         30 * puts,
		"lighterage_queue_channel_wire_bytes_total{receive,bank}":      11 * puts,
		"lighterage_queue_channel_received_messages_total{bank}":       2 * puts,
		"lighterage_queue_channel_received_bytes_total{bank}":          8 * puts,
		"lighterage_queue_channels_running{bank}":                      2,
		"lighterage_queue_channels_retrying{bank}":                     0,
		"lighterage_queue_channel_in_doubt{bank}":                      8,
		"lighterage_queue_received_channels_connected{bank}":           2,
		"lighterage_queue_archive_bytes{bank}":                         900,
		"lighterage_queue_archive_ranges{bank}":                        4,
		"lighterage_queue_archive_behind{bank}":                        3,
		"lighterage_queue_archives_failing{bank}":                      1,
		"lighterage_queue_restores_failing{bank}":                      1,
		"lighterage_queue_depth{bank}":                                 7,
		"lighterage_queue_stored_bytes{bank}":                          700,
		"lighterage_queue_unacknowledged{bank}":                        1,
		"lighterage_queue_connections{bank}":                           4,
		"lighterage_queue_file_bytes{bank}":                            100,
	} {
		if got := gathered(t, registry); got[name] != want {
			t.Errorf("%s is %v, want %v (all: %v)", name, got[name], want, got)
		}
	}
}
