// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var nodes = dashboard{
	name: "nodes", title: "Lighterage / Nodes and accelerators",
	description: "What node agents measured: engines, accelerators, speed, and what the network costs.",
	rows: []row{
		health("Lighterage(Node|Accelerator|Fallback).*", panel{
			title: "Node agents that answer", kind: stat, unit: short, width: 4, bad: 1, low: true,
			description: "Node agents that the manager polls and that answer.",
			queries:     one(`sum(lighterage_agents{kind="node",state="asked"})`, "answer"),
		}, panel{
			title: "Accelerators verified", kind: stat, unit: short, width: 4,
			description: "Nodes whose accelerator was proved to be used.",
			queries:     one(`count(lighterage_node_accelerator_info{state="Verified"}) or vector(0)`, "nodes"),
		}),
		{title: "Nodes", panels: []panel{
			{
				title: "Accelerators by state", kind: timeseries, unit: short, width: 8, stacked: true,
				description: "Verified: its use was proved. NotUsed: it is there, and its use was not proved. " +
					"Absent: there is none.",
				queries: one(`count by (architecture, state) (lighterage_node_accelerator_info)`,
					"{{architecture}} {{state}}"),
			}, {
				title: "Node agents", kind: timeseries, unit: short, width: 8, stacked: true,
				description: "Node agents that answer (asked) and that do not (silent).",
				queries:     one(`sum by (state) (lighterage_agents{kind="node"})`, "{{state}}"),
			}, {
				title: "Accelerators", kind: table, unit: short, width: 8,
				description: "Each node's accelerator, with the reason for its state.",
				queries: one(`max by (cluster, node, architecture, state, reason) (lighterage_node_accelerator_info)`,
					""),
			},
		}},
		{title: "Measured on one core", panels: []panel{
			{
				title: "Compression", kind: timeseries, unit: bytesPerSec, width: 8,
				description: "Uncompressed bytes a second, by the engine that agents take at each level: the median node.",
				queries: one(`quantile by (codec, engine, level) (0.5, lighterage_node_compress_bytes_per_second)`,
					"{{codec}} {{level}} {{engine}}"),
			}, {
				title: "Inflating", kind: timeseries, unit: bytesPerSec, width: 8,
				description: "Uncompressed bytes a second, by the engine that agents inflate with: the median node.",
				queries: one(`quantile by (codec, engine) (0.5, lighterage_node_decompress_bytes_per_second)`,
					"{{codec}} {{engine}}"),
			}, {
				title: "Slowest nodes", kind: table, unit: bytesPerSec, width: 8,
				description: "The 10 nodes that compress slowest, with codec, level and engine.",
				queries: one(`bottomk(10, max by (cluster, node, codec, level, engine) `+
					`(lighterage_node_compress_bytes_per_second))`, ""),
			}, {
				title: "CPU time of the network for a GiB", kind: timeseries, unit: secondsUnit, width: 12,
				description: "CPU seconds of the kernel for moving a GiB through TCP: the best, the median and the worst node.",
				queries: []query{
					{`min(lighterage_node_network_cpu_seconds_per_byte) * 1024 ^ 3`, "best"},
					{`quantile(0.5, lighterage_node_network_cpu_seconds_per_byte) * 1024 ^ 3`, "median"},
					{`max(lighterage_node_network_cpu_seconds_per_byte) * 1024 ^ 3`, "worst"},
				},
			}, {
				title: "Engines", kind: table, unit: short, width: 12,
				description: "Nodes by engine, whether its output was verified there, and whether agents inflate with it.",
				queries:     one(`count by (cluster, engine, codec, verified, inflates) (lighterage_node_engine_info)`, ""),
			},
		}},
		{title: "Use of accelerators", panels: []panel{
			{
				title: "Time in calls of accelerators", kind: timeseries, unit: short, width: 8,
				description: "Threads of agents in calls of the node's accelerator, waiting for it included.",
				queries: one(`sum by (cluster, node) (rate(lighterage_node_accelerator_call_seconds_total[$__rate_interval]))`,
					"{{cluster}} {{node}}"),
			}, {
				title: "Busy accelerators", kind: timeseries, unit: fraction, width: 8,
				description: "Share of the accelerators' cycles that each node's partition used, by the CPU measurement facility.",
				queries: one(`max by (cluster, node) (lighterage_node_accelerator_busy_ratio)`,
					"{{cluster}} {{node}}"),
			}, {
				title: "Contention for accelerators", kind: timeseries, unit: fraction, width: 8,
				description: "Share of the time of calls that they waited for the accelerator, by the CPU measurement facility.",
				queries: one(`max by (cluster, node) (lighterage_node_accelerator_contention_ratio)`,
					"{{cluster}} {{node}}"),
			},
		}},
		{title: "Shares of accelerators", panels: []panel{
			{
				title: "Granted and used", kind: timeseries, unit: short, width: 8,
				description: "Seconds of accelerators a second that node agents grant to agents, and that these use, by kind.",
				queries: []query{
					{`sum by (kind) (rate(lighterage_node_accelerator_granted_seconds_total[$__rate_interval]))`, "{{kind}} granted"},
					{`sum by (kind) (rate(lighterage_node_accelerator_used_seconds_total[$__rate_interval]))`, "{{kind}} used"},
				},
			}, {
				title: "Done without the accelerator", kind: timeseries, unit: perSecond, width: 8,
				description: "How often agents did without the accelerator, or waited for it: their share was used up " +
					"(AcceleratorShare), or others used it (AcceleratorBusy).",
				queries: one(`sum by (kind, reason) (rate(lighterage_node_accelerator_refusals_total[$__rate_interval]))`,
					"{{kind}} {{reason}}"),
			}, {
				title: "Agents and contention", kind: timeseries, unit: short, width: 8,
				description: "Agents that share accelerators, and nodes of which less is granted because others use the " +
					"accelerator.",
				queries: []query{
					{`sum(lighterage_node_accelerator_agents)`, "agents"},
					{`sum(lighterage_node_accelerator_contended)`, "contended nodes"},
				},
			},
		}},
		{title: "Hardware and software in use", panels: []panel{
			{
				title: "Messages of Queues by path", kind: timeseries, unit: perSecond, width: 8, stacked: true,
				description: "Whether hardware or software compressed messages.",
				queries:     one(`sum by (path) (rate(lighterage_queue_messages_total[$__rate_interval]))`, "{{path}}"),
			}, {
				title: "Responses of HTTPEndpoints by path", kind: timeseries, unit: perSecond, width: 8, stacked: true,
				description: "Whether hardware or software compressed responses.",
				queries:     one(`sum by (path) (rate(lighterage_http_responses_total[$__rate_interval]))`, "{{path}}"),
			}, {
				title: "Software in place of hardware", kind: timeseries, unit: short, width: 8,
				description: "Messages of Queues, and MiB of Deliveries, that software inflated although hardware had compressed " +
					"them.",
				queries: []query{
					{`sum(increase(lighterage_queue_fallback_decompressions_total[$__rate_interval]))`, "messages"},
					{`sum(increase(lighterage_delivery_fallback_decompressed_bytes_total[$__rate_interval])) / 1024 ^ 2`,
						"MiB of Deliveries"},
				},
			},
		}},
	},
}
