// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/usage"
)

const gib = 1 << 30

// follow decides with that report of a running agent.
func follow(report *wirev1.Report, change func(*v1alpha1.Transfer, *plan.TransferFacts)) v1alpha1.TransferStatus {
	transfer, facts := running(1)
	facts.Pod = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	facts.Report = report
	if change != nil {
		change(transfer, &facts)
	}
	return plan.DecideTransfer(transfer, facts, image).Status
}

// TestReceiverHasNotReported: what nobody knows yet is absent, not nought.
func TestReceiverHasNotReported(t *testing.T) {
	report := &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_TRANSFERRING, Cpu: &wirev1.CPU{SendNanos: 3e9}}
	if diff := cmp.Diff(
		&v1alpha1.CPUStatus{SendSeconds: "3.00", CompressSeconds: "0.00"}, follow(report, nil).CPU,
	); diff != "" {
		t.Error(diff)
	}
	report.Cpu.ReceiveNanos = 1e9
	if diff := cmp.Diff(&v1alpha1.CPUStatus{
		SendSeconds: "3.00", ReceiveSeconds: "1.00", CompressSeconds: "0.00", DecompressSeconds: "0.00",
	}, follow(report, nil).CPU); diff != "" {
		t.Error(diff)
	}
}

func TestReportBecomesStatus(t *testing.T) {
	report := &wirev1.Report{
		State: wirev1.AgentState_AGENT_STATE_TRANSFERRING, Architecture: "s390x",
		Progress: &wirev1.Progress{
			Files: 10, FilesTotal: 40, Bytes: 3 * gib, BytesTotal: 4 * gib, Scanned: true, UnchangedFiles: 1, UnchangedBytes: 50,
		},
		Compression: &wirev1.Compression{
			Codec: "deflate", Engine: "zlib-ng", Reason: v1alpha1.CompressionNoAccelerator, UncompressedBytes: 2 * gib,
			CompressedBytes: gib / 2,
			Software:        &wirev1.Operations{Operations: 7, Bytes: 2 * gib}, Skipped: map[string]uint64{"BelowMinimum": 2},
		},
		Cpu: &wirev1.CPU{SendNanos: 3e9, ReceiveNanos: 2e9, CompressNanos: 1.5e9, DecompressNanos: 4e6}, WireBytes: gib,
	}
	status := follow(report, func(transfer *v1alpha1.Transfer, facts *plan.TransferFacts) {
		facts.Samples = agentreport.Samples{{Time: now, Bytes: gib}, {Time: now.Add(8 * time.Second), Bytes: 2 * gib}}
		facts.Network = &usage.NetworkCost{PerGiB: 1}
		// The policy has other prices by now, and the run keeps those that it began with.
		facts.Policies = []v1alpha1.CompressionPolicy{{Spec: v1alpha1.CompressionPolicySpec{
			Prices: &v1alpha1.Prices{Currency: "EUR", CPUHour: "7.2", NetworkGiB: "5"},
		}}}
		facts.Policies[0].Name, transfer.Status.Policy.Name = "priced", "priced"
		transfer.Status.Policy.Prices = &v1alpha1.PricesStatus{Currency: "EUR", CPUHour: "3.6", NetworkGiB: "0.05"}
		transfer.Status.Run.DeliveredBytes = 30
	})
	if diff := cmp.Diff(&v1alpha1.CPUStatus{
		SendSeconds: "3.00", ReceiveSeconds: "2.00", CompressSeconds: "1.50", DecompressSeconds: "0.004",
		NetworkSeconds: "1.00", SecondsPerGiB: "3.00",
	}, status.CPU); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(
		&v1alpha1.CostStatus{
			Currency: "EUR", CPU: "0.004", Network: "0.0500", Saved: "0.0735",
			Periods: []v1alpha1.CostPeriod{{
				StartTime:  &metav1.Time{Time: now},
				Prices:     v1alpha1.PricesStatus{Currency: "EUR", CPUHour: "3.6", NetworkGiB: "0.05"},
				CPUSeconds: "4", CodecSeconds: "1.5", WireBytes: gib, SavedBytes: 3 * gib / 2,
				CPU: "0.004", Network: "0.05", Saved: "0.0735",
			}},
		}, status.Cost,
	); diff != "" {
		t.Error(diff)
	}
	p := status.Progress
	if p.Percent != 75 || p.BytesPerSecond != gib/8 || p.ETA.Duration != 8*time.Second || p.ResumedBytes != 30 ||
		p.UnchangedBytes != 50 {
		t.Errorf("%+v", p)
	}
	c := status.Compression
	if c.Ratio != "4.00" || c.SavedPercent != 75 || c.Software.Operations != 7 || c.Skipped["BelowMinimum"] != 2 {
		t.Errorf("%+v", c)
	}
	hardware := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionHardwareCompression)
	if hardware == nil || hardware.Status != "False" || hardware.Reason != v1alpha1.CompressionNoAccelerator ||
		hardware.Message == "" {
		t.Errorf("%+v", hardware)
	}
	if status.Phase != v1alpha1.TransferTransferring || status.Run.Node != "z15-a" || status.Run.Architecture != "s390x" {
		t.Errorf("%+v", status)
	}
}

// TestPriceChangesInMidRun: what was used is charged at the prices of when it was reported, on the node that the agent
// is on, and history keeps them. A node that is gone keeps its price.
func TestPriceChangesInMidRun(t *testing.T) {
	night := v1alpha1.CPUHourRule{
		Price: "1.8", NodeSelector: map[string]string{"class": "spot"},
		Windows: []v1alpha1.TariffWindow{{Start: now.Add(time.Minute).UTC().Format("15:04"), End: now.UTC().Format("15:04")}},
	}
	tariff := v1alpha1.Tariff{
		ObjectMeta: metav1.ObjectMeta{
			Name: "t", UID: "u", Generation: 5, Annotations: map[string]string{v1alpha1.DefaultTariffAnnotation: "true"},
		},
		Spec: v1alpha1.TariffSpec{
			Currency: "EUR", CPUHour: v1alpha1.CPUHourPrice{Price: "3.6", Rules: []v1alpha1.CPUHourRule{night}},
			NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0", Rules: []v1alpha1.NetworkGiBRule{{Price: "1",
				Peers: []string{"west"}}}},
		},
	}
	report := &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_TRANSFERRING, Cpu: &wirev1.CPU{SendNanos: 10e9},
		WireBytes: gib}
	transfer, facts := running(1)
	facts.Pod = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	facts.Tariffs, facts.NodeLabels, facts.Report = []v1alpha1.Tariff{tariff}, map[string]string{"class": "spot"}, report
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	if cost := transfer.Status.Cost; cost == nil || cost.CPU != "0.0100" || cost.Network != "1.0000" {
		t.Fatalf("at the first prices: %+v", cost)
	}
	facts.Now = now.Add(2 * time.Minute)
	report.Cpu.SendNanos, report.WireBytes = 30e9, 3*gib
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	cost := transfer.Status.Cost
	if cost.CPU != "0.0200" || cost.Network != "3.0000" || len(cost.Periods) != 2 ||
		cost.Periods[0].Prices != (v1alpha1.PricesStatus{
			Currency: "EUR", CPUHour: "1.8", NetworkGiB: "1", Source: v1alpha1.PricesOfTariff, Name: "t", UID: "u", Generation: 5,
		}) {
		t.Fatalf("at both prices: %+v", cost)
	}
	facts.NodeLabels = nil
	report.Cpu.SendNanos = 40e9
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	if cost := transfer.Status.Cost; cost.CPU != "0.0250" || len(cost.Periods) != 2 {
		t.Fatalf("without the node: %+v", cost)
	}
	// What somebody has broken stops nothing, and is charged once it is fixed.
	facts.NodeLabels, facts.Tariffs[0].Spec.TimeZone = map[string]string{}, "Mars/Olympus"
	report.Cpu.SendNanos = 50e9
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	if cost := transfer.Status.Cost; cost.CPU != "0.0250" {
		t.Fatalf("without prices: %+v", cost)
	}
	facts.Tariffs[0].Spec.TimeZone = ""
	report.State = wirev1.AgentState_AGENT_STATE_FAILED
	text, err := protojson.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	facts.Report, facts.Pod = nil, ended(1, "Error", string(text))
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	if cost := transfer.Status.History[0].Cost; cost == nil || cost.CPU != "0.0350" || len(cost.Periods) != 3 {
		t.Fatalf("in history: %+v", cost)
	}
}

// TestEndIsWhatCounts: an attempt that ended while the manager was away is charged at the prices of its end, and not at
// those of a time that a wrong clock names.
func TestEndIsWhatCounts(t *testing.T) {
	for name, c := range map[string]struct {
		ended time.Duration // from now
		cpu   string
	}{"an hour ago": {-time.Hour, "0.0100"}, "in the future": {time.Hour, "0.0200"}, "a day off": {-25 * time.Hour,
		"0.0200"}} {
		ended := now.Add(-time.Hour)
		tariff := v1alpha1.Tariff{
			ObjectMeta: metav1.ObjectMeta{Name: "t", Annotations: map[string]string{v1alpha1.DefaultTariffAnnotation: "true"}},
			Spec: v1alpha1.TariffSpec{
				Currency: "EUR", NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0"},
				CPUHour: v1alpha1.CPUHourPrice{Price: "7.2", Rules: []v1alpha1.CPUHourRule{{
					Price: "3.6", Windows: []v1alpha1.TariffWindow{{
						Start: ended.Add(-time.Minute).UTC().Format("15:04"), End: ended.Add(time.Minute).UTC().Format("15:04"),
					}},
				}}},
			},
		}
		status := follow(&wirev1.Report{
			State: wirev1.AgentState_AGENT_STATE_TRANSFERRING, Cpu: &wirev1.CPU{SendNanos: 10e9},
			EndTime: timestamppb.New(now.Add(c.ended)),
		}, func(transfer *v1alpha1.Transfer, facts *plan.TransferFacts) {
			transfer.Status.Run.StartTime = &metav1.Time{Time: now.Add(-2 * time.Hour)}
			facts.Tariffs, facts.NodeLabels = []v1alpha1.Tariff{tariff}, map[string]string{}
		})
		if status.Cost == nil || status.Cost.CPU != c.cpu {
			t.Errorf("%s: %+v, want %s", name, status.Cost, c.cpu)
		}
	}
}

// TestDecisionsByTariff: agents decide by prices that status shows, and a run keeps them.
func TestDecisionsByTariff(t *testing.T) {
	tariffs := []v1alpha1.Tariff{{
		ObjectMeta: metav1.ObjectMeta{
			Name: "t", Generation: 3, Annotations: map[string]string{v1alpha1.DefaultTariffAnnotation: "true"},
		},
		Spec: v1alpha1.TariffSpec{
			Currency: "EUR", CPUHour: v1alpha1.CPUHourPrice{Price: "2"},
			NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0", Rules: []v1alpha1.NetworkGiBRule{{Price: "1",
				Peers: []string{"west"}}}},
		},
	}}
	want := v1alpha1.PricesStatus{
		Currency: "EUR", CPUHour: "2", NetworkGiB: "1", Source: v1alpha1.PricesOfTariff, Name: "t", Generation: 3,
	}
	transfer, facts := newTransfer("ledger", time.Hour), goodFacts()
	facts.Tariffs = tariffs
	decision := plan.DecideTransfer(transfer, facts, image)
	if p := decision.Status.Policy; p == nil || p.Prices == nil || *p.Prices != want {
		t.Fatalf("of a Transfer: %+v", p)
	}
	transfer.Status = decision.Status
	transfer.Status.Run.NextAttemptTime = &metav1.Time{Time: now}
	facts.Tariffs[0].Spec.CPUHour.Price = "9"
	if p := plan.DecideTransfer(transfer, facts, image).Status.Policy; p.Prices == nil || *p.Prices != want {
		t.Errorf("of its next attempt: %+v", p)
	}
}

// TestHardwareCondition: it is true when the accelerator compressed, and otherwise says what a user can do about it.
func TestHardwareCondition(t *testing.T) {
	for name, test := range map[string]struct {
		reason   string
		hardware uint64
		want     metav1.ConditionStatus
		says     string
	}{
		"used":            {v1alpha1.CompressionHardwareUsed, 5, metav1.ConditionTrue, "the accelerator compresses"},
		"used for some":   {v1alpha1.CompressionDidNotShrink, 1, metav1.ConditionTrue, "the accelerator compresses"},
		"not proved":      {v1alpha1.CompressionSelfTestFailed, 0, metav1.ConditionFalse, "NodeProfile says why"},
		"stopped working": {v1alpha1.CompressionSelfTestFailed, 5, metav1.ConditionFalse, "NodeProfile says why"},
		"other level":     {v1alpha1.CompressionLevelNotAccelerated, 0, metav1.ConditionFalse, "at which it does"},
		"other codec":     {v1alpha1.CompressionCodecNotAccelerated, 0, metav1.ConditionFalse, "name only deflate"},
		"absent":          {v1alpha1.CompressionNoAccelerator, 0, metav1.ConditionFalse, "no accelerator"},
	} {
		t.Run(name, func(t *testing.T) {
			status := follow(&wirev1.Report{
				State: wirev1.AgentState_AGENT_STATE_TRANSFERRING,
				Compression: &wirev1.Compression{
					Codec: "deflate", Engine: "dfltcc", Reason: test.reason, UncompressedBytes: gib, CompressedBytes: gib / 2,
					Hardware: &wirev1.Operations{Operations: test.hardware, Bytes: gib},
				},
			}, nil)
			got := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionHardwareCompression)
			if got == nil || got.Status != test.want || !strings.Contains(got.Message, test.says) {
				t.Fatalf("got %+v", got)
			}
			if want := test.reason; got.Status == metav1.ConditionFalse && got.Reason != want {
				t.Errorf("reason %s, want %s", got.Reason, want)
			}
		})
	}
}

// TestAbsurdReports: an agent, or who poses as one, cannot make a status that the API server refuses, or a crash.
func TestAbsurdReports(t *testing.T) {
	endless := &wirev1.Operations{Operations: math.MaxUint64, Bytes: math.MaxUint64}
	for name, report := range map[string]*wirev1.Report{
		"empty": {State: wirev1.AgentState_AGENT_STATE_TRANSFERRING},
		"endless": {
			State: wirev1.AgentState_AGENT_STATE_TRANSFERRING,
			Progress: &wirev1.Progress{
				Files: math.MaxUint64, Bytes: math.MaxUint64, FilesTotal: 1, BytesTotal: 1, UnchangedBytes: math.MaxUint64,
				Scanned: true,
			},
			Compression: &wirev1.Compression{
				UncompressedBytes: 1, CompressedBytes: math.MaxUint64, Hardware: endless, Software: endless, Stored: endless,
			},
			Decompression: &wirev1.Decompression{Hardware: endless, Software: endless, Fallback: endless},
			Cpu:           &wirev1.CPU{SendNanos: math.MaxUint64, ReceiveNanos: math.MaxUint64, CompressNanos: math.MaxUint64},
			WireBytes:     math.MaxUint64,
		},
		"nothing sent": {
			State:       wirev1.AgentState_AGENT_STATE_TRANSFERRING,
			Progress:    &wirev1.Progress{Files: 5, FilesTotal: 5, UnchangedFiles: 5, Scanned: true},
			Compression: &wirev1.Compression{Codec: "none", Engine: "none", Reason: v1alpha1.CompressionNothingToSend},
			Cpu:         &wirev1.CPU{},
		},
		"many omissions": {
			State: wirev1.AgentState_AGENT_STATE_TRANSFERRING,
			Omissions: []*wirev1.Omission{
				{What: "Socket", Count: 1, Examples: []string{"1", "2", "3", "4", "5", "6", strings.Repeat("x", 9000)}},
				{What: "Socket"}, {What: ""}, {What: strings.Repeat("x", 65)},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			status := follow(report, func(_ *v1alpha1.Transfer, facts *plan.TransferFacts) {
				facts.Network = &usage.NetworkCost{PerGiB: 2}
				facts.Samples = agentreport.Samples{{Time: now, Bytes: 0}, {Time: now.Add(time.Hour), Bytes: 1}}
			})
			if p := status.Progress; p != nil && (p.Percent < 0 || p.Percent > 100 || p.Bytes < 0 || p.Files < 0) {
				t.Errorf("%+v", p)
			}
			if c := status.Compression; c != nil && (c.SavedPercent > 100 || c.Hardware.Operations < 0) {
				t.Errorf("%+v", c)
			}
			for _, text := range []string{ptrCPU(status.CPU).SecondsPerGiB, ptrCPU(status.CPU).SendSeconds} {
				if strings.ContainsAny(text, "NIe") {
					t.Errorf("not a decimal: %s", text)
				}
			}
			if len(status.Omissions) > 1 || len(status.Omissions) == 1 && len(status.Omissions[0].Examples) > 5 {
				t.Errorf("%+v", status.Omissions)
			}
		})
	}
}

func ptrCPU(c *v1alpha1.CPUStatus) v1alpha1.CPUStatus {
	if c == nil {
		return v1alpha1.CPUStatus{}
	}
	return *c
}

func TestCompressionThatGrew(t *testing.T) {
	status := follow(&wirev1.Report{
		State: wirev1.AgentState_AGENT_STATE_TRANSFERRING,
		Compression: &wirev1.Compression{
			UncompressedBytes: 1000, CompressedBytes: 1005, Reason: v1alpha1.CompressionDidNotShrink,
		},
	}, nil)
	if c := status.Compression; c.SavedPercent != -1 || c.Ratio != "1.00" {
		t.Fatalf("%+v", c)
	}
}

func FuzzTerminationMessage(f *testing.F) {
	good, err := protojson.Marshal(
		&wirev1.Report{State: wirev1.AgentState_AGENT_STATE_SUCCEEDED, Progress: &wirev1.Progress{Files: 1}},
	)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(good))
	f.Add(`{"state":"AGENT_STATE_FAILED","failure":{"reason":4711}}`)
	f.Add("{")
	f.Fuzz(func(t *testing.T, message string) {
		transfer, facts := running(1)
		facts.Pod = ended(1, "Error", message)
		decision := plan.DecideTransfer(transfer, facts, image)
		if decision.Finished == nil || len(decision.Status.History) != 1 {
			t.Fatalf("%q does not end an attempt", message)
		}
	})
}

func TestEstimateBecomesStatus(t *testing.T) {
	for name, test := range map[string]struct {
		reported *wirev1.Estimate
		want     *v1alpha1.EstimateStatus
	}{
		"none": {nil, nil},
		"only hopeless blocks": {
			&wirev1.Estimate{Probes: 3, Missed: 1, Nanos: 4e6},
			&v1alpha1.EstimateStatus{Probes: 3, Missed: 1, CPUSeconds: "0.004"},
		},
		"all": {
			&wirev1.Estimate{Blocks: 100, Bytes: 100 << 20, ErrorBytes: 3 << 20, Wasted: 2, Probes: 1, Nanos: 1.5e9},
			&v1alpha1.EstimateStatus{Blocks: 100, MeanErrorPercent: "3.0", Wasted: 2, Probes: 1, CPUSeconds: "1.50"},
		},
		"impossible": {
			&wirev1.Estimate{Blocks: math.MaxUint64, Bytes: 1, ErrorBytes: math.MaxUint64},
			&v1alpha1.EstimateStatus{Blocks: math.MaxInt64, MeanErrorPercent: "100.0", CPUSeconds: "0.00"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			status := follow(&wirev1.Report{
				State: wirev1.AgentState_AGENT_STATE_TRANSFERRING,
				Compression: &wirev1.Compression{
					Codec: "deflate", Engine: "go", Reason: v1alpha1.CompressionSoftwareUsed, Estimate: test.reported,
				},
			}, nil)
			if diff := cmp.Diff(test.want, status.Compression.Estimate); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestForeignReceiverIsNotCharged: a peer may report any CPU time, and less than before. That changes no cost here.
func TestForeignReceiverIsNotCharged(t *testing.T) {
	charged := func(before *v1alpha1.CostStatus, peer string, receive, decompress uint64) *v1alpha1.CostStatus {
		report := &wirev1.Report{
			Compression: &wirev1.Compression{UncompressedBytes: 8, CompressedBytes: 4}, WireBytes: 1 << 30,
			Cpu: &wirev1.CPU{SendNanos: 3e9, CompressNanos: 1e9, ReceiveNanos: receive, DecompressNanos: decompress},
		}
		return follow(report, func(transfer *v1alpha1.Transfer, _ *plan.TransferFacts) {
			transfer.Spec.Destination.Peer, transfer.Status.Cost = peer, before
			transfer.Status.Policy.Prices = &v1alpha1.PricesStatus{Currency: "EUR", CPUHour: "3.6", NetworkGiB: "1"}
		}).Cost
	}
	own := charged(nil, "west", 0, 0)
	if own == nil || own.Periods[0].CPUSeconds != "3" {
		t.Fatalf("charged %+v", own)
	}
	for name, figures := range map[string][2]uint64{
		"some": {5e9, 2e9}, "absurd": {math.MaxUint64, math.MaxUint64}, "less than before": {4e9, 1e9},
	} {
		if diff := cmp.Diff(own, charged(own, "west", figures[0], figures[1])); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	// An absurd figure of an agent of this cluster is bounded, so that it is read as it was written.
	absurd := charged(nil, "", math.MaxUint64, math.MaxUint64)
	if diff := cmp.Diff(absurd, charged(absurd, "", math.MaxUint64, math.MaxUint64)); diff != "" {
		t.Errorf("charged twice: %s", diff)
	}
}

// TestUsageWithAStore: the agent between a claim and an object store does the work of both sides.
func TestUsageWithAStore(t *testing.T) {
	for route, mine := range map[v1alpha1.Route]bool{
		v1alpha1.RouteObjectStore: true, v1alpha1.RoutePod: true, v1alpha1.RouteDirect: false,
	} {
		transfer, facts := running(1)
		transfer.Status.Run.Route = route
		facts.Pod, facts.Report = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}), &wirev1.Report{
			State: wirev1.AgentState_AGENT_STATE_TRANSFERRING,
			Cpu:   &wirev1.CPU{SendNanos: 5e9, DecompressNanos: 2e9},
		}
		u := usage.FromStatus(plan.DecideTransfer(transfer, facts, image).Status.Usage)
		side := u.Receive
		if mine {
			side = u.Send
		}
		if u.Send[usage.Process] != 5e9 || side[usage.Decompress] != 2e9 {
			t.Errorf("%s: %+v", route, u)
		}
	}
}

// TestUsageOfAWholeRun: figures of attempts add up, those of a killed one by its last report, each once.
func TestUsageOfAWholeRun(t *testing.T) {
	transfer, facts := running(1)
	transfer.Status.Policy.Prices = &v1alpha1.PricesStatus{Currency: "EUR", CPUHour: "3.6", NetworkGiB: "1"}
	runs := pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	say := func(send, receive, wire uint64) {
		t.Helper()
		facts.Pod, facts.Report = runs, &wirev1.Report{
			State: wirev1.AgentState_AGENT_STATE_TRANSFERRING, WireBytes: wire * gib,
			Compression: &wirev1.Compression{UncompressedBytes: 3 * wire * gib, CompressedBytes: wire * gib},
			Cpu:         &wirev1.CPU{SendNanos: send * 1e9, ReceiveNanos: receive * 1e9},
		}
		transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	}
	want := func(what, send, receive string, wire int64, cpu, network string) {
		t.Helper()
		run := transfer.Status.Run
		if u := run.Usage; u == nil || u.Send.ProcessSeconds != send || u.Receive.ProcessSeconds != receive ||
			u.WireBytes != wire*gib || u.UncompressedBytes != 3*wire*gib {
			t.Errorf("%s: %+v", what, u)
		}
		if c := run.Cost; c == nil || c.CPU != cpu || c.Network != network {
			t.Errorf("%s: %+v", what, c)
		}
	}
	say(1, 2, 1)
	want("the first report", "1", "2", 1, "0.001", "1.0000")
	say(1, 2, 1)
	want("the same again", "1", "2", 1, "0.001", "1.0000")
	say(5, 3, 2)
	want("as it grows", "5", "3", 2, "0.005", "2.0000")
	// It is killed: the kubelet tells nothing of what it did.
	facts.Report, facts.Pod = nil, ended(137, "OOMKilled", "")
	decision := plan.DecideTransfer(transfer, facts, image)
	transfer.Status = decision.Status
	want("when it was killed", "5", "3", 2, "0.005", "2.0000")
	history := transfer.Status.History[0]
	if diff := cmp.Diff(transfer.Status.Run.Usage, history.Usage); diff != "" || history.Cost.CPU != "0.005" {
		t.Errorf("in history: %s %+v", diff, history.Cost)
	}
	if got := decision.Finished.Report.GetCpu().GetSendNanos(); got != 5e9 {
		t.Errorf("metrics get %d ns", got)
	}
	// The next attempt counts from 0, and the run goes on.
	facts.Pod, facts.Job = nil, nil
	facts.Now = facts.Now.Add(time.Hour)
	transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
	if transfer.Status.Run.Attempt != 2 || transfer.Status.Usage != nil {
		t.Fatalf("no second attempt: %+v", transfer.Status.Run)
	}
	want("before it reports", "5", "3", 2, "0.005", "2.0000")
	_, second := running(2)
	facts.Job = second.Job
	say(2, 1, 1)
	want("with the second attempt", "7", "4", 3, "0.007", "3.0000")
	say(2, 1, 1)
	want("the same again", "7", "4", 3, "0.007", "3.0000")
}

// receiving is a Delivery whose agent runs, and the facts for it.
func receiving() (*v1alpha1.Delivery, plan.DeliveryFacts) {
	d, facts := newDelivery("mine", 1), goodDeliveryFacts()
	d.Status = plan.DecideDelivery(d, facts, image).Status
	facts.Job, facts.Pod = &batchv1.Job{}, pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	return d, facts
}

// TestDeliveryCost: receiving costs this cluster's CPU time and bytes at the price for the direction, and nothing where
// the Transfer is of this cluster.
func TestDeliveryCost(t *testing.T) {
	tariffs := []v1alpha1.Tariff{{
		ObjectMeta: metav1.ObjectMeta{Name: "t", Annotations: map[string]string{v1alpha1.DefaultTariffAnnotation: "true"}},
		Spec: v1alpha1.TariffSpec{
			Currency: "EUR", CPUHour: v1alpha1.CPUHourPrice{Price: "3.6"},
			NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "9", Rules: []v1alpha1.NetworkGiBRule{
				{Price: "5", Direction: v1alpha1.DirectionSend}, {Price: "2", Direction: v1alpha1.DirectionReceive},
			}},
		},
	}}
	report := &wirev1.Report{
		State: wirev1.AgentState_AGENT_STATE_TRANSFERRING, WireBytes: gib,
		Compression: &wirev1.Compression{
			Codec: "deflate", UncompressedBytes: 4 * gib, CompressedBytes: gib,
			Hardware: &wirev1.Operations{Operations: 7, Bytes: 4 * gib},
		},
		Decompression: &wirev1.Decompression{
			Software: &wirev1.Operations{Operations: 7, Bytes: 4 * gib},
			Fallback: &wirev1.Operations{Operations: 7, Bytes: 4 * gib}, Reason: v1alpha1.CompressionNoAccelerator,
		},
		Cpu: &wirev1.CPU{ReceiveNanos: 8e9, DecompressNanos: 2e9, WriteNanos: 1e9},
	}
	for peer, c := range map[string]struct {
		local                  bool
		network, usage, perGiB string // with what the gateway spent on bytes of another cluster
	}{"east": {false, "3.00", "3", "2.75"}, "": {true, "2.00", "2", "2.50"}} {
		delivery, facts := receiving()
		delivery.Spec.Peer = peer
		facts.Report, facts.Tariffs, facts.Network = report, tariffs, &usage.NetworkCost{PerGiB: 2, Gateway: 1}
		facts.NodeLabels = map[string]string{}
		delivery.Status = plan.DecideDelivery(delivery, facts, image).Status
		again := plan.DecideDelivery(delivery, facts, image).Status
		if diff := cmp.Diff(delivery.Status, again); diff != "" {
			t.Errorf("the same report changes status: %s", diff)
		}
		if diff := cmp.Diff(&v1alpha1.CPUStatus{
			ReceiveSeconds: "8.00", DecompressSeconds: "2.00", NetworkSeconds: c.network, SecondsPerGiB: c.perGiB,
		}, again.CPU); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(&v1alpha1.UsageStatus{
			Receive: &v1alpha1.CPUUsage{
				ProcessSeconds: "8", DecompressSeconds: "2", WriteSeconds: "1", NetworkSeconds: c.usage,
			},
			UncompressedBytes: 4 * gib, CompressedBytes: gib, WireBytes: gib,
		}, again.Usage); diff != "" {
			t.Error(diff)
		}
		if again.Compression.Ratio != "4.00" || again.Compression.Hardware.Operations != 7 ||
			again.Decompression.Reason != v1alpha1.CompressionNoAccelerator {
			t.Errorf("%+v, %+v", again.Compression, again.Decompression)
		}
		switch cost := again.Cost; {
		case c.local && cost != nil:
			t.Errorf("charged twice: %+v", cost)
		case !c.local && (cost == nil || cost.CPU != "0.0110" || cost.Network != "2.0000" || cost.Saved != "5.9980"):
			t.Errorf("cost: %+v", cost)
		}
	}
}
