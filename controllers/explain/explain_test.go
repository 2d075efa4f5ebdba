// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/explain"
)

var update = flag.Bool("update", false, "write testdata again")

// cases change the base; each has a file in testdata.
var cases = map[string]func(*explain.Input){
	"complete": func(*explain.Input) {},
	"with-a-deadline": func(in *explain.Input) {
		in.Transfer.Spec.Deadline = &v1alpha1.TransferDeadline{Within: &metav1.Duration{Duration: time.Minute}}
		in.Transfer.Spec.BandwidthLimit = resource.NewQuantity(50*mib, resource.BinarySI)
		in.Transfer.Status.Deadline = &v1alpha1.DeadlineStatus{
			RunID: "7f3c", StartTime: at(0), Time: *at(60), Slack: &metav1.Duration{Duration: 10 * time.Second},
		}
	},
	"charged-by-tariff": func(in *explain.Input) {
		s := &in.Transfer.Status
		priced := func(hour string, generation int64) v1alpha1.PricesStatus {
			return v1alpha1.PricesStatus{
				Currency: "EUR", CPUHour: hour, NetworkGiB: "0.05", Source: v1alpha1.PricesOfTariff, Name: "datacentre",
				Generation: generation,
			}
		}
		decided := priced("36", 3)
		s.Policy.TariffName, s.Policy.Prices = "datacentre", &decided
		s.Cost = &v1alpha1.CostStatus{
			Currency: "EUR", CPU: "0.2088", Network: "0.0875", Saved: "0.1123", Periods: []v1alpha1.CostPeriod{
				{
					StartTime: at(30), Prices: priced("18", 4), CPUSeconds: "20", CodecSeconds: "10", WireBytes: gib, SavedBytes: gib,
					CPU: "0.1", Network: "0.05", Saved: "0",
				},
				{
					StartTime: at(0), Prices: decided, CPUSeconds: "10.88", CodecSeconds: "7.08", WireBytes: 3 * gib / 4,
					SavedBytes: gib,
					CPU:        "0.1088", Network: "0.0375", Saved: "-0.0208",
				},
			},
		}
	},
	"running": func(in *explain.Input) {
		s := &in.Transfer.Status
		s.Phase, s.Run.CompletionTime, s.History = v1alpha1.TransferTransferring, nil, s.History[1:]
		s.CPU.ReceiveSeconds, s.CPU.DecompressSeconds = "0.00", "0.00"
	},
	"starting": func(in *explain.Input) {
		s := &in.Transfer.Status
		s.Phase, s.Run.CompletionTime, s.Run.Node, s.Run.Architecture = v1alpha1.TransferStarting, nil, "", ""
		s.Compression, s.Decompression, s.CPU, s.Cost, s.Placement.Node = nil, nil, nil, nil, ""
	},
	"stalled": func(in *explain.Input) {
		s := &in.Transfer.Status
		s.Phase, s.Run.CompletionTime, s.Run.Node, s.Run.Architecture = v1alpha1.TransferStarting, nil, "", ""
		s.Compression, s.Decompression, s.CPU, s.Cost = nil, nil, nil, nil
		s.Placement = &v1alpha1.PlacementStatus{
			// As controllers/plan has it of a Transfer that needs the accelerator.
			Reason:  v1alpha1.PlacementReasonAcceleratorBusy,
			Message: "as many agents as may share the accelerator of z15-a are there already",
			Alternatives: []v1alpha1.PlacementAlternative{
				{Node: "z15-a", Engine: "dfltcc", Reason: v1alpha1.PlacementReasonAcceleratorBusy},
			},
		}
		s.Policy.Placement = v1alpha1.PlacementRequireHardware
		s.Conditions = stalled(v1alpha1.PlacementReasonAcceleratorBusy, "placement RequireHardware waits for a node with "+
			"an accelerator: as many agents as may share the accelerator of z15-a are there already; it goes on when one of "+
			"them ends, or choose PreferHardware to run without one; the agent's pod cannot be placed: 0/2 nodes are available")
	},
	"next-run-stalled": func(in *explain.Input) {
		s := &in.Transfer.Status
		s.Phase = v1alpha1.TransferPending
		s.Placement = &v1alpha1.PlacementStatus{
			Reason:  v1alpha1.CompressionNoAccelerator,
			Message: "no node of the cluster has an accelerator that is known to work",
		}
		s.Conditions = stalled(
			v1alpha1.CompressionNoAccelerator, "placement RequireHardware waits for a node with an accelerator",
		)
	},
	"hardware": func(in *explain.Input) {
		s := &in.Transfer.Status
		in.Sender = mainframe()
		s.Run.Node, s.Run.Architecture = "z15-a", "s390x"
		s.Placement = &v1alpha1.PlacementStatus{Node: "z15-a", Engine: "dfltcc", Reason: v1alpha1.PlacementReasonHardware}
		s.Compression.Engine, s.Compression.Reason = "dfltcc", v1alpha1.CompressionHardwareUsed
		s.Compression.Hardware, s.Compression.Software = s.Compression.Software, v1alpha1.Operations{}
		s.Compression.Reasons = map[string]int64{v1alpha1.CompressionHardwareUsed: 3072}
		s.Decompression.Fallback = s.Decompression.Software
		s.CPU.SendSeconds, s.CPU.CompressSeconds = "8.00", "1.00"
	},
	"within-the-cluster": func(in *explain.Input) {
		s := &in.Transfer.Status
		in.Transfer.Spec.Destination.Peer, s.Peer, s.Run.Route = "", v1alpha1.ThisCluster, v1alpha1.RouteDirect
		s.Run.DataPath = &v1alpha1.DataPath{
			Type: v1alpha1.DataPathTCP, Reason: v1alpha1.DataPathFellBack, CongestionControl: "bbr",
			RoundTripTime: &metav1.Duration{Duration: 100 * time.Millisecond},
		}
		in.Receiver, in.ReceiverUnknown = worker("worker-2"), ""
		s.Policy.Objective = v1alpha1.ObjectiveElapsed
	},
	"in-one-pod": func(in *explain.Input) {
		s := &in.Transfer.Status
		in.Transfer.Spec.Destination.Peer, s.Peer, s.Run.Route = "", v1alpha1.ThisCluster, v1alpha1.RoutePod
		in.Receiver, in.ReceiverUnknown = in.Sender, ""
		s.Compression = &v1alpha1.CompressionStatus{
			Codec: "none", Engine: "none", Reason: v1alpha1.CompressionNoNetwork, Ratio: "1.00", UncompressedBytes: 4 * gib,
			CompressedBytes: 4 * gib,
			Stored:          v1alpha1.Operations{Operations: 4096, Bytes: 4 * gib},
			Skipped:         map[string]int64{v1alpha1.CompressionNoNetwork: 4096},
		}
		s.Decompression, s.Cost = nil, &v1alpha1.CostStatus{Currency: "USD", CPU: "0.00006", Network: "0", Saved: "0"}
		s.CPU = &v1alpha1.CPUStatus{
			SendSeconds: "6.00", ReceiveSeconds: "0.00", CompressSeconds: "0.00", DecompressSeconds: "0.00",
		}
	},
	"built-in-without-profile": func(in *explain.Input) {
		s := &in.Transfer.Status
		in.Sender, in.SenderUnknown = nil, "there is no NodeProfile of node worker-1; the node is gone, or the node agent "+
			"does not run there"
		in.Transfer.Spec.Compression = nil
		s.Policy = &v1alpha1.PolicyStatus{
			Source: "BuiltIn", Objective: v1alpha1.ObjectiveElapsed, Mode: v1alpha1.CompressionAuto,
			Codecs: []v1alpha1.Codec{v1alpha1.CodecDeflate},
			Level:  v1alpha1.CompressionFast, Placement: v1alpha1.PlacementPreferHardware,
			HardwareMinSize: s.Policy.HardwareMinSize, SoftwareMinSize: resource.NewQuantity(0, resource.DecimalSI),
		}
		s.Cost, s.CPU.NetworkSeconds = nil, ""
	},
	"unlike-the-profile": func(in *explain.Input) {
		// The engine is one that the profile does not have, and the policy has changed since.
		in.Transfer.Spec.Compression.Level = v1alpha1.CompressionHigh
		s := &in.Transfer.Status
		s.Compression.Engine, s.Compression.Reason = "go-zstd", "FromTheFuture"
		s.Compression.Skipped[v1alpha1.CompressionCPUBudget] = 7
		in.Sender.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNodeAgentUnreachable,
			Message: "the node agent does not answer",
		}}
	},
}

// TestObjectStore: with an object store one agent compresses and inflates, over a network that is paid for.
func TestObjectStore(t *testing.T) {
	in := base()
	s := &in.Transfer.Status
	in.Transfer.Spec.Destination.Peer, s.Peer, s.Run.Route = "", v1alpha1.ThisCluster, v1alpha1.RouteObjectStore
	in.Receiver = nil
	s.CPU.ReceiveSeconds = ""
	e, err := explain.Explain(in)
	if err != nil {
		t.Fatal(err)
	}
	if m := e.Measured; m.DecompressCPU == nil || m.WireBytesPerSecond == nil || m.NetworkCPU == nil {
		t.Errorf("%+v", m)
	}
	for _, choice := range e.Choices {
		if choice.CPU == nil || choice.Money == nil {
			t.Errorf("nothing is estimated: %+v", choice)
		}
	}
	if len(e.Choices) == 0 || slices.ContainsFunc(e.Notes,
		func(n string) bool { return strings.Contains(n, "receiver") }) {
		t.Errorf("%q", e.Notes)
	}
}

func stalled(reason, message string) []metav1.Condition {
	return []metav1.Condition{
		{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: reason, Message: message},
	}
}

func explained(t *testing.T, change func(*explain.Input)) *explain.Explanation {
	t.Helper()
	in := base()
	change(&in)
	e, err := explain.Explain(in)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestGolden(t *testing.T) {
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			e := explained(t, change)
			var text bytes.Buffer
			if err := e.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			object, err := json.MarshalIndent(e, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			compare(t, name+".txt", text.Bytes())
			compare(t, name+".json", append(object, '\n'))
		})
	}
}

func compare(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; go test ./controllers/explain -update writes it", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs; go test ./controllers/explain -update writes it again:\n%s", name, diff)
	}
}

// TestGoldenFiles holds that no file in testdata is one that nothing is compared with.
func TestGoldenFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(cases) + len(served); len(files) != 2*n {
		t.Errorf("testdata has %d files for %d cases; there are two for each", len(files), n)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		if cases[name] == nil && served[name] == nil {
			t.Errorf("%s belongs to no case", file)
		}
	}
}

// TestGuide: what guides show is what the program prints.
func TestGuide(t *testing.T) {
	for _, c := range []struct {
		guide, before, golden string
	}{
		{"how-to/move-a-claim.md", "kubectl lighterage explain transfer/ledger", "complete.txt"},
		{"concepts/policy.md", "make test-decisions", "endpoint.txt"},
		{"concepts/policy.md", "kubectl lighterage explain queue/orders", "queue.txt"},
	} {
		guide, err := os.ReadFile(filepath.Join("../../docs", c.guide))
		if err != nil {
			t.Fatal(err)
		}
		golden, err := os.ReadFile(filepath.Join("testdata", c.golden))
		if err != nil {
			t.Fatal(err)
		}
		_, after, found := strings.Cut(string(guide), c.before)
		_, block, opened := strings.Cut(after, "\n```text\n")
		block, _, closed := strings.Cut(block, "\n```\n")
		if !found || !opened || !closed || strings.Count(block, "\n") < 5 {
			t.Fatalf("%s lacks an output behind %q", c.guide, c.before)
		}
		if !strings.Contains(string(golden), block+"\n") {
			t.Errorf("%s shows what is not in testdata/%s:\n%s", c.guide, c.golden, block)
		}
	}
}

// TestChoices checks the estimates against figures made by hand: 3 GiB were compressed to a fourth, by an engine whose
// sample shrinks to a third, in twice the time of the sample; 1 GiB was stored. The goodput was 44.8 MiB/s on the wire.
func TestChoices(t *testing.T) {
	e := explained(t, cases["complete"])
	rate := 1.75 * gib / 40
	for _, want := range []struct {
		engine, level            string
		bytes, cpu, elapsed, usd float64
		atLeast                  bool
	}{
		// CPU: 30 s less 13.08 s and 4 s, and the network's 0.88 s by 4 / 1.75.
		{"none", "", 4 * gib, 12.92 + 0.88*4/1.75, 4 * gib / rate, (12.92+0.88*4/1.75)/3600*0.036 + 4*0.05, false},
		// Shrinks to 1/4.8; compressing takes 2 * 3 GiB / 100 MB/s instead of 12.88 s.
		{"zlib-ng", "Balanced", (0.625 + 1) * gib, 30 - 12.88 + 64.4 + 0.88*1.625/1.75, 1.625 * gib / rate, 0, false},
		// Another codec: inflating at the receiver is not known.
		{
			"libzstd", "Fast", (3/4.4 + 1) * gib, 30 - 12.88 - 4 + 16.1 + 0.88*(3/4.4+1)/1.75, (3/4.4 + 1) * gib / rate, 0, true,
		},
		// The sender's 4 cores hold this one up: 20 s less 12.88 s, and 644 s.
		{"libzstd", "High", 1.5 * gib, 30 - 12.88 - 4 + 644 + 0.88*1.5/1.75, (20 - 12.88 + 644) / 4, 0, true},
	} {
		got := find(t, e, want.engine, want.level)
		near(t, want.engine+" bytes", got.Bytes, want.bytes)
		near(t, want.engine+" CPU", got.CPU, want.cpu)
		near(t, want.engine+" elapsed", got.Elapsed, want.elapsed)
		if want.usd > 0 {
			near(t, want.engine+" money", got.Money, want.usd)
		}
		if got.AtLeast != want.atLeast {
			t.Errorf("%s: at least is %v", want.engine, got.AtLeast)
		}
	}
	for _, c := range e.Choices {
		if c.Engine == "go" || c.Engine == "isa-l" {
			t.Errorf("%s is no other choice: it is not verified, or what the run did", c.Engine)
		}
	}
}

// TestOnlyEngine: an engine that is the only one of its codec cannot be verified by another, and agents use it.
func TestOnlyEngine(t *testing.T) {
	e := explained(t, func(in *explain.Input) {
		for i := range in.Sender.Status.Engines {
			if only := &in.Sender.Status.Engines[i]; only.Codec == "zstd" {
				only.Name, only.Verified = "go-zstd", false
			}
		}
	})
	find(t, e, "go-zstd", "Fast")
	for _, note := range e.Notes {
		if strings.Contains(note, "go-zstd") && strings.Contains(note, "left out") {
			t.Error(note)
		}
	}
}

// TestBest: what cannot be compared is not called better or worse.
func TestBest(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*explain.Input)
		want   string
	}{
		"a least is no bid": {
			cases["complete"], "by the objective Cost: zlib-ng at Balanced, with an estimated 7 % less than what this run did",
		},
		"nothing is known":    {cases["running"], ""},
		"without a yardstick": {cases["in-one-pod"], ""},
		"not open to the run": {
			func(in *explain.Input) { in.Transfer.Status.Policy.Objective = v1alpha1.ObjectiveBytes },
			"by the objective Bytes: libzstd at High (not open to this run: level is Balanced), with an estimated 14 % less " +
				"than what this run did",
		},
		"what was done is best": {
			func(in *explain.Input) { in.Sender.Status.Engines = in.Sender.Status.Engines[:1] },
			"by the objective Cost: what this run did",
		},
		"none": {
			func(in *explain.Input) { in.Transfer.Status.Policy.Objective = v1alpha1.ObjectiveCPU },
			"by the objective CPU: none, with an estimated 52 % less than what this run did",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := explained(t, test.change).Best; got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestExcluded: why each policy leaves a choice out.
func TestExcluded(t *testing.T) {
	for name, test := range map[string]struct {
		change        func(*v1alpha1.PolicyStatus)
		engine, level string
		want          string
	}{
		"open": {func(*v1alpha1.PolicyStatus) {}, "libzstd", "Fast", ""},
		"never": {
			func(p *v1alpha1.PolicyStatus) { p.Mode = v1alpha1.CompressionNever }, "libzstd", "Fast", "mode Never",
		},
		"always": {func(p *v1alpha1.PolicyStatus) { p.Mode = v1alpha1.CompressionAlways }, "none", "", "mode Always"},
		"always, level": {
			func(p *v1alpha1.PolicyStatus) { p.Mode = v1alpha1.CompressionAlways }, "zlib-ng", "Fast", "level is Balanced",
		},
		"always, second": {
			func(p *v1alpha1.PolicyStatus) { p.Mode = v1alpha1.CompressionAlways }, "libzstd", "Fast", "not the first of codecs",
		},
		"codec": {func(p *v1alpha1.PolicyStatus) { p.Codecs = p.Codecs[:1] }, "libzstd", "Fast", "not in codecs"},
		"no software": {
			func(p *v1alpha1.PolicyStatus) { p.SoftwareDisabled = true }, "zlib-ng", "Balanced", "software.disabled",
		},
		"named": {
			func(p *v1alpha1.PolicyStatus) { p.SoftwareEngines = []v1alpha1.SoftwareEngine{"zlib-ng"} }, "zlib-ng", "Fast", "",
		},
		"other named": {
			func(p *v1alpha1.PolicyStatus) { p.SoftwareEngines = []v1alpha1.SoftwareEngine{"isa-l", "zlib-ng"} }, "zlib-ng",
			"Fast", "software.engines prefers isa-l",
		},
		"of other codec": {
			func(p *v1alpha1.PolicyStatus) { p.SoftwareEngines = []v1alpha1.SoftwareEngine{"isa-l"} }, "libzstd", "Fast", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := explained(t, func(in *explain.Input) { test.change(in.Transfer.Status.Policy) })
			if got := find(t, e, test.engine, test.level).Excluded; got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestReceiverKnown: with the receiver's profile inflating is scaled as compressing is.
func TestReceiverKnown(t *testing.T) {
	got := find(t, explained(t, cases["within-the-cluster"]), "libzstd", "Fast")
	// Inflating took 4 s at 900 MB/s by the sample, so it takes 2 s at 1800 MB/s.
	near(t, "CPU", got.CPU, 30-12.88-2+16.1+0.88*(3/4.4+1)/1.75)
	if got.AtLeast {
		t.Error("the receiver is known")
	}
}

// TestNothingInvented: where data or profile say nothing, estimates are absent.
func TestNothingInvented(t *testing.T) {
	for _, name := range []string{"in-one-pod", "unlike-the-profile"} {
		e := explained(t, cases[name])
		if len(e.Choices) == 0 || len(e.Notes) == 0 {
			t.Fatalf("%s: no choices or no notes", name)
		}
		for _, c := range e.Choices {
			if c.Engine != "none" && (c.Bytes != nil || c.CPU != nil || c.Elapsed != nil || c.Money != nil) {
				t.Errorf("%s: %+v", name, c)
			}
		}
	}
	e := explained(t, func(in *explain.Input) {
		s := &in.Transfer.Status
		s.Compression.Ratio, s.CPU.SendSeconds, s.CPU.NetworkSeconds = "NaN", "-1", "1e400"
		s.Progress.BytesPerSecond, s.Policy.Prices.CPUHour = -5, "Inf"
	})
	if m := e.Measured; m.Ratio != nil || m.SendCPU != nil || m.NetworkCPU != nil || m.BytesPerSecond != nil ||
		m.WireBytesPerSecond != nil {
		t.Errorf("%+v", m)
	}
	for _, c := range e.Choices {
		if c.CPU != nil || c.Elapsed != nil || c.Money != nil {
			t.Errorf("%+v", c)
		}
	}
}

// TestNotRun says what a Transfer waits for.
func TestNotRun(t *testing.T) {
	for name, test := range map[string]struct {
		status v1alpha1.TransferStatus
		says   string
	}{
		"by the schedule": {
			v1alpha1.TransferStatus{Schedule: &v1alpha1.ScheduleStatus{NextTime: at(7)}}, "2026-01-02T02:00:07Z",
		},
		"stalled": {v1alpha1.TransferStatus{Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "X", Message: "not this"},
			{
				Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonPeerNotFound,
				Message: "create Peer west",
			},
		}}, "PeerNotFound: create Peer west"},
		"queued, with a schedule": {v1alpha1.TransferStatus{
			Schedule: &v1alpha1.ScheduleStatus{NextTime: at(7)}, Queued: &v1alpha1.QueuedStatus{},
			Conditions: []metav1.Condition{
				{
					Type: v1alpha1.ConditionReconciling, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonQuotaExceeded,
					Message: "DataQuota team",
				},
			},
		}, "QuotaExceeded: DataQuota team"},
		"not seen": {v1alpha1.TransferStatus{}, "whether the manager runs"},
	} {
		t.Run(name, func(t *testing.T) {
			in := base()
			in.Transfer.Status = test.status
			_, err := explain.Explain(in)
			if !errors.Is(err, explain.ErrNotRun) || !strings.Contains(err.Error(), test.says) ||
				!strings.Contains(err.Error(), "bank/ledger") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestQueued: another run waits for a quota.
func TestQueued(t *testing.T) {
	e := explained(t, func(in *explain.Input) {
		s := &in.Transfer.Status
		s.Phase, s.Run.CompletionTime, s.Queued = v1alpha1.TransferPending, at(9), &v1alpha1.QueuedStatus{}
		s.Conditions = []metav1.Condition{
			{
				Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonQuotaExceeded,
				Message: "DataQuota team",
			},
		}
	})
	if e.Stalled != "QuotaExceeded: DataQuota team" || !e.NextRun {
		t.Errorf("%q %t", e.Stalled, e.NextRun)
	}
}

// TestTerminal: what comes from a cluster cannot command the terminal, nor feign lines.
func TestTerminal(t *testing.T) {
	e := explained(t, func(in *explain.Input) {
		in.Transfer.Status.Placement.Message = "a\x1b[2Jb\nMeasured"
		in.Transfer.Status.Compression.Engine = "\x1b]0;x\a"
		in.Transfer.Status.Compression.Skipped["\x1b[31m"] = 1
		in.SenderUnknown, in.Sender = "x\ny\x1b", nil
	})
	var text bytes.Buffer
	if err := e.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(text.String(), "\x1b\a\t") || strings.Contains(text.String(), "b\nMeasured") {
		t.Errorf("%q", text.String())
	}
}

func find(t *testing.T, e *explain.Explanation, engine, level string) explain.Choice {
	t.Helper()
	for _, c := range e.Choices {
		if c.Engine == engine && c.Level == level {
			return c
		}
	}
	t.Fatalf("no choice %s at %s", engine, level)
	return explain.Choice{}
}

func near(t *testing.T, what string, got *float64, want float64) {
	t.Helper()
	if got == nil || math.Abs(*got-want) > 0.005*want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// TestOriginOfSoftware: what an object says of software is told from what its policy says.
func TestOriginOfSoftware(t *testing.T) {
	for name, test := range map[string]struct {
		disabled bool
		inline   v1alpha1.SoftwareUse
		want     string
	}{
		"inline":      {true, v1alpha1.SoftwareDisabled, "spec.compression of the Transfer"},
		"allowed":     {false, v1alpha1.SoftwareAllowed, "spec.compression of the Transfer"},
		"policy":      {true, "", `CompressionPolicy "z-first"`},
		"other since": {true, v1alpha1.SoftwareAllowed, "spec.compression now says false"},
	} {
		e := explained(t, func(in *explain.Input) {
			in.Transfer.Status.Policy.Name, in.Transfer.Status.Policy.SoftwareDisabled = "z-first", test.disabled
			in.Transfer.Spec.Compression = &v1alpha1.Compression{Software: test.inline}
		})
		i := slices.IndexFunc(e.Policy.Values, func(v explain.Value) bool { return v.Name == "software.disabled" })
		if v := e.Policy.Values[i]; v.Value != fmt.Sprint(test.disabled) || !strings.Contains(v.Origin, test.want) {
			t.Errorf("%s: %+v, want %q", name, v, test.want)
		}
	}
}

// TestOriginInACanary: what a run has of the canary of its policy is not said to be of the policy alone.
func TestOriginInACanary(t *testing.T) {
	for applies, want := range map[bool]string{true: "or its canary", false: `CompressionPolicy "z-first"`} {
		e := explained(t, func(in *explain.Input) {
			p := in.Transfer.Status.Policy
			p.Name, p.Level = "z-first", v1alpha1.CompressionHigh
			p.Canary = &v1alpha1.PolicyCanary{Revision: "r", Applies: applies}
			in.Transfer.Spec.Compression = nil
		})
		for _, name := range []string{"canary", "level"} {
			i := slices.IndexFunc(e.Policy.Values, func(v explain.Value) bool { return v.Name == name })
			if i < 0 || name == "level" && !strings.HasSuffix(e.Policy.Values[i].Origin, want) {
				t.Errorf("%v: %+v", applies, e.Policy.Values)
			}
		}
	}
}
