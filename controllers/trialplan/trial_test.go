// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package trialplan_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/attempt"
	"github.com/lighterage/lighterage/controllers/attempt/attempttest"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/tariff"
	"github.com/lighterage/lighterage/controllers/trialplan"
)

var (
	now, image           = attempttest.Now, attempttest.Image
	pod, ended, failed   = attempttest.Pod, attempttest.Ended, attempttest.Failed
	verdict, restricted  = attempttest.Verdict, attempttest.Restricted
	nodes, unschedulable = attempttest.Nodes, attempttest.Unschedulable
)

func newTrial() (*v1alpha1.CompressionTrial, trialplan.Facts) {
	trial := &v1alpha1.CompressionTrial{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "ledger", UID: "uid-of-trial", Generation: 1},
		Spec: v1alpha1.CompressionTrialSpec{
			Source: v1alpha1.TrialSource{
				PersistentVolumeClaim: &v1alpha1.PersistentVolumeClaimPath{ClaimName: "ledger", Path: "/books"},
			},
			Links: []v1alpha1.TrialLink{
				{Name: "wan", BytesPerSecond: resource.MustParse("12500k")},
				{Name: "lan", BytesPerSecond: resource.MustParse("1250M")},
			},
		},
	}
	return trial, trialplan.Facts{
		Now: now, NewRunID: "abcde", Claim: &corev1.PersistentVolumeClaim{},
		Policies: []v1alpha1.CompressionPolicy{{
			ObjectMeta: metav1.ObjectMeta{Name: "priced"},
			Spec: v1alpha1.CompressionPolicySpec{
				Prices: &v1alpha1.Prices{Currency: "USD", CPUHour: "0.031", NetworkGiB: "0.05"},
			},
		}},
	}
}

// trialResult is what an agent finds: two rows of which the second is best over the wan.
func trialResult() *wirev1.TrialResult {
	return &wirev1.TrialResult{
		Sample: &wirev1.TrialSample{
			Bytes: 64 << 20, Files: 3, BytesTotal: 5 << 30, FilesTotal: 9, HopelessBytes: 16 << 20,
		},
		Cores: 2,
		Accelerator: &wirev1.AcceleratorMeasurement{
			State: wirev1.AcceleratorState_ACCELERATOR_STATE_ABSENT, Reason: "NoInstruction", Message: "none",
		},
		Rows: []*wirev1.TrialRow{
			{
				Codec: "none", Engine: "none", WireBytes: 64 << 20, CpuNanos: 3e9, CostNanos: 50_000_000,
				ElapsedNanos: []uint64{86e9, 1e9},
			},
			{Codec: "zstd", Engine: "libzstd", Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_BALANCED, WireBytes: 16 << 20,
				CompressNanos: 4e9, InflateNanos: 1e9, CpuNanos: 8e9, CostNanos: 12_500_000, ElapsedNanos: []uint64{22e9, 4e9}},
			{Codec: "deflate", Engine: "go", Problem: "no memory"},
		},
		Best: []uint32{1, 0}, WaitCpuNanos: []uint64{8e9, 1e9}, WaitCostNanos: []uint64{40_000_000, 0},
	}
}

func trialReport(t *testing.T, result *wirev1.TrialResult) string {
	t.Helper()
	b, err := proto.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	message, err := protojson.Marshal(
		&wirev1.Report{State: wirev1.AgentState_AGENT_STATE_SUCCEEDED, Architecture: "amd64", Trial: b},
	)
	if err != nil {
		t.Fatal(err)
	}
	return string(message)
}

// runningTrial is a trial whose attempt was started.
func runningTrial() (*v1alpha1.CompressionTrial, trialplan.Facts) {
	trial, facts := newTrial()
	trial.Status = trialplan.Decide(trial, facts, image).Status
	facts.Job = &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "bank", Name: attempt.Name("ledger", "abcde", 1), CreationTimestamp: metav1.NewTime(now),
	}}
	return trial, facts
}

func TestTrialStarts(t *testing.T) {
	trial, facts := newTrial()
	trial.Spec.Compression = &v1alpha1.TrialCompression{PolicyName: "priced", Objective: v1alpha1.ObjectiveBytes}
	trial.Spec.Sample = &v1alpha1.TrialSample{Size: ptr.To(resource.MustParse("2Mi")), Seed: 7}
	trial.Spec.NodeClass = &v1alpha1.TrialNodeClass{
		Class: v1alpha1.TrialClassSoftware, Architecture: "s390x", NodeSelector: map[string]string{"rack": "7"},
	}
	decision := trialplan.Decide(trial, facts, image)
	if kind, reason, _ := verdict(t, decision.Status.Conditions); kind != v1alpha1.ConditionReconciling ||
		reason != v1alpha1.ReasonStarting ||
		decision.Status.Run.ID != "abcde" || decision.Status.Policy.Objective != v1alpha1.ObjectiveBytes ||
		len(decision.Status.Links) != 2 {
		t.Fatalf("%s %s %+v", kind, reason, decision.Status)
	}
	job := decision.Start.Job()
	pod := job.Spec.Template.Spec
	restricted(t, pod)
	if !pod.Volumes[1].PersistentVolumeClaim.ReadOnly || pod.Containers[0].Args[0] != "trial" ||
		job.Labels[v1alpha1.TrialLabel] != "uid-of-trial" || job.OwnerReferences[0].Kind != "CompressionTrial" {
		t.Errorf("%+v", job)
	}
	terms := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 3 ||
		!slices.Equal(terms[0].MatchExpressions[0].Values, []string{"s390x"}) {
		t.Errorf("%+v", terms)
	}
	text, err := decision.Start.Config()
	var config wirev1.TrialConfig
	if err != nil || protojson.Unmarshal(text, &config) != nil {
		t.Fatal(err)
	}
	if config.Path != "books" || config.SampleBytes != 2<<20 || config.Seed != 7 ||
		!slices.Equal(config.LinkBytesPerSecond, []uint64{12_500_000, 1_250_000_000}) ||
		config.Compression.GetPrices().GetNetworkGibNanos() != 50_000_000 ||
		config.Compression.GetObjective() != wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_BYTES {
		t.Errorf("%s", text)
	}
}

func TestTrialBadInput(t *testing.T) {
	for name, test := range map[string]struct {
		change       func(*v1alpha1.CompressionTrial, *trialplan.Facts)
		reason, says string
	}{
		"no claim": {
			func(_ *v1alpha1.CompressionTrial, f *trialplan.Facts) { f.Claim = nil }, v1alpha1.ReasonSourceNotFound,
			`no PersistentVolumeClaim "ledger"`,
		},
		"path outside": {func(t *v1alpha1.CompressionTrial, _ *trialplan.Facts) {
			t.Spec.Source.PersistentVolumeClaim.Path = "/../x"
		}, v1alpha1.ReasonInvalidSpec, "must not contain . or .."},
		"no links": {
			func(t *v1alpha1.CompressionTrial, _ *trialplan.Facts) { t.Spec.Links = nil }, v1alpha1.ReasonInvalidSpec,
			"1 to 6 links, not 0",
		},
		"slow link": {func(t *v1alpha1.CompressionTrial, _ *trialplan.Facts) {
			t.Spec.Links[0].BytesPerSecond = resource.MustParse("0")
		}, v1alpha1.ReasonInvalidSpec, "between 1k and 1T"},
		"negative link": {func(t *v1alpha1.CompressionTrial, _ *trialplan.Facts) {
			t.Spec.Links[0].BytesPerSecond = resource.MustParse("-5M")
		},
			v1alpha1.ReasonInvalidSpec, "between 1k and 1T"},
		"link twice": {
			func(t *v1alpha1.CompressionTrial, _ *trialplan.Facts) { t.Spec.Links[1].Name = "wan" }, v1alpha1.ReasonInvalidSpec,
			"no name twice",
		},
		"large sample": {func(t *v1alpha1.CompressionTrial, _ *trialplan.Facts) {
			t.Spec.Sample = &v1alpha1.TrialSample{Size: ptr.To(resource.MustParse("1Gi"))}
		}, v1alpha1.ReasonInvalidSpec, "between 1Mi and 128Mi"},
		"negative seed": {func(t *v1alpha1.CompressionTrial, _ *trialplan.Facts) {
			t.Spec.Sample = &v1alpha1.TrialSample{Seed: -1}
		}, v1alpha1.ReasonInvalidSpec, "0 or more"},
		"unknown class": {func(t *v1alpha1.CompressionTrial, _ *trialplan.Facts) {
			t.Spec.NodeClass = &v1alpha1.TrialNodeClass{Class: "Fast"}
		}, v1alpha1.ReasonInvalidSpec, "Any, Hardware or Software"},
		"no policy": {func(t *v1alpha1.CompressionTrial, _ *trialplan.Facts) {
			t.Spec.Compression = &v1alpha1.TrialCompression{PolicyName: "x"}
		},
			v1alpha1.ReasonPolicyNotFound, `CompressionPolicy "x"`},
		"cost without prices": {func(t *v1alpha1.CompressionTrial, _ *trialplan.Facts) {
			t.Spec.Compression = &v1alpha1.TrialCompression{Objective: v1alpha1.ObjectiveCost}
		}, v1alpha1.ReasonInvalidSpec, "there are no prices"},
		"negative price": {func(t *v1alpha1.CompressionTrial, f *trialplan.Facts) {
			f.Policies[0].Spec.Prices.CPUHour = "-1"
			t.Spec.Compression = &v1alpha1.TrialCompression{PolicyName: "priced"}
		}, v1alpha1.ReasonInvalidSpec, "not negative"},
		"privilege": {func(t *v1alpha1.CompressionTrial, _ *trialplan.Facts) {
			t.Spec.PodTemplate = &v1alpha1.AgentPodTemplate{
				SecurityContext: &corev1.SecurityContext{RunAsUser: ptr.To[int64](0)},
			}
		}, v1alpha1.ReasonPrivilegeNotAllowed, "runAsUser: 0"},
		"no accelerator": {func(t *v1alpha1.CompressionTrial, _ *trialplan.Facts) {
			t.Spec.NodeClass = &v1alpha1.TrialNodeClass{Class: v1alpha1.TrialClassHardware}
		}, v1alpha1.CompressionNoAccelerator, "spec.nodeClass"},
		"no such node": {func(t *v1alpha1.CompressionTrial, f *trialplan.Facts) {
			t.Spec.NodeClass = &v1alpha1.TrialNodeClass{NodeSelector: map[string]string{"rack": "7"}}
			f.Placement.Nodes = []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "x"}}}
		}, v1alpha1.ReasonUnschedulable, "x: not of the class"},
	} {
		trial, facts := newTrial()
		test.change(trial, &facts)
		decision := trialplan.Decide(trial, facts, image)
		kind, reason, message := verdict(t, decision.Status.Conditions)
		if kind != v1alpha1.ConditionStalled || reason != test.reason || !strings.Contains(message, test.says) ||
			decision.Start != nil || decision.Status.Phase != v1alpha1.TrialPending {
			t.Errorf("%s: %s %s: %s", name, kind, reason, message)
		}
	}
}

// TestTrialKeepsItsPolicy: a policy that is deleted in the middle of a run is missed by the next run and not by the
// attempts of this one.
func TestTrialKeepsItsPolicy(t *testing.T) {
	trial, facts := newTrial()
	trial.Spec.Compression = &v1alpha1.TrialCompression{PolicyName: "priced"}
	trial.Status = trialplan.Decide(trial, facts, image).Status
	if p := trial.Status.Policy; p == nil || p.Prices == nil {
		t.Fatalf("%+v", p)
	}
	facts.Policies = nil
	past := metav1.NewTime(now.Add(-time.Second))
	trial.Status.Run.NextAttemptTime = &past
	retry := trialplan.Decide(trial, facts, image)
	if retry.Start == nil || retry.Status.Run.Attempt != 2 || retry.Status.Policy.Prices == nil {
		t.Errorf("the next attempt: %+v", retry.Status)
	}
	trial.Status.Run.NextAttemptTime, trial.Status.Run.CompletionTime, trial.Status.Phase = nil, &past,
		v1alpha1.TrialComplete
	trial.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	next := trialplan.Decide(trial, facts, image)
	if what, reason, _ := verdict(t, next.Status.Conditions); next.Start != nil || what != v1alpha1.ConditionStalled ||
		reason != v1alpha1.ReasonPolicyNotFound {
		t.Errorf("the next run: %s %s", what, reason)
	}
}

func TestTrialCompletes(t *testing.T) {
	trial, facts := runningTrial()
	trial.Spec.TTLSecondsAfterFinished = ptr.To[int32](60)
	trial.Status.Policy.Prices = tariff.Stated(facts.Policies[0].Spec.Prices, "p", "", 1)
	facts.Pod = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	facts.Report = &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_MEASURING, Detail: "measuring go at Fast, 3 of 9"}
	trial.Status = trialplan.Decide(trial, facts, image).Status
	if kind, reason, message := verdict(t, trial.Status.Conditions); kind != v1alpha1.ConditionReconciling ||
		reason != v1alpha1.ReasonMeasuring || !strings.Contains(message, "3 of 9") {
		t.Errorf("%s %s %s", kind, reason, message)
	}
	facts.Pod, facts.Report = ended(0, "", trialReport(t, trialResult())), nil
	decision := trialplan.Decide(trial, facts, image)
	trial.Status = decision.Status
	if kind, reason, _ := verdict(t, trial.Status.Conditions); kind != v1alpha1.ConditionReady ||
		reason != v1alpha1.ReasonSucceeded || !decision.Ended || decision.Expired || decision.RequeueAfter != time.Minute {
		t.Fatalf("%+v", decision)
	}
	s := trial.Status
	if len(s.Results) != 3 || s.Results[1].Ratio != "4.000" ||
		s.Results[1].Predictions[0] != (v1alpha1.TrialPrediction{
			Link: "wan", SecondsPerGiB: "22.00", CPUSecondsPerGiB: "10.00", CostPerGiB: "0.0225",
		}) ||
		s.Results[1].Predictions[1] != (v1alpha1.TrialPrediction{
			Link: "lan", SecondsPerGiB: "4.00", CPUSecondsPerGiB: "8.25", CostPerGiB: "0.0125",
		}) || s.Results[2].Problem != "no memory" || s.Cores != 2 ||
		s.Accelerator.State != v1alpha1.AcceleratorAbsent || s.Sample.HopelessBytes != 16<<20 ||
		len(s.Recommendation.Choices) != 2 || s.Recommendation.Choices[0].Engine != "libzstd" {
		t.Errorf("%+v %+v", s, s.Recommendation)
	}
	facts.Now = now.Add(59 * time.Second)
	if d := trialplan.Decide(trial, facts, image); d.Expired || d.RequeueAfter != time.Second {
		t.Errorf("%+v", d)
	}
	facts.Now = now.Add(time.Minute)
	if d := trialplan.Decide(trial, facts, image); !d.Expired {
		t.Errorf("%+v", d)
	}
	trial.Annotations = map[string]string{v1alpha1.RunAnnotation: "again"}
	facts.NewRunID = "fghij"
	if d := trialplan.Decide(trial, facts, image); d.Expired || d.Start == nil || d.Status.Run.ID != "fghij" ||
		d.Status.Results != nil || d.Status.LastRunRequest != "again" {
		t.Errorf("%+v", d)
	}
}

func TestTrialFails(t *testing.T) {
	for reason, test := range map[wirev1.FailureReason]struct {
		phase     v1alpha1.TrialPhase
		condition string
		failures  int32
	}{
		wirev1.FailureReason_FAILURE_REASON_SOURCE_EMPTY:        {v1alpha1.TrialFailed, v1alpha1.ConditionStalled, 0},
		wirev1.FailureReason_FAILURE_REASON_INVALID_FILTER:      {v1alpha1.TrialFailed, v1alpha1.ConditionStalled, 0},
		wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND:    {v1alpha1.TrialRetrying, v1alpha1.ConditionStalled, 0},
		wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_READABLE: {v1alpha1.TrialRetrying, v1alpha1.ConditionReconciling, 1},
		wirev1.FailureReason_FAILURE_REASON_INTERNAL:            {v1alpha1.TrialRetrying, v1alpha1.ConditionReconciling, 1},
	} {
		trial, facts := runningTrial()
		facts.Pod = failed(t, reason, "what to do")
		decision := trialplan.Decide(trial, facts, image)
		kind, _, message := verdict(t, decision.Status.Conditions)
		if decision.Status.Phase != test.phase || kind != test.condition || !strings.Contains(message, "what to do") ||
			decision.Status.Run.Failures != test.failures {
			t.Errorf("%v: %s %s %s", reason, decision.Status.Phase, kind, message)
		}
		if test.failures == 0 {
			continue
		}
		// The third failure is the last.
		trial.Status.Run.Failures = 2
		if d := trialplan.Decide(trial, facts, image); d.Status.Phase != v1alpha1.TrialFailed ||
			d.Status.Run.CompletionTime == nil {
			t.Errorf("%v: %+v", reason, d.Status)
		}
		trial.Status, facts.Now = decision.Status, now.Add(decision.RequeueAfter)
		if d := trialplan.Decide(trial, facts, image); d.Start == nil ||
			d.Start.Name() != attempt.Name("ledger", "abcde", 2) {
			t.Errorf("%v: no second attempt: %+v", reason, d.Status)
		}
	}
	trial, facts := runningTrial()
	trial.Status.Run.Node = "x"
	facts.Job = nil
	if d := trialplan.Decide(trial, facts, image); d.Status.Phase != v1alpha1.TrialRetrying {
		t.Errorf("%+v", d.Status)
	}
}

// TestTrialWithoutFreeNode: what the trial asks for and status.placement are told in the same words, and those are
// a trial's.
func TestTrialWithoutFreeNode(t *testing.T) {
	trial, facts := newTrial()
	trial.Spec.NodeClass = &v1alpha1.TrialNodeClass{Class: v1alpha1.TrialClassHardware}
	facts.Placement = nodes(false)
	facts.Placement.FreeSlots = map[string]int64{"z15-a": 1}
	decision := trialplan.Decide(trial, facts, image)
	trial.Status, facts.Job, facts.Pod = decision.Status, decision.Start.Job(), unschedulable(2*time.Minute)
	for reason, change := range map[string]func(*placement.Facts){
		v1alpha1.PlacementReasonNoRoom:          func(f *placement.Facts) { f.AwaitedSlots = 1 },
		v1alpha1.PlacementReasonAcceleratorBusy: func(f *placement.Facts) { f.FreeSlots = map[string]int64{"z15-a": 0} },
		v1alpha1.CompressionNoAccelerator:       func(f *placement.Facts) { f.Nodes = nodes(true).Nodes },
	} {
		facts := facts
		change(&facts.Placement)
		status := trialplan.Decide(trial, facts, image).Status
		kind, got, message := verdict(t, status.Conditions)
		if kind != v1alpha1.ConditionStalled || got != reason || status.Placement.Reason != reason ||
			!strings.Contains(message, status.Placement.Message) ||
			!strings.Contains(message, "spec.nodeClass.class Hardware waits") ||
			!strings.Contains(message, "choose Any or Software") ||
			!strings.Contains(message, "0/2 nodes are available") || strings.Contains(message, "PreferHardware") {
			t.Errorf("%s: %s %s: %s; placement %+v", reason, kind, got, message, status.Placement)
		}
	}
	trial.Spec.NodeClass.Class = v1alpha1.TrialClassAny
	status := trialplan.Decide(trial, facts, image).Status
	if _, reason, _ := verdict(t, status.Conditions); reason != v1alpha1.ReasonUnschedulable ||
		status.Placement.Reason != v1alpha1.PlacementReasonAnyNode {
		t.Errorf("%s, %+v", reason, status.Placement)
	}
}

// TestTrialResultIsChecked: what an agent says is not shown if it cannot be.
func TestTrialResultIsChecked(t *testing.T) {
	for name, change := range map[string]func(*wirev1.TrialResult){
		"no rows":                  func(r *wirev1.TrialResult) { r.Rows = nil },
		"many rows":                func(r *wirev1.TrialResult) { r.Rows = slices.Repeat(r.Rows, 20) },
		"first":                    func(r *wirev1.TrialResult) { r.Rows[0].Codec = "zstd" },
		"no links":                 func(r *wirev1.TrialResult) { r.Best = nil },
		"no waiting":               func(r *wirev1.TrialResult) { r.WaitCpuNanos = nil },
		"best":                     func(r *wirev1.TrialResult) { r.Best[0] = 7 },
		"best has none":            func(r *wirev1.TrialResult) { r.Best[0] = 2 },
		"no figures":               func(r *wirev1.TrialResult) { r.Rows[1].WireBytes = 0 },
		"predictions":              func(r *wirev1.TrialResult) { r.Rows[1].ElapsedNanos = nil },
		"empty":                    func(r *wirev1.TrialResult) { r.Sample = nil },
		"long":                     func(r *wirev1.TrialResult) { r.Rows[1].Engine = strings.Repeat("x", 1000) },
		"long silence":             func(r *wirev1.TrialResult) { r.Sample.Silence = strings.Repeat("x", 257) },
		"unknown unit":             func(r *wirev1.TrialResult) { r.Sample.Unit = 3 },
		"dictionary of nothing":    func(r *wirev1.TrialResult) { r.Dictionaries[0].PlainBytes = 0 },
		"dictionary, no bytes":     func(r *wirev1.TrialResult) { r.Dictionaries[0].Rows[0].WireBytes = 0 },
		"dictionary, none without": func(r *wirev1.TrialResult) { r.Dictionaries[0].Rows[0].WireBytesWithout = 0 },
		"dictionary, no level":     func(r *wirev1.TrialResult) { r.Dictionaries[0].Rows[0].Level = 0 },
		"dictionary, many levels": func(r *wirev1.TrialResult) {
			d := r.Dictionaries[0]
			d.Rows = slices.Repeat(d.Rows, 4)
		},
		"dictionary of bodies": func(r *wirev1.TrialResult) { r.Sample.Unit = wirev1.TrialUnit_TRIAL_UNIT_BODY },
		"dictionary, problem":  func(r *wirev1.TrialResult) { r.Dictionaries[0].Problem = "few" },
		"dictionary, no rows":  func(r *wirev1.TrialResult) { r.Dictionaries[0].Rows = nil },
		"dictionary, level twice": func(r *wirev1.TrialResult) {
			d := r.Dictionaries[0]
			d.Rows[1].Level = d.Rows[0].Level
		},
		"dictionary, descending":   func(r *wirev1.TrialResult) { slices.Reverse(r.Dictionaries[0].Rows) },
		"dictionary, long":         func(r *wirev1.TrialResult) { r.Dictionaries[0].Bytes = 64<<10 + 1 },
		"dictionary, empty":        func(r *wirev1.TrialResult) { r.Dictionaries[0].Bytes = 0 },
		"dictionary, trained":      func(r *wirev1.TrialResult) { r.Dictionaries[0].TrainingItems = 101 },
		"dictionary, measured":     func(r *wirev1.TrialResult) { r.Dictionaries[0].Items = math.MaxUint64 },
		"dictionary, long engine":  func(r *wirev1.TrialResult) { r.Dictionaries[0].Engine = strings.Repeat("x", 1000) },
		"dictionary, long problem": func(r *wirev1.TrialResult) { r.Dictionaries[0].Problem = strings.Repeat("x", 1000) },
		"dictionary, long codec":   func(r *wirev1.TrialResult) { r.Dictionaries[0].Codec = strings.Repeat("x", 1000) },
		"the second dictionary":    func(r *wirev1.TrialResult) { r.Dictionaries[1].PlainBytes = 0 },
		"many dictionaries":        func(r *wirev1.TrialResult) { r.Dictionaries = slices.Repeat(r.Dictionaries, 5) },
		"an earlier agent's": func(r *wirev1.TrialResult) {
			r.Dictionary, r.Dictionaries = r.Dictionaries[0], nil
			r.Dictionary.PlainBytes = 0
		},
	} {
		trial, facts := runningTrial()
		result := messageResult()
		change(result)
		facts.Pod = ended(0, "", trialReport(t, result))
		decision := trialplan.Decide(trial, facts, image)
		if _, _, message := verdict(t, decision.Status.Conditions); decision.Status.Phase != v1alpha1.TrialRetrying ||
			decision.Status.Results != nil || !strings.Contains(message, "cannot be used") {
			t.Errorf("%s: %s", name, message)
		}
	}
}

func FuzzTrialResult(f *testing.F) {
	good, err := proto.Marshal(trialResult())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{})
	bodies := trialResult()
	bodies.Sample.Unit, bodies.Sample.Items, bodies.Sample.Agents,
		bodies.Sample.SilentAgents = wirev1.TrialUnit_TRIAL_UNIT_BODY,
		5, 1, 1<<63
	bodies.Sample.Silence = "no route"
	for _, seed := range []*wirev1.TrialResult{bodies, messageResult()} {
		if good, err = proto.Marshal(seed); err != nil {
			f.Fatal(err)
		}
		f.Add(good)
	}
	f.Fuzz(func(t *testing.T, encoded []byte) {
		message, err := protojson.Marshal(&wirev1.Report{State: wirev1.AgentState_AGENT_STATE_SUCCEEDED, Trial: encoded})
		if err != nil {
			t.Fatal(err)
		}
		trial, facts := runningTrial()
		facts.Pod = ended(0, "", string(message))
		decision := trialplan.Decide(trial, facts, image)
		if decision.Status.Phase == v1alpha1.TrialComplete && (len(decision.Status.Results) == 0 ||
			len(decision.Status.Results) > 32 || decision.Status.Recommendation == nil) {
			t.Errorf("%+v", decision.Status)
		}
		if n := len(decision.Status.Dictionaries); n > 8 {
			t.Errorf("%d dictionaries", n)
		}
		for _, d := range decision.Status.Dictionaries {
			if len(d.Results) > 3 || d.Bytes < 0 || d.Items < 0 || d.TrainingItems < 0 || len(d.Codec) > 128 {
				t.Errorf("%+v", d)
			}
		}
		if s := decision.Status.Sample; s != nil && (s.Unit == "" || s.Items < 0 || s.Agents < 0 || s.SilentAgents < 0 ||
			len(s.SilentMessage) > 256) {
			t.Errorf("%+v", s)
		}
	})
}

func TestEarlyReportsOfTrials(t *testing.T) {
	trial, facts := runningTrial()
	facts.Pod = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	facts.Report, facts.Early = &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_MEASURING, Detail: "1 of 9"}, true
	trial.Status = trialplan.Decide(trial, facts, image).Status
	if trial.Status.Phase != v1alpha1.TrialMeasuring {
		t.Fatal(trial.Status.Phase)
	}
	facts.Report = &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_MEASURING, Detail: "2 of 9"}
	if early := trialplan.Decide(trial, facts, image); !equality.Semantic.DeepEqual(early.Status, trial.Status) {
		t.Errorf("shown early: %+v", early.Status)
	}
	facts.Early = false
	if late := trialplan.Decide(trial, facts, image); equality.Semantic.DeepEqual(late.Status, trial.Status) {
		t.Error("not shown when it is due")
	}
}

// TestEstimatesByTariff: trials estimate by prices that status shows.
func TestEstimatesByTariff(t *testing.T) {
	trial, facts := newTrial()
	facts.Policies, trial.Spec.Compression = nil, nil
	facts.Tariffs = []v1alpha1.Tariff{{
		ObjectMeta: metav1.ObjectMeta{
			Name: "t", Generation: 3, Annotations: map[string]string{v1alpha1.DefaultTariffAnnotation: "true"},
		},
		Spec: v1alpha1.TariffSpec{
			Currency: "EUR", CPUHour: v1alpha1.CPUHourPrice{Price: "9"},
			NetworkGiB: v1alpha1.NetworkGiBPrice{
				Price: "0", Rules: []v1alpha1.NetworkGiBRule{{Price: "1", Peers: []string{"west"}}},
			},
		},
	}}
	want := v1alpha1.PricesStatus{
		Currency: "EUR", CPUHour: "9", NetworkGiB: "0", Source: v1alpha1.PricesOfTariff, Name: "t", Generation: 3,
	}
	if p := trialplan.Decide(trial, facts, image).Status.Policy; p == nil || p.Prices == nil || *p.Prices != want {
		t.Errorf("%+v", p)
	}
}

// The Job of what is complete is removed, also by a manager that finds it there later. That of what failed stays for
// people to read its log.
func TestClear(t *testing.T) {
	ended := metav1.NewTime(now)
	for name, c := range map[string]struct {
		phase v1alpha1.TrialPhase
		job   *batchv1.Job
		clear bool
	}{
		"complete":         {v1alpha1.TrialComplete, &batchv1.Job{}, true},
		"complete, no Job": {v1alpha1.TrialComplete, nil, false},
		"failed":           {v1alpha1.TrialFailed, &batchv1.Job{}, false},
	} {
		trial := &v1alpha1.CompressionTrial{Status: v1alpha1.CompressionTrialStatus{
			Phase: c.phase, Run: &v1alpha1.RunStatus{ID: "abcde", Attempt: 1, CompletionTime: &ended},
		}}
		if got := trialplan.Decide(trial, trialplan.Facts{Now: now, Job: c.job}, image).Clear; got != c.clear {
			t.Errorf("%s: %v", name, got)
		}
	}
}
