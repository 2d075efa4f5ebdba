// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/usage"
)

// TestReceiverThatClaimsMore: within a cluster the sender's namespace is charged for both sides, and not for what the
// receiving agent, which is in another namespace, cannot have used.
func TestReceiverThatClaimsMore(t *testing.T) {
	const most = math.MaxUint64
	report := &wirev1.Report{
		State: wirev1.AgentState_AGENT_STATE_TRANSFERRING, WireBytes: 1 << 20,
		Cpu:         &wirev1.CPU{SendNanos: 1e9, ReceiveNanos: most},
		PeerTraffic: &wirev1.Traffic{DataSegments: most, ReceivedBytes: most},
	}
	tariff := v1alpha1.Tariff{
		ObjectMeta: metav1.ObjectMeta{Name: "t", Annotations: map[string]string{v1alpha1.DefaultTariffAnnotation: "true"}},
		Spec: v1alpha1.TariffSpec{
			Currency: "EUR", CPUHour: v1alpha1.CPUHourPrice{Price: "3600"}, NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0"},
		},
	}
	status := follow(report, func(transfer *v1alpha1.Transfer, facts *plan.TransferFacts) {
		transfer.Spec.Destination.Peer, transfer.Status.Run.Route = "", v1alpha1.RouteDirect
		facts.Job.CreationTimestamp = metav1.NewTime(now.Add(-30 * time.Second))
		facts.Limits = usage.Limits{SendCores: 4, ReceiveCores: 2}
		facts.Network = &usage.NetworkCost{Segments: &usage.SegmentCost{Segment: 1e-3}}
		facts.Tariffs, facts.NodeLabels = []v1alpha1.Tariff{tariff}, map[string]string{}
	})
	// Two cores for 30 s and the grace, and 2,048 segments with the constant.
	if got := status.Usage.Receive; got == nil || got.ProcessSeconds != "120" || got.NetworkSeconds != "6.144" {
		t.Errorf("%+v", got)
	}
	if cost := status.Cost; cost == nil || cost.CPU != "127.1440" {
		t.Errorf("%+v", cost)
	}
}
