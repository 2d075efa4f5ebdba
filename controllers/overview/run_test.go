// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package overview

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/conditions"
)

// hostile is what a tenant or another cluster may write into a name or a message.
const hostile = "evil\x1b]0;title\x07\x1b[2J\r\nok      forged \u202eline " +
	"中文中文中文中文中文中文中文中文中文中文中文中文中文中文"

func condition(name string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: name, Status: status, Reason: reason, Message: "because"}
}

func TestState(t *testing.T) {
	for name, test := range map[string]struct {
		conditions []metav1.Condition
		want       State
		reason     string
	}{
		"not looked at": {nil, Waiting, ""},
		"ready":         {[]metav1.Condition{condition("Ready", "True", "Serving")}, Ready, "Serving"},
		"working":       {conditions.Reconciling("RollingOut", "x"), Working, "RollingOut"},
		"stalled":       {conditions.Stalled("PeerGone", "x"), Stalled, "PeerGone"},
		"resting":       {conditions.Resting("Suspended", "x"), Resting, "Suspended"},
		"failed": {append(conditions.Stalled("A", "x"), condition("Failed", "True", "TooManyFailures")), Failed,
			"TooManyFailures"},
		"failed and resting": {append(conditions.Resting("A", "x"), condition("Failed", "True", "B")), Failed, "B"},
		"not ready":          {[]metav1.Condition{condition("Ready", "False", "NoLeader")}, Waiting, "NoLeader"},
		"unknown":            {[]metav1.Condition{condition("Ready", "Unknown", "A")}, Waiting, ""},
		"statement":          {[]metav1.Condition{condition("Complete", "True", "Booked")}, Ready, "Booked"},
		"short statement":    {[]metav1.Condition{condition("Complete", "False", "Lost")}, Waiting, "Lost"},
	} {
		got, why := StateOf(test.conditions)
		reason := ""
		if why != nil {
			reason = why.Reason
		}
		if got != test.want || reason != test.reason {
			t.Errorf("%s: %s, %q", name, got, reason)
		}
	}
}

// transfer is one with a run that is under way, unless it ended.
func transfer(ended bool, with ...metav1.Condition) *v1alpha1.Transfer {
	t := &v1alpha1.Transfer{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger"}}
	t.Status.Phase = v1alpha1.TransferTransferring
	t.Status.Conditions = with
	t.Status.Run = &v1alpha1.RunStatus{ID: "7f3c", Attempt: 2, Node: "worker-1", Cost: &v1alpha1.CostStatus{
		Currency: "XTS", CPU: "0.5", Network: "1.25",
	}}
	t.Status.Progress = &v1alpha1.Progress{
		Percent: 60, Bytes: 6 << 30, BytesTotal: 10 << 30, Files: 3, FilesTotal: 5, BytesPerSecond: 412e6,
		ETA: &metav1.Duration{Duration: 252 * time.Second},
	}
	if ended {
		t.Status.Run.CompletionTime = &metav1.Time{Time: time.Unix(1, 0)}
	}
	return t
}

func TestRunState(t *testing.T) {
	working := conditions.Reconciling("Transferring", "x")
	failed, complete := condition("Failed", "True", "A"), condition("Complete", "True", "Succeeded")
	none := &v1alpha1.Transfer{}
	queued := &v1alpha1.Transfer{}
	queued.Status.Queued = &v1alpha1.QueuedStatus{}
	again := transfer(true, complete)
	again.Annotations = map[string]string{v1alpha1.RunAnnotation: "2"}
	again.Status.LastRunRequest = "1"
	failedAgain := transfer(true, failed)
	failedAgain.Annotations = again.Annotations
	asked := transfer(true, complete)
	asked.Annotations, asked.Status.LastRunRequest = again.Annotations, "2"
	// The manager has begun it and cannot go on: status is about the run that is wanted, not the one that failed.
	blocked := transfer(
		true, append(conditions.Stalled("PeerNotFound", "x"), condition("Failed", "False", "PeerNotFound"))...,
	)
	blocked.Status.Phase = v1alpha1.TransferPending
	unreachable := transfer(true, conditions.Reconciling("PeerUnreachable", "x")...)
	unreachable.Status.Phase = v1alpha1.TransferPending
	// The spec was corrected after a failure, which begins a run.
	corrected := transfer(true, append(conditions.Stalled("InvalidSpec", "x"), failed)...)
	corrected.Generation, corrected.Status.ObservedGeneration = 3, 2
	done := transfer(true, complete)
	done.Generation, done.Status.ObservedGeneration = 3, 2
	waits := transfer(false, conditions.Reconciling("QuotaExceeded", "x")...)
	waits.Status.Queued = &v1alpha1.QueuedStatus{}
	suspended := transfer(true, complete)
	suspended.Annotations, suspended.Spec.Suspend = again.Annotations, true
	paused := transfer(false, conditions.Resting("Paused", "x")...)
	paused.Status.Phase = v1alpha1.TransferPaused
	held := transfer(true, complete)
	held.Annotations, held.Spec.Pause = again.Annotations, true
	scheduled := &v1alpha1.Transfer{}
	scheduled.Status.Phase = v1alpha1.TransferScheduled
	for name, test := range map[string]struct {
		of           *v1alpha1.Transfer
		want         State
		active, idle bool
	}{
		"new":                  {none, Waiting, false, false},
		"queued":               {queued, Waiting, false, false},
		"running":              {transfer(false, working...), Working, true, false},
		"running, was failed":  {transfer(false, conditions.Resting("x", "y")...), Working, true, false},
		"stalled":              {transfer(false, conditions.Stalled("A", "x")...), Stalled, true, false},
		"complete":             {transfer(true, complete), Done, false, true},
		"failed":               {transfer(true, failed), Failed, false, true},
		"to run again":         {again, Waiting, false, false},
		"failed, to run again": {failedAgain, Waiting, false, false},
		"has run again":        {asked, Done, false, true},
		"scheduled":            {scheduled, Waiting, false, true},
		"next is stalled":      {blocked, Stalled, true, false},
		"next waits":           {unreachable, Waiting, false, false},
		"failed, corrected":    {corrected, Waiting, false, false},
		"complete, changed":    {done, Done, false, true},
		"attempt is queued":    {waits, Waiting, false, false},
		"suspended, wanted":    {suspended, Waiting, false, false},
		"paused":               {paused, Waiting, false, true},
		"paused, wanted":       {held, Waiting, false, false},
	} {
		r := OfTransfer(test.of)
		if r.State != test.want || r.Active() != test.active || r.Idle() != test.idle {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestNextRun: of a run that is wanted and has not begun, nothing is shown that is of the run before.
func TestNextRun(t *testing.T) {
	for _, suspended := range []bool{true, false} {
		of := transfer(true, condition("Complete", "True", "Succeeded"))
		of.Annotations, of.Spec.Suspend = map[string]string{v1alpha1.RunAnnotation: "2"}, suspended
		r := OfTransfer(of)
		if r.ID != "" || r.Percent != 0 || len(r.Cost) != 0 || r.Reason != "" ||
			strings.Contains(r.Message, "resumed") != suspended || r.Why() != r.Message {
			t.Errorf("%+v", r)
		}
	}
}

// TestLate: a run that is not expected in time says so while it goes on, and has a line when that begins.
func TestLate(t *testing.T) {
	late := condition("WithinDeadline", "False", "Late")
	of := transfer(false, append(conditions.Reconciling("Transferring", "x"), late)...)
	r := OfTransfer(of)
	if r.State != Working || r.Why() != "Late: because" {
		t.Errorf("%+v", r)
	}
	before := r
	before.Late = ""
	var log Log
	log.News(time.Unix(1, 0), []Run{before})
	if news := log.News(time.Unix(2, 0), []Run{r}); len(news) != 1 {
		t.Errorf("%+v", news)
	}
	of = transfer(true, condition("Complete", "True", "Succeeded"), late)
	if r := OfTransfer(of); r.Late != "" {
		t.Errorf("%+v", r)
	}
}

// TestSide: an ObjectStore is named where the other side is one.
func TestSide(t *testing.T) {
	of := transfer(false)
	of.Status.Peer = v1alpha1.ThisCluster
	here := OfTransfer(of)
	of.Spec.Destination.ObjectStore = &v1alpha1.ObjectStorePath{Name: "vault"}
	store := OfTransfer(of)
	if here.Side() != v1alpha1.ThisCluster || store.Side() != "ObjectStore vault" {
		t.Errorf("%q, %q", here.Side(), store.Side())
	}
}

func TestTrialAndDelivery(t *testing.T) {
	trial := &v1alpha1.CompressionTrial{}
	trial.Status.Phase, trial.Status.Run = v1alpha1.TrialMeasuring, &v1alpha1.RunStatus{ID: "1"}
	trial.Status.Conditions = conditions.Reconciling("Measuring", "x")
	now := metav1.Now()
	for _, step := range []struct {
		phase v1alpha1.TrialPhase
		with  []metav1.Condition
		ended *metav1.Time
		want  State
	}{
		{v1alpha1.TrialMeasuring, conditions.Reconciling("Measuring", "x"), nil, Working},
		{v1alpha1.TrialComplete, conditions.Ready("Succeeded", "x"), &now, Done},
		{v1alpha1.TrialFailed, append(conditions.Stalled("A", "x"), condition("Failed", "True", "A")), &now, Failed},
		{v1alpha1.TrialPending, append(conditions.Stalled("A", "x"), condition("Failed", "False", "A")), &now, Stalled},
	} {
		trial.Status.Phase, trial.Status.Conditions, trial.Status.Run.CompletionTime = step.phase, step.with, step.ended
		r := OfTrial(trial)
		if r.State != step.want {
			t.Errorf("%s: %+v", step.phase, r)
		}
		for _, width := range []int{40, 120} {
			page := strings.Join(Frame([]Run{r}, width, 0), "\n")
			if !strings.Contains(page, "trial ") || strings.ContainsAny(page, "%[") {
				t.Errorf("a trial has no progress:\n%s", page)
			}
		}
	}
	d := &v1alpha1.Delivery{}
	d.Status.Phase, d.Status.Conditions = v1alpha1.DeliveryFailed, conditions.Stalled("ConnectionLost", "x")
	d.Status.Run = &v1alpha1.RunStatus{ID: "1", CompletionTime: &now}
	if r := OfDelivery(d); r.State != Failed || r.Reason != "ConnectionLost" {
		t.Errorf("%+v", r)
	}
	d.Status.Phase, d.Status.Conditions = v1alpha1.DeliveryComplete, conditions.Ready("Succeeded", "x")
	if r := OfDelivery(d); r.State != Done {
		t.Errorf("%+v", r)
	}
}

func TestCostsJSON(t *testing.T) {
	want := Run{Name: "a", Cost: Costs{"XTS": 1.75, "USD": 0.000309}}
	encoded, err := json.Marshal(want)
	var got Run
	if err == nil {
		err = json.Unmarshal(encoded, &got)
	}
	if err != nil || len(got.Cost) != 2 || got.Cost["XTS"] != 1.75 || got.Cost["USD"] != 0.000309 {
		t.Errorf("%v: %s: %+v", err, encoded, got)
	}
	for _, text := range []string{`{"XTS":"NaN"}`, `{"XTS":"x"}`, `{"XTS":1}`, `["XTS"]`} {
		if err := json.Unmarshal([]byte(text), new(Costs)); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

// TestImpossibleFigures: what another cluster claims of a Delivery breaks no bar and no sum.
func TestImpossibleFigures(t *testing.T) {
	d := &v1alpha1.Delivery{}
	d.Status.Conditions = conditions.Reconciling("Receiving", "x")
	d.Status.Run = &v1alpha1.RunStatus{ID: "x", Attempt: math.MaxInt32}
	d.Status.Progress = &v1alpha1.Progress{
		Percent: 1000, Bytes: -5, BytesTotal: math.MaxInt64, BytesPerSecond: math.MaxInt64,
		ETA: &metav1.Duration{Duration: math.MaxInt64},
	}
	for _, amount := range []string{"NaN", "1e999", "", "x", "-Inf"} {
		d.Status.Cost = &v1alpha1.CostStatus{Currency: "XTS", CPU: amount, Network: "0.25"}
		r := OfDelivery(d)
		if r.Percent != 100 || r.Bytes != 0 || r.Cost["XTS"] != 0.25 {
			t.Errorf("%q: %+v", amount, r)
		}
		for _, width := range []int{40, 200} {
			for _, line := range Frame([]Run{r}, width, 0) {
				if utf8.RuneCountInString(line) > width {
					t.Errorf("%q", line)
				}
			}
		}
	}
	d.Status.Progress.Percent = -3
	if r := OfDelivery(d); r.Percent != 0 {
		t.Errorf("%+v", r)
	}
}

func TestLeft(t *testing.T) {
	for seconds, want := range map[int64]string{
		0: "0s", 28: "28s", 252: "4m12s", 3720: "1h02m", 3*86400 + 4*3600 + 59: "3d04h", math.MaxInt64: "36500d00h",
	} {
		if got := left(seconds); got != want {
			t.Errorf("%d: %s", seconds, got)
		}
	}
}

// TestFrame: what is known of a run is on the page, at any width, and no line is wider.
func TestFrame(t *testing.T) {
	r := OfTransfer(transfer(false, conditions.Reconciling("Transferring", "x")...))
	for _, width := range []int{40, 80, 120} {
		lines := Frame([]Run{r}, width, 0)
		page := strings.Join(lines, "\n")
		for _, want := range []string{
			"bank/ledger", "Transferring (2)", " 60%", "412.0 MB/s", "4m12s", "XTS 1.75", "[######", "1 working",
		} {
			if !strings.Contains(page, want) {
				t.Errorf("%d: %q is not in\n%s", width, want, page)
			}
		}
		for _, line := range lines {
			if utf8.RuneCountInString(line) > width {
				t.Errorf("%d: %q", width, line)
			}
		}
	}
	if one, two := len(Frame([]Run{r}, 120, 0)), len(Frame([]Run{r}, 40, 0)); one != 2 || two != 5 {
		t.Errorf("%d and %d lines", one, two)
	}
}

func TestFrameHeight(t *testing.T) {
	runs := make([]Run, 50)
	for i := range runs {
		runs[i] = Run{Kind: "Transfer", Namespace: "bank", Name: strconv.Itoa(i), State: Working}
	}
	for height := 1; height < 120; height++ {
		lines := Frame(runs, 40, height)
		shown := 0
		for _, line := range lines {
			if strings.HasPrefix(line, "bank/") {
				shown++
			}
		}
		last := lines[len(lines)-1]
		if len(lines) > height || height > 1 && shown < 50 && last != fmt.Sprintf("... and %d more", 50-shown) {
			t.Errorf("%d: %d lines, %d shown, %q", height, len(lines), shown, last)
		}
		if height >= 101 && shown != 50 {
			t.Errorf("%d: %d shown", height, shown)
		}
	}
	if Sum(nil) == "" {
		t.Error("nothing is said of no runs")
	}
}

// TestSum: rates and costs are added, of different currencies apart, and times left are not.
func TestSum(t *testing.T) {
	text := Sum([]Run{
		{State: Working, BytesPerSecond: 1e6, ETASeconds: 10, Cost: Costs{"XTS": 1}},
		{State: Working, BytesPerSecond: 2e6, ETASeconds: 70, Cost: Costs{"XTS": 2}},
		{State: Failed, BytesPerSecond: 9e9, Cost: Costs{"USD": 4}},
		{State: Done, BytesPerSecond: 9e9},
	})
	want := "1 failed, 2 working, 1 done; 3.0 MB/s, 1m10s left; cost so far USD 4.0000 + XTS 3.0000"
	if text != want {
		t.Errorf("%q", text)
	}
}

func TestHostileText(t *testing.T) {
	r := Run{
		Kind: "Delivery", Namespace: hostile, Name: hostile, Peer: hostile, State: Failed, Phase: hostile, Reason: hostile,
		Message: hostile, ID: hostile, Node: hostile, Cost: Costs{"X\x1b[2J": 1},
	}
	s := Status{Problems: []Problem{{Kind: "Queue", Name: hostile, Reason: hostile, Message: hostile}}, Runs: []Run{r}}
	node := Node{Kind: "Transfer", Name: hostile, Text: hostile, Children: []Node{{Text: hostile}, {Text: hostile}}}
	for _, width := range []int{0, 1, 2, 40, 120} {
		lines := append(s.Lines(width, 10), node.Lines(width)...)
		if width > 0 {
			lines = append(lines, Frame([]Run{r}, width, 0)...)
		}
		for _, line := range append(lines, r.Text()) {
			if strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "  ok ") ||
				strings.ContainsFunc(line, func(r rune) bool { return !strconv.IsPrint(r) }) {
				t.Errorf("%d: %q", width, line)
			}
		}
	}
	for width := 1; width < 60; width++ {
		used := 0
		for _, c := range Fit(hostile, width) {
			used += columns(c)
		}
		if used > width {
			t.Errorf("%d columns in %d", used, width)
		}
	}
}

// TestLog: a line when something has changed, or has advanced, or is long ago, and no other.
func TestLog(t *testing.T) {
	var log Log
	now := time.Unix(1000, 0)
	r := Run{Kind: "Transfer", Namespace: "bank", Name: "ledger", State: Working, Phase: "Transferring", Attempt: 1}
	other := Run{Kind: "Delivery", Namespace: "bank", Name: "ledger", State: Done}
	for i, step := range []struct {
		after  time.Duration
		change func()
		want   int
	}{
		{0, func() {}, 2},
		{time.Second, func() {}, 0},
		{time.Second, func() { r.Percent = 9 }, 0},
		{time.Second, func() { r.Percent = 10 }, 1},
		{time.Second, func() { r.Percent = 19 }, 0},
		{time.Second, func() { r.Percent = 20 }, 1},
		{29 * time.Second, func() {}, 0},
		{time.Second, func() {}, 1},
		{time.Second, func() { r.Attempt = 2; r.Percent = 0 }, 1},
		{time.Second, func() { r.Reason = "Refused" }, 1},
		{time.Second, func() { r.State = Done }, 1},
		{time.Hour, func() {}, 0},
	} {
		now = now.Add(step.after)
		step.change()
		if news := log.News(now, []Run{r, other}); len(news) != step.want {
			t.Errorf("step %d: %+v", i, news)
		}
	}
	log.News(now, nil)
	if news := log.News(now, []Run{r}); len(news) != 1 {
		t.Errorf("one that was forgotten: %+v", news)
	}
}

func TestJSON(t *testing.T) {
	encoded, err := json.Marshal(OfTransfer(transfer(false, conditions.Reconciling("Transferring", "x")...)))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(encoded, &got); err != nil {
		t.Fatal(err)
	}
	cost, _ := got["cost"].(map[string]any)
	if got["state"] != "working" || got["percent"] != 60.0 || got["etaSeconds"] != 252.0 || cost["XTS"] != "1.7500" {
		t.Errorf("%s", encoded)
	}
}

func TestSort(t *testing.T) {
	runs := []Run{
		{Name: "a", State: Done}, {Name: "d", State: Working}, {Name: "b", State: Waiting}, {Name: "c", State: Stalled},
	}
	Sort(runs)
	var names string
	for _, r := range runs {
		names += r.Name
	}
	if names != "cdba" {
		t.Errorf("%s", names)
	}
}
