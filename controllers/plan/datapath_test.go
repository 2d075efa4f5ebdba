// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"math"
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

// TestPathCost: which attempts say what their path costs, and what they say. An agent may report anything.
func TestPathCost(t *testing.T) {
	took := 10 * time.Second
	good := func() *wirev1.Report {
		return &wirev1.Report{
			State: wirev1.AgentState_AGENT_STATE_SUCCEEDED, WireBytes: 2 * gib, Progress: &wirev1.Progress{FilesTotal: 2048},
			DataPath:    &wirev1.DataPath{Type: "MPTCP", Reason: "Negotiated"},
			Compression: &wirev1.Compression{UncompressedBytes: 4 * gib},
			Cpu: &wirev1.CPU{
				SendNanos: 9e9, CompressNanos: 4e9, ReadNanos: 1e9, DecompressNanos: 2e9, WriteNanos: 1e9, ReceiveNanos: 5e9,
			},
		}
	}
	cost := func(path v1alpha1.DataPathType, bytes int64, cpu time.Duration) *plan.PathCost {
		return &plan.PathCost{Node: "z15-a", Type: path, Bytes: bytes, CPU: cpu, Took: took}
	}
	mptcp := cost(v1alpha1.DataPathMPTCP, 2*gib, 4*time.Second)
	for name, test := range map[string]struct {
		change func(*wirev1.Report)
		route  v1alpha1.Route
		want   *plan.PathCost
	}{
		"a good one":                 {func(*wirev1.Report) {}, v1alpha1.RouteGateway, mptcp},
		"as good within the cluster": {func(*wirev1.Report) {}, v1alpha1.RouteDirect, mptcp},
		"without what was tried": {
			func(r *wirev1.Report) { r.DataPath = &wirev1.DataPath{Type: "TCP", Reason: "Unavailable"} }, v1alpha1.RouteGateway,
			cost(v1alpha1.DataPathTCP, 2*gib, 4*time.Second),
		},
		"some connections fell back": {
			func(r *wirev1.Report) { r.DataPath = &wirev1.DataPath{Type: "TCP", Reason: "FellBack"} },
			v1alpha1.RouteGateway, nil,
		},
		"in one pod": {func(*wirev1.Report) {}, v1alpha1.RoutePod, cost(v1alpha1.DataPathPod, 4*gib, time.Second)},
		"through an object store": {
			func(*wirev1.Report) {}, v1alpha1.RouteStorage, cost(v1alpha1.DataPathStorage, 2*gib, 4*time.Second),
		},
		"to an object store": {func(*wirev1.Report) {}, v1alpha1.RouteObjectStore, nil},
		"no path":            {func(r *wirev1.Report) { r.DataPath = nil }, v1alpha1.RouteGateway, nil},
		"a path that is none": {
			func(r *wirev1.Report) { r.DataPath.Type = "RDMA" }, v1alpha1.RouteGateway, nil,
		},
		"failed": {func(r *wirev1.Report) { r.State = wirev1.AgentState_AGENT_STATE_FAILED }, v1alpha1.RouteGateway, nil},
		"little": {func(r *wirev1.Report) { r.WireBytes = 256<<20 - 1 }, v1alpha1.RouteGateway, nil},
		"small files": {
			func(r *wirev1.Report) { r.Progress.FilesTotal = 4097 }, v1alpha1.RouteGateway, nil,
		},
		"parts that the destination had": {
			func(r *wirev1.Report) { r.Progress.ReusedBytes = 1 }, v1alpha1.RouteGateway, nil,
		},
		"holes":                  {func(r *wirev1.Report) { r.Progress.HoleBytes = 1 }, v1alpha1.RouteGateway, nil},
		"no CPU time":            {func(r *wirev1.Report) { r.Cpu = nil }, v1alpha1.RouteGateway, nil},
		"more spent than in all": {func(r *wirev1.Report) { r.Cpu.CompressNanos = 1 << 63 }, v1alpha1.RouteGateway, nil},
		"everything overflows": {func(r *wirev1.Report) {
			r.WireBytes, r.Cpu.SendNanos, r.Cpu.ReadNanos = math.MaxUint64, math.MaxUint64, math.MaxUint64
		}, v1alpha1.RouteGateway, nil},
	} {
		report := good()
		test.change(report)
		said, err := protojson.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		transfer, facts := running(1)
		transfer.Status.Run.Route, transfer.Status.Run.StartTime = test.route, &metav1.Time{Time: now}
		facts.Now = now.Add(took)
		facts.Pod = ended(0, "Completed", string(said))
		finished := plan.DecideTransfer(transfer, facts, image).Finished
		if finished == nil {
			t.Fatalf("%s: the attempt did not end", name)
		}
		if diff := cmp.Diff(test.want, finished.PathCost); diff != "" {
			t.Errorf("%s: %s", name, diff)
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
