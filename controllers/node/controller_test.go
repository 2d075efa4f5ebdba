// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"google.golang.org/protobuf/types/known/timestamppb"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/index/indextest"
	"github.com/lighterage/lighterage/controllers/node"
)

const operator = "lighterage-system"

var start = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// agents answer what the test says.
type agents struct {
	agentclient.Agents
	asked    []agentclient.Target
	measured *wirev1.NodeMeasurement
	err      error
}

func (a *agents) Profile(_ context.Context, target agentclient.Target) (*wirev1.NodeMeasurement, error) {
	a.asked = append(a.asked, target)
	return a.measured, a.err
}

func agentPod(name, nodeName, ip string, age time.Duration) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: operator, Name: name, CreationTimestamp: metav1.NewTime(start.Add(-age)),
			Labels: map[string]string{node.ComponentLabel: node.NodeAgent},
		},
		Spec:   corev1.PodSpec{NodeName: nodeName},
		Status: corev1.PodStatus{PodIP: ip, Phase: corev1.PodRunning},
	}
}

func z15() *wirev1.NodeMeasurement {
	return &wirev1.NodeMeasurement{
		Version: "v9", Architecture: "s390x", Cores: 4, NetworkCpuNanosPerGib: 412_300_000,
		MeasuredTime: timestamppb.New(start.Add(123 * time.Millisecond)),
		Engines: []*wirev1.EngineMeasurement{
			{
				Name: "go", Codec: "deflate", Verified: true, CompressBytesPerSecond: 1000, DecompressBytesPerSecond: 2000,
				SampleBytes: 300, SampleCompressedBytes: 100,
				Inflates: true, Levels: []*wirev1.LevelMeasurement{
					{
						Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH, CompressBytesPerSecond: 500, SampleCompressedBytes: 75,
						Selected: true,
					},
					{Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST, CompressBytesPerSecond: 1000, SampleCompressedBytes: 100},
					{Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST, CompressBytesPerSecond: 7},
					{CompressBytesPerSecond: 9},
				},
			},
			{
				Name: "dfltcc", Codec: "deflate", Verified: true, CompressBytesPerSecond: 9000, SampleBytes: 441,
				SampleCompressedBytes: 100,
			},
			{Name: "dfltcc", Codec: "deflate"},
			{Name: ""},
		},
		Accelerator: &wirev1.AcceleratorMeasurement{
			State: wirev1.AcceleratorState_ACCELERATOR_STATE_VERIFIED, Reason: "Proved", Message: strings.Repeat("x", 2000),
			SlowerThanSoftware: true,
			InflateMinSize:     math.MaxUint64,
		},
	}
}

type bench struct {
	t          *testing.T
	api        client.Client
	clock      *clocktesting.FakePassiveClock
	agents     *agents
	reconciler *node.Reconciler
	recorder   *events.FakeRecorder
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	b := &bench{t: t, clock: clocktesting.NewFakePassiveClock(start), agents: &agents{measured: z15()}}
	b.api = indextest.In(
		fake.NewClientBuilder().WithScheme(scheme), &corev1.Pod{},
	).WithObjects(objects...).WithStatusSubresource(&v1alpha1.NodeProfile{}).Build()
	b.recorder = events.NewFakeRecorder(10)
	b.reconciler = node.NewReconciler(
		b.api,
		node.Options{
			Profiles: controllertest.Asking[*wirev1.NodeMeasurement](b.agents.Profile), Namespace: operator, Clock: b.clock,
			Recorder: b.recorder,
		},
	)
	return b
}

func (b *bench) reconcile() time.Duration {
	b.t.Helper()
	result, err := b.reconciler.Reconcile(
		context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "z15-a"}},
	)
	if err != nil {
		b.t.Fatal(err)
	}
	return result.RequeueAfter
}

func (b *bench) profile() *v1alpha1.NodeProfile {
	b.t.Helper()
	var got v1alpha1.NodeProfile
	if err := b.api.Get(context.Background(), client.ObjectKey{Name: "z15-a"}, &got); err != nil {
		b.t.Fatal(err)
	}
	return &got
}

// told expects these events, by their reasons, and no others since it was called last.
func (b *bench) told(reasons ...string) {
	b.t.Helper()
	var got []string
	for len(b.recorder.Events) > 0 {
		got = append(got, strings.Fields(<-b.recorder.Events)[1])
	}
	if !slices.Equal(got, reasons) {
		b.t.Errorf("events %v, want %v", got, reasons)
	}
}

func (b *bench) label() string {
	b.t.Helper()
	var got corev1.Node
	if err := b.api.Get(context.Background(), client.ObjectKey{Name: "z15-a"}, &got); err != nil {
		b.t.Fatal(err)
	}
	if got.Labels["kept"] != "yes" {
		b.t.Error("another label was lost")
	}
	return got.Labels[v1alpha1.DeflateLabel]
}

func nodeNamed() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "z15-a", UID: "u-1", Labels: map[string]string{"kept": "yes"}}}
}

func TestMeasured(t *testing.T) {
	notRunning := agentPod("starting", "z15-a", "", 0)
	b := newBench(t, nodeNamed(), agentPod("old", "z15-a", "10.0.0.1", time.Hour), agentPod(
		"new", "z15-a", "10.0.0.2", time.Minute,
	),
		agentPod("elsewhere", "other", "10.0.0.3", 0), notRunning)
	if pause := b.reconcile(); pause != 0 {
		t.Errorf("looked at again after %s, though it says when there is anything new", pause)
	}
	if want := (agentclient.Target{
		Address: "10.0.0.2:9443", ServerName: "node.lighterage.internal",
	}); len(b.agents.asked) != 1 || b.agents.asked[0] != want {
		t.Errorf("asked %v, want %v", b.agents.asked, want)
	}
	got := b.profile()
	if owner := got.OwnerReferences; len(owner) != 1 || owner[0].Kind != "Node" || owner[0].UID != "u-1" {
		t.Errorf("owner %v", owner)
	}
	s := got.Status
	if s.Architecture != "s390x" || s.Cores != 4 || s.NetworkCPUSecondsPerGiB != "0.4123" || s.AgentVersion != "v9" ||
		!s.MeasuredTime.Time.Equal(start) {
		t.Errorf("status %+v", s)
	}
	want := []v1alpha1.EngineProfile{
		{Name: "dfltcc", Codec: "deflate", Verified: true, CompressBytesPerSecond: 9000, Ratio: "4.41"},
		{
			Name: "go", Codec: "deflate", Verified: true, CompressBytesPerSecond: 1000, DecompressBytesPerSecond: 2000,
			Ratio: "3", Inflates: true,
			Levels: []v1alpha1.LevelProfile{
				{Level: v1alpha1.CompressionFast, CompressBytesPerSecond: 1000, Ratio: "3"},
				{Level: v1alpha1.CompressionHigh, CompressBytesPerSecond: 500, Ratio: "4", Selected: true},
			},
		},
	}
	if !cmp.Equal(s.Engines, want) {
		t.Errorf("engines %+v", s.Engines)
	}
	accelerator := &v1alpha1.NodeAccelerator{AcceleratorProfile: v1alpha1.AcceleratorProfile{
		State: v1alpha1.AcceleratorVerified, Reason: "Proved", Message: strings.Repeat("x", 1021) + "…",
		SlowerThanSoftware: true, InflateMinSize: math.MaxInt64,
	}}
	if diff := cmp.Diff(accelerator, s.Accelerator); diff != "" {
		t.Error(diff)
	}
	if ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady); ready.Status != metav1.ConditionTrue ||
		ready.Reason != v1alpha1.ReasonMeasured {
		t.Errorf("Ready is %+v", ready)
	}
	if b.label() != "hardware" {
		t.Errorf("label %q", b.label())
	}
	b.reconcile()
	if b.profile().ResourceVersion != got.ResourceVersion {
		t.Error("it was written without a change")
	}
}

// TestLabel: whatever else an agent says, the label is hardware only for an accelerator that was proved to be used.
func TestLabel(t *testing.T) {
	for name, test := range map[string]struct {
		accelerator *wirev1.AcceleratorMeasurement
		label       string
		state       v1alpha1.AcceleratorState
	}{
		"verified": {
			&wirev1.AcceleratorMeasurement{State: wirev1.AcceleratorState_ACCELERATOR_STATE_VERIFIED}, "hardware",
			v1alpha1.AcceleratorVerified,
		},
		"not used": {
			&wirev1.AcceleratorMeasurement{State: wirev1.AcceleratorState_ACCELERATOR_STATE_NOT_USED}, "software",
			v1alpha1.AcceleratorNotUsed,
		},
		"absent": {
			&wirev1.AcceleratorMeasurement{State: wirev1.AcceleratorState_ACCELERATOR_STATE_ABSENT}, "software",
			v1alpha1.AcceleratorAbsent,
		},
		"untold":  {nil, "software", ""},
		"unheard": {&wirev1.AcceleratorMeasurement{State: 99}, "software", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nodeNamed(), agentPod("agent", "z15-a", "10.0.0.1", 0))
			b.agents.measured.Accelerator = test.accelerator
			b.reconcile()
			if b.label() != test.label {
				t.Errorf("label %q", b.label())
			}
			got := b.profile().Status.Accelerator
			if (got == nil) != (test.state == "") || got != nil && got.State != test.state {
				t.Errorf("accelerator %+v", got)
			}
		})
	}
}

// TestNoRightToLabel: without node agents the manager has no right to patch Nodes. What it would have changed it says,
// once.
func TestNoRightToLabel(t *testing.T) {
	b := newBench(t, nodeNamed(), agentPod("agent", "z15-a", "10.0.0.1", 0))
	b.reconcile()
	full, ok := b.api.(client.WithWatch)
	if !ok {
		t.Fatalf("%T", b.api)
	}
	refused := interceptor.NewClient(full, interceptor.Funcs{
		Patch: func(
			ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption,
		) error {
			if _, isNode := object.(*corev1.Node); isNode {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, object.GetName(), nil)
			}
			return c.Patch(ctx, object, patch, options...)
		},
	})
	b.reconciler = node.NewReconciler(
		refused,
		node.Options{
			Profiles: controllertest.Asking[*wirev1.NodeMeasurement](b.agents.Profile), Namespace: operator, Clock: b.clock,
			Recorder: b.recorder,
		},
	)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: operator, Name: "agent"}}
	if err := full.Delete(context.Background(), pod); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	b.clock.SetTime(start.Add(time.Hour))
	b.reconcile()
	if pause := b.reconcile(); pause != 0 {
		t.Errorf("tried again every %s", pause)
	}
	stalled := meta.FindStatusCondition(b.profile().Status.Conditions, v1alpha1.ConditionStalled)
	if stalled.Status != metav1.ConditionTrue || stalled.Reason != v1alpha1.ReasonRefused ||
		!strings.Contains(stalled.Message, "kubectl label node z15-a lighterage.node-restriction.kubernetes.io/deflate-") {
		t.Errorf("Stalled is %+v", stalled)
	}
	if b.label() != "hardware" {
		t.Errorf("label %q", b.label())
	}
}

// TestDiscoveredFeature: what Node Feature Discovery announces is confirmed, or contradicted for all to see.
func TestDiscoveredFeature(t *testing.T) {
	for name, test := range map[string]struct {
		state  wirev1.AcceleratorState
		status metav1.ConditionStatus
		reason string
		event  string
	}{
		"confirmed": {wirev1.AcceleratorState_ACCELERATOR_STATE_VERIFIED, metav1.ConditionTrue, v1alpha1.ReasonMeasured, ""},
		"not proved": {
			wirev1.AcceleratorState_ACCELERATOR_STATE_NOT_USED, metav1.ConditionFalse, v1alpha1.CompressionSelfTestFailed,
			"Warning SelfTestFailed",
		},
		"not there": {
			wirev1.AcceleratorState_ACCELERATOR_STATE_ABSENT, metav1.ConditionFalse, v1alpha1.CompressionNoAccelerator,
			"Warning NoAccelerator",
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeNamed()
			node.Labels[v1alpha1.NFDDeflateLabel] = "true"
			b := newBench(t, node, agentPod("agent", "z15-a", "10.0.0.1", 0))
			b.agents.measured.Accelerator.State = test.state
			for range 2 {
				b.reconcile()
				got := meta.FindStatusCondition(b.profile().Status.Conditions, v1alpha1.ConditionFeatureConfirmed)
				if got == nil || got.Status != test.status || got.Reason != test.reason {
					t.Fatalf("%+v", got)
				}
			}
			if test.event != "" && !strings.HasPrefix(<-b.recorder.Events, test.event) || len(b.recorder.Events) > 0 {
				t.Errorf("not the one event: %d left", len(b.recorder.Events))
			}
			// What an agent said that lies now counts for nothing.
			b.agents.measured.Architecture = "amd64"
			b.reconcile()
			if got := meta.FindStatusCondition(b.profile().Status.Conditions, v1alpha1.ConditionFeatureConfirmed); got != nil &&
				got.Status == metav1.ConditionTrue {
				t.Errorf("confirmed by an agent that is not believed: %+v", got)
			}
			b.agents.measured.Architecture = "s390x"
			for len(b.recorder.Events) > 0 {
				<-b.recorder.Events
			}
			var stored corev1.Node
			if err := b.api.Get(context.Background(), client.ObjectKey{Name: "z15-a"}, &stored); err != nil {
				t.Fatal(err)
			}
			delete(stored.Labels, v1alpha1.NFDDeflateLabel)
			if err := b.api.Update(context.Background(), &stored); err != nil {
				t.Fatal(err)
			}
			b.reconcile()
			if got := meta.FindStatusCondition(b.profile().Status.Conditions, v1alpha1.ConditionFeatureConfirmed); got != nil {
				t.Errorf("nothing is announced any more: %+v", got)
			}
		})
	}
}

// TestSlots: a node advertises slots while its accelerator is known to work, whatever else its capacity is.
func TestSlots(t *testing.T) {
	const slot = v1alpha1.AcceleratorSlotsResource
	bare := nodeNamed()
	bare.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}
	b := newBench(t, bare, agentPod("agent", "z15-a", "10.0.0.1", 0))
	slots := func() (int64, bool) {
		t.Helper()
		var got corev1.Node
		if err := b.api.Get(context.Background(), client.ObjectKey{Name: "z15-a"}, &got); err != nil {
			t.Fatal(err)
		}
		if got.Status.Capacity.Cpu().Value() != 4 {
			t.Errorf("capacity %v", got.Status.Capacity)
		}
		quantity, advertised := got.Status.Capacity[slot]
		return quantity.Value(), advertised
	}
	b.reconcile()
	if _, advertised := slots(); advertised {
		t.Error("without a cap slots are advertised")
	}
	b.reconciler = node.NewReconciler(
		b.api,
		node.Options{
			Profiles: controllertest.Asking[*wirev1.NodeMeasurement](b.agents.Profile), Namespace: operator, Clock: b.clock,
			Slots: 3,
		},
	)
	b.reconcile()
	if n, _ := slots(); n != 3 {
		t.Errorf("%d slots", n)
	}
	b.agents.measured.Accelerator.State = wirev1.AcceleratorState_ACCELERATOR_STATE_NOT_USED
	b.reconcile()
	if n, advertised := slots(); advertised {
		t.Errorf("%d slots of an accelerator that does not work", n)
	}
}

// TestAnotherMachine: what the figures belong to is in status, and when it changed.
func TestAnotherMachine(t *testing.T) {
	pod := agentPod("agent", "z15-a", "10.0.0.1", 0)
	pod.Spec.Containers = []corev1.Container{{Image: "registry.example/agent:1"}}
	b := newBench(t, nodeNamed(), pod)
	m := b.agents.measured
	m.Kernel, m.CpuModel = "6.1", "IBM/S390 machine 8561"
	m.NetworkRuns, m.NetworkCpuNanosPerGibLeast, m.NetworkCpuNanosPerGibMost = 5, 400_000_000, 520_000_000
	b.reconcile()
	s := b.profile().Status
	if s.Kernel != "6.1" || s.CPUModel != "IBM/S390 machine 8561" || s.AgentImage != "registry.example/agent:1" ||
		s.LastChange != nil {
		t.Errorf("%+v", s)
	}
	if diff := cmp.Diff(
		&v1alpha1.NetworkSpread{LeastSecondsPerGiB: "0.4", MostSecondsPerGiB: "0.52", Runs: 5}, s.NetworkSpread,
	); diff != "" {
		t.Error(diff)
	}
	m.Kernel, m.CpuModel = "6.9", "IBM/S390 machine 3931"
	b.clock.SetTime(start.Add(time.Hour))
	b.reconcile()
	change := b.profile().Status.LastChange
	if change == nil || change.Reason != "KernelChanged,CPUModelChanged" ||
		!change.Time.Time.Equal(start.Add(time.Hour)) ||
		change.Message != "kernel from 6.1 to 6.9; processor from IBM/S390 machine 8561 to IBM/S390 machine 3931" {
		t.Errorf("%+v", change)
	}
	b.clock.SetTime(start.Add(2 * time.Hour))
	b.reconcile()
	if again := b.profile().Status.LastChange; !cmp.Equal(change, again) {
		t.Errorf("nothing changed: %+v", again)
	}
}

// TestNetwork: what segments cost, how the kernel accounts, and why nothing was calibrated.
func TestNetwork(t *testing.T) {
	b := newBench(t, nodeNamed(), agentPod("agent", "z15-a", "10.0.0.1", 0))
	m := b.agents.measured
	b.reconcile()
	if got := b.profile().Status.Network; got != nil {
		t.Errorf("of an agent that does not calibrate segments: %+v", got)
	}
	m.NetworkCpuNanosPerGib, m.NetworkRuns = 0, 0
	m.Network = &wirev1.NetworkMeasurement{
		Reason: "NodeBusy", BackgroundPercent: 4000,
		InterruptAccounting: wirev1.InterruptAccounting_INTERRUPT_ACCOUNTING_OFF,
	}
	b.reconcile()
	s := b.profile().Status
	want := &v1alpha1.NetworkProfile{
		Reason: v1alpha1.ReasonNodeBusy, BackgroundPercent: ptr.To[int32](100), InterruptAccounting: "Off",
	}
	if diff := cmp.Diff(want, s.Network); diff != "" || s.NetworkCPUSecondsPerGiB != "" {
		t.Errorf("a GiB costs %q; %s", s.NetworkCPUSecondsPerGiB, diff)
	}
	m.NetworkRuns = 5
	m.Network = &wirev1.NetworkMeasurement{
		Reason: "Calibrated", InterruptAccounting: 77, Calibrated: true, AcknowledgementPicos: 123_456,
		ReceivedNanosPerGib: 250_000_000,
	}
	b.reconcile()
	s = b.profile().Status
	want = &v1alpha1.NetworkProfile{
		Reason: "Calibrated", BackgroundPercent: ptr.To[int32](0), InterruptAccounting: "Unknown",
		PushMicrosecondsPerSegment: "0.123456", PullMicrosecondsPerSegment: "0", PullSecondsPerGiB: "0.25",
	}
	if diff := cmp.Diff(want, s.Network); diff != "" || s.NetworkCPUSecondsPerGiB != "0" {
		t.Errorf("a GiB costs %q; %s", s.NetworkCPUSecondsPerGiB, diff)
	}
}

func TestNodesWithoutAgent(t *testing.T) {
	b := newBench(t, nodeNamed())
	b.reconcile()
	if err := b.api.Get(
		context.Background(), client.ObjectKey{Name: "z15-a"}, &v1alpha1.NodeProfile{},
	); !apierrors.IsNotFound(err) {
		t.Errorf("a profile of a node without an agent: %v", err)
	}
	b = newBench(t, agentPod("agent", "z15-a", "10.0.0.1", 0))
	b.reconcile()
	if len(b.agents.asked) > 0 {
		t.Error("an agent of a node that is gone was asked")
	}
}

// TestEndlessEngines: an agent that lists engines without end costs neither the time nor the space for them.
func TestEndlessEngines(t *testing.T) {
	b := newBench(t, nodeNamed(), agentPod("agent", "z15-a", "10.0.0.1", 0))
	b.agents.measured.Engines, b.agents.measured.Accelerator = nil, nil
	for i := range 300_000 {
		b.agents.measured.Engines = append(
			b.agents.measured.Engines,
			&wirev1.EngineMeasurement{Name: fmt.Sprint("engine-", i), CompressBytesPerSecond: uint64(i)},
		)
	}
	begin := processorTime(t)
	b.reconcile()
	// Searched for pairs of the same name the list takes minutes.
	if took := processorTime(t) - begin; took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	engines := b.profile().Status.Engines
	if len(engines) != 16 || engines[0].Name != "engine-15" || engines[15].Name != "engine-0" {
		t.Errorf("%d engines: %+v", len(engines), engines)
	}
}

// processorTime is what this process has had of it, which others on the machine have no part in.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
