// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// estimate is what every panel with money says.
const estimate = " An estimate at the list price of the default Tariff: no rule for nodes or Peers, and no " +
	"price that a " +
	"CompressionPolicy states. status.cost of objects has what was charged."

var cost = dashboard{
	name: "cost", title: "Lighterage / Cost",
	description: "What moving data costs and what compression avoids, by namespace and kind: CPU time and " +
		"traffic at the " +
		"list prices of the default Tariff.",
	rows: []row{
		health("Lighterage(NoPrices|Quota|Statement).*", panel{
			title: "Cost", kind: stat, unit: currencyUnit, width: 4,
			description: "Cost over the dashboard's time." + estimate,
			queries: one(`sum by (currency) (avg_over_time(lighterage:cost:per_second[$__range])) * $__range_s`,
				"{{currency}}"),
		}, panel{
			title: "Avoided by compression", kind: stat, unit: currencyUnit, width: 4,
			description: "Price of the traffic that compression avoided, less that of the CPU time that it took, over the " +
				"dashboard's time." + estimate,
			queries: one(`sum by (currency) (avg_over_time(lighterage:avoided_cost:per_second[$__range])) * $__range_s`,
				"{{currency}}"),
		}),
		{title: "Money", panels: []panel{
			{
				title: "Cost of a day by namespace", kind: timeseries, unit: currencyUnit, width: 8, stacked: true,
				description: "Cost of 24 hours at the present rate." + estimate,
				queries:     one(`sum by (namespace, currency) (lighterage:cost:per_second) * 86400`, "{{namespace}} {{currency}}"),
			}, {
				title: "Cost of a day by item", kind: timeseries, unit: currencyUnit, width: 8, stacked: true,
				description: "Cost of 24 hours at the present rate: CPU time, traffic and storage of Queues." + estimate,
				queries:     one(`sum by (item, currency) (lighterage:cost:per_second) * 86400`, "{{item}} {{currency}}"),
			}, {
				title: "Avoided in a day by kind", kind: timeseries, unit: currencyUnit, width: 8, signed: true,
				description: "Price of the traffic that compression avoids in 24 hours, less that of the CPU " +
					"time for it." + estimate,
				queries: one(`sum by (kind, currency) (lighterage:avoided_cost:per_second) * 86400`, "{{kind}} {{currency}}"),
			},
		}},
		{title: "Used", panels: []panel{
			{
				title: "CPU", kind: timeseries, unit: cores, width: 8, stacked: true,
				description: "Cores by kind. Those of Transfers and Deliveries are counted when an attempt ends.",
				queries:     one(`sum by (kind) (lighterage:cpu_seconds:rate5m)`, "{{kind}}"),
			}, {
				title: "Traffic", kind: timeseries, unit: bytesPerSec, width: 8, stacked: true,
				description: "Bytes on the wire by kind and direction. Clients of Queues and HTTPEndpoints count as send.",
				queries:     one(`sum by (kind, direction) (lighterage:wire_bytes:rate5m)`, "{{kind}} {{direction}}"),
			}, {
				title: "Bytes that compression saved", kind: timeseries, unit: bytesPerSec, width: 8, signed: true,
				description: "Uncompressed less compressed bytes, by kind.",
				queries:     one(`sum by (kind) (lighterage:saved_bytes:rate5m)`, "{{kind}}"),
			},
		}},
		{title: "Statements", panels: []panel{
			{
				title: "Bookings", kind: timeseries, unit: perSecond, width: 12,
				description: "Writes of Statements by result. Those that failed are tried again.",
				queries: one(`sum by (cluster, result) (rate(lighterage_statement_writes_total[$__rate_interval]))`,
					"{{cluster}} {{result}}"),
			}, {
				title: "Objects whose figures are in no Statement", kind: timeseries, unit: perSecond, width: 12,
				description: "Objects that were deleted unbooked, and tries to book deleted ones without space, by reason.",
				queries: one(`sum by (cluster, reason) (rate(lighterage_statement_refused_total[$__rate_interval]))`,
					"{{cluster}} {{reason}}"),
			},
		}},
		{title: "Canaries of CompressionPolicies", panels: []panel{
			{
				title: "State of canaries", kind: table, unit: short, width: 12,
				description: "Measuring, Promoted (all objects have its settings), RolledBack or Inconclusive (none has).",
				queries:     one(`max by (cluster, policy, state) (lighterage_compressionpolicy_canary_info)`, ""),
			}, {
				title: "Cost of canaries", kind: timeseries, unit: fraction, width: 12, signed: true,
				description: "By which share more of what the objective asks for a GiB takes in the canary than outside of it.",
				queries: one(`max by (cluster, policy) (lighterage_compressionpolicy_canary_cost_change_ratio)`,
					"{{cluster}} {{policy}}"),
			},
		}},
		{title: "Prices in force", panels: []panel{
			{
				title: "CPU hour", kind: table, unit: currencyUnit, width: 8,
				description: "Price of a core for an hour in each Tariff now, for nodes that no rule names.",
				queries:     one(`max by (cluster, tariff, currency, default) (lighterage_tariff_cpu_second_price) * 3600`, ""),
			}, {
				title: "Network GiB", kind: table, unit: currencyUnit, width: 8,
				description: "Price of a GiB on the wire in each Tariff now, for Peers that no rule names.",
				queries: one(`max by (cluster, tariff, currency, default, direction) (lighterage_tariff_network_byte_price) * `+
					`1024 ^ 3`, ""),
			}, {
				title: "Storage GiB-month", kind: table, unit: currencyUnit, width: 8,
				description: "Price of keeping a GiB for 730 hours in each Tariff that has one.",
				queries: one(`max by (cluster, tariff, currency, default) (lighterage_tariff_storage_byte_second_price) * `+
					`1024 ^ 3 * 730 * 3600`, ""),
			},
		}},
	},
}
