// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/metrics"
)

func TestQueues(t *testing.T) {
	started := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	report := func(since time.Time, puts uint64) *wirev1.QueueReport {
		return &wirev1.QueueReport{
			Statistics: &wirev1.QueueStatistics{Since: timestamppb.New(since), Puts: &wirev1.QueueRate{Count: puts},
				Connections: 2,
				FileBytes:   new(uint64(50)), FileBlocks: new(uint64(3)), MemoryBytes: new(uint64(8)),
				VolumeSyncs: &wirev1.QueueVolumeSyncs{Count: puts, TotalNanos: 5e8 * puts, Failed: 2 * puts},
			},
			Compression: &wirev1.Compression{
				UncompressedBytes: 400 * puts, CompressedBytes: 100 * puts, Hardware: &wirev1.Operations{Operations: puts},
				Skipped: map[string]uint64{v1alpha1.CompressionBelowMinimum: 2 * puts, "made-up": puts, "another": puts},
			},
			Decompression: &wirev1.Decompression{Fallback: &wirev1.Operations{Operations: puts}},
			Cpu: &wirev1.CPU{
				SendNanos: 10e9 * puts, IdleNanos: 4e9 * puts, CompressNanos: 2e9 * puts, DecompressNanos: 1e9 * puts,
			},
			Channel: &wirev1.ChannelStatus{
				State: wirev1.ChannelState_CHANNEL_STATE_RUNNING, Messages: 3 * puts, Batches: puts, PlainBytes: 60 * puts,
				PayloadBytes: 20 * puts,
				Recoded:      puts, Starts: puts, InDoubt: 4, WireBytes: 30 * puts, DeadLetters: 5 * puts,
				Dictionaries: 2 * puts,
			},
			Received: []*wirev1.ReceivedChannel{
				{Queue: "a", Messages: puts, PayloadBytes: 7 * puts, Dictionaries: 3 * puts, Connected: true},
				{Queue: "b", Messages: puts, PayloadBytes: puts, Dictionaries: puts},
			},
			Dictionaries:      &wirev1.QueueDictionaries{Kept: 3, Messages: 9 * puts, Trained: puts},
			ReceivedWireBytes: 11 * puts, OwnReceivedWireBytes: 500 * puts,
			// Of former channels.
			Channels: []*wirev1.ChannelStatus{{WireBytes: 2 * puts}, {WireBytes: 300 * puts, OwnCluster: true}},
		}
	}
	registry := prometheus.NewRegistry()
	queues := metrics.NewQueues(registry, started)
	before, after := started.Add(-time.Hour), started.Add(time.Minute)
	holds := &wirev1.QueueContent{
		Messages: 7, Bytes: 700, Unacknowledged: 1, DeadLetters: 6, Consumers: 2, Redelivered: 1,
		OldestTime: timestamppb.New(time.UnixMilli(1_800_000_000_500)),
	}

	// What an earlier manager saw is the base; what began since counts from 0.
	queues.Observe(
		"bank", "q1", holds, map[string]*wirev1.QueueReport{"old": report(before, 100), "new": report(after, 5)}, 0,
	)
	// A member that does not answer loses nothing, and what is held stays while nobody knows.
	queues.Observe("bank", "q1", nil, nil, 0)
	queues.Observe(
		"bank", "q1", holds, map[string]*wirev1.QueueReport{"old": report(before, 103), "new": report(after, 5)}, 0,
	)
	// A reset begins again.
	queues.Observe("bank", "q1", holds, map[string]*wirev1.QueueReport{"old": report(after, 2), "new": report(after, 6)}, 1)
	queues.Observe(
		"bank", "q2", &wirev1.QueueContent{Messages: 3, DeadLetters: 9, OldestTime: timestamppb.New(started)},
		map[string]*wirev1.QueueReport{"one": report(after, 0)}, 1,
	)
	queues.ObserveArchives(
		"bank", "q1", 12, &wirev1.QueueArchiveStatus{Sequence: 9, Bytes: 900, Ranges: 4, LastError: &wirev1.Failure{}},
		&wirev1.QueueArchiveStatus{Sequence: 5, Bytes: 700, Ranges: 2, LastError: &wirev1.Failure{}},
	)
	queues.ObserveArchives("bank", "q2", 5, &wirev1.QueueArchiveStatus{Sequence: 9, Bytes: 100, Ranges: 1}, nil)
	queues.ObserveArchives("bank", "q3", 5, nil, nil)
	queues.ObserveRestore("bank", "q2", true)
	queues.ObserveRestore("bank", "q3", true)
	queues.Forget("q2")

	const puts = 5 + 3 + 2 + 1
	for name, want := range map[string]float64{
		"lighterage_queue_puts_total{bank}":                               puts,
		"lighterage_queue_messages_total{bank,hardware}":                  puts,
		"lighterage_queue_fallback_decompressions_total{bank}":            puts,
		"lighterage_queue_uncompressed_bytes_total{bank}":                 400 * puts,
		"lighterage_queue_compressed_bytes_total{bank}":                   100 * puts,
		"lighterage_queue_cpu_seconds_total{bank,compress}":               2 * puts,
		"lighterage_queue_cpu_seconds_total{bank,decompress}":             puts,
		"lighterage_queue_cpu_seconds_total{bank,other}":                  3 * puts,
		"lighterage_queue_cpu_seconds_total{bank,idle}":                   4 * puts,
		"lighterage_queue_stored_plain_messages_total{bank,BelowMinimum}": 2 * puts,
		"lighterage_queue_stored_plain_messages_total{bank,Other}":        2 * puts,
		"lighterage_queue_volume_syncs_total{bank}":                       puts,
		"lighterage_queue_volume_sync_seconds_total{bank}":                0.5 * puts,
		"lighterage_queue_volume_sync_failures_total{bank}":               2 * puts,
		"lighterage_queue_dead_letters{bank}":                             6,
		"lighterage_queue_consumers{bank}":                                2,
		"lighterage_queue_redelivered{bank}":                              1,
		"lighterage_queue_oldest_message_timestamp_seconds{bank}":         1_800_000_000.5,
		"lighterage_queue_memory_bytes{bank}":                             16,
		"lighterage_queue_file_blocks{bank}":                              6,
		"lighterage_queue_channel_sent_messages_total{bank}":              3 * puts,
		"lighterage_queue_channel_sent_batches_total{bank}":               puts,
		"lighterage_queue_channel_sent_uncompressed_bytes_total{bank}":    60 * puts,
		"lighterage_queue_channel_sent_bytes_total{bank}":                 20 * puts,
		"lighterage_queue_channel_recoded_messages_total{bank}":           puts,
		"lighterage_queue_channel_starts_total{bank}":                     puts,
		"lighterage_queue_channel_dead_letters_total{bank}":               5 * puts,
		"lighterage_queue_channel_wire_bytes_total{send,bank}":            32 * puts,
		"lighterage_queue_channel_wire_bytes_total{receive,bank}":         11 * puts,
		"lighterage_queue_channel_received_messages_total{bank}":          2 * puts,
		"lighterage_queue_channel_received_bytes_total{bank}":             8 * puts,
		"lighterage_queue_channel_dictionaries_total{send,bank}":          2 * puts,
		"lighterage_queue_channel_dictionaries_total{receive,bank}":       4 * puts,
		"lighterage_queue_channels_running{bank}":                         2,
		"lighterage_queue_channels_retrying{bank}":                        1,
		"lighterage_queue_channel_in_doubt{bank}":                         8,
		"lighterage_queue_received_channels_connected{bank}":              2,
		"lighterage_queue_archive_bytes{bank}":                            900,
		"lighterage_queue_archive_ranges{bank}":                           4,
		"lighterage_queue_archive_behind{bank}":                           3,
		"lighterage_queue_store_archive_bytes{bank}":                      700,
		"lighterage_queue_store_archive_behind{bank}":                     7,
		"lighterage_queue_archives_failing{bank}":                         2,
		"lighterage_queue_restores_failing{bank}":                         1,
		"lighterage_queue_depth{bank}":                                    7,
		"lighterage_queue_stored_bytes{bank}":                             700,
		"lighterage_queue_unacknowledged{bank}":                           1,
		"lighterage_queue_connections{bank}":                              4,
		"lighterage_queue_file_bytes{bank}":                               100,
		"lighterage_queue_dictionaries{bank}":                             3,
		"lighterage_queue_dictionary_messages_total{bank}":                9 * puts,
		"lighterage_queue_trained_dictionaries_total{bank}":               puts,
	} {
		if got := gathered(t, registry); got[name] != want {
			t.Errorf("%s is %v, want %v (all: %v)", name, got[name], want, got)
		}
	}
}

// TestOldestMessage: of several Queues the oldest message counts, and none where all are empty.
func TestOldestMessage(t *testing.T) {
	const name = "lighterage_queue_oldest_message_timestamp_seconds{bank}"
	registry := prometheus.NewRegistry()
	queues := metrics.NewQueues(registry, time.Unix(0, 0))
	observe := func(queue string, oldest int64) {
		content := &wirev1.QueueContent{}
		if oldest > 0 {
			content.OldestTime = timestamppb.New(time.Unix(oldest, 0))
		}
		queues.Observe("bank", queue, content, nil, 0)
	}
	expect := func(what string, want float64, there bool) {
		t.Helper()
		if got, ok := gathered(t, registry)[name]; got != want || ok != there {
			t.Errorf("%s: %v, %v; want %v, %v", what, got, ok, want, there)
		}
	}
	queues.Observe("insurance", "other", &wirev1.QueueContent{OldestTime: timestamppb.New(time.Unix(1, 0))}, nil, 0)
	expect("nothing", 0, false)
	observe("a", 0)
	expect("an empty one", 0, false)
	observe("b", 200)
	observe("c", 100)
	expect("two with messages", 100, true)
	queues.Observe("bank", "c", nil, nil, 0)
	expect("one that says nothing", 100, true)
	queues.Forget("c")
	expect("one that is gone", 200, true)
	observe("b", 0)
	expect("all empty", 0, false)
}
