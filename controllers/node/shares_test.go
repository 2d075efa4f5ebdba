// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/node"
)

func dataQuota(namespace, name string, weight *int32) *v1alpha1.DataQuota {
	return &v1alpha1.DataQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.DataQuotaSpec{Weight: weight},
	}
}

// TestWeights: node agents are told the weights that are not the usual one, of so many namespaces that the request
// always has space.
func TestWeights(t *testing.T) {
	b := newBench(t,
		dataQuota("bank", "a", ptr.To[int32](300)), dataQuota("bank", "b", ptr.To[int32](200)),
		dataQuota("shop", "a", nil), dataQuota("web", "a", ptr.To[int32](100)))
	got, err := node.Weights(b.api)(t.Context())
	if err != nil || len(got.GetNamespaces()) != 1 || got.GetNamespaces()["bank"] != 200 {
		t.Errorf("%v, %v", got, err)
	}
	var many []client.Object
	for i := range 1000 {
		many = append(many, dataQuota(fmt.Sprintf("%063d", i), "a", ptr.To[int32](10000)))
	}
	got, err = node.Weights(newBench(t, many...).api)(t.Context())
	if size := proto.Size(&wirev1.GetProfileRequest{Weights: got}); err != nil || len(got.GetNamespaces()) < 500 ||
		size > 60<<10 {
		t.Errorf("%d namespaces, %d bytes, %v", len(got.GetNamespaces()), size, err)
	}
}

func TestSharesAddress(t *testing.T) {
	service := func(ip string) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: operator, Name: "lighterage-node-agent"},
			Spec:       corev1.ServiceSpec{ClusterIP: ip},
		}
	}
	for name, c := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"IPv4":     {[]client.Object{service("10.96.0.7")}, "10.96.0.7:9444"},
		"IPv6":     {[]client.Object{service("fd00::7")}, "[fd00::7]:9444"},
		"headless": {[]client.Object{service(corev1.ClusterIPNone)}, ""}, "absent": {nil, ""},
	} {
		got, err := node.SharesAddress(t.Context(), newBench(t, c.objects...).api, operator)
		if got != c.want || (err == nil) != (c.want != "") || err != nil && !errors.Is(err, node.ErrNoShares) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// shared are the metrics of shares by name and kind.
func shared(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			key := family.GetName()
			for _, label := range metric.GetLabel() {
				if label.GetName() != "node" {
					key += " " + label.GetValue()
				}
			}
			out[key] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return out
}

// TestSharing: what node agents grant is counted by kind, from when this manager hears of them, across their restarts,
// and writes no status.
func TestSharing(t *testing.T) {
	b, _, _, registry := useBench(t)
	say := func(agents uint32, contended bool, kinds ...*wirev1.AcceleratorShareUse) map[string]float64 {
		t.Helper()
		b.agents.measured.AcceleratorUse = &wirev1.AcceleratorUse{Shares: &wirev1.AcceleratorSharing{
			Agents: agents, Contended: contended, Kinds: kinds,
		}}
		var before, after v1alpha1.NodeProfile
		key := client.ObjectKey{Name: "z15-a"}
		err := b.api.Get(t.Context(), key, &before)
		b.pass(time.Second)
		if err == nil {
			if err := b.api.Get(t.Context(), key, &after); err != nil || after.ResourceVersion != before.ResourceVersion {
				t.Errorf("the NodeProfile was written: %v", err)
			}
		}
		return shared(t, registry)
	}
	of := func(kind string, granted, used uint64) *wirev1.AcceleratorShareUse {
		return &wirev1.AcceleratorShareUse{
			Kind: kind, GrantedNanos: granted * 1e9, UsedNanos: used * 1e9, RefusedShare: 2 * used, RefusedBusy: used,
		}
	}
	const (
		granted = "lighterage_node_accelerator_granted_seconds_total"
		used    = "lighterage_node_accelerator_used_seconds_total"
		refused = "lighterage_node_accelerator_refusals_total"
	)
	if got := say(1, false, of("transfer", 100, 50)); got[granted+" transfer"] != 0 ||
		got["lighterage_node_accelerator_agents"] != 1 {
		t.Errorf("of before this manager: %v", got)
	}
	got := say(2, true, of("transfer", 130, 60), of("queue", 9, 8), of("bitcoin", 1, 1))
	if got[granted+" transfer"] != 30 || got[used+" transfer"] != 10 ||
		got[granted+" queue"] != 9 || got[used+" queue"] != 8 ||
		got["lighterage_node_accelerator_contended"] != 1 ||
		got[refused+" transfer AcceleratorShare"] != 20 || got[refused+" queue AcceleratorBusy"] != 8 || len(got) != 11 {
		t.Errorf("%v", got)
	}
	if got := say(0, false, of("transfer", 5, 4)); got[granted+" transfer"] != 35 || got[used+" transfer"] != 14 ||
		got["lighterage_node_accelerator_contended"] != 0 {
		t.Errorf("after a restart: %v", got)
	}
	b.agents.measured.AcceleratorUse = &wirev1.AcceleratorUse{}
	b.pass(time.Second)
	if _, shown := shared(t, registry)["lighterage_node_accelerator_agents"]; shown {
		t.Error("agents of a node agent that grants nothing are shown")
	}
}
