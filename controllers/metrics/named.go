// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/tariff"
)

const (
	gib = 1 << 30
	// monthSeconds are those of a month of 730 hours, which Tariffs price storage by.
	monthSeconds = 730 * 3600
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

// What Inventory shows.
var (
	objectsDescription = describe("lighterage_objects",
		"Objects of this API by state: Stalled, Reconciling, Ready, or Resting for those that wait for a time or for "+
			"somebody; reason is that of the condition Ready.", "kind", "namespace", "state", "reason")
	runsDescription = describe("lighterage_runs_moving",
		"Transfers and Deliveries whose data move now.", "kind", "namespace")
	idleDescription = describe("lighterage_runs_without_progress",
		"Those of lighterage_runs_moving whose agents reported no byte in the last seconds.", "kind", "namespace")
	rateDescription = describe("lighterage_runs_bytes_per_second",
		"Uncompressed bytes that these runs move in a second, as last reported.", "kind", "namespace")
	relaysDescription = describe("lighterage_objectstore_relays",
		"ObjectStores with handOff.", "namespace")
	relaysDownDescription = describe("lighterage_objectstore_relays_not_ready",
		"Those of lighterage_objectstore_relays whose condition HandOffReady is not True.", "namespace")

	peerDescription = describe("lighterage_peer_ready",
		"1 for a Peer whose condition Ready is True, else 0.", "peer")
	peerExpirationDescription = describe("lighterage_peer_ca_expiration_timestamp_seconds",
		"When the last certificate of a Peer's spec.caBundle expires, in seconds since 1970.", "peer")

	acceleratorDescription = describe("lighterage_node_accelerator_info",
		"1, with what is known of a node's accelerator: state is Verified, NotUsed or Absent.", "node", "architecture",
		"state", "reason")
	engineDescription = describe("lighterage_node_engine_info",
		"1 for each engine of a node, with the codec, whether its output was verified there, and whether agents inflate "+
			"with it.", "node", "engine", "codec", "verified", "inflates")
	compressDescription = describe("lighterage_node_compress_bytes_per_second",
		"Uncompressed bytes that one core compresses in a second, as the node agent measured, for the engine that agents "+
			"take at each level.", "node", "engine", "codec", "level")
	decompressDescription = describe("lighterage_node_decompress_bytes_per_second",
		"Uncompressed bytes that one core inflates to in a second, as the node agent measured, for the engine that agents "+
			"inflate with.", "node", "engine", "codec")
	networkDescription = describe("lighterage_node_network_cpu_seconds_per_byte",
		"CPU time of the kernel for moving a byte through TCP on a node, as the node agent measured.", "node")

	cpuPriceDescription = describe("lighterage_tariff_cpu_second_price",
		"Price of a second of one core that is in force now in a Tariff, for nodes that no rule names.", "tariff",
		"currency", "default")
	networkPriceDescription = describe("lighterage_tariff_network_byte_price",
		"Price of a byte on the wire that is in force now in a Tariff, for Peers that no rule names: direction is send or "+
			"receive.", "tariff", "currency", "default", "direction")
	storagePriceDescription = describe("lighterage_tariff_storage_byte_second_price",
		"Price of keeping a byte for a second in a Tariff; absent where storage costs nothing.", "tariff", "currency",
		"default")
)

// Describe is of prometheus.Collector.
func (*Inventory) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		objectsDescription, runsDescription, idleDescription, rateDescription, relaysDescription, relaysDownDescription,
		peerDescription, peerExpirationDescription,
		acceleratorDescription, engineDescription, compressDescription, decompressDescription, networkDescription,
		cpuPriceDescription, networkPriceDescription, storagePriceDescription, recoveryDescription, outsideDescription,
		lateDescription,
		stagedDescription, stagedAgeDescription, historyDescription, historyAgeDescription, historyLacksDescription,
		drillsDescription, drillAgeDescription, drillFlawedDescription, drillDurationDescription,
		drillRateDescription, drillCPUDescription, limitDescription, limitUsedDescription, regretDescription,
		canaryDescription, canaryChangeDescription,
	} {
		descriptions <- d
	}
}

// show sends a gauge.
type show func(d *prometheus.Desc, value float64, labels ...string)

// Collect is of prometheus.Collector.
func (i *Inventory) Collect(metrics chan<- prometheus.Metric) {
	out := show(func(d *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	})
	i.mu.Lock()
	defer i.mu.Unlock()
	for s, n := range i.states {
		out(objectsDescription, float64(n), s.kind, s.namespace, s.state, s.reason)
	}
	for at, r := range i.runs {
		out(runsDescription, float64(r.moving), at.kind, at.namespace)
		out(idleDescription, float64(r.idle), at.kind, at.namespace)
		out(rateDescription, float64(r.rate), at.kind, at.namespace)
	}
	for namespace, r := range i.relays {
		out(relaysDescription, float64(r.wanted), namespace)
		out(relaysDownDescription, float64(r.down), namespace)
	}
	i.showRecovery(out)
	i.showDrills(out)
	i.showLimits(out)
	i.showRegrets(out)
	i.showCanaries(out)
	for _, peer := range i.peers {
		showPeer(out, peer)
	}
	for _, node := range i.nodes {
		showNode(out, node)
	}
	all := make([]v1alpha1.Tariff, 0, len(i.tariffs))
	for _, one := range i.tariffs {
		all = append(all, *one)
	}
	showTariffs(out, all, i.clock.Now())
}

func showPeer(out show, peer *v1alpha1.Peer) {
	ready := 0.0
	if meta.IsStatusConditionTrue(peer.Status.Conditions, v1alpha1.ConditionReady) {
		ready = 1
	}
	out(peerDescription, ready, peer.Name)
	if expires := peer.Status.CAExpirationTime; expires != nil {
		out(peerExpirationDescription, float64(expires.Unix()), peer.Name)
	}
}

func showNode(out show, node *v1alpha1.NodeProfile) {
	if accelerator := node.Status.Accelerator; accelerator != nil {
		out(acceleratorDescription, 1, node.Name, node.Status.Architecture, string(accelerator.State), accelerator.Reason)
	}
	for _, engine := range node.Status.Engines {
		out(engineDescription, 1, node.Name, engine.Name, engine.Codec, strconv.FormatBool(engine.Verified),
			strconv.FormatBool(engine.Inflates))
		for _, level := range engine.Levels {
			if level.Selected {
				out(compressDescription, float64(level.CompressBytesPerSecond), node.Name, engine.Name, engine.Codec,
					string(level.Level))
			}
		}
		if engine.Inflates {
			out(decompressDescription, float64(engine.DecompressBytesPerSecond), node.Name, engine.Name, engine.Codec)
		}
	}
	if seconds, err := strconv.ParseFloat(node.Status.NetworkCPUSecondsPerGiB, 64); err == nil {
		out(networkDescription, seconds/gib, node.Name)
	}
}

// showTariffs shows the prices of Tariffs that can be used.
func showTariffs(out show, all []v1alpha1.Tariff, now time.Time) {
	slices.SortFunc(all, func(a, b v1alpha1.Tariff) int { return strings.Compare(a.Name, b.Name) })
	chosen, _ := tariff.FindDefault(all)
	for i := range all {
		one := &all[i]
		labels := []string{one.Name, one.Spec.Currency, strconv.FormatBool(chosen != nil && chosen.Name == one.Name)}
		for direction, label := range map[v1alpha1.Direction]string{
			v1alpha1.DirectionSend: "send", v1alpha1.DirectionReceive: "receive",
		} {
			prices, err := tariff.Resolve(tariff.Query{Tariffs: all, Name: one.Name, Direction: direction, Time: now})
			if err != nil {
				continue // its condition Ready says why
			}
			rates, ok := tariff.Parse(prices)
			if !ok {
				continue
			}
			if direction == v1alpha1.DirectionSend {
				out(cpuPriceDescription, rates.CPU(float64(time.Second)), labels...)
			}
			out(networkPriceDescription, rates.Network(1), append(slices.Clone(labels), label)...)
		}
		if nanos, err := tariff.ParsePrice(one.Spec.StorageGiBMonth); err == nil {
			out(storagePriceDescription, float64(nanos)/1e9/gib/monthSeconds, labels...)
		}
	}
}
