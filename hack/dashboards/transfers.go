// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var transfers = dashboard{
	name: "transfers", title: "Lighterage / Transfers",
	description: "Transfers of this cluster and Deliveries from others: what moves now, what ended and why, compression " +
		"and CPU time.",
	rows: []row{
		health("Lighterage(Runs|Relay|Delivery|Agents|Objects|Objective|NotRecoverable|StagedCopy|History|Fallback).*", panel{
			title: "Runs that move data", kind: stat, unit: short, width: 4,
			description: "Transfers and Deliveries whose data move now.",
			queries:     one(`sum by (kind) (lighterage_runs_moving)`, "{{kind}}"),
		}, panel{
			title: "Without progress", kind: stat, unit: short, width: 4, bad: 1,
			description: "Runs whose agents reported no byte in the last seconds.",
			queries:     one(`sum(lighterage_runs_without_progress) or vector(0)`, "runs"),
		}),
		{title: "Now", panels: []panel{
			{
				title: "Rate of moving runs", kind: timeseries, unit: bytesPerSec, width: 12,
				description: "Uncompressed bytes that running Transfers and Deliveries move, as their agents reported last.",
				queries:     one(`sum by (kind, namespace) (lighterage_runs_bytes_per_second)`, "{{kind}} {{namespace}}"),
			}, {
				title: "Moving runs", kind: timeseries, unit: short, width: 12, stacked: true,
				description: "Transfers and Deliveries whose data move.",
				queries:     one(`sum by (kind, namespace) (lighterage_runs_moving)`, "{{kind}} {{namespace}}"),
			},
		}},
		{title: "Recovery points and copies", panels: []panel{
			{
				title: "Age of the oldest recovery point", kind: timeseries, unit: secondsUnit, width: 8,
				description: "How old the oldest state at a destination is, of Transfers with an objective.",
				queries:     one(`max by (namespace) (lighterage_transfer_recovery_point_age_seconds)`, "{{namespace}}"),
			}, {
				title: "Outside their objective", kind: stat, unit: short, width: 4, bad: 1,
				description: "Transfers whose recovery point is older than their objective allows, or that have none.",
				queries:     one(`sum(lighterage_transfers_outside_objective) or vector(0)`, "Transfers"),
			}, {
				title: "Copies of sources", kind: timeseries, unit: short, width: 6, stacked: true,
				description: "Snapshots and clones that runs read, by state.",
				queries:     one(`sum by (state) (lighterage_staged_copies)`, "{{state}}"),
			}, {
				title: "Age of the oldest copy", kind: timeseries, unit: secondsUnit, width: 6,
				description: "Time since the oldest snapshot or clone of a namespace was begun. It takes up storage.",
				queries:     one(`max by (namespace) (lighterage_staged_copy_age_seconds)`, "{{namespace}}"),
			}, {
				title: "Claims that are populated", kind: timeseries, unit: short, width: 8, stacked: true,
				description: "Claims that do not have yet what a Transfer wrote, by state.",
				queries:     one(`sum by (state) (lighterage_populating_claims)`, "{{state}}"),
			}, {
				title: "Snapshots of destinations", kind: timeseries, unit: short, width: 8, stacked: true,
				description: "VolumeSnapshots of destinations that keep history, by state.",
				queries:     one(`sum by (state) (lighterage_destination_snapshots)`, "{{state}}"),
			}, {
				title: "Time since the newest snapshot of a destination", kind: timeseries, unit: secondsUnit, width: 8,
				description: "Time since the run of the newest snapshot that can be restored: the longest of a namespace's " +
					"Transfers that keep history.",
				queries: one(`max by (namespace) (lighterage_destination_snapshot_age_seconds)`, "{{namespace}}"),
			}, {
				title: "Transfers without a snapshot", kind: timeseries, unit: short, width: 8,
				description: "Transfers that keep history whose last Complete run has no VolumeSnapshot, or none that can be " +
					"restored yet.",
				queries: one(`sum by (namespace) (lighterage_transfers_without_snapshot)`, "{{namespace}}"),
			}, {
				title: "Outside their deadline", kind: timeseries, unit: short, width: 8, stacked: true,
				description: "Transfers whose run was not complete by its deadline, or is not expected to be, by reason.",
				queries:     one(`sum by (reason) (lighterage_transfers_outside_deadline)`, "{{reason}}"),
			},
		}},
		{title: "Drills", panels: []panel{
			{
				title: "Drills by result", kind: timeseries, unit: short, width: 6, stacked: true,
				description: "Whether the last drill of each Drill restored the copy within the objective; Unknown before the " +
					"first has ended.",
				queries: one(`sum by (recoverable) (lighterage_drills)`, "{{recoverable}}"),
			}, {
				title: "Time since copies were recoverable", kind: timeseries, unit: secondsUnit, width: 6,
				description: "Time since the last drill that restored its copy, or verified it, within the objective: the " +
					"longest of a namespace.",
				queries: one(`max by (namespace) (lighterage_drill_last_recoverable_age_seconds)`, "{{namespace}}"),
			}, {
				title: "Duration of restores", kind: timeseries, unit: secondsUnit, width: 6,
				description: "Duration of the last drill: the longest of a namespace.",
				queries:     one(`max by (namespace) (lighterage_drill_duration_seconds)`, "{{namespace}}"),
			}, {
				title: "Rate of restores", kind: timeseries, unit: bytesPerSec, width: 6,
				description: "Bytes that the last drill restored or verified each second, plain ones, with scrub as they rest: " +
					"the least of a namespace.",
				queries: one(`min by (namespace) (lighterage_drill_bytes_per_second)`, "{{namespace}}"),
			}, {
				title: "CPU time of restores", kind: timeseries, unit: secondsUnit, width: 6,
				description: "CPU time that the last drill took for each GiB of plain bytes, with scrub of bytes as they rest: " +
					"the most of a namespace.",
				queries: one(`max by (namespace) (lighterage_drill_cpu_seconds_per_byte) * 1024 ^ 3`, "{{namespace}}"),
			}, {
				title: "Damaged data at rest", kind: timeseries, unit: short, width: 6,
				description: "Files, objects, archives and indexes that the last drills with scrub found damaged, missing or unusable.",
				queries:     one(`sum by (namespace) (lighterage_drill_flawed)`, "{{namespace}}"),
			},
		}},
		{title: "Hooks", panels: []panel{
			{
				title: "Hooks by outcome", kind: timeseries, unit: short, width: 12, stacked: true,
				description: "Hooks before and after sources are read that ended, by whether their Job was Complete, Failed or " +
					"Rejected.",
				queries: one(`sum by (hook, outcome) (increase(lighterage_transfer_hooks_total[$__rate_interval]))`,
					"{{hook}} {{outcome}}"),
			}, {
				title: "Time that a hook takes", kind: timeseries, unit: secondsUnit, width: 12,
				description: "Mean time from when a hook was begun until its end was seen.",
				queries: one(`sum by (hook) (increase(lighterage_transfer_hook_seconds_total[$__rate_interval])) / `+
					`sum by (hook) (increase(lighterage_transfer_hooks_total[$__rate_interval]))`, "{{hook}}"),
			},
		}},
		{title: "Ended", panels: []panel{
			{
				title: "Runs by outcome", kind: timeseries, unit: short, width: 6, stacked: true,
				description: "Runs of Transfers that ended, by why.",
				queries:     one(`sum by (outcome) (increase(lighterage_transfer_runs_total[$__rate_interval]))`, "{{outcome}}"),
			}, {
				title: "Attempts by data path", kind: timeseries, unit: short, width: 6, stacked: true,
				description: "Attempts that ended, by what carried their data. TCP (FellBack) and TCP (Unavailable) tried SMC " +
					"or MPTCP.",
				queries: one(`sum by (type, reason) (increase(lighterage_transfer_data_paths_total[$__rate_interval]))`,
					"{{type}} ({{reason}})"),
			}, {
				title: "Attempts by outcome", kind: timeseries, unit: short, width: 6, stacked: true,
				description: "Attempts that ended, by why. A run makes several when one fails.",
				queries: one(`sum by (outcome) (increase(lighterage_transfer_attempts_total[$__rate_interval]))`,
					"{{outcome}}"),
			}, {
				title: "Deliveries by outcome", kind: timeseries, unit: short, width: 6, stacked: true,
				description: "Deliveries to this cluster that ended, by why.",
				queries:     one(`sum by (outcome) (increase(lighterage_deliveries_total[$__rate_interval]))`, "{{outcome}}"),
			},
		}},
		{title: "Compression, of attempts that ended", panels: []panel{
			{
				title: "Bytes", kind: timeseries, unit: bytesUnit, width: 8,
				description: "What Transfers sent before and after compression, and on the wire with TLS. Counted when " +
					"an attempt " +
					"ends.",
				queries: []query{
					{`sum(increase(lighterage_transfer_uncompressed_bytes_total[$__rate_interval]))`, "before compression"},
					{`sum(increase(lighterage_transfer_compressed_bytes_total[$__rate_interval]))`, "after compression"},
					{`sum(increase(lighterage_transfer_wire_bytes_total[$__rate_interval]))`, "on the wire"},
				},
			}, {
				title: "Saved by compression", kind: stat, unit: fraction, width: 4,
				description: "Share of the uncompressed bytes that was not sent, over the dashboard's time.",
				queries: one(`1 - sum(increase(lighterage_transfer_compressed_bytes_total[$__range])) / `+
					`sum(increase(lighterage_transfer_uncompressed_bytes_total[$__range]))`, "saved"),
			}, {
				title: "CPU time of both sides", kind: timeseries, unit: secondsUnit, width: 12, stacked: true,
				description: "CPU seconds of agents by side and stage. Counted when an attempt ends.",
				queries: one(`sum by (side, stage) (increase(lighterage_transfer_cpu_seconds_total[$__rate_interval]))`,
					"{{side}} {{stage}}"),
			}, {
				title: "Regret of mode Auto", kind: timeseries, unit: fraction, width: 8, signed: true,
				description: "By which share more of what the objective asks for the choices about blocks take than the best " +
					"alternative for everything would, by a sample: the greatest of each namespace.",
				queries: one(`max by (namespace) (lighterage_decisions_regret_ratio{kind="Transfer"})`, "{{namespace}}"),
			},
		}},
		{title: "Receivers in this cluster", panels: []panel{
			{
				title: "Bytes received", kind: timeseries, unit: bytesUnit, width: 8,
				description: "What Deliveries that ended had at the destination, and what of it crossed the network.",
				queries: []query{
					{`sum(increase(lighterage_delivery_uncompressed_bytes_total[$__rate_interval]))`, "at the destination"},
					{`sum(increase(lighterage_delivery_wire_bytes_total[$__rate_interval]))`, "on the wire"},
				},
			}, {
				title: "Inflated by hardware and software", kind: timeseries, unit: bytesUnit, width: 8,
				description: "Bytes that receivers inflated. Fallback is the part of software that hardware had compressed.",
				queries: []query{
					{`sum by (path) (increase(lighterage_delivery_decompressed_bytes_total[$__rate_interval]))`, "{{path}}"},
					{`sum(increase(lighterage_delivery_fallback_decompressed_bytes_total[$__rate_interval]))`, "of it fallback"},
				},
			}, {
				title: "CPU time of receivers", kind: timeseries, unit: secondsUnit, width: 8, stacked: true,
				description: "CPU seconds of receiving agents by stage. Counted when a Delivery ends.",
				queries: one(`sum by (stage) (increase(lighterage_delivery_cpu_seconds_total[$__rate_interval]))`,
					"{{stage}}"),
			},
		}},
		{title: "Limits", panels: []panel{
			{
				title: "Shared limits", kind: table, unit: fraction, width: 12,
				description: "Share of each limit of a Peer, or, without one, of the cluster, that is used.",
				queries: one(`max by (peer, resource) (lighterage_shared_limit_used / (lighterage_shared_limit > 0))`,
					""),
			}, {
				title: "Quotas", kind: table, unit: fraction, width: 12,
				description: "Share of each limit of DataQuotas that is used.",
				queries: one(`max by (namespace, quota, resource) (lighterage_quota_used / (lighterage_quota_hard > 0))`,
					""),
			}, {
				title: "Probes of ObjectStores", kind: timeseries, unit: short, width: 4,
				description: "Probes that ended, by the reason that they led to.",
				queries:     one(`sum by (reason) (increase(lighterage_objectstore_probes_total[$__rate_interval]))`, "{{reason}}"),
			}, {
				title: "Relays not ready", kind: timeseries, unit: short, width: 4,
				description: "ObjectStores with handOff that have no relay.",
				queries:     one(`sum by (namespace) (lighterage_objectstore_relays_not_ready)`, "{{namespace}}"),
			}, {
				title: "Relays that ended", kind: timeseries, unit: short, width: 4,
				description: "Relays of ObjectStores that ended and start again, by the reason of HandOffReady.",
				queries: one(`sum by (reason) (increase(lighterage_objectstore_relays_ended_total[$__rate_interval]))`,
					"{{reason}}"),
			},
		}},
		{title: "Object stores", panels: []panel{
			{
				title: "Requests to object stores", kind: timeseries, unit: short, width: 12,
				description: "Requests of Transfers, counted when an attempt ends, and of archives of Queues. " +
					"Lists are writes, as providers charge for them; requests that delete are not counted.",
				queries: []query{
					{`sum by (class) (increase(lighterage_transfer_store_requests_total[$__rate_interval]))`, "Transfers, {{class}}"},
					{`sum by (class) (increase(lighterage_queue_store_requests_total[$__rate_interval]))`, "archives, {{class}}"},
				},
			}, {
				title: "Bytes to and from object stores", kind: timeseries, unit: bytesUnit, width: 12,
				description: "Bytes of bodies, without headers and TLS.",
				queries: []query{
					{`sum by (direction) (increase(lighterage_transfer_store_bytes_total[$__rate_interval]))`, "Transfers, {{direction}}"},
					{`sum by (direction) (increase(lighterage_queue_store_bytes_total[$__rate_interval]))`, "archives, {{direction}}"},
				},
			},
		}},
	},
}
