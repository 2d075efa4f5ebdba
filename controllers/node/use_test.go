// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/metrics"
	"github.com/lighterage/lighterage/controllers/node"
)

// reporting are agents of all kinds that answer what the test says.
type reporting struct {
	*agents
	started time.Time
	nanos   uint64
}

func (r *reporting) cpu() *wirev1.CPU { return &wirev1.CPU{AcceleratorNanos: r.nanos} }

func (r *reporting) Report(context.Context, agentclient.Target) (*wirev1.Report, error) {
	return &wirev1.Report{StartTime: timestamppb.New(r.started), Cpu: r.cpu()}, r.err
}

func (r *reporting) HTTPReport(context.Context, agentclient.Target) (*wirev1.HTTPReport, error) {
	return &wirev1.HTTPReport{StartTime: timestamppb.New(r.started), Cpu: r.cpu()}, r.err
}

func (r *reporting) QueueReport(context.Context, agentclient.Target) (*wirev1.QueueReport, error) {
	return &wirev1.QueueReport{StartTime: timestamppb.New(r.started), Cpu: r.cpu()}, r.err
}

// useBench is a node with an accelerator, its agent, and the pod of another agent at 10.0.0.2.
func useBench(t *testing.T) (*bench, *reporting, agentclient.Agents, *prometheus.Registry) {
	t.Helper()
	b := newBench(t,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "z15-a", UID: "u"}},
		agentPod("agent", "z15-a", "10.0.0.1", time.Hour),
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "send"}, Spec: corev1.PodSpec{NodeName: "z15-a"},
			Status: corev1.PodStatus{PodIP: "10.0.0.2"},
		})
	use, registry := node.NewUse(b.clock), prometheus.NewRegistry()
	fake := &reporting{agents: b.agents, started: start.Add(time.Second)}
	heard := use.Listen(fake)
	b.reconciler = node.NewReconciler(b.api, node.Options{
		Profiles: controllertest.Asking[*wirev1.NodeMeasurement](heard.Profile), Namespace: operator, Clock: b.clock,
		Use:     use,
		Metrics: metrics.NewNodes(registry),
	})
	return b, fake, heard, registry
}

// pass lets time pass, and looks.
func (b *bench) pass(d time.Duration) *v1alpha1.NodeAccelerator {
	b.t.Helper()
	b.clock.SetTime(b.clock.Now().Add(d))
	if again := b.reconcile(); again == 0 || again > time.Minute {
		b.t.Errorf("the node is looked at again after %v", again)
	}
	var profile v1alpha1.NodeProfile
	if err := b.api.Get(b.t.Context(), client.ObjectKey{Name: "z15-a"}, &profile); err != nil {
		b.t.Fatal(err)
	}
	return profile.Status.Accelerator
}

// TestBusyFraction: what agents of all kinds report of their calls becomes a fraction every five minutes.
func TestBusyFraction(t *testing.T) {
	b, fake, heard, registry := useBench(t)
	ctx, target := t.Context(), agentclient.Target{Address: "10.0.0.2:9443"}
	ask := func(nanos time.Duration) {
		fake.nanos = uint64(nanos)
		for _, err := range []error{
			second(heard.Report(ctx, target)), second(heard.HTTPReport(ctx, target)), second(heard.QueueReport(ctx, target)),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := b.pass(0); got.BusyFraction != "" || got.Counters != nil {
		t.Errorf("before anything is known: %+v", got)
	}
	ask(30 * time.Second) // all of it since the manager started
	b.pass(time.Minute)
	ask(90 * time.Second)
	b.agents.measured.AcceleratorUse = &wirev1.AcceleratorUse{CallNanos: 100} // of before
	b.pass(time.Minute)
	b.agents.measured.AcceleratorUse = &wirev1.AcceleratorUse{CallNanos: 100 + 60e9}
	if got := b.pass(time.Minute); got.BusyFraction != "" {
		t.Errorf("after three minutes: %+v", got)
	}
	if got := b.pass(2 * time.Minute); got.BusyFraction != "0.5" {
		t.Errorf("150 s of 300 are shown as %q", got.BusyFraction)
	}
	if got := series(t, registry); len(got) != 1 || got["lighterage_node_accelerator_call_seconds_total"] != 150 {
		t.Errorf("the metrics say %v", got)
	}
	// A little more is not written; a process that began again counts from there.
	fake.started = start.Add(time.Hour)
	ask(159 * time.Second)
	if got := b.pass(5 * time.Minute); got.BusyFraction != "0.5" {
		t.Errorf("159 s of 300 are shown as %q", got.BusyFraction)
	}
	// More than all cores can do is not believed, and more than one is shown as one.
	ask(100 * time.Hour)
	if got := b.pass(5 * time.Minute); got.BusyFraction != "1" {
		t.Errorf("100 h of 5 min are shown as %q", got.BusyFraction)
	}
	if got := b.pass(5 * time.Minute); got.BusyFraction != "0" {
		t.Errorf("nothing is shown as %q", got.BusyFraction)
	}
	// Without an accelerator nothing is shown.
	b.agents.measured.Accelerator.State = wirev1.AcceleratorState_ACCELERATOR_STATE_NOT_USED
	b.clock.SetTime(b.clock.Now().Add(time.Hour))
	b.reconcile()
	var profile v1alpha1.NodeProfile
	if err := b.api.Get(ctx, client.ObjectKey{Name: "z15-a"}, &profile); err != nil ||
		profile.Status.Accelerator.BusyFraction != "" {
		t.Error(profile.Status.Accelerator, err)
	}
	if got := series(t, registry); len(got) != 0 {
		t.Errorf("%v is left", got)
	}
}

// TestBefore: what an agent did before the manager started does not count.
func TestBefore(t *testing.T) {
	b, fake, heard, _ := useBench(t)
	fake.started, fake.nanos = start.Add(-time.Hour), uint64(time.Hour)
	b.pass(0)
	if _, err := heard.Report(t.Context(), agentclient.Target{Address: "10.0.0.2:9443"}); err != nil {
		t.Fatal(err)
	}
	if got := b.pass(5 * time.Minute); got.BusyFraction != "0" {
		t.Errorf("shown as %q", got.BusyFraction)
	}
}

// TestStandby: what an agent did while another manager led does not count.
func TestStandby(t *testing.T) {
	b, fake, heard, _ := useBench(t)
	b.clock.SetTime(start.Add(time.Hour))
	fake.started, fake.nanos = start.Add(time.Minute), uint64(time.Minute)
	b.pass(0)
	if _, err := heard.Report(t.Context(), agentclient.Target{Address: "10.0.0.2:9443"}); err != nil {
		t.Fatal(err)
	}
	if got := b.pass(5 * time.Minute); got.BusyFraction != "0" {
		t.Errorf("shown as %q", got.BusyFraction)
	}
}

// TestContention: the facility's counters become fractions; when they cannot be read, a reason says why.
func TestContention(t *testing.T) {
	b, _, _, registry := useBench(t)
	said := func(access, busy, elapsed uint64) {
		b.agents.measured.AcceleratorUse = &wirev1.AcceleratorUse{
			CountersReason: "Counting", Counters: &wirev1.AcceleratorCounters{
				AccessCycles: access, BusyCycles: busy, ElapsedNanos: elapsed * 1e9, CyclesPerSecond: 1000,
			},
		}
	}
	said(5, 5, 100)
	if got := b.pass(0); got.Counters == nil || got.Counters.Reason != "Counting" || got.Counters.Contention != "" {
		t.Errorf("%+v", got.Counters)
	}
	said(5+25_000, 5+75_000, 400)
	if got := b.pass(5 * time.Minute); got.Counters.Contention != "0.25" || got.Counters.BusyFraction != "0.25" {
		t.Errorf("%+v", got.Counters)
	}
	if got := series(t, registry); got["lighterage_node_accelerator_busy_ratio"] != 0.25 ||
		got["lighterage_node_accelerator_contention_ratio"] != 0.25 {
		t.Errorf("the metrics say %v", got)
	}
	said(1, 1, 1) // the agent was started again
	if got := b.pass(5 * time.Minute); got.Counters.Contention != "" || got.Counters.BusyFraction != "" {
		t.Errorf("%+v", got.Counters)
	}
	said(1, 1, 301)
	if got := b.pass(5 * time.Minute); got.Counters.Contention != "0" || got.Counters.BusyFraction != "0" {
		t.Errorf("%+v", got.Counters)
	}
	b.agents.measured.AcceleratorUse = &wirev1.AcceleratorUse{CountersReason: "NotAuthorized", CountersMessage: "allow it"}
	if got := b.pass(time.Minute); *got.Counters != (v1alpha1.AcceleratorCounters{Reason: "NotAuthorized",
		Message: "allow it"}) {
		t.Errorf("%+v", got.Counters)
	}
}

// TestCountersAreWaitedFor: a node agent that measures seldom does not make its figures disappear, until it is late.
func TestCountersAreWaitedFor(t *testing.T) {
	b, _, _, registry := useBench(t)
	said := func(access, busy, elapsed uint64) {
		b.agents.measured.AcceleratorUse = &wirev1.AcceleratorUse{
			CountersReason: "Counting", Counters: &wirev1.AcceleratorCounters{
				AccessCycles: access, BusyCycles: busy, ElapsedNanos: elapsed * 1e9, CyclesPerSecond: 1000,
			},
		}
	}
	shown := func(after time.Duration, want string, metricCount int) {
		t.Helper()
		got := b.pass(after)
		if got.Counters.Contention != want || got.Counters.BusyFraction != want {
			t.Errorf("shown are %+v, want %q", got.Counters, want)
		}
		if got := series(t, registry); len(got) != metricCount {
			t.Errorf("the metrics say %v, want %d", got, metricCount)
		}
	}
	said(0, 0, 100)
	b.pass(0)
	said(25_000, 75_000, 400)
	shown(5*time.Minute, "0.25", 3)
	shown(5*time.Minute, "0.25", 3) // not read since
	shown(5*time.Minute, "0.25", 3)
	said(25_000+150_000, 75_000+150_000, 1000)
	if got := b.pass(time.Minute); got.Counters.Contention != "0.5" {
		t.Errorf("over eleven minutes: %+v", got.Counters)
	}
	b.pass(14 * time.Minute)
	if got := b.pass(time.Minute); got.Counters.Contention != "" || len(series(t, registry)) != 1 {
		t.Errorf("15 minutes after they were read: %+v", got.Counters)
	}
}

// TestAddressOfAnotherPod: what an agent reports counts where it is, not where one was that had its address before it.
func TestAddressOfAnotherPod(t *testing.T) {
	for name, reused := range map[string]bool{"reused": true, "not reused": false} {
		t.Run(name, func(t *testing.T) {
			b, fake, heard, _ := useBench(t)
			pod := &corev1.Pod{}
			if err := b.api.Get(t.Context(), client.ObjectKey{Namespace: "bank", Name: "send"}, pod); err != nil {
				t.Fatal(err)
			}
			pod.Status.Phase = corev1.PodSucceeded
			if err := b.api.Status().Update(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
			want := "0.5"
			if reused {
				want = "0"
				if err := b.api.Create(t.Context(), &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "next"}, Spec: corev1.PodSpec{NodeName: "other"},
					Status: corev1.PodStatus{PodIP: "10.0.0.2", Phase: corev1.PodRunning},
				}); err != nil {
					t.Fatal(err)
				}
			}
			b.pass(0)
			fake.nanos = uint64(150 * time.Second)
			if _, err := heard.Report(t.Context(), agentclient.Target{Address: "10.0.0.2:9443"}); err != nil {
				t.Fatal(err)
			}
			if got := b.pass(5 * time.Minute); got.BusyFraction != want {
				t.Errorf("shown as %q, want %q", got.BusyFraction, want)
			}
		})
	}
}

// TestUseIsWrittenSeldom: within five minutes nothing is written, whatever agents report.
func TestUseIsWrittenSeldom(t *testing.T) {
	b, fake, heard, _ := useBench(t)
	b.pass(0)
	b.pass(5 * time.Minute)
	version := func() string {
		var profile v1alpha1.NodeProfile
		if err := b.api.Get(t.Context(), client.ObjectKey{Name: "z15-a"}, &profile); err != nil {
			t.Fatal(err)
		}
		return profile.ResourceVersion
	}
	before := version()
	for i := range 4 {
		fake.nanos = uint64(i) * 1e10
		if _, err := heard.QueueReport(t.Context(), agentclient.Target{Address: "10.0.0.2:9443"}); err != nil {
			t.Fatal(err)
		}
		b.pass(time.Minute)
	}
	if after := version(); after != before {
		t.Errorf("written: version %s became %s", before, after)
	}
}

// series are the metrics of node z15-a.
func series(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if len(metric.GetLabel()) != 1 || metric.GetLabel()[0].GetValue() != "z15-a" {
				t.Errorf("%s has labels %v", family.GetName(), metric.GetLabel())
			}
			out[family.GetName()] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return out
}

func second[A, B any](_ A, b B) B { return b }
