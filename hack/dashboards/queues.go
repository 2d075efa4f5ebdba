// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var queues = dashboard{
	name: "queues", title: "Lighterage / Queues",
	description: "Queues and channels: messages, space, clients, compression, channels, archives and volumes.",
	rows: []row{
		health("Lighterage(Queue|Channel|Archive|Restore).*", panel{
			title: "Messages", kind: stat, unit: short, width: 4,
			description: "Messages that Queues hold now.",
			queries:     one(`sum(lighterage_queue_depth)`, "messages"),
		}, panel{
			title: "Least space free", kind: stat, unit: fraction, width: 4, bad: 0.1, low: true,
			description: "Share of its limit that the fullest Queue has free.",
			queries:     one(`min(lighterage_queue_least_free_ratio)`, "free"),
		}),
		{title: "Messages", panels: []panel{
			{
				title: "Puts and gets", kind: timeseries, unit: perSecond, width: 8,
				description: "Messages that clients put and got, and that Queues rejected.",
				queries: []query{
					{`sum(rate(lighterage_queue_puts_total[$__rate_interval]))`, "put"},
					{`sum(rate(lighterage_queue_gets_total[$__rate_interval]))`, "got"},
					{`sum(rate(lighterage_queue_refused_puts_total[$__rate_interval]))`, "rejected"},
					{`sum(rate(lighterage_queue_duplicates_total[$__rate_interval]))`, "duplicates"},
				},
			}, {
				title: "Depth", kind: timeseries, unit: short, width: 8,
				description: "Messages in Queues, by namespace.",
				queries:     one(`sum by (namespace) (lighterage_queue_depth)`, "{{namespace}}"),
			}, {
				title: "Age of the oldest message", kind: timeseries, unit: secondsUnit, width: 8,
				description: "How long ago the oldest message was put, by namespace.",
				queries: one(`time() - min by (namespace) (lighterage_queue_oldest_message_timestamp_seconds)`,
					"{{namespace}}"),
			}, {
				title: "Delivered and not acknowledged", kind: timeseries, unit: short, width: 8,
				description: "Messages that consumers have and did not acknowledge, and those of them that came before.",
				queries: []query{
					{`sum(lighterage_queue_unacknowledged)`, "unacknowledged"},
					{`sum(lighterage_queue_redelivered)`, "redelivered"},
				},
			}, {
				title: "Dead letters", kind: timeseries, unit: short, width: 8,
				description: "Messages that were given up, by namespace. They are not in the depth.",
				queries:     one(`sum by (namespace) (lighterage_queue_dead_letters)`, "{{namespace}}"),
			}, {
				title: "Space free", kind: timeseries, unit: fraction, width: 8,
				description: "Share of its limit that the fullest Queue of each namespace has free.",
				queries:     one(`min by (namespace) (lighterage_queue_least_free_ratio)`, "{{namespace}}"),
			},
		}},
		{title: "Compression", panels: []panel{
			{
				title: "Bytes of messages", kind: timeseries, unit: bytesPerSec, width: 8,
				description: "Messages that were put, before and after compression.",
				queries: []query{
					{`sum(rate(lighterage_queue_uncompressed_bytes_total[$__rate_interval]))`, "before compression"},
					{`sum(rate(lighterage_queue_compressed_bytes_total[$__rate_interval]))`, "after compression"},
				},
			}, {
				title: "Messages by path", kind: timeseries, unit: perSecond, width: 8, stacked: true,
				description: "Whether messages were compressed by hardware, by software, or stored as they were.",
				queries:     one(`sum by (path) (rate(lighterage_queue_messages_total[$__rate_interval]))`, "{{path}}"),
			}, {
				title: "Why stored as they were", kind: timeseries, unit: perSecond, width: 8, stacked: true,
				description: "Messages that were not compressed, by reason. NetworkFaster, DiskFaster and CPUDearer are decisions of " +
					"mode Auto.",
				queries: one(`sum by (reason) (rate(lighterage_queue_stored_plain_messages_total[$__rate_interval])) > 0`,
					"{{reason}}"),
			}, {
				title: "CPU of members", kind: timeseries, unit: cores, width: 8, stacked: true,
				description: "Cores that members of Queues keep busy, by stage; idle is what they spend while nothing passes.",
				queries:     one(`sum by (stage) (rate(lighterage_queue_cpu_seconds_total[$__rate_interval]))`, "{{stage}}"),
			}, {
				title: "Regret of mode Auto", kind: timeseries, unit: fraction, width: 8, signed: true,
				description: "By which share more of what the objective asks for the choices about messages take than the best " +
					"alternative for everything would, by a sample: the greatest of each namespace.",
				queries: one(`max by (namespace) (lighterage_decisions_regret_ratio{kind="Queue"})`, "{{namespace}}"),
			}, {
				title: "Dictionaries", kind: timeseries, unit: short, width: 8,
				description: "Dictionaries that Queues keep, by namespace, and those that were put into use at the time.",
				queries: []query{
					{`sum by (namespace) (lighterage_queue_dictionaries)`, "{{namespace}}"},
					{`sum(increase(lighterage_queue_trained_dictionaries_total[$__rate_interval]))`, "put into use"},
				},
			}, {
				title: "Compressed with dictionaries", kind: timeseries, unit: perSecond, width: 8,
				description: "Messages that refer to a dictionary of their Queue, by namespace.",
				queries: one(`sum by (namespace) (rate(lighterage_queue_dictionary_messages_total[$__rate_interval]))`,
					"{{namespace}}"),
			}, {
				title: "Inflated", kind: timeseries, unit: perSecond, width: 8,
				description: "Messages that were inflated for clients, by software although hardware had compressed " +
					"them, and that " +
					"were delivered compressed.",
				queries: []query{
					{`sum(rate(lighterage_queue_decompressions_total[$__rate_interval]))`, "inflated"},
					{`sum(rate(lighterage_queue_fallback_decompressions_total[$__rate_interval]))`, "of it fallback"},
					{`sum(rate(lighterage_queue_stored_form_gets_total[$__rate_interval]))`, "delivered compressed"},
				},
			}, {
				title: "Bytes stored", kind: timeseries, unit: bytesUnit, width: 8,
				description: "What messages take as stored, in files and in memory of members.",
				queries: []query{
					{`sum(lighterage_queue_stored_bytes)`, "messages"},
					{`sum(lighterage_queue_file_bytes)`, "files"},
					{`sum(lighterage_queue_memory_bytes)`, "memory"},
				},
			}, {
				title: "Swept to disks", kind: timeseries, unit: bytesPerSec, width: 8,
				description: "Bytes that Queues of type Memory with spill swept from memory to the disks of nodes.",
				queries: one(`sum by (namespace) (rate(lighterage_queue_swept_bytes_total[$__rate_interval]))`,
					"{{namespace}}"),
			}, {
				title: "Sweeps", kind: timeseries, unit: perSecond, width: 8,
				description: "Sweeps of Queues of type Memory with spill, and those that an error of the disk aborted.",
				queries: []query{
					{`sum(rate(lighterage_queue_sweeps_total[$__rate_interval]))`, "sweeps"},
					{`sum(rate(lighterage_queue_aborted_sweeps_total[$__rate_interval]))`, "aborted"},
				},
			},
		}},
		{title: "Clients", panels: []panel{
			{
				title: "Connections", kind: timeseries, unit: short, width: 8,
				description: "Open connections of clients, by namespace.",
				queries:     one(`sum by (namespace) (lighterage_queue_connections)`, "{{namespace}}"),
			}, {
				title: "Rejected clients", kind: timeseries, unit: perSecond, width: 8,
				description: "Connections beyond maxConnections, failed authentications, and requests that a role does not allow.",
				queries: []query{
					{`sum(rate(lighterage_queue_refused_connections_total[$__rate_interval]))`, "too many connections"},
					{`sum(rate(lighterage_queue_failed_authentications_total[$__rate_interval]))`, "not authenticated"},
					{`sum(rate(lighterage_queue_forbidden_requests_total[$__rate_interval]))`, "not allowed"},
				},
			}, {
				title: "Wire bytes of clients", kind: timeseries, unit: bytesPerSec, width: 8,
				description: "Bytes between members and clients, TLS included.",
				queries:     one(`sum by (namespace) (rate(lighterage_queue_wire_bytes_total[$__rate_interval]))`, "{{namespace}}"),
			},
		}},
		{title: "Channels and archives", panels: []panel{
			{
				title: "Channels", kind: timeseries, unit: short, width: 8,
				description: "Channels to other clusters that run and that failed and are tried again, and channels from others.",
				queries: []query{
					{`sum(lighterage_queue_channels_running)`, "running"}, {`sum(lighterage_queue_channels_retrying)`, "retrying"},
					{`sum(lighterage_queue_received_channels_connected)`, "from other clusters"},
				},
			}, {
				title: "Messages of channels", kind: timeseries, unit: perSecond, width: 8,
				description: "Messages that channels sent to and received from other clusters.",
				queries: []query{
					{`sum(rate(lighterage_queue_channel_sent_messages_total[$__rate_interval]))`, "sent"},
					{`sum(rate(lighterage_queue_channel_received_messages_total[$__rate_interval]))`, "received"},
				},
			}, {
				title: "Dictionaries of channels", kind: timeseries, unit: short, width: 8,
				description: "Dictionaries that channels sent and received since the point before, by direction. As a rule each " +
					"is sent once per start of a channel.",
				queries: one(`sum by (direction) (increase(lighterage_queue_channel_dictionaries_total[$__rate_interval]))`,
					"{{direction}}"),
			}, {
				title: "Wire bytes of channels", kind: timeseries, unit: bytesPerSec, width: 8,
				description: "Bytes between clusters, TLS included, by direction.",
				queries: one(`sum by (direction) (rate(lighterage_queue_channel_wire_bytes_total[$__rate_interval]))`,
					"{{direction}}"),
			}, {
				title: "Archives", kind: timeseries, unit: bytesUnit, width: 8,
				description: "Bytes of archives, on claims and in ObjectStores.",
				queries: []query{
					{`sum by (namespace) (lighterage_queue_archive_bytes)`, "{{namespace}}, claims"},
					{`sum by (namespace) (lighterage_queue_store_archive_bytes)`, "{{namespace}}, ObjectStores"},
				},
			}, {
				title: "Archives behind", kind: timeseries, unit: short, width: 8,
				description: "Messages that no archive has yet, and archives and restores that fail.",
				queries: []query{
					{`sum(lighterage_queue_archive_behind)`, "messages, on claims"},
					{`sum(lighterage_queue_store_archive_behind)`, "messages, in ObjectStores"},
					{`sum(lighterage_queue_archives_failing)`, "archives that fail"},
					{`sum(lighterage_queue_restores_failing)`, "restores that fail"},
				},
			}, {
				title: "Time of a sync of the volume", kind: timeseries, unit: secondsUnit, width: 8,
				description: "Mean time for writing and syncing 512 bytes, which members measure every 10 seconds.",
				queries: one(`sum by (namespace) (rate(lighterage_queue_volume_sync_seconds_total[$__rate_interval])) / `+
					`(sum by (namespace) (rate(lighterage_queue_volume_syncs_total[$__rate_interval])) > 0)`, "{{namespace}}"),
			}, {
				title: "Time of a checkpoint", kind: timeseries, unit: secondsUnit, width: 8,
				description: "Mean time for syncing all files of a member's store that had changed.",
				queries: one(`sum by (namespace) (rate(lighterage_queue_checkpoint_seconds_total[$__rate_interval])) / `+
					`(sum by (namespace) (rate(lighterage_queue_checkpoints_total[$__rate_interval])) > 0)`, "{{namespace}}"),
			}, {
				title: "Checkpoints", kind: timeseries, unit: short, width: 8,
				description: "Checkpoints of members' stores that have not ended, and those that failed since the point before.",
				queries: []query{
					{`sum by (namespace) (lighterage_queue_checkpoints_in_progress)`, "{{namespace}}, in progress"},
					{`sum by (namespace) (increase(lighterage_queue_checkpoint_failures_total[$__rate_interval]))`, "{{namespace}}, failed"},
				},
			},
		}},
	},
}
