// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/plan"
)

func TestDataPathBecomesStatus(t *testing.T) {
	fellBack := &wirev1.DataPath{Type: "TCP", Reason: "FellBack"}
	for _, test := range []struct {
		route    v1alpha1.Route
		reported *wirev1.DataPath
		want     *v1alpha1.DataPath
	}{
		{v1alpha1.RouteGateway, nil, nil},
		{v1alpha1.RouteGateway, fellBack, &v1alpha1.DataPath{Type: "TCP", Reason: "FellBack"}},
		{v1alpha1.RouteDirect, fellBack, &v1alpha1.DataPath{Type: "TCP", Reason: "FellBack"}},
		{
			v1alpha1.RouteGateway, &wirev1.DataPath{Type: "SMC", Reason: "Negotiated"},
			&v1alpha1.DataPath{Type: "SMC", Reason: "Negotiated"},
		},
		{
			v1alpha1.RouteGateway, &wirev1.DataPath{Type: "MPTCP", Reason: "Negotiated"},
			&v1alpha1.DataPath{Type: "MPTCP", Reason: "Negotiated"},
		},
		{
			v1alpha1.RouteGateway,
			&wirev1.DataPath{Type: "TCP", Reason: "Configured", RoundTripNanos: 100_400_000, CongestionControl: "bbr"},
			&v1alpha1.DataPath{
				Type: "TCP", Reason: "Configured", RoundTripTime: &metav1.Duration{Duration: 100 * time.Millisecond},
				CongestionControl: "bbr",
			},
		},
		{
			v1alpha1.RouteGateway,
			&wirev1.DataPath{Type: "TCP", Reason: "Configured", RoundTripNanos: 1 << 63, CongestionControl: "<b>"},
			&v1alpha1.DataPath{
				Type: "TCP", Reason: "Configured", RoundTripTime: &metav1.Duration{Duration: time.Minute},
			},
		},
		{v1alpha1.RoutePod, fellBack, &v1alpha1.DataPath{Type: "Pod", Reason: "OnePod"}},
		{v1alpha1.RouteStorage, nil, &v1alpha1.DataPath{Type: "Storage", Reason: "Configured"}},
		{v1alpha1.RouteObjectStore, fellBack, nil},
		// What no agent of the project says.
		{v1alpha1.RouteGateway, &wirev1.DataPath{Type: "SMC", Reason: "FellBack"}, nil},
		{v1alpha1.RouteGateway, &wirev1.DataPath{Type: "Pod", Reason: "OnePod"}, nil},
		{v1alpha1.RouteGateway, &wirev1.DataPath{Type: "RDMA", Reason: "Negotiated"}, nil},
	} {
		report := &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_TRANSFERRING, DataPath: test.reported}
		status := follow(report, func(transfer *v1alpha1.Transfer, _ *plan.TransferFacts) {
			transfer.Status.Run.Route = test.route
		})
		if diff := cmp.Diff(test.want, status.Run.DataPath); diff != "" {
			t.Errorf("%s, %v: %s", test.route, test.reported, diff)
		}
	}
}

// TestDataPathIsKept: a report without one, which a termination message may be, leaves what is known.
func TestDataPathIsKept(t *testing.T) {
	known := &v1alpha1.DataPath{Type: v1alpha1.DataPathTCP, Reason: v1alpha1.DataPathFellBack}
	report := &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_TRANSFERRING}
	status := follow(report, func(transfer *v1alpha1.Transfer, _ *plan.TransferFacts) {
		transfer.Status.Run.DataPath = known
	})
	if diff := cmp.Diff(known, status.Run.DataPath); diff != "" {
		t.Error(diff)
	}
}

// TestDataPathReachesAgents: the sender is told what the manager was.
func TestDataPathReachesAgents(t *testing.T) {
	transfer, facts := running(1)
	transfer.Status.Phase, transfer.Status.Run = "", nil
	start := plan.DecideTransfer(transfer, facts, agentpod.Image{Name: image.Name, DataPath: "MPTCP"}).Start
	encoded, err := start.Config()
	if err != nil {
		t.Fatal(err)
	}
	config := &wirev1.SendConfig{}
	if err := protojson.Unmarshal(encoded, config); err != nil {
		t.Fatal(err)
	}
	if config.GetDataPath() != "MPTCP" {
		t.Errorf("the sender is to try %q", config.GetDataPath())
	}
}
