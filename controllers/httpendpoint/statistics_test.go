// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/httpendpoint"
	"github.com/lighterage/lighterage/controllers/usage"
)

// busy are facts of two replicas that have served, one by hardware, whose agent is of a version that does not count
// segments.
func busy(wanted httpendpoint.Wanted) httpendpoint.Facts {
	facts := well(wanted)
	facts.Replicas[0].Network, facts.Replicas[1].Network = &usage.NetworkCost{
		PerGiB: 50, Segments: &usage.SegmentCost{Acknowledgement: 1e-3},
	}, &usage.NetworkCost{PerGiB: 3}
	one, two := facts.Replicas[0].Report, facts.Replicas[1].Report
	one.Statistics = &wirev1.HTTPStatistics{
		ActiveConnections: 3, HighWaterConnections: 10, RefusedConnections: 1, Reused: 2, TimedOut: 3, UrlErrors: 4,
		SoftwareResponses: 10, UncompressedResponses: 5,
		ResponsesByCoding:    map[string]uint64{"gzip": 4, "zstd": 6, "identity": 5, "made-up": 9},
		CompressedPlainBytes: 40000, CompressedBytes: 10000, Since: timestamppb.New(now.Add(-time.Hour)), Reset_: "a",
	}
	one.Compression = &wirev1.Compression{
		Codec: "deflate", Engine: "zlib-ng", Reason: "NoAccelerator", UncompressedBytes: 50000, CompressedBytes: 20000,
		Software: &wirev1.Operations{Operations: 10, Bytes: 40000}, Stored: &wirev1.Operations{Operations: 5, Bytes: 10000},
		Skipped: map[string]uint64{"BelowMinimum": 5},
	}
	one.Cpu, one.WireBytes = &wirev1.CPU{SendNanos: 3e9, CompressNanos: 1e6}, 1<<30
	one.Traffic = &wirev1.Traffic{Acknowledgements: 1000}
	two.Statistics = &wirev1.HTTPStatistics{
		ActiveConnections: 4, HighWaterConnections: 20, HardwareResponses: 30,
		ResponsesByCoding:    map[string]uint64{"gzip": 30},
		CompressedPlainBytes: 160000, CompressedBytes: 30000,
		RecentOperations: 4, RecentPlainBytes: 12000, RecentBytes: 6000, RecentNanos: 1e6, Since: timestamppb.New(now.Add(-time.Minute)), Reset_: "a",
	}
	two.Compression = &wirev1.Compression{
		Codec: "deflate", Engine: "dfltcc", Reason: "HardwareUsed", UncompressedBytes: 160000, CompressedBytes: 30000,
		Hardware: &wirev1.Operations{Operations: 30, Bytes: 160000}, Skipped: map[string]uint64{"BelowMinimum": 1},
	}
	two.Cpu, two.WireBytes = &wirev1.CPU{SendNanos: 1e9, CompressNanos: 3e6}, 1<<30
	return facts
}

// TestDecisions: those of all replicas are shown together, and are gone in other modes than Auto.
func TestDecisions(t *testing.T) {
	endpoint := newEndpoint(nil)
	wanted := want(t, endpoint)
	facts := busy(wanted)
	for i, reason := range []string{"NetworkFaster", ""} {
		facts.Replicas[i].Report.Decisions = &wirev1.Decisions{Objective: "Elapsed", Classes: []*wirev1.ClassDecision{
			{Content: "json", Size: "<4Ki", Codec: "deflate", Reason: reason, Operations: 3},
		}}
	}
	status := httpendpoint.Observe(endpoint, &wanted, facts)
	d := status.Decisions
	if d == nil || len(d.Classes) != 1 || d.Classes[0].Operations != 6 || d.Classes[0].Choice != v1alpha1.ClassMixed {
		t.Errorf("%+v", d)
	}
	endpoint.Status = status
	status = httpendpoint.Observe(endpoint, &wanted, busy(wanted))
	if status.Decisions != nil {
		t.Errorf("when no replica decides: %+v", status.Decisions)
	}
}

func TestStatistics(t *testing.T) {
	endpoint := newEndpoint(nil)
	policy := v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Name: "priced", Annotations: map[string]string{v1alpha1.DefaultPolicyAnnotation: "true"},
		},
		Spec: v1alpha1.CompressionPolicySpec{Prices: &v1alpha1.Prices{Currency: "USD", CPUHour: "3.6", NetworkGiB: "1"}},
	}
	wanted := want(t, endpoint, policy)
	status := httpendpoint.Observe(endpoint, &wanted, busy(wanted))
	expected := &v1alpha1.HTTPStatistics{
		Active: 7, HighWater: 30, Refused: 1, Reused: 2, TimedOut: 3, URLErrors: 4, Responses: 45,
		HardwareCount: 30, SoftwareCount: 10, UncompressedCount: 5,
		Codings: []v1alpha1.HTTPCodingCount{
			{Coding: "gzip", Responses: 34},
			{Coding: "zstd", Responses: 6},
			{Coding: "identity", Responses: 5},
		},
		AverageRatio: "5.00", AverageCompressSeconds: "0.000100", AverageUncompressedSize: 5000,
		RecentRatio: "2.00", RecentCompressSeconds: "0.000250", RecentUncompressedSize: 3000,
		LastReset: &metav1.Time{Time: now.Add(-time.Hour)}, LastResetRequest: "a",
	}
	if diff := cmp.Diff(expected, status.Statistics); diff != "" {
		t.Errorf("unexpected statistics (-want +got):\n%s", diff)
	}
	c := status.Compression
	if c.Engine != "dfltcc" || c.Reason != "HardwareUsed" || c.Ratio != "4.20" || c.Hardware.Operations != 30 ||
		c.Software.Operations != 10 ||
		c.Stored.Operations != 5 || c.Skipped["BelowMinimum"] != 6 {
		t.Errorf("unexpected compression: %+v", c)
	}
	// 1,000 segments at 1 ms and 1 GiB at 3 s.
	if cpu := status.CPU; cpu.SendSeconds != "4.00" || cpu.NetworkSeconds != "4.00" || cpu.ReceiveSeconds != "" {
		t.Errorf("unexpected CPU: %+v", cpu)
	}
	// 8 s at 0.001 a second, 2 GiB at 1.
	if cost := status.Cost; cost == nil || cost.CPU != "0.008" || cost.Network != "2.0000" {
		t.Errorf("unexpected cost: %+v", cost)
	}
	condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionHardwareCompression)
	if condition == nil || condition.Status != metav1.ConditionTrue {
		t.Errorf("unexpected condition: %+v", condition)
	}
}

// TestCostByTariff: the price of a CPU hour is the mean of those of the replicas' nodes, what was charged stays when it
// changes, and a Tariff that cannot be used stops nothing.
func TestCostByTariff(t *testing.T) {
	endpoint := newEndpoint(nil)
	wanted := want(t, endpoint)
	tariff := v1alpha1.Tariff{
		ObjectMeta: metav1.ObjectMeta{
			Name: "t", Generation: 1, Annotations: map[string]string{v1alpha1.DefaultTariffAnnotation: "true"},
		},
		Spec: v1alpha1.TariffSpec{
			Currency: "EUR", NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "1"},
			CPUHour: v1alpha1.CPUHourPrice{Price: "3.6", Rules: []v1alpha1.CPUHourRule{
				{Price: "1.8", NodeSelector: map[string]string{"class": "spot"}},
			}},
		},
	}
	facts := busy(wanted)
	facts.Tariffs = []v1alpha1.Tariff{tariff}
	facts.Replicas[1].NodeLabels = map[string]string{"class": "spot"}
	endpoint.Status = httpendpoint.Observe(endpoint, &wanted, facts)
	cost := endpoint.Status.Cost
	if cost == nil || cost.CPU != "0.006" || cost.Network != "2.0000" || cost.Periods[0].Prices.CPUHour != "2.7" ||
		cost.Periods[0].Prices.Name != "t" {
		t.Fatalf("unexpected cost: %+v", cost)
	}
	if endpoint.Status.Policy.Prices != nil {
		t.Error("its configuration would change with the time of day")
	}
	facts.Tariffs = []v1alpha1.Tariff{*tariff.DeepCopy()}
	facts.Tariffs[0].Generation, facts.Tariffs[0].Spec.NetworkGiB.Price = 2, "10"
	facts.Replicas[0].Report.WireBytes += 1 << 30
	endpoint.Status = httpendpoint.Observe(endpoint, &wanted, facts)
	if cost = endpoint.Status.Cost; cost.Network != "12.0000" || len(cost.Periods) != 2 {
		t.Fatalf("at another price: %+v", cost)
	}
	facts.Tariffs[0].Spec.TimeZone = "Mars/Olympus"
	endpoint.Status = httpendpoint.Observe(endpoint, &wanted, facts)
	if diff := cmp.Diff(cost, endpoint.Status.Cost); diff != "" {
		t.Errorf("by a Tariff that cannot be used: %s", diff)
	}
	facts.Tariffs = nil
	endpoint.Status = httpendpoint.Observe(endpoint, &wanted, facts)
	if diff := cmp.Diff(cost, endpoint.Status.Cost); diff != "" {
		t.Errorf("without a Tariff: %s", diff)
	}
}

// TestUsageOfReplicasThatComeAndGo: nothing is charged again when a replica is silent, is removed or begins to count
// again, and idle time is told apart.
func TestUsageOfReplicasThatComeAndGo(t *testing.T) {
	endpoint := newEndpoint(nil)
	wanted := want(t, endpoint, v1alpha1.CompressionPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Name: "priced", Annotations: map[string]string{v1alpha1.DefaultPolicyAnnotation: "true"},
		},
		Spec: v1alpha1.CompressionPolicySpec{Prices: &v1alpha1.Prices{Currency: "USD", CPUHour: "3.6", NetworkGiB: "1"}},
	})
	facts := busy(wanted)
	one, two := facts.Replicas[0], facts.Replicas[1]
	one.Report.Cpu.IdleNanos = 2e9
	step := func(what, process, cpu string, marks int, replicas ...httpendpoint.Replica) {
		t.Helper()
		facts.Replicas = replicas
		endpoint.Status = httpendpoint.Observe(endpoint, &wanted, facts)
		status := endpoint.Status
		if status.Usage.Send.ProcessSeconds != process || status.Cost.CPU != cpu || len(status.ReplicaUsage) != marks ||
			status.Cost.Idle != "0.002" || status.Usage.Send.IdleSeconds != "2" || len(status.Cost.Periods) != 1 {
			t.Errorf("%s: %+v %+v", what, status.Usage.Send, status.Cost)
		}
		again := httpendpoint.Observe(endpoint, &wanted, facts)
		if diff := cmp.Diff(status, again); diff != "" {
			t.Errorf("%s: the same again changes status: %s", what, diff)
		}
	}
	step("both report", "4", "0.008", 2, one, two)
	silent := one
	silent.Report = nil
	two.Report.Cpu.SendNanos += 1e9
	step("one is silent", "5", "0.009", 2, silent, two)
	step("it answers again", "5", "0.009", 2, one, two)
	step("it is removed", "5", "0.009", 1, two)
	two.Report.Statistics.Since, two.Report.Statistics.Reset_ = timestamppb.New(now), "b"
	two.Report.Cpu, two.Report.WireBytes = &wirev1.CPU{SendNanos: 1e9}, 0
	step("statistics are reset", "6", "0.0100", 1, two)
}

// TestUsageAfterUpgrade: what replicas used under an earlier version, which did not count, is not counted at once.
func TestUsageAfterUpgrade(t *testing.T) {
	endpoint := newEndpoint(nil)
	endpoint.Status.CPU = &v1alpha1.CPUStatus{SendSeconds: "4"}
	wanted := want(t, endpoint)
	facts := busy(wanted)
	for _, process := range []string{"0", "1"} {
		endpoint.Status = httpendpoint.Observe(endpoint, &wanted, facts)
		if used := usage.FromStatus(endpoint.Status.Usage).Send[usage.Process]; usage.Seconds(used) != process {
			t.Errorf("%+v, want %s", endpoint.Status.Usage, process)
		}
		facts.Replicas[0].Report.Cpu.SendNanos += 1e9
	}
}

// TestEveryReasonHasAMessage: a reason that replicas report leads to a condition.
func TestEveryReasonHasAMessage(t *testing.T) {
	endpoint := newEndpoint(nil)
	wanted := want(t, endpoint)
	for _, reason := range []string{
		"SoftwareUsed", "NoAccelerator", "SelfTestFailed", "LevelNotAccelerated", "CodecNotAccelerated", "BelowMinimum",
		"SoftwareDisabled",
		"Incompressible", "DidNotShrink", "PolicyNever", "PeerRefused", "OtherContentType", "AlreadyEncoded", "NoTransform",
		"PartialContent",
		"CrossSiteCookie", "Busy", "CPUBudget", "EngineFailed",
	} {
		facts := well(wanted)
		facts.Replicas[0].Report.Compression = &wirev1.Compression{Reason: reason, Stored: &wirev1.Operations{Operations: 1}}
		status := httpendpoint.Observe(endpoint, &wanted, facts)
		condition := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionHardwareCompression)
		if condition == nil || condition.Status != metav1.ConditionFalse || condition.Reason != reason ||
			condition.Message == "" {
			t.Errorf("%s: unexpected condition %+v", reason, condition)
		}
	}
}

// TestReset: the request is echoed when every replica has acted upon it, and not before.
func TestReset(t *testing.T) {
	endpoint := newEndpoint(nil)
	endpoint.Status.Statistics = &v1alpha1.HTTPStatistics{LastResetRequest: "before"}
	wanted := want(t, endpoint)
	facts := busy(wanted)
	facts.Replicas[1].Report.Statistics.Reset_ = "b"
	if got := httpendpoint.Observe(endpoint, &wanted, facts).Statistics.LastResetRequest; got != "before" {
		t.Errorf("with one of two replicas status shows %q", got)
	}
	facts.Replicas[0].Report.Statistics.Reset_ = "b"
	// One that has just started has counted nothing and stands in nobody's way.
	facts.Replicas = append(facts.Replicas, httpendpoint.Replica{Pod: pod(3), Asked: true, Report: &wirev1.HTTPReport{}})
	if got := httpendpoint.Observe(endpoint, &wanted, facts).Statistics.LastResetRequest; got != "b" {
		t.Errorf("with both replicas status shows %q", got)
	}
}

// TestStatisticsAreNotAlwaysRefreshed: between two refreshes status keeps what it has.
func TestStatisticsAreNotAlwaysRefreshed(t *testing.T) {
	endpoint := newEndpoint(nil)
	endpoint.Status.Statistics = &v1alpha1.HTTPStatistics{Responses: 1}
	wanted := want(t, endpoint)
	facts := busy(wanted)
	facts.RefreshStatistics = false
	if got := httpendpoint.Observe(endpoint, &wanted, facts).Statistics.Responses; got != 1 {
		t.Errorf("the statistics were refreshed: %d responses", got)
	}
}
