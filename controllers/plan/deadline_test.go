// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/plan"
)

func minute(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02 15:04", "2026-"+text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// dated is a Transfer with a deadline, and decides at times of one month.
type dated struct{ *windowed }

func newDated(t *testing.T, cron string, deadline v1alpha1.TransferDeadline) *dated {
	d := &dated{newWindowed(t, cron)}
	d.transfer.Spec.Deadline = &deadline
	return d
}

func within(d time.Duration) v1alpha1.TransferDeadline {
	return v1alpha1.TransferDeadline{Within: &metav1.Duration{Duration: d}}
}

// ran gives the Transfer a run that was complete.
func (d *dated) ran(took time.Duration, bytes, wire int64) {
	done := metav1.NewTime(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
	d.transfer.Status.History = []v1alpha1.AttemptRecord{{
		RunID: "older", Attempt: 1, Reason: v1alpha1.ReasonSucceeded, Duration: &metav1.Duration{Duration: took},
		Bytes: bytes, CompressedBytes: wire,
	}}
	d.transfer.Status.Run = &v1alpha1.RunStatus{ID: "older", Attempt: 1, StartTime: &done, CompletionTime: &done}
	d.transfer.Status.Phase = v1alpha1.TransferComplete
}

// expect checks what is said of the deadline, that a second decision says the same, and that the time is not slept
// through.
func (d *dated) expect(now, reason, by, predicted string) plan.TransferDecision {
	d.t.Helper()
	out := d.at(now)
	if again := plan.DecideTransfer(d.transfer, d.facts, image); out.Start == nil &&
		!equality.Semantic.DeepEqual(again.Status, out.Status) {
		d.t.Errorf("at %s it is decided again: %+v", now, again.Status)
	}
	is, gotBy, gotPredicted := "", "", ""
	if c := meta.FindStatusCondition(out.Status.Conditions, v1alpha1.ConditionWithinDeadline); c != nil {
		is = c.Reason
		want := map[string]metav1.ConditionStatus{
			"DeadlineInReach": "True", "DeadlineKept": "True", "DeadlineUnpredicted": "Unknown",
		}[is]
		if want == "" {
			want = "False"
		}
		if c.Status != want {
			d.t.Errorf("at %s %s is %s", now, is, c.Status)
		}
	}
	if s := out.Status.Deadline; s != nil {
		gotBy = s.Time.UTC().Format("02 15:04")
		if s.PredictedTime != nil {
			gotPredicted = s.PredictedTime.UTC().Format("02 15:04")
			if s.Slack.Duration != s.Time.Sub(s.PredictedTime.Time) {
				d.t.Errorf("at %s the slack is %s", now, s.Slack.Duration)
			}
		}
		if open := is != "DeadlineKept" && is != "DeadlineMissed"; open && s.Time.After(d.facts.Now) &&
			(out.RequeueAfter <= 0 || out.RequeueAfter > s.Time.Sub(d.facts.Now)) {
			d.t.Errorf("at %s it looks again in %s", now, out.RequeueAfter)
		}
	}
	if is != reason || gotBy != by || gotPredicted != predicted {
		d.t.Fatalf("at %s: %q by %q at %q, want %q by %q at %q", now, is, gotBy, gotPredicted, reason, by, predicted)
	}
	return out
}

// runs gives it an agent that moves data.
func (d *dated) runs(report *wirev1.Report) {
	_, seen := reporting(report)
	d.facts.Job, d.facts.Pod, d.facts.Report = seen.Job, seen.Pod, seen.Report
}

func (d *dated) succeeds(now string) {
	d.t.Helper()
	d.facts.Pod, d.facts.Report = ended(0, "", ""), nil
	d.want(d.at(now), v1alpha1.TransferComplete, v1alpha1.ReasonSucceeded, 0)
	d.facts = gone(d.facts, false)
}

// A time of cron, a wait for the window, a run in time and one that is late.
func TestDeadline(t *testing.T) {
	d := newDated(t, "0 12 * * *", within(12*time.Hour))
	d.ran(time.Hour, 1000, 100)
	d.expect("04 11:00", "", "", "") // the run before had none
	d.expect("04 12:00", "DeadlineInReach", "05 00:00", "04 23:00")
	d.expect("04 21:00", "DeadlineInReach", "05 00:00", "04 23:00")
	if out := d.expect("04 22:00", "DeadlineInReach", "05 00:00", "04 23:00"); out.Start == nil ||
		out.Status.Deadline.RunID != "abcde" {
		t.Fatalf("%+v", out.Status.Deadline)
	}
	d.runs(moving())
	d.expect("04 22:30", "DeadlineInReach", "05 00:00", "04 23:30") // nobody knows what was sent
	d.facts.Report.Compression = &wirev1.Compression{UncompressedBytes: 100, CompressedBytes: 10}
	d.expect("04 22:30", "DeadlineInReach", "05 00:00", "04 23:24") // 100 of 1000 at the rate of the last run
	d.succeeds("04 23:00")
	out := d.expect("05 11:00", "DeadlineKept", "05 00:00", "")
	if out.Status.Deadline.Slack.Duration != time.Hour {
		t.Errorf("%+v", out.Status.Deadline)
	}
	// The next one is awaited with a deadline of its own, and late.
	d.facts.NewRunID = "fghij"
	d.transfer.Spec.Deadline.Within.Duration = 10 * time.Hour
	d.expect("05 12:00", "DeadlineOutOfReach", "05 22:00", "05 23:00")
	if out := d.expect("05 22:00", "DeadlineMissed", "05 22:00", "05 23:00"); out.Start == nil {
		t.Fatalf("%+v", out.Status)
	}
	d.runs(moving())
	d.succeeds("05 22:30")
	out = d.expect("06 11:00", "DeadlineMissed", "05 22:00", "")
	if out.Status.Deadline.Slack.Duration != -30*time.Minute {
		t.Errorf("%+v", out.Status.Deadline)
	}
	d.transfer.Spec.Deadline = nil
	d.expect("06 11:30", "", "", "")
}

// The API server keeps whole seconds, and nothing is written again for that.
func TestDeadlineInWholeSeconds(t *testing.T) {
	d := newDated(t, "", within(90*time.Minute+700*time.Millisecond))
	d.ran(time.Hour, 1000, 100)
	d.transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "now"}
	stored := func() v1alpha1.TransferStatus {
		text, err := json.Marshal(d.transfer.Status)
		var status v1alpha1.TransferStatus
		if err == nil {
			err = json.Unmarshal(text, &status)
		}
		if err != nil {
			t.Fatal(err)
		}
		return status
	}
	for _, at := range []string{"04 12:00", "04 22:00", "04 23:00", "04 23:10"} {
		d.facts.Now = minute(t, "05-"+at).Add(123456789)
		if at == "04 23:00" {
			d.runs(moving())
			d.facts.Pod, d.facts.Report = ended(0, "", ""), nil
		}
		step(d.transfer, d.facts)
		if at == "04 23:00" {
			d.facts = gone(d.facts, false)
		}
		d.transfer.Status = stored()
		before := d.transfer.Status.Deadline
		if before == nil {
			t.Fatalf("at %s there is none", at)
		}
		step(d.transfer, d.facts)
		if after := stored().Deadline; !equality.Semantic.DeepEqual(d.transfer.Status.Deadline, before) ||
			!equality.Semantic.DeepEqual(after, before) {
			t.Errorf("at %s %+v, then %+v", at, before, after)
		}
	}
}

// A first run has no figures and starts at once; so does one that cannot be in time.
func TestDeadlineWithoutFigures(t *testing.T) {
	d := newDated(t, "", within(2*time.Hour))
	d.expect("04 12:00", "DeadlineOutOfReach", "04 14:00", "") // the window opens later
	d.expect("04 14:00", "DeadlineMissed", "04 14:00", "")
	d = newDated(t, "", within(2*time.Hour))
	if out := d.expect("04 22:00", "DeadlineUnpredicted", "05 00:00", ""); out.Start == nil {
		t.Fatalf("%+v", out)
	}
	d.runs(moving())
	d.expect("04 22:10", "DeadlineUnpredicted", "05 00:00", "")
	d.facts.Report = &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_TRANSFERRING, Progress: &wirev1.Progress{
		Bytes: 1 << 20, BytesTotal: 61 << 20, Scanned: true,
	}}
	d.transfer.Status.Progress = nil
	d.expect("04 22:11", "DeadlineUnpredicted", "05 00:00", "") // no rate
	d.transfer.Spec.Pause = true
	d.transfer.Spec.Deadline = &v1alpha1.TransferDeadline{Time: &metav1.Time{Time: minute(t, "05-04 22:30")}}
	d.expect("04 22:12", "DeadlineUnpredicted", "04 22:30", "")
	d.expect("04 22:30", "DeadlineMissed", "04 22:30", "")
}

// A deadline that cannot be kept has the earliest time that is possible in status, whatever keeps the run from it, and
// the slack that is missing. It is the same for all strategies.
func TestImpossibleDeadline(t *testing.T) {
	nightly := []v1alpha1.ScheduleWindow{{Start: "22:00", End: "06:00"}}
	short := []v1alpha1.ScheduleWindow{{Start: "22:00", End: "22:40"}} // an hour's run takes two of them
	for name, c := range map[string]struct {
		windows       []v1alpha1.ScheduleWindow
		within        time.Duration
		by, predicted string
	}{
		"it takes longer":               {nil, 30 * time.Minute, "04 12:30", "04 13:00"},
		"it waits for a window":         {nightly, 8 * time.Hour, "04 20:00", "04 23:00"},
		"it ends in the window":         {nightly, 10*time.Hour + time.Minute, "04 22:01", "04 23:00"},
		"it is paused between windows":  {short, 24 * time.Hour, "05 12:00", "05 22:20"},
		"it is within reach, by a hair": {nightly, 11 * time.Hour, "04 23:00", "04 23:00"},
	} {
		for _, strategy := range []v1alpha1.DeadlineStrategy{v1alpha1.DeadlineSoonest, v1alpha1.DeadlineCheapest} {
			t.Run(name+", "+string(strategy), func(t *testing.T) {
				d := newCheapest(t, "", within(c.within))
				d.transfer.Spec.Deadline.Strategy = strategy
				if c.windows != nil {
					d.transfer.Spec.Schedule = &v1alpha1.TransferSchedule{Windows: c.windows}
				}
				reason := v1alpha1.ReasonDeadlineOutOfReach
				if c.by == c.predicted {
					reason = v1alpha1.ReasonDeadlineInReach
				}
				out := d.expect("04 12:00", reason, c.by, c.predicted)
				if s := out.Status.Deadline; (s.Slack.Duration < 0) != (reason == v1alpha1.ReasonDeadlineOutOfReach) ||
					(out.Start == nil) != (c.windows != nil) {
					t.Errorf("%+v, starts: %v", s, out.Start != nil)
				}
			})
		}
	}
}

// A time counts for runs until one was in time.
func TestDeadlineTime(t *testing.T) {
	by := v1alpha1.TransferDeadline{Time: &metav1.Time{Time: minute(t, "05-05 02:00")}}
	d := newDated(t, "", by)
	d.transfer.Spec.Suspend = true
	d.expect("04 12:00", "DeadlineUnpredicted", "05 02:00", "")
	d.transfer.Spec.Suspend = false
	d.expect("04 22:00", "DeadlineUnpredicted", "05 02:00", "")
	d.runs(moving())
	d.expect("04 22:01", "DeadlineUnpredicted", "05 02:00", "")
	d.succeeds("04 23:00")
	d.expect("06 12:00", "DeadlineKept", "05 02:00", "")
	d.transfer.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	d.facts.NewRunID = "fghij"
	if out := d.expect("06 22:00", "DeadlineKept", "05 02:00", ""); out.Start == nil {
		t.Fatalf("%+v", out)
	}
	// Another time counts, and one that has passed is stated at once.
	d.transfer.Spec.Deadline.Time.Time = minute(t, "05-06 12:00")
	d.expect("06 22:01", "DeadlineMissed", "06 12:00", "06 23:01") // like the run before
	// A run that fails is late when the time has come.
	d.transfer.Spec.Deadline.Time.Time = minute(t, "05-07 12:00")
	d.transfer.Spec.MaxAttempts = 1
	_, seen := reporting(moving())
	d.facts.Job = seen.Job
	d.facts.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "lost")
	d.at("06 23:00")
	d.facts = gone(d.facts, false)
	d.expect("06 23:01", "DeadlineOutOfReach", "07 12:00", "")
	d.expect("07 12:00", "DeadlineMissed", "07 12:00", "")
}

// A run that would be late with the objective of its policy is hurried, and so is the next one.
func TestHurry(t *testing.T) {
	cpu := &v1alpha1.Compression{Objective: v1alpha1.ObjectiveCPU}
	for name, c := range map[string]struct {
		took     time.Duration
		hurried  bool // the run before
		within   time.Duration
		hurry    bool
		measured bool
	}{
		"in time":                     {time.Hour, false, 2 * time.Hour, false, true},
		"late":                        {3 * time.Hour, false, 2 * time.Hour, true, true},
		"in time because hurried":     {time.Hour + time.Minute, true, 2 * time.Hour, true, true},
		"in time, hurried for no end": {59 * time.Minute, true, 2 * time.Hour, false, true},
		"never measured":              {0, false, 2 * time.Hour, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDated(t, "0 22 * * *", within(c.within))
			d.transfer.Spec.Compression = cpu
			if c.measured {
				d.ran(c.took, 1000, 100)
				d.transfer.Status.Deadline = &v1alpha1.DeadlineStatus{RunID: "older", Hurried: c.hurried}
			}
			d.at("04 21:00")
			out := d.at("04 22:00")
			want := v1alpha1.ObjectiveCPU
			if c.hurry {
				want = v1alpha1.ObjectiveElapsed
			}
			if out.Start == nil || out.Status.Policy.Objective != want || out.Status.Deadline.Hurried != c.hurry {
				t.Fatalf("%+v %+v", out.Status.Policy, out.Status.Deadline)
			}
			// It stays so through all attempts, and is told of while the next run is awaited.
			_, seen := reporting(moving())
			d.facts.Job = seen.Job
			d.facts.Pod = failed(t, wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST, "lost")
			d.at("04 22:10")
			d.facts = gone(d.facts, false)
			out = d.at("04 22:20")
			if out.Start == nil || out.Status.Policy.Objective != want || out.Status.Deadline.Hurried != c.hurry {
				t.Fatalf("%+v %+v", out.Status.Policy, out.Status.Deadline)
			}
			d.runs(moving())
			d.succeeds("04 22:30")
			if out := d.at("04 23:00"); out.Status.Deadline.Hurried != c.hurry {
				t.Errorf("%+v", out.Status.Deadline)
			}
		})
	}
}

// The clock is set: what is expected follows it, and nothing is late for good.
func TestDeadlineAndClock(t *testing.T) {
	d := newDated(t, "", within(4*time.Hour))
	d.ran(time.Hour, 1000, 100)
	d.transfer.Status.Run, d.transfer.Status.Phase = nil, ""
	d.expect("04 22:00", "DeadlineInReach", "05 02:00", "04 23:00")
	d.expect("20 23:00", "DeadlineMissed", "05 02:00", "21 00:00")
	d.expect("04 22:10", "DeadlineInReach", "05 02:00", "04 23:10")
	// Before it was wanted: it is wanted since now.
	d.expect("04 22:00", "DeadlineInReach", "05 02:00", "04 23:00")
	d.expect("03 23:00", "DeadlineInReach", "04 03:00", "04 00:00")
}

// What agents report may be anything.
func TestDeadlineOfAbsurdReports(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // The same numbers each time.
	numbers := []uint64{0, 1, 1 << 20, 1 << 40, math.MaxInt64, math.MaxUint64}
	pick := func() uint64 { return numbers[random.IntN(len(numbers))] }
	signed := func() int64 { return int64(pick()) } //nolint:gosec // Anything will do.
	for range 2000 {
		d := newDated(t, "", within(time.Hour))
		d.transfer.Spec.Schedule = nil
		d.at("04 22:00")
		d.runs(&wirev1.Report{
			State:    wirev1.AgentState_AGENT_STATE_TRANSFERRING,
			Progress: &wirev1.Progress{Bytes: pick(), BytesTotal: pick(), PartialBytes: pick(), Scanned: random.IntN(2) > 0},
			Compression: &wirev1.Compression{
				UncompressedBytes: pick(), CompressedBytes: pick(),
			},
		})
		d.transfer.Status.History = []v1alpha1.AttemptRecord{
			{RunID: "abcde", Attempt: 9, Reason: "Paused", Duration: &metav1.Duration{Duration: time.Duration(signed())},
				Bytes: signed(), CompressedBytes: signed()},
			{RunID: "older", Reason: v1alpha1.ReasonSucceeded, Duration: &metav1.Duration{Duration: time.Duration(signed())},
				Bytes: signed(), CompressedBytes: signed()},
		}
		out := d.at("04 22:30")
		s := out.Status.Deadline
		if s == nil || s.PredictedTime != nil && (s.PredictedTime.Before(&metav1.Time{Time: d.facts.Now}) ||
			s.PredictedTime.After(d.facts.Now.Add(367*24*time.Hour))) {
			t.Fatalf("%+v of %+v", s, d.transfer.Status)
		}
		if again := plan.DecideTransfer(d.transfer, d.facts, image); !equality.Semantic.DeepEqual(again.Status, out.Status) {
			t.Fatalf("%+v, then %+v", s, again.Status.Deadline)
		}
	}
}

func TestUnusableDeadlines(t *testing.T) {
	at := &metav1.Time{Time: now}
	for name, change := range map[string]func(*v1alpha1.TransferSpec){
		"neither": func(s *v1alpha1.TransferSpec) { s.Deadline = &v1alpha1.TransferDeadline{} },
		"both": func(s *v1alpha1.TransferSpec) {
			s.Deadline.Time = at
		},
		"short": func(s *v1alpha1.TransferSpec) { s.Deadline.Within.Duration = time.Second },
		"long":  func(s *v1alpha1.TransferSpec) { s.Deadline.Within.Duration = math.MaxInt64 },
		"another strategy": func(s *v1alpha1.TransferSpec) {
			s.Deadline.Strategy = "Fastest"
		},
		"a time with cron": func(s *v1alpha1.TransferSpec) {
			s.Deadline = &v1alpha1.TransferDeadline{Time: at}
			s.Schedule.Cron = "@daily"
		},
	} {
		d := newDated(t, "", within(time.Hour))
		change(&d.transfer.Spec)
		if err := plan.ValidateTransfer(d.transfer.Spec); err == nil {
			t.Errorf("%s is taken", name)
		}
		d.expect("04 22:30", "", "", "")
	}
}

// A run that pulls has a deadline as well, and tells the other cluster what its windows allow.
func TestPullWithDeadline(t *testing.T) {
	transfer, facts := asked(t)
	deadline, limit := within(time.Hour), resource.MustParse("1Mi")
	transfer.Spec.Deadline = &deadline
	transfer.Spec.Schedule = &v1alpha1.TransferSchedule{Windows: []v1alpha1.ScheduleWindow{
		{Start: "00:00", End: "12:00", BandwidthLimit: &limit}, {Start: "12:00", End: "00:00", BandwidthLimit: &limit},
	}}
	out := plan.DecidePull(transfer, facts)
	if out.Ask.GetOptions().GetBandwidthLimit() != 1<<20 {
		t.Errorf("%+v", out.Ask)
	}
	transfer.Status = out.Status
	transfer.Spec.Schedule.TimeZone = "Mars/Olympus"
	if out := plan.DecidePull(transfer, facts); out.Ask.GetOptions().GetBandwidthLimit() != 1<<20 {
		t.Errorf("with a schedule that cannot be used: %+v", out.Ask)
	}
	transfer.Spec.Schedule = nil
	if out := plan.DecidePull(transfer, facts); out.Ask.GetOptions().GetBandwidthLimit() != 0 ||
		out.Status.Run.WindowLimit != nil {
		t.Errorf("without a schedule: %+v", out.Ask)
	}
	if err := plan.ValidateTransfer(transfer.Spec); err != nil {
		t.Error(err)
	}
	transfer.Spec.Deadline.Strategy = v1alpha1.DeadlineCheapest
	if err := plan.ValidateTransfer(transfer.Spec); err == nil {
		t.Error("it may plan by prices of the other cluster")
	}
	c := meta.FindStatusCondition(out.Status.Conditions, v1alpha1.ConditionWithinDeadline)
	if c == nil || out.Status.Deadline.RunID != out.Status.Run.ID || c.Reason != v1alpha1.ReasonDeadlineUnpredicted {
		t.Errorf("%+v %+v", out.Status.Deadline, c)
	}
}
