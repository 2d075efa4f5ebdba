// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

var endpoints = dashboard{
	name: "endpoints", title: "Lighterage / HTTP endpoints",
	description: "HTTPEndpoints: responses, compression, connections and errors.",
	rows: []row{
		health("Lighterage(Endpoint|Backend).*", panel{
			title: "Responses", kind: stat, unit: perSecond, width: 4,
			description: "Responses a second, over the last minutes.",
			queries:     one(`sum(rate(lighterage_http_responses_total[$__rate_interval]))`, "responses"),
		}, panel{
			title: "Saved by compression", kind: stat, unit: fraction, width: 4,
			description: "Share of the bytes of bodies that was not sent, over the dashboard's time.",
			queries: one(`1 - sum(increase(lighterage_http_compressed_bytes_total[$__range])) / `+
				`sum(increase(lighterage_http_uncompressed_bytes_total[$__range]))`, "saved"),
		}),
		{title: "Responses", panels: []panel{
			{
				title: "Responses by namespace", kind: timeseries, unit: perSecond, width: 8,
				description: "Responses a second.",
				queries:     one(`sum by (namespace) (rate(lighterage_http_responses_total[$__rate_interval]))`, "{{namespace}}"),
			}, {
				title: "Responses by path", kind: timeseries, unit: perSecond, width: 8, stacked: true,
				description: "Whether responses were compressed by hardware, by software, or sent as they were.",
				queries:     one(`sum by (path) (rate(lighterage_http_responses_total[$__rate_interval]))`, "{{path}}"),
			}, {
				title: "Responses by content coding", kind: timeseries, unit: perSecond, width: 8, stacked: true,
				description: "What clients accepted and got.",
				queries:     one(`sum by (coding) (rate(lighterage_http_coded_responses_total[$__rate_interval]))`, "{{coding}}"),
			},
		}},
		{title: "Compression and CPU", panels: []panel{
			{
				title: "Bodies sent as they were", kind: timeseries, unit: perSecond, width: 8, stacked: true,
				description: "Bodies that were not compressed, by reason. NetworkFaster and CPUDearer are decisions of mode Auto.",
				queries: one(`sum by (reason) (rate(lighterage_http_stored_responses_total[$__rate_interval])) > 0`,
					"{{reason}}"),
			}, {
				title: "Bytes of bodies", kind: timeseries, unit: bytesPerSec, width: 8,
				description: "Bodies before and after compression, and all that was on the wire.",
				queries: []query{
					{`sum(rate(lighterage_http_uncompressed_bytes_total[$__rate_interval]))`, "before compression"},
					{`sum(rate(lighterage_http_compressed_bytes_total[$__rate_interval]))`, "after compression"},
					{`sum(rate(lighterage_http_wire_bytes_total[$__rate_interval]))`, "on the wire"},
				},
			}, {
				title: "CPU of replicas", kind: timeseries, unit: cores, width: 8, stacked: true,
				description: "Cores that replicas keep busy, by stage.",
				queries:     one(`sum by (stage) (rate(lighterage_http_cpu_seconds_total[$__rate_interval]))`, "{{stage}}"),
			}, {
				title: "CPU time of a response", kind: timeseries, unit: secondsUnit, width: 8,
				description: "CPU seconds of replicas for each response, by namespace.",
				queries: one(`sum by (namespace) (rate(lighterage_http_cpu_seconds_total[$__rate_interval])) / `+
					`(sum by (namespace) (rate(lighterage_http_responses_total[$__rate_interval])) > 0)`, "{{namespace}}"),
			}, {
				title: "Regret of mode Auto", kind: timeseries, unit: fraction, width: 8, signed: true,
				description: "By which share more of what the objective asks for the choices about bodies take than the best " +
					"alternative for everything would, by a sample: the greatest of each namespace.",
				queries: one(`max by (namespace) (lighterage_decisions_regret_ratio{kind="HTTPEndpoint"})`, "{{namespace}}"),
			},
		}},
		{title: "Connections and errors", panels: []panel{
			{
				title: "Open connections", kind: timeseries, unit: short, width: 8,
				description: "Connections of clients, by namespace.",
				queries:     one(`sum by (namespace) (lighterage_http_active_connections)`, "{{namespace}}"),
			}, {
				title: "Requests on a kept connection", kind: timeseries, unit: perSecond, width: 8,
				description: "Requests on a connection that had served one before, which saves a handshake.",
				queries: one(`sum by (namespace) (rate(lighterage_http_reused_connections_total[$__rate_interval]))`,
					"{{namespace}}"),
			}, {
				title: "Errors", kind: timeseries, unit: perSecond, width: 8,
				description: "Connections beyond maxConnections, time-outs of backend or client, and URLs that were not found or " +
					"could not be read.",
				queries: []query{
					{`sum(rate(lighterage_http_refused_connections_total[$__rate_interval]))`, "too many connections"},
					{`sum(rate(lighterage_http_timeouts_total[$__rate_interval]))`, "time-outs"},
					{`sum(rate(lighterage_http_url_errors_total[$__rate_interval]))`, "URL errors"},
				},
			},
		}},
	},
}
