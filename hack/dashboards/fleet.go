// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// health begins each dashboard: its alerts, and what says whether its figures can be trusted.
func health(alerts string, more ...panel) row {
	selector := `ALERTS{alertstate="firing",alertname=~"` + alerts + `"}`
	return row{panels: append([]panel{
		{
			title: "Firing alerts", kind: stat, unit: short, width: 4, bad: 1,
			description: "Alerts of this dashboard's subject that fire now. 0 also where the rules are not loaded.",
			queries:     one(`sum(`+selector+`) or vector(0)`, "alerts"),
		},
		{
			title: "Alerts", kind: timeseries, unit: short, width: 20 - 4*len(more),
			description: "Alerts that fire, by name and namespace. Runbooks are linked from the alerts themselves.",
			queries:     one(`sum by (alertname, namespace) (`+selector+`)`, "{{alertname}} {{namespace}}"),
		},
	}, more...)}
}

var fleet = dashboard{
	name: "fleet", title: "Lighterage / Fleet",
	description: "Whether Lighterage works: processes, objects by state, Peers, the gateway and the API server's view.",
	rows: []row{
		health("Lighterage.*", panel{
			title: "Managers that lead", kind: stat, unit: short, width: 4, bad: 1, low: true,
			description: "One for each cluster. Without it nothing is reconciled.",
			queries:     one(`sum(leader_election_master_status{name="manager.lighterage.dev"})`, "leaders"),
		}, panel{
			title: "Gateways up", kind: stat, unit: short, width: 4, bad: 1, low: true,
			description: "Gateways that answer scrapes. Runs of other clusters need one.",
			queries:     one(`sum(up{job="lighterage-gateway"})`, "gateways"),
		}, panel{
			title: "Stalled objects", kind: stat, unit: short, width: 4, bad: 1,
			description: "Objects that wait for somebody to act, Deliveries that have failed left out.",
			queries:     one(`sum(lighterage_objects{state="Stalled",kind!="Delivery"}) or vector(0)`, "stalled"),
		}),
		{title: "Objects", panels: []panel{
			{
				title: "Objects by kind", kind: timeseries, unit: short, width: 8,
				description: "Objects of each kind.",
				queries:     one(`sum by (kind) (lighterage_objects)`, "{{kind}}"),
			}, {
				title: "Objects by state", kind: timeseries, unit: short, width: 8, stacked: true,
				description: "Stalled objects need somebody; Reconciling ones go on by themselves; Resting ones wait for a time.",
				queries:     one(`sum by (state) (lighterage_objects)`, "{{state}}"),
			}, {
				title: "Stalled and Reconciling, by reason", kind: table, unit: short, width: 8,
				description: "Why objects are not Ready; runs that move data are among them. The page on " +
					"troubleshooting lists the reasons.",
				queries: one(`sum by (kind, namespace, state, reason) (lighterage_objects{state=~"Stalled|Reconciling"})`,
					""),
			},
		}},
		{title: "Peers", panels: []panel{
			{
				title: "Peers that are Ready", kind: timeseries, unit: short, width: 8,
				description: "1 for a Peer that is Ready, 0 for one that is not.",
				queries:     one(`min by (cluster, peer) (lighterage_peer_ready)`, "{{peer}}"),
			}, {
				title: "Time until certificates expire", kind: table, unit: secondsUnit, width: 8,
				description: "CAs of Peers, the CA of this cluster, and the certificate that the gateway serves.",
				queries: []query{
					{`min by (cluster, peer) (lighterage_peer_ca_expiration_timestamp_seconds) - time()`, "{{peer}}"},
					{
						`min by (cluster, certificate) (lighterage_certificate_expiration_timestamp_seconds) - time()`,
						"{{certificate}}",
					},
				},
			}, {
				title: "Uses of PeerGrants", kind: timeseries, unit: short, width: 8,
				description: "Deliveries and channels that used a grant and have ended, by Peer and result.",
				queries: one(`sum by (peer, result) (increase(lighterage_grant_uses_total[$__rate_interval]))`,
					"{{peer}} {{result}}"),
			},
		}},
		{title: "Gateway", panels: []panel{
			{
				title: "Requests", kind: timeseries, unit: perSecond, width: 8,
				description: "Requests of other clusters by result.",
				queries: one(`sum by (method, result) (rate(lighterage_gateway_requests_total[$__rate_interval]))`,
					"{{method}} {{result}}"),
			}, {
				title: "Connections", kind: timeseries, unit: short, width: 8,
				description: "Open connections: in a handshake, served by the gateway, passed to agents, or joined to peers.",
				queries:     one(`sum by (state) (lighterage_gateway_connections)`, "{{state}}"),
			}, {
				title: "Rejections", kind: timeseries, unit: perSecond, width: 8,
				description: "Requests that the gateway rejected, by Peer (empty: strangers) and reason.",
				queries: one(`sum by (peer, reason) (rate(lighterage_gateway_rejections_total[$__rate_interval]))`,
					"{{peer}} {{reason}}"),
			}, {
				title: "Bytes passed", kind: timeseries, unit: bytesPerSec, width: 8,
				description: "TLS bytes that the gateway passed through: in is towards agents.",
				queries: one(`sum by (direction) (rate(lighterage_gateway_passed_bytes_total[$__rate_interval]))`,
					"{{direction}}"),
			}, {
				title: "Connections by result", kind: timeseries, unit: perSecond, width: 8,
				description: "What became of connections. Evictions mean a flood.",
				queries:     one(`sum by (result) (rate(lighterage_gateway_connections_total[$__rate_interval]))`, "{{result}}"),
			}, {
				title: "Runs that wait", kind: timeseries, unit: short, width: 8,
				description: "Runs of other clusters that wait for their receiving agents.",
				queries:     one(`sum by (peer) (lighterage_gateway_open_runs)`, "{{peer}}"),
			}, {
				title: "Control connections", kind: timeseries, unit: short, width: 8,
				description: "Control connections with Peers whose connection is Dial or Listen. 0: the cluster that cannot " +
					"be dialled is not reached.",
				queries: one(`sum by (peer) (lighterage_gateway_control_connections)`, "{{peer}}"),
			}, {
				title: "Tunnels by result", kind: timeseries, unit: perSecond, width: 8,
				description: "Connections to Peers with connection: Listen or a proxy that pods asked for, by result.",
				queries: one(`sum by (peer, result) (rate(lighterage_gateway_tunnels_total[$__rate_interval]))`,
					"{{peer}} {{result}}"),
			}, {
				title: "Data connections by result", kind: timeseries, unit: perSecond, width: 8,
				description: "Connections that Peers with connection: Dial asked this cluster to make, by result.",
				queries: one(`sum by (peer, result) (rate(lighterage_gateway_data_connections_total[$__rate_interval]))`,
					"{{peer}} {{result}}"),
			},
		}},
		{title: "Manager", panels: []panel{
			{
				title: "Errors of reconciles", kind: timeseries, unit: perSecond, width: 8,
				description: "Reconciles that returned an error, by controller. Those are retried.",
				queries: one(`sum by (controller) (rate(controller_runtime_reconcile_errors_total{job="lighterage-manager"}`+
					`[$__rate_interval]))`, "{{controller}}"),
			}, {
				title: "Oldest progress shown", kind: timeseries, unit: secondsUnit, width: 8,
				description: "Age of the status that was written longest ago, by class of agents.",
				queries:     one(`max by (class) (lighterage_progress_oldest_seconds)`, "{{class}}"),
			}, {
				title: "Agents", kind: timeseries, unit: short, width: 8, stacked: true,
				description: "Agents that the manager polls, and those of them that do not answer.",
				queries:     one(`sum by (kind, state) (lighterage_agents)`, "{{kind}} {{state}}"),
			}, {
				title: "Configurations sent to agents", kind: timeseries, unit: perSecond, width: 8,
				description: "Changed configurations that HTTPEndpoints and Queues were sent. Where one failed, the kubelet " +
					"brings it.",
				queries: one(`sum by (kind, outcome) (rate(lighterage_agent_configurations_total[$__rate_interval]))`,
					"{{kind}} {{outcome}}"),
			}, {
				title: "CPU of manager and gateway", kind: timeseries, unit: cores, width: 8,
				description: "Cores that the processes keep busy.",
				queries: one(`sum by (job) (rate(process_cpu_seconds_total{job=~"lighterage-(manager|gateway)"}`+
					`[$__rate_interval]))`, "{{job}}"),
			}, {
				title: "Memory of manager and gateway", kind: timeseries, unit: bytesUnit, width: 8,
				description: "Resident memory of the largest process of each kind.",
				queries: one(`max by (job) (process_resident_memory_bytes{job=~"lighterage-(manager|gateway)"})`,
					"{{job}}"),
			}, {
				title: "Versions", kind: table, unit: short, width: 8,
				description: "Processes by version. Two versions of one component are an upgrade in progress.",
				queries:     one(`count by (cluster, component, version, goversion) (lighterage_build_info)`, ""),
			},
		}},
	},
}
