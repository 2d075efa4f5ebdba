// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"google.golang.org/protobuf/types/known/timestamppb"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
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
				Name: "go", Codec: "deflate", Verified: true, CompressBytesPerSecond: 1000, DecompressBytesPerSecond: 2000, SampleBytes: 300, SampleCompressedBytes: 100,
				Inflates: true, Levels: []*wirev1.LevelMeasurement{
					{Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_HIGH, CompressBytesPerSecond: 500, SampleCompressedBytes: 75, Selected: true},
					{Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST, CompressBytesPerSecond: 1000, SampleCompressedBytes: 100},
					{Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST, CompressBytesPerSecond: 7},
					{CompressBytesPerSecond: 9},
				},
			},
			{Name: "dfltcc", Codec: "deflate", Verified: true, CompressBytesPerSecond: 9000, SampleBytes: 441, SampleCompressedBytes: 100},
			{Name: "dfltcc", Codec: "deflate"},
			{Name: ""},
		},
		Accelerator: &wirev1.AcceleratorMeasurement{
			State: wirev1.AcceleratorState_ACCELERATOR_STATE_VERIFIED, Reason: "Proved", Message: strings.Repeat("x", 2000), SlowerThanSoftware: true,
			InflateMinSize: math.MaxUint64,
		},
	}
}

type bench struct {
	t          *testing.T
	api        client.Client
	clock      *clocktesting.FakePassiveClock
	agents     *agents
	reconciler *node.Reconciler
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	b := &bench{t: t, clock: clocktesting.NewFakePassiveClock(start), agents: &agents{measured: z15()}}
	b.api = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.NodeProfile{}).Build()
	b.reconciler = node.NewReconciler(b.api, node.Options{Agents: b.agents, Namespace: operator, Clock: b.clock})
	return b
}

func (b *bench) reconcile() time.Duration {
	b.t.Helper()
	result, err := b.reconciler.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "z15-a"}})
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
	b := newBench(t, nodeNamed(), agentPod("old", "z15-a", "10.0.0.1", time.Hour), agentPod("new", "z15-a", "10.0.0.2", time.Minute),
		agentPod("elsewhere", "other", "10.0.0.3", 0), notRunning)
	if pause := b.reconcile(); pause != 5*time.Minute {
		t.Errorf("asked again after %s", pause)
	}
	if want := (agentclient.Target{Address: "10.0.0.2:9443", ServerName: "node.lighterage.internal"}); len(b.agents.asked) != 1 || b.agents.asked[0] != want {
		t.Errorf("asked %v, want %v", b.agents.asked, want)
	}
	got := b.profile()
	if owner := got.OwnerReferences; len(owner) != 1 || owner[0].Kind != "Node" || owner[0].UID != "u-1" {
		t.Errorf("owner %v", owner)
	}
	s := got.Status
	if s.Architecture != "s390x" || s.Cores != 4 || s.NetworkCPUSecondsPerGiB != "0.4123" || s.AgentVersion != "v9" || !s.MeasuredTime.Time.Equal(start) {
		t.Errorf("status %+v", s)
	}
	want := []v1alpha1.EngineProfile{
		{Name: "dfltcc", Codec: "deflate", Verified: true, CompressBytesPerSecond: 9000, Ratio: "4.41"},
		{
			Name: "go", Codec: "deflate", Verified: true, CompressBytesPerSecond: 1000, DecompressBytesPerSecond: 2000, Ratio: "3", Inflates: true,
			Levels: []v1alpha1.LevelProfile{
				{Level: v1alpha1.CompressionFast, CompressBytesPerSecond: 1000, Ratio: "3"},
				{Level: v1alpha1.CompressionHigh, CompressBytesPerSecond: 500, Ratio: "4", Selected: true},
			},
		},
	}
	if !cmp.Equal(s.Engines, want) {
		t.Errorf("engines %+v", s.Engines)
	}
	accelerator := &v1alpha1.AcceleratorProfile{
		State: v1alpha1.AcceleratorVerified, Reason: "Proved", Message: strings.Repeat("x", 1024), SlowerThanSoftware: true, InflateMinSize: math.MaxInt64,
	}
	if diff := cmp.Diff(accelerator, s.Accelerator); diff != "" {
		t.Error(diff)
	}
	if ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady); ready.Status != metav1.ConditionTrue || ready.Reason != v1alpha1.ReasonMeasured {
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
		"verified": {&wirev1.AcceleratorMeasurement{State: wirev1.AcceleratorState_ACCELERATOR_STATE_VERIFIED}, "hardware", v1alpha1.AcceleratorVerified},
		"not used": {&wirev1.AcceleratorMeasurement{State: wirev1.AcceleratorState_ACCELERATOR_STATE_NOT_USED}, "software", v1alpha1.AcceleratorNotUsed},
		"absent":   {&wirev1.AcceleratorMeasurement{State: wirev1.AcceleratorState_ACCELERATOR_STATE_ABSENT}, "software", v1alpha1.AcceleratorAbsent},
		"untold":   {nil, "software", ""},
		"unheard":  {&wirev1.AcceleratorMeasurement{State: 99}, "software", ""},
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

func TestUnreachable(t *testing.T) {
	pod := agentPod("agent", "z15-a", "10.0.0.1", 0)
	b := newBench(t, nodeNamed(), pod)
	b.reconcile()
	b.agents.measured, b.agents.err = nil, errors.New("asking the node agent: unreachable")
	check := func() {
		t.Helper()
		s := b.profile().Status
		ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
		if ready.Status != metav1.ConditionFalse || ready.Reason != v1alpha1.ReasonNodeAgentUnreachable {
			t.Errorf("Ready is %+v", ready)
		}
		if len(s.Engines) != 2 || b.label() != "hardware" {
			t.Errorf("the last figures are gone: %+v, label %q", s, b.label())
		}
	}
	for _, step := range []struct{ after, want time.Duration }{{0, 2 * time.Second}, {20 * time.Second, 20 * time.Second}, {time.Hour, time.Minute}} {
		b.clock.SetTime(start.Add(step.after))
		if pause := b.reconcile(); pause != step.want {
			t.Errorf("%s after it went away it is asked again after %s, want %s", step.after, pause, step.want)
		}
		check()
	}
	if err := b.api.Delete(context.Background(), pod); err != nil {
		t.Fatal(err)
	}
	if pause := b.reconcile(); pause != 0 {
		t.Errorf("without an agent it is looked for every %s", pause)
	}
	check()
}

func TestNodesWithoutAgent(t *testing.T) {
	b := newBench(t, nodeNamed())
	b.reconcile()
	if err := b.api.Get(context.Background(), client.ObjectKey{Name: "z15-a"}, &v1alpha1.NodeProfile{}); !apierrors.IsNotFound(err) {
		t.Errorf("a profile of a node without an agent: %v", err)
	}
	b = newBench(t, agentPod("agent", "z15-a", "10.0.0.1", 0))
	b.reconcile()
	if len(b.agents.asked) > 0 {
		t.Error("an agent of a node that is gone was asked")
	}
}

// TestEndlessEngines: an agent that lists engines without end costs neither the time nor the room for them.
func TestEndlessEngines(t *testing.T) {
	b := newBench(t, nodeNamed(), agentPod("agent", "z15-a", "10.0.0.1", 0))
	b.agents.measured.Engines = nil
	for i := range 300_000 {
		b.agents.measured.Engines = append(b.agents.measured.Engines, &wirev1.EngineMeasurement{Name: fmt.Sprint("engine-", i), CompressBytesPerSecond: uint64(i)})
	}
	begin := time.Now()
	b.reconcile()
	// Searched for pairs of the same name the list takes minutes.
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	engines := b.profile().Status.Engines
	if len(engines) != 16 || engines[0].Name != "engine-15" || engines[15].Name != "engine-0" {
		t.Errorf("%d engines: %+v", len(engines), engines)
	}
}
