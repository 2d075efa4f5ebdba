// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build envtest

package transfer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/pki"
)

// because waits for a phase, and for the reason why the Transfer is not ready.
func (f *fixture) because(phase v1alpha1.TransferPhase, reason string) {
	f.Helper()
	controllertest.Eventually(f, func() error {
		if err := f.refresh(); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(f.transfer.Status.Conditions, v1alpha1.ConditionReady)
		if f.transfer.Status.Phase != phase || ready == nil || ready.Reason != reason {
			return fmt.Errorf("phase %q %+v, want %s %s", f.transfer.Status.Phase, ready, phase, reason)
		}
		return nil
	})
}

func (f *fixture) pause(pause bool) {
	f.Helper()
	f.change(func(t *v1alpha1.Transfer) { t.Spec.Pause = pause })
}

// endNow removes a pod as the kubelet does when it has ended.
func (f *fixture) endNow(pod *corev1.Pod) {
	f.Helper()
	if err := cluster.Client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)); err != nil {
		f.Fatal(err)
	}
}

// A run pauses in each of its phases, only when its pod has ended, and goes on with another attempt.
func TestPause(t *testing.T) {
	for name, state := range map[string]wirev1.AgentState{
		"Starting":     wirev1.AgentState_AGENT_STATE_UNSPECIFIED,
		"Opening":      wirev1.AgentState_AGENT_STATE_OPENING,
		"Transferring": wirev1.AgentState_AGENT_STATE_TRANSFERRING,
	} {
		t.Run(name, func(t *testing.T) {
			f := prepare(t)
			f.create()
			job := f.job(1)
			var pod *corev1.Pod
			phase := v1alpha1.TransferStarting
			if state == wirev1.AgentState_AGENT_STATE_UNSPECIFIED {
				pod = cluster.PendingPod(t, job)
			} else {
				report := transferring()
				report.State = state
				agents.Say(f.serverName(), report)
				pod = cluster.RunPod(t, job, "node-1")
				phase = v1alpha1.TransferPhase(name)
				f.because(phase, name)
			}
			f.pause(true)
			f.because(phase, v1alpha1.ReasonPausing)
			// The status says so first, and the agent is asked next.
			controllertest.Eventually(f, func() error {
				if asked := agents.Paused(f.serverName()); (asked == 0) != (phase == v1alpha1.TransferStarting) {
					return fmt.Errorf("the agent was asked to end %d times", asked)
				}
				return nil
			})
			controllertest.Eventually(f, func() error {
				if left := f.jobs(); len(left) > 0 || f.secretExists(job.Name) {
					return fmt.Errorf("left: %+v", left)
				}
				return nil
			})
			f.endNow(pod)
			f.because(v1alpha1.TransferPaused, v1alpha1.ReasonPaused)
			status := f.transfer.Status
			if status.Run.Failures != 0 || len(status.History) != 1 || status.History[0].Reason != v1alpha1.ReasonPaused {
				t.Errorf("%+v %+v", status.Run, status.History)
			}
			if state == wirev1.AgentState_AGENT_STATE_TRANSFERRING && status.History[0].Bytes != 4<<30 {
				t.Errorf("what it sent is lost: %+v", status.History[0])
			}
			// Nothing more is written.
			version := f.transfer.ResourceVersion
			time.Sleep(3 * time.Second)
			if err := f.refresh(); err != nil || f.transfer.ResourceVersion != version {
				t.Errorf("%v: %+v", err, f.transfer.Status)
			}
			f.pause(false)
			pod = cluster.RunPod(t, f.job(2), "node-1")
			cluster.EndPod(t, pod, 0, encode(t, succeeded()))
			f.wait(v1alpha1.TransferComplete, v1alpha1.ConditionReady, v1alpha1.ReasonSucceeded)
		})
	}
}

// The receiving agent within this cluster is ended as well.
func TestPauseWithinTheCluster(t *testing.T) {
	f := prepareLocal(t)
	vault := cluster.Namespace(t)
	cluster.Claim(t, vault, "copy")
	cluster.Create(t, &v1alpha1.PeerGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: vault, Name: "from-there"},
		Spec: v1alpha1.PeerGrantSpec{
			From: []v1alpha1.PeerGrantFrom{{Namespaces: []string{f.namespace}}},
			To:   []v1alpha1.PeerGrantTo{{Kind: v1alpha1.GrantedPersistentVolumeClaim, Name: "copy"}},
		},
	})
	f.transfer.Spec.Destination.Namespace = vault
	f.create()
	deliveries := func(want int) (found []v1alpha1.Delivery) {
		t.Helper()
		controllertest.Eventually(t, func() error {
			if found = f.deliveries(vault); len(found) != want {
				return fmt.Errorf("%d Deliveries, want %d", len(found), want)
			}
			return nil
		})
		return found
	}
	delivery := deliveries(1)[0]
	delivery.Status.Phase, delivery.Status.Peer = v1alpha1.DeliveryWaiting, v1alpha1.ThisCluster
	delivery.Status.Endpoint, delivery.Status.ServerName = "10.0.0.7:8443", pki.ReceiveServerName(string(delivery.UID))
	if err := cluster.Client.Status().Update(context.Background(), &delivery); err != nil {
		t.Fatal(err)
	}
	agents.Say(f.serverName(), transferring())
	pod := cluster.RunPod(t, f.job(1), f.namespace)
	f.because(v1alpha1.TransferTransferring, v1alpha1.ReasonTransferring)
	f.pause(true)
	deliveries(0)
	f.because(v1alpha1.TransferTransferring, v1alpha1.ReasonPausing)
	f.endNow(pod)
	f.because(v1alpha1.TransferPaused, v1alpha1.ReasonPaused)
	f.pause(false)
	if next := deliveries(1)[0]; next.Spec.Transfer.Attempt != 2 {
		t.Errorf("%+v", next.Spec.Transfer)
	}
}

// What cannot be a schedule is rejected by the API server.
func TestWindowsAreChecked(t *testing.T) {
	f := prepare(t)
	for name, schedule := range map[string]v1alpha1.TransferSchedule{
		"neither cron nor windows": {TimeZone: "Europe/Berlin"},
		"jitter without cron": {
			Jitter: &metav1.Duration{Duration: time.Minute}, Windows: []v1alpha1.ScheduleWindow{{Start: "20:00", End: "21:00"}},
		},
		"a window without anything": {Windows: []v1alpha1.ScheduleWindow{{}}},
		"start without end":         {Windows: []v1alpha1.ScheduleWindow{{Start: "20:00"}}},
		"no time":                   {Windows: []v1alpha1.ScheduleWindow{{Start: "24:00", End: "25:00"}}},
		"of no length":              {Windows: []v1alpha1.ScheduleWindow{{Start: "20:00", End: "20:00"}}},
		"no day":                    {Windows: []v1alpha1.ScheduleWindow{{Days: []v1alpha1.Weekday{"Mon"}}}},
		"too many":                  {Windows: make([]v1alpha1.ScheduleWindow, 17)},
		"a time zone that is a path": {
			TimeZone: "../x", Windows: []v1alpha1.ScheduleWindow{{Start: "20:00", End: "21:00"}},
		},
	} {
		transfer := f.make("unusable")
		transfer.Spec.Schedule = &schedule
		if err := cluster.Client.Create(context.Background(), transfer); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	// Only the manager knows which time zones there are.
	f.transfer.Spec.Schedule = &v1alpha1.TransferSchedule{
		TimeZone: "Mars/Olympus", Windows: []v1alpha1.ScheduleWindow{
			{Days: []v1alpha1.Weekday{v1alpha1.Saturday}}, {Start: "20:00", End: "06:00"},
		},
	}
	f.create()
	f.wait(v1alpha1.TransferPending, v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidSpec)
	f.change(func(t *v1alpha1.Transfer) { t.Spec.Schedule.TimeZone, t.Spec.Pause = "Europe/Berlin", true })
	f.because(v1alpha1.TransferPaused, v1alpha1.ReasonPaused)
	if f.transfer.Status.Run != nil {
		t.Errorf("%+v", f.transfer.Status)
	}
}

func limitedWindow(limit string) []v1alpha1.ScheduleWindow {
	q := resource.MustParse(limit)
	return []v1alpha1.ScheduleWindow{{Start: "20:00", End: "21:00", BandwidthLimit: &q}}
}

// An agent that runs is given another limit of bandwidth, without another attempt.
func TestLimitChanges(t *testing.T) {
	f := prepare(t)
	limit := resource.MustParse("1Mi")
	f.transfer.Spec.BandwidthLimit = &limit
	f.create()
	agents.Say(f.serverName(), transferring())
	cluster.RunPod(t, f.job(1), "node-1")
	f.because(v1alpha1.TransferTransferring, v1alpha1.ReasonTransferring)
	if _, told := agents.Limited(f.serverName()); told {
		t.Error("it is told what its configuration has")
	}
	for _, next := range []string{"512Ki", "7Mi", ""} {
		var wanted *resource.Quantity
		if next != "" {
			parsed := resource.MustParse(next)
			wanted = &parsed
		}
		f.change(func(t *v1alpha1.Transfer) { t.Spec.BandwidthLimit = wanted })
		controllertest.Eventually(t, func() error {
			if err := f.refresh(); err != nil {
				return err
			}
			got, _ := agents.Limited(f.serverName())
			shown, bytes := f.transfer.Status.Run.BandwidthLimit, uint64(0)
			if wanted != nil {
				bytes = uint64(wanted.Value())
			}
			if got != bytes || !equality.Semantic.DeepEqual(shown, wanted) {
				return fmt.Errorf("the agent has %d and status shows %v, want %q", got, shown, next)
			}
			return nil
		})
	}
	// So is that of a window, which is open at all times here.
	f.change(func(t *v1alpha1.Transfer) {
		t.Spec.BandwidthLimit = &limit
		t.Spec.Schedule = &v1alpha1.TransferSchedule{Windows: append(limitedWindow("1Mi"), limitedWindow("300Ki")...)}
		t.Spec.Schedule.Windows[0].Start, t.Spec.Schedule.Windows[0].End = "00:00", "12:00"
		t.Spec.Schedule.Windows[1].Start, t.Spec.Schedule.Windows[1].End = "12:00", "00:00"
		t.Spec.Schedule.Windows[0].BandwidthLimit = t.Spec.Schedule.Windows[1].BandwidthLimit
	})
	controllertest.Eventually(t, func() error {
		if err := f.refresh(); err != nil {
			return err
		}
		got, _ := agents.Limited(f.serverName())
		if shown := f.transfer.Status.Run.WindowLimit; got != 300<<10 || shown == nil || shown.Value() != 300<<10 {
			return fmt.Errorf("the agent has %d and status shows %v, want 300Ki", got, shown)
		}
		return nil
	})
	if f.transfer.Status.Run.Attempt != 1 {
		t.Errorf("%+v", f.transfer.Status.Run)
	}
}

// What cannot be a deadline is rejected by the API server, and one that can be is stated.
func TestDeadlinesAreChecked(t *testing.T) {
	f := prepare(t)
	hour, short := &metav1.Duration{Duration: time.Hour}, &metav1.Duration{Duration: time.Second}
	later := &metav1.Time{Time: time.Now().Add(time.Hour)}
	for name, change := range map[string]func(*v1alpha1.TransferSpec){
		"neither": func(s *v1alpha1.TransferSpec) { s.Deadline = &v1alpha1.TransferDeadline{} },
		"both":    func(s *v1alpha1.TransferSpec) { s.Deadline = &v1alpha1.TransferDeadline{Within: hour, Time: later} },
		"short":   func(s *v1alpha1.TransferSpec) { s.Deadline = &v1alpha1.TransferDeadline{Within: short} },
		"a time with cron": func(s *v1alpha1.TransferSpec) {
			s.Deadline = &v1alpha1.TransferDeadline{Time: later}
			s.Schedule = &v1alpha1.TransferSchedule{Cron: "@daily"}
		},
	} {
		transfer := f.make("unusable")
		change(&transfer.Spec)
		if err := cluster.Client.Create(context.Background(), transfer); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	f.transfer.Spec.Deadline = &v1alpha1.TransferDeadline{Within: hour}
	f.create()
	agents.Say(f.serverName(), transferring())
	cluster.RunPod(t, f.job(1), "node-1")
	f.because(v1alpha1.TransferTransferring, v1alpha1.ReasonTransferring)
	by := f.transfer.Status.Deadline
	if c := meta.FindStatusCondition(f.transfer.Status.Conditions, v1alpha1.ConditionWithinDeadline); c == nil || by == nil ||
		by.RunID != f.transfer.Status.Run.ID || !by.Time.Equal(&metav1.Time{Time: by.StartTime.Add(time.Hour)}) {
		t.Errorf("%+v %+v", c, by)
	}
	f.change(func(t *v1alpha1.Transfer) { t.Spec.Deadline = nil })
	controllertest.Eventually(t, func() error {
		if err := f.refresh(); err != nil {
			return err
		}
		if f.transfer.Status.Deadline != nil {
			return fmt.Errorf("status still has %+v", f.transfer.Status.Deadline)
		}
		return nil
	})
}
