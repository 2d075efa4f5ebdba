// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"maps"
	"math"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
	"github.com/lighterage/lighterage/controllers/metrics"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func inventory() (*metrics.Inventory, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	return metrics.NewInventory(registry, nil, clocktesting.NewFakePassiveClock(noon), nil), registry
}

func transfer(name string, rate int64) *v1alpha1.Transfer {
	t := &v1alpha1.Transfer{}
	t.Namespace, t.Name, t.UID = "bank", name, types.UID(name)
	t.Status.Phase = v1alpha1.TransferTransferring
	t.Status.Progress = &v1alpha1.Progress{BytesPerSecond: rate}
	t.Status.Conditions = conditions.Reconciling(v1alpha1.ReasonTransferring, "it moves")
	return t
}

// check compares all that is shown; what is nearly right for the size of a number is right.
func check(t *testing.T, registry *prometheus.Registry, want map[string]float64) {
	t.Helper()
	got := gathered(t, registry)
	for name, value := range want {
		if shown, ok := got[name]; !ok || math.Abs(shown-value) > math.Abs(value)/1e9 {
			t.Errorf("%s is %v (%v), want %v", name, shown, ok, value)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("more is shown: %v", maps.Clone(got))
	}
}

func TestObjectsAreCountedOnce(t *testing.T) {
	i, registry := inventory()
	one, other := transfer("one", 400), transfer("other", 0)
	i.Observe(one)
	i.Observe(other)
	i.Observe(one) // as an informer does after a relist
	check(t, registry, map[string]float64{
		"lighterage_objects{Transfer,bank,Transferring,Reconciling}": 2,
		"lighterage_runs_moving{Transfer,bank}":                      2,
		"lighterage_runs_without_progress{Transfer,bank}":            1,
		"lighterage_runs_bytes_per_second{Transfer,bank}":            400,
	})
	ended := one.DeepCopy()
	ended.Status.Phase, ended.Status.Conditions = v1alpha1.TransferComplete, conditions.Ready("Succeeded", "all is there")
	i.Observe(ended)
	i.Forget(toolscache.DeletedFinalStateUnknown{Obj: other})
	i.Forget(other)
	check(t, registry, map[string]float64{
		"lighterage_objects{Transfer,bank,Succeeded,Ready}": 1,
		"lighterage_runs_moving{Transfer,bank}":             0,
		"lighterage_runs_without_progress{Transfer,bank}":   0,
		"lighterage_runs_bytes_per_second{Transfer,bank}":   0,
	})
}

// TestRelays: ObjectStores with handOff are counted, and those whose relay does not run.
func TestRelays(t *testing.T) {
	i, registry := inventory()
	relay := func(uid string, status metav1.ConditionStatus) *v1alpha1.ObjectStore {
		s := &v1alpha1.ObjectStore{}
		s.Name, s.Namespace, s.UID = uid, "bank", types.UID(uid)
		s.Status.Conditions = conditions.Ready("Probed", "it is fit")
		if status != "" {
			s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{
				Type: v1alpha1.ConditionHandOffReady, Status: status,
			})
		}
		return s
	}
	i.Observe(relay("none", ""))
	i.Observe(relay("runs", metav1.ConditionTrue))
	i.Observe(relay("starts", metav1.ConditionFalse))
	check(t, registry, map[string]float64{
		"lighterage_objects{ObjectStore,bank,Probed,Ready}": 3,
		"lighterage_objectstore_relays{bank}":               2,
		"lighterage_objectstore_relays_not_ready{bank}":     1,
	})
	i.Observe(relay("starts", metav1.ConditionTrue))
	i.Forget(relay("runs", metav1.ConditionTrue))
	check(t, registry, map[string]float64{
		"lighterage_objects{ObjectStore,bank,Probed,Ready}": 2,
		"lighterage_objectstore_relays{bank}":               1,
		"lighterage_objectstore_relays_not_ready{bank}":     0,
	})
}

// TestReplacedObjects: one that was deleted and made again between two watches is counted once.
func TestReplacedObjects(t *testing.T) {
	i, registry := inventory()
	before := transfer("one", 400)
	i.Observe(before)
	after := transfer("one", 300)
	after.UID = "another"
	i.Update(before, after)
	i.Update(after, after)
	check(t, registry, map[string]float64{
		"lighterage_objects{Transfer,bank,Transferring,Reconciling}": 1,
		"lighterage_runs_moving{Transfer,bank}":                      1,
		"lighterage_runs_without_progress{Transfer,bank}":            0,
		"lighterage_runs_bytes_per_second{Transfer,bank}":            300,
	})
}

func TestPeersAndNodes(t *testing.T) {
	i, registry := inventory()
	peer := &v1alpha1.Peer{}
	peer.Name, peer.UID = "west", "1"
	peer.Status.CAExpirationTime = &metav1.Time{Time: noon}
	peer.Status.Conditions = conditions.Reconciling("PeerUnreachable", "nobody answers")
	i.Observe(peer)
	node := &v1alpha1.NodeProfile{}
	node.Name, node.UID = "z1", "2"
	node.Status = v1alpha1.NodeProfileStatus{
		Architecture: "s390x", NetworkCPUSecondsPerGiB: "0.5",
		Accelerator: &v1alpha1.NodeAccelerator{AcceleratorProfile: v1alpha1.AcceleratorProfile{State: v1alpha1.AcceleratorVerified, Reason: "Proved"}},
		Engines: []v1alpha1.EngineProfile{{
			Name: "dfltcc", Codec: "deflate", Verified: true, Inflates: true, DecompressBytesPerSecond: 9,
			Levels: []v1alpha1.LevelProfile{
				{Level: v1alpha1.CompressionFast, Selected: true, CompressBytesPerSecond: 7}, {Level: v1alpha1.CompressionHigh},
			},
		}},
		Conditions: conditions.Ready("Measured", "it has measured"),
	}
	i.Observe(node)
	check(t, registry, map[string]float64{
		"lighterage_objects{Peer,,PeerUnreachable,Reconciling}":             1,
		"lighterage_objects{NodeProfile,,Measured,Ready}":                   1,
		"lighterage_peer_ready{west}":                                       0,
		"lighterage_peer_ca_expiration_timestamp_seconds{west}":             float64(noon.Unix()),
		"lighterage_node_accelerator_info{s390x,z1,Proved,Verified}":        1,
		"lighterage_node_engine_info{deflate,dfltcc,true,z1,true}":          1,
		"lighterage_node_compress_bytes_per_second{deflate,dfltcc,Fast,z1}": 7,
		"lighterage_node_decompress_bytes_per_second{deflate,dfltcc,z1}":    9,
		"lighterage_node_network_cpu_seconds_per_byte{z1}":                  0.5 / (1 << 30),
	})
	i.Forget(peer)
	i.Forget(node)
	check(t, registry, nil)
}

// TestPricesInForce: those of the time and direction, and none of a Tariff that cannot be used.
func TestPricesInForce(t *testing.T) {
	i, registry := inventory()
	usable := &v1alpha1.Tariff{Spec: v1alpha1.TariffSpec{
		Currency: "EUR", StorageGiBMonth: "0.073",
		CPUHour: v1alpha1.CPUHourPrice{Price: "0.036", Rules: []v1alpha1.CPUHourRule{{
			Price: "0.072", Windows: []v1alpha1.TariffWindow{{Start: "08:00", End: "20:00"}},
		}}},
		NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0.05", Rules: []v1alpha1.NetworkGiBRule{
			{Price: "0.5", Peers: []string{"west"}}, {Price: "0", Direction: v1alpha1.DirectionReceive},
		}},
	}}
	usable.Name, usable.UID = "list", "1"
	usable.Annotations = map[string]string{v1alpha1.DefaultTariffAnnotation: "true"}
	usable.Status.Conditions = conditions.Ready("Accepted", "fine")
	broken := usable.DeepCopy()
	broken.Name, broken.UID, broken.Annotations, broken.Spec.TimeZone = "mars", "2", nil, "Mars/Olympus"
	broken.Spec.StorageGiBMonth = ""
	broken.Status.Conditions = conditions.Stalled("InvalidSpec", "no such zone")
	i.Observe(usable)
	i.Observe(broken)
	check(t, registry, map[string]float64{
		"lighterage_objects{Tariff,,Accepted,Ready}":                  1,
		"lighterage_objects{Tariff,,InvalidSpec,Stalled}":             1,
		"lighterage_tariff_cpu_second_price{EUR,true,list}":           0.072 / 3600,
		"lighterage_tariff_network_byte_price{EUR,true,send,list}":    0.05 / (1 << 30),
		"lighterage_tariff_network_byte_price{EUR,true,receive,list}": 0,
		"lighterage_tariff_storage_byte_second_price{EUR,true,list}":  0.073 / (1 << 30) / (730 * 3600),
	})
}
