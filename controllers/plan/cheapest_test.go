// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/plan"
	"github.com/lighterage/lighterage/controllers/quota"
)

// nightly is a Tariff whose nights, from 22:00 to 06:00, cost a quarter.
func nightly() v1alpha1.Tariff {
	return v1alpha1.Tariff{
		ObjectMeta: metav1.ObjectMeta{
			Name: "nightly", Generation: 1, Annotations: map[string]string{v1alpha1.DefaultTariffAnnotation: "true"},
		},
		Spec: v1alpha1.TariffSpec{
			Currency: "EUR",
			CPUHour: v1alpha1.CPUHourPrice{Price: "1", Rules: []v1alpha1.CPUHourRule{{
				Price: "0.25", Windows: []v1alpha1.TariffWindow{{Start: "22:00", End: "06:00"}},
			}}},
			NetworkGiB: v1alpha1.NetworkGiBPrice{Price: "0"},
		},
	}
}

// newCheapest is a Transfer with an hour's run in its history, which took two hours of CPU time.
func newCheapest(t *testing.T, cron string, deadline v1alpha1.TransferDeadline) *dated {
	t.Helper()
	deadline.Strategy = v1alpha1.DeadlineCheapest
	d := newDated(t, cron, deadline)
	d.transfer.Spec.Schedule.Windows = nil
	if cron == "" {
		d.transfer.Spec.Schedule = nil
		d.transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "now"}
	}
	d.facts.Tariffs = []v1alpha1.Tariff{nightly()}
	d.ran(time.Hour, 1000, 100)
	d.transfer.Status.History[0].Usage = &v1alpha1.UsageStatus{
		Send:    &v1alpha1.CPUUsage{ProcessSeconds: "7200"},
		Receive: &v1alpha1.CPUUsage{ProcessSeconds: "72000"}, // what the peer spends is not ours
	}
	return d
}

// waits checks that the run waits for a start, that a second decision says the same, and that it looks again.
func (d *dated) waits(now, start, cost string) plan.TransferDecision {
	d.t.Helper()
	out := d.at(now)
	d.want(out, v1alpha1.TransferPending, v1alpha1.ReasonWaitingForPrice, 0)
	d.planned(out, start, cost)
	if again := plan.DecideTransfer(d.transfer, d.facts, image); !equality.Semantic.DeepEqual(again.Status, out.Status) {
		d.t.Errorf("at %s it is decided again: %+v, then %+v", now, out.Status.Deadline, again.Status.Deadline)
	}
	if out.RequeueAfter <= 0 || out.RequeueAfter > 5*time.Minute {
		d.t.Errorf("at %s it looks again in %s", now, out.RequeueAfter)
	}
	return out
}

// begins checks that the run begins.
func (d *dated) begins(now string) plan.TransferDecision {
	d.t.Helper()
	out := d.at(now)
	if out.Start == nil {
		d.t.Fatalf("at %s it does not start: %s %+v", now, out.Status.Phase, out.Status.Deadline)
	}
	return out
}

func (d *dated) planned(out plan.TransferDecision, start, cost string) {
	d.t.Helper()
	s := out.Status.Deadline
	if s == nil || s.Plan == nil {
		d.t.Fatalf("there is no plan: %+v", s)
	}
	if at := s.Plan.StartTime.UTC().Format("02 15:04"); at != start || s.Plan.ExpectedCost != cost || s.Message != "" {
		d.t.Fatalf("at %s for %s, want %s for %s", at, s.Plan.ExpectedCost, start, cost)
	}
}

// A run that waits for a limit through the cheap hours waits for the next ones, and is as old then as it was.
func TestCheapestAndQueue(t *testing.T) {
	d := newCheapest(t, "", within(48*time.Hour))
	d.waits("04 12:00", "04 22:00", "0.5000")
	d.facts.Quota = plan.QuotaFacts{Quotas: team, Answer: full}
	d.want(d.at("04 22:00"), v1alpha1.TransferQueued, v1alpha1.ReasonQuotaExceeded, 0)
	since := d.transfer.Status.Queued.Time
	out := d.waits("05 05:50", "05 22:00", "0.5000")
	if queued := out.Status.Queued; queued == nil || queued.Time != since {
		t.Fatalf("%+v, since %s", queued, since)
	}
	if request, waits := quota.TransferWaits(d.transfer); waits {
		t.Errorf("it asks before its price: %+v", request)
	}
	d.facts.Quota.Answer = granted(quota.Unlimited)
	if out := d.begins("05 22:00"); out.Status.Queued != nil {
		t.Errorf("%+v", out.Status.Queued)
	}
}

// A run waits for the night, says what else it could have cost, starts, and keeps what was planned.
func TestCheapest(t *testing.T) {
	d := newCheapest(t, "", within(24*time.Hour))
	out := d.waits("04 12:00", "04 22:00", "0.5000")
	want := []v1alpha1.DeadlineAlternative{
		{Name: v1alpha1.DeadlineNow, StartTime: metav1.NewTime(minute(t, "05-04 12:00")),
			PredictedTime: metav1.NewTime(minute(t, "05-04 13:00")), ExpectedCost: "2.0000"},
		{Name: v1alpha1.DeadlineLatest, StartTime: metav1.NewTime(minute(t, "05-05 10:40")),
			PredictedTime: metav1.NewTime(minute(t, "05-05 11:40")), ExpectedCost: "2.0000"},
	}
	if got := out.Status.Deadline.Plan.Alternatives; !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	c := meta.FindStatusCondition(out.Status.Conditions, v1alpha1.ConditionWithinDeadline)
	if c.Reason != v1alpha1.ReasonDeadlineInReach ||
		!out.Status.Deadline.PredictedTime.Equal(&metav1.Time{Time: minute(t, "05-04 23:00")}) {
		t.Errorf("%+v %+v", c, out.Status.Deadline)
	}
	// Hours later nothing has changed.
	before := d.transfer.Status.DeepCopy()
	if out = d.waits("04 20:07", "04 22:00", "0.5000"); !equality.Semantic.DeepEqual(&out.Status, before) {
		t.Errorf("it is written again: %+v", out.Status.Deadline)
	}
	out = d.begins("04 22:00")
	d.planned(out, "04 22:00", "0.5000")
	if out.Status.Deadline.RunID != "abcde" || len(out.Status.Deadline.Plan.Alternatives) == 0 ||
		out.Status.Policy.Objective != v1alpha1.ObjectiveCost {
		t.Errorf("%+v %+v", out.Status.Deadline, out.Status.Policy)
	}
	// A run under way is not paused when the price rises, or is another one.
	d.runs(moving())
	d.facts.Tariffs = nil
	d.planned(d.at("05 07:00"), "04 22:00", "0.5000")
	d.succeeds("05 07:30")
	out = d.at("05 08:00")
	d.planned(out, "04 22:00", "0.5000")
	if out.Status.History[0].Objective != v1alpha1.ObjectiveCost {
		t.Errorf("%+v", out.Status.History[0])
	}
}

// Whatever changes while a run waits, it is planned again.
func TestCheapestPlansAgain(t *testing.T) {
	day := func() v1alpha1.TransferDeadline { return within(24 * time.Hour) }
	t.Run("the Tariff is edited", func(t *testing.T) {
		d := newCheapest(t, "", day())
		d.waits("04 12:00", "04 22:00", "0.5000")
		d.facts.Tariffs[0].Spec.CPUHour.Rules[0].Windows[0].Start = "20:00"
		d.waits("04 12:05", "04 20:00", "0.5000")
		d.facts.Tariffs[0].Spec.CPUHour.Rules[0].Price = "0.125"
		d.waits("04 12:10", "04 20:00", "0.2500")
		d.facts.Tariffs[0].Spec.CPUHour.Rules = nil
		d.begins("04 12:15")
	})
	t.Run("the Tariff is removed", func(t *testing.T) {
		d := newCheapest(t, "", day())
		d.waits("04 12:00", "04 22:00", "0.5000")
		d.facts.Tariffs = nil
		if out := d.begins("04 12:05"); out.Status.Deadline.Plan != nil || out.Status.Deadline.Message == "" {
			t.Errorf("%+v", out.Status.Deadline)
		}
	})
	t.Run("the deadline is sooner", func(t *testing.T) {
		d := newCheapest(t, "", day())
		d.waits("04 12:00", "04 22:00", "0.5000")
		d.transfer.Spec.Deadline.Within.Duration = 11 * time.Hour // it may take 80 minutes from 21:40 on
		d.waits("04 12:05", "04 21:40", "1.0000")
		d.transfer.Spec.Deadline.Strategy = v1alpha1.DeadlineSoonest
		if out := d.begins("04 12:10"); out.Status.Deadline.Plan != nil || out.Status.Deadline.Message != "" {
			t.Errorf("%+v", out.Status.Deadline)
		}
	})
	t.Run("the clock is set", func(t *testing.T) {
		d := newCheapest(t, "", day())
		d.waits("04 12:00", "04 22:00", "0.5000")
		d.waits("03 12:00", "03 22:00", "0.5000")
		d.begins("20 12:00") // the deadline has passed
	})
	t.Run("the manager was away", func(t *testing.T) {
		d := newCheapest(t, "", day())
		d.waits("04 12:00", "04 22:00", "0.5000")
		d.begins("05 03:00")
	})
	t.Run("suspended", func(t *testing.T) {
		d := newCheapest(t, "", day())
		d.waits("04 12:00", "04 22:00", "0.5000")
		d.transfer.Spec.Suspend = true
		if out := d.at("04 12:05"); out.Status.Deadline.Plan != nil {
			t.Errorf("%+v", out.Status.Deadline)
		}
	})
	t.Run("a time of the schedule comes first", func(t *testing.T) {
		d := newCheapest(t, "0 */6 * * *", within(48*time.Hour))
		d.at("04 11:00")
		if out := d.begins("04 12:00"); out.Status.Deadline.Plan == nil {
			t.Errorf("%+v", out.Status.Deadline)
		}
	})
	t.Run("a window", func(t *testing.T) {
		d := newCheapest(t, "", day())
		d.transfer.Spec.Schedule = &v1alpha1.TransferSchedule{
			Windows: []v1alpha1.ScheduleWindow{{Start: "14:00", End: "03:00"}},
		}
		out := d.at("04 12:00")
		d.want(out, v1alpha1.TransferPending, v1alpha1.ReasonOutsideWindow, 0)
		d.planned(out, "04 22:00", "0.5000")
		d.waits("04 14:00", "04 22:00", "0.5000")
		d.begins("04 22:00")
	})
}

// As Soonest, with the reason.
func TestCheapestWithoutPlan(t *testing.T) {
	for name, c := range map[string]struct {
		within time.Duration
		change func(*dated)
		reason string
	}{
		"no history": {24 * time.Hour, func(d *dated) { d.transfer.Status.History = nil }, "DeadlineUnpredicted"},
		"no Tariff":  {24 * time.Hour, func(d *dated) { d.facts.Tariffs = nil }, "DeadlineInReach"},
		"a Tariff that cannot be used": {24 * time.Hour, func(d *dated) {
			d.facts.Tariffs[0].Spec.TimeZone = "Mars/Olympus"
			d.transfer.Spec.Compression = &v1alpha1.Compression{Objective: v1alpha1.ObjectiveElapsed}
		}, "DeadlineInReach"},
		"out of reach": {30 * time.Minute, func(*dated) {}, "DeadlineOutOfReach"},
		"past": {time.Minute, func(d *dated) {
			d.transfer.Spec.Deadline.Within, d.transfer.Spec.Deadline.Time = nil, &metav1.Time{Time: minute(d.t, "05-04 11:00")}
		}, "DeadlineMissed"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newCheapest(t, "", within(c.within))
			c.change(d)
			out := d.begins("04 12:00")
			is := meta.FindStatusCondition(out.Status.Conditions, v1alpha1.ConditionWithinDeadline)
			if s := out.Status.Deadline; is == nil || is.Reason != c.reason || s.Plan != nil || s.Message == "" {
				t.Fatalf("%+v %+v", s, is)
			}
			before := out.Status.Deadline.Message
			d.runs(moving())
			if out = d.at("04 12:01"); out.Status.Deadline.Message != before {
				t.Errorf("%+v", out.Status.Deadline)
			}
		})
	}
}

// What a TransferSet has taken for all of its members at once is read at once.
func TestCheapestOfAGroup(t *testing.T) {
	d := newCheapest(t, "", within(24*time.Hour))
	d.transfer.Spec.Source.CopyMethod = v1alpha1.CopySnapshot
	d.transfer.Spec.Source.VolumeGroupSnapshotName = "moment"
	out := d.at("04 12:00")
	if s := out.Status.Deadline; s == nil || s.Plan != nil || s.Message == "" ||
		meta.FindStatusCondition(out.Status.Conditions, v1alpha1.ConditionReady).Reason == v1alpha1.ReasonWaitingForPrice {
		t.Errorf("%+v", out.Status)
	}
}

// The last start that is in time is the same at each look, although the API server keeps whole seconds.
func TestCheapestWithinASecond(t *testing.T) {
	d := newCheapest(t, "", within(9*time.Hour+time.Millisecond)) // until 21:00, which keeps it from the night
	d.facts.Tariffs[0].Spec.CPUHour.Rules[0].Windows[0].Start = "20:30"
	d.transfer.Status.History[0].Duration = &metav1.Duration{Duration: time.Hour + 300*time.Millisecond}
	d.facts.Now = minute(t, "05-04 12:00").Add(700 * time.Millisecond)
	first := plan.DecideTransfer(d.transfer, d.facts, image)
	d.transfer.Status = first.Status
	kept := d.transfer.Status.Deadline
	kept.StartTime.Time = kept.StartTime.Truncate(time.Second) // as it is read
	again := d.at("04 12:05")
	if first.Status.Deadline.Plan == nil || first.Start != nil ||
		!equality.Semantic.DeepEqual(again.Status.Deadline, first.Status.Deadline) {
		t.Errorf("%+v, then %+v", first.Status.Deadline, again.Status.Deadline)
	}
}

// What keeps a run from beginning that is due does not make its plan change with the clock.
func TestCheapestThatIsStalled(t *testing.T) {
	d := newCheapest(t, "", within(24*time.Hour))
	d.waits("04 12:00", "04 22:00", "0.5000")
	d.facts.Peer = nil
	first := d.at("04 22:30").Status
	if second := d.at("04 22:31").Status; first.Deadline.Plan != nil ||
		!equality.Semantic.DeepEqual(first.Conditions, second.Conditions) {
		t.Errorf("%+v, then %+v", first.Deadline, second.Deadline)
	}
}

// Nodes of the Tariff's rules are chosen by price, preferred for all attempts of the run, and forgotten when they go.
// Those without the accelerator that the policy prefers are none of them.
func TestCheapestNodes(t *testing.T) {
	spot := map[string]string{"class": "spot"}
	begin := func(t *testing.T) *dated {
		t.Helper()
		d := newCheapest(t, "", within(8*time.Hour))
		d.facts.Tariffs[0].Spec.CPUHour.Rules = []v1alpha1.CPUHourRule{
			{Price: "0.25", NodeSelector: spot, Windows: []v1alpha1.TariffWindow{{Start: "14:00", End: "16:00"}}},
			{Price: "0.1", NodeSelector: map[string]string{"class": "slow"}},
		}
		d.facts.Placement = nodes(false)
		other := d.facts.Placement.Nodes[0].DeepCopy()
		other.Name = "z15-b"
		d.facts.Placement.Nodes = append(d.facts.Placement.Nodes, *other)
		d.facts.Placement.Nodes[0].Labels["class"], d.facts.Placement.Nodes[1].Labels["class"] = "spot", "slow"
		d.transfer.Status.History[0].Node = "z15-b"
		out := d.waits("04 12:00", "04 14:00", "0.5000")
		if got := out.Status.Deadline.Plan; !equality.Semantic.DeepEqual(got.NodeSelector, spot) ||
			got.Alternatives[1].Name != v1alpha1.DeadlineOtherNodes || got.Alternatives[1].ExpectedCost != "2.0000" {
			t.Fatalf("%+v", got)
		}
		return d
	}
	prefers := func(t *testing.T, out plan.TransferDecision) {
		t.Helper()
		terms := out.Start.Job().Spec.Template.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		want := corev1.NodeSelectorRequirement{Key: "class", Operator: corev1.NodeSelectorOpIn, Values: []string{"spot"}}
		if last := terms[len(terms)-1].Preference.MatchExpressions; !equality.Semantic.DeepEqual(
			last, []corev1.NodeSelectorRequirement{want}) {
			t.Errorf("%+v", terms)
		}
	}
	d := begin(t)
	prefers(t, d.begins("04 14:00"))
	_, seen := reporting(moving())
	d.facts.Job = seen.Job
	d.facts.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "lost")
	d.at("04 14:10")
	d.facts = gone(d.facts, false)
	prefers(t, d.begins("04 14:20"))

	// They vanish while it runs: the next attempt begins elsewhere, prefers them in case some come back, and keeps its
	// plan.
	for name, vanish := range map[string]func(spot *corev1.Node, facts *placement.Facts){
		"removed":  func(_ *corev1.Node, facts *placement.Facts) { facts.Nodes = facts.Nodes[1:] },
		"cordoned": func(spot *corev1.Node, _ *placement.Facts) { spot.Spec.Unschedulable = true },
	} {
		t.Run(name, func(t *testing.T) {
			d := begin(t)
			planned := d.begins("04 14:00").Status.Deadline.Plan
			_, seen := reporting(moving())
			d.facts.Job, d.facts.Pod = seen.Job, failed(t, wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "lost")
			vanish(&d.facts.Placement.Nodes[0], &d.facts.Placement)
			d.want(d.at("04 14:10"), v1alpha1.TransferRetrying, v1alpha1.ReasonRetrying, 0)
			d.facts = gone(d.facts, false)
			out := d.begins("04 14:20")
			prefers(t, out)
			pod := corev1.Pod{Spec: out.Start.Job().Spec.Template.Spec}
			other := &d.facts.Placement.Nodes[len(d.facts.Placement.Nodes)-1]
			other.Labels[corev1.LabelOSStable] = "linux" // as kubelets say
			if fits, err := scheduling.GetRequiredNodeAffinity(&pod).Match(other); err != nil || !fits {
				t.Errorf("%v: %s may not take it: %+v %+v", err, other.Name, pod.Spec.NodeSelector, pod.Spec.Affinity)
			}
			if out.Status.Run.Attempt != 2 || !equality.Semantic.DeepEqual(out.Status.Deadline.Plan, planned) {
				t.Errorf("%+v, planned %+v", out.Status.Run, out.Status.Deadline.Plan)
			}
			d.runs(moving())
			d.facts.Pod.Spec.NodeName = other.Name
			out = d.at("04 14:21")
			d.want(out, v1alpha1.TransferTransferring, v1alpha1.ReasonTransferring, 0)
			if out.Status.Run.Node != other.Name {
				t.Errorf("it runs on %s, want %s", out.Status.Run.Node, other.Name)
			}
		})
	}

	// They vanish while the run waits: no price is lower any more.
	d = begin(t)
	d.facts.Placement.Nodes[0].Spec.Unschedulable = true
	if out := d.begins("04 12:05"); out.Status.Deadline.Plan.NodeSelector != nil {
		t.Errorf("%+v", out.Status.Deadline)
	}
}

// What agents and peers report may be anything: nothing waits beyond the deadline.
func TestCheapestOfAbsurdReports(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10)) //nolint:gosec // The same numbers each time.
	numbers := []int64{0, -1, 1, 1 << 40, math.MaxInt64, math.MinInt64}
	pick := func() int64 { return numbers[random.IntN(len(numbers))] }
	texts := []string{"", "-1", "1e300", "NaN", "9223372036854775807", "1"}
	for range 1000 {
		d := newCheapest(t, "", within(24*time.Hour))
		d.transfer.Status.History = nil
		for _, id := range []string{"older", "oldest"} {
			text := texts[random.IntN(len(texts))]
			d.transfer.Status.History = append(d.transfer.Status.History, v1alpha1.AttemptRecord{
				RunID: id, Reason: v1alpha1.ReasonSucceeded, Objective: v1alpha1.ObjectiveElapsed, Bytes: pick(),
				CompressedBytes: pick(), Duration: &metav1.Duration{Duration: time.Duration(pick())},
				Usage: &v1alpha1.UsageStatus{
					Send: &v1alpha1.CPUUsage{ProcessSeconds: text}, Receive: &v1alpha1.CPUUsage{ProcessSeconds: text},
					WireBytes: pick(),
				},
			})
		}
		out := d.at("04 12:00")
		if out.Start == nil && (out.Status.Deadline.Plan == nil ||
			out.Status.Deadline.Plan.PredictedTime.After(minute(t, "05-05 12:00"))) {
			t.Fatalf("%+v of %+v", out.Status.Deadline, d.transfer.Status.History)
		}
	}
}
