// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/plan"
)

// reports follow one that moving returns. Those that are news are shown early, others are not.
var reports = map[string]struct {
	change func(*wirev1.Report)
	news   bool
}{
	"further":   {func(r *wirev1.Report) { r.Progress.Bytes = 500 }, false},
	"CPU":       {func(r *wirev1.Report) { r.Cpu = &wirev1.CPU{SendNanos: 5, ReceiveNanos: 5} }, false},
	"omissions": {func(r *wirev1.Report) { r.Omissions = []*wirev1.Omission{{What: "Socket", Count: 1}} }, false},
	"detail":    {func(r *wirev1.Report) { r.Detail = "2 of 9" }, false},
	"more compressed": {func(r *wirev1.Report) {
		r.Compression.UncompressedBytes, r.Compression.Skipped = 500, map[string]uint64{"BelowMinimum": 1}
	}, false},
	"another engine": {func(r *wirev1.Report) { r.Compression.Engine = "zlib-ng" }, true},
	"another reason": {func(r *wirev1.Report) { r.Compression.Reason = "NoAccelerator" }, true},
	"another state":  {func(r *wirev1.Report) { r.State = wirev1.AgentState_AGENT_STATE_OPENING }, true},
	"a node's kind":  {func(r *wirev1.Report) { r.Architecture = "s390x" }, true},
}

func compressing() *wirev1.Report {
	report := moving()
	report.Compression = &wirev1.Compression{
		Codec: "deflate", Engine: "dfltcc", Reason: "HardwareUsed", UncompressedBytes: 100,
	}
	return report
}

// TestEarlyReports: what changes phase, conditions or columns is shown at once, with all else that is new then.
func TestEarlyReports(t *testing.T) {
	for name, test := range reports {
		t.Run(name, func(t *testing.T) {
			transfer, facts := running(1)
			facts.Pod = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
			facts.Report = compressing()
			transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
			facts.Report = compressing()
			test.change(facts.Report)
			if news := agentreport.News(compressing(), facts.Report); news != test.news {
				t.Errorf("news: %v", news)
			}
			facts.Early, facts.Now = true, facts.Now.Add(time.Second)
			early := plan.DecideTransfer(transfer, facts, image)
			if shown := !equality.Semantic.DeepEqual(early.Status, transfer.Status); shown != test.news {
				t.Errorf("shown: %v\n%+v", shown, early.Status)
			}
			facts.Early = false
			late := plan.DecideTransfer(transfer, facts, image)
			if name != "detail" && equality.Semantic.DeepEqual(late.Status, transfer.Status) {
				t.Error("not shown when it is due")
			}
			if test.news && !equality.Semantic.DeepEqual(early.Status, late.Status) {
				t.Errorf("news is not shown with all else:\n%+v\n%+v", early.Status, late.Status)
			}
		})
	}
}

func TestEarlyReportsOfReceivers(t *testing.T) {
	delivery, facts := newDelivery("mine", 1), goodDeliveryFacts()
	delivery.Status = plan.DecideDelivery(delivery, facts, image).Status
	facts.Job, facts.Pod = &batchv1.Job{}, pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	facts.Early = true
	if starting := plan.DecideDelivery(delivery, facts, image).Status; starting.Endpoint != "" {
		t.Errorf("before anybody knows that it serves: %q", starting.Endpoint)
	}
	facts.Pod.Status.ContainerStatuses[0].Started = ptr.To(true)
	if started := plan.DecideDelivery(delivery, facts, image).Status; started.Endpoint == "" {
		t.Error("the kubelet says that it has started, and senders are not told where it is")
	}
	// Its answer comes before the kubelet says so.
	facts.Pod.Status.ContainerStatuses[0].Started = nil
	facts.Report = &wirev1.Report{State: wirev1.AgentState_AGENT_STATE_WAITING}
	delivery.Status = plan.DecideDelivery(delivery, facts, image).Status
	if delivery.Status.Phase != v1alpha1.DeliveryWaiting || delivery.Status.Endpoint == "" {
		t.Fatalf("%s, %q", delivery.Status.Phase, delivery.Status.Endpoint)
	}
	facts.Report = moving()
	delivery.Status = plan.DecideDelivery(delivery, facts, image).Status
	if delivery.Status.Phase != v1alpha1.DeliveryReceiving || delivery.Status.Progress.Bytes != 100 {
		t.Fatalf("%+v", delivery.Status)
	}
	facts.Report.Progress.Bytes = 500
	if early := plan.DecideDelivery(delivery, facts, image); early.Status.Progress.Bytes != 100 {
		t.Errorf("shown early: %+v", early.Status.Progress)
	}
}

// TestEnds: a Transfer whose agent says that it has succeeded is complete before its pod
// is. How it failed the pod says.
func TestEnds(t *testing.T) {
	for state, want := range map[wirev1.AgentState]v1alpha1.TransferPhase{
		wirev1.AgentState_AGENT_STATE_SUCCEEDED: v1alpha1.TransferComplete,
		wirev1.AgentState_AGENT_STATE_FAILED:    v1alpha1.TransferTransferring,
	} {
		for _, early := range []bool{false, true} {
			transfer, facts := running(1)
			facts.Pod = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
			facts.Report = moving()
			transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
			facts.Report, facts.Early = moving(), early
			facts.Report.State, facts.Report.Progress.Bytes = state, 700
			transfer.Status = plan.DecideTransfer(transfer, facts, image).Status
			ended := transfer.Status.Run.CompletionTime != nil
			if succeeds := want == v1alpha1.TransferComplete; transfer.Status.Phase != want || ended != succeeds ||
				succeeds && transfer.Status.Progress.Bytes != 700 {
				t.Errorf("%v: %+v", state, transfer.Status)
			}
		}
	}
}

// TestLooksAgain: without a report there is nothing to look for before something is due: a pod's patience, or a
// certificate.
func TestLooksAgain(t *testing.T) {
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	for name, test := range map[string]struct {
		change func(*plan.TransferFacts)
		want   time.Duration
	}{
		"starting": {func(f *plan.TransferFacts) { f.Pod = pod(waiting) }, time.Minute},
		"starting for some time": {func(f *plan.TransferFacts) {
			f.Pod = pod(waiting)
			f.Pod.CreationTimestamp = metav1.NewTime(now.Add(-45 * time.Second))
		}, 15 * time.Second},
		"unschedulable": {func(f *plan.TransferFacts) {
			f.Pod = pod(waiting)
			f.Pod.CreationTimestamp = metav1.NewTime(now.Add(-5 * time.Second))
			f.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
		}, 10 * time.Second},
		"running": {func(f *plan.TransferFacts) {
			f.Pod = pod(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
			f.Report = moving()
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			transfer, facts := running(1)
			test.change(&facts)
			if got := plan.DecideTransfer(transfer, facts, image).RequeueAfter; got != test.want {
				t.Errorf("looks again after %s, want %s", got, test.want)
			}
			if test.want == 0 {
				facts.CertificateLifetime = 2 * time.Hour
				if got := plan.DecideTransfer(transfer, facts, image).RequeueAfter; got != time.Hour {
					t.Errorf("looks again after %s, want when the certificate is to be renewed", got)
				}
			}
		})
	}
}
