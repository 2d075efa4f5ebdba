// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

func TestUnreachable(t *testing.T) {
	pod := agentPod("agent", "z15-a", "10.0.0.1", 0)
	b := newBench(t, nodeNamed(), pod)
	b.reconcile()
	b.agents.measured, b.agents.err = nil, errors.New("asking the node agent: unreachable")
	check := func(label, words string) {
		t.Helper()
		s := b.profile().Status
		reason := v1alpha1.ReasonNodeAgentUnreachable
		if label == "software" {
			reason = v1alpha1.ReasonNodeAgentSilent
		}
		ready := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReady)
		if ready.Status != metav1.ConditionFalse || ready.Reason != reason || !strings.Contains(ready.Message, words) {
			t.Errorf("Ready is %+v", ready)
		}
		if len(s.Engines) != 2 || b.label() != label {
			t.Errorf("the last figures are gone: %+v, label %q, want %q", s, b.label(), label)
		}
	}
	for _, step := range []struct {
		after, want time.Duration
		label       string
		words       string
	}{
		{0, 10 * time.Minute, "hardware", "the last known"},
		{20 * time.Second, 10*time.Minute - 20*time.Second, "hardware", "the last known"},
		{9 * time.Minute, time.Minute, "hardware", "the last known"},
		{time.Hour, 0, "software", "as on a node without an accelerator"},
	} {
		b.clock.SetTime(start.Add(step.after))
		if pause := b.reconcile(); pause != step.want {
			t.Errorf("%s after it went away it is looked at again after %s, want %s", step.after, pause, step.want)
		}
		check(step.label, step.words)
	}
	if err := b.api.Delete(context.Background(), pod); err != nil {
		t.Fatal(err)
	}
	if pause := b.reconcile(); pause != 0 {
		t.Errorf("without an agent it is looked for every %s", pause)
	}
	check("software", "as on a node without an accelerator")
	// One event says that it went away, one that it is not trusted any more, and none again that nothing has changed
	// since.
	b.told("NodeAgentUnreachable", "NodeAgentSilent")
	b.reconcile()
	b.told()
}

// TestSilenceAndLies: which of the two it is that ends trust in an agent is told apart, each once.
func TestSilenceAndLies(t *testing.T) {
	b := newBench(t, nodeNamed(), agentPod("agent", "z15-a", "10.0.0.1", 0))
	b.reconcile()
	b.agents.measured.Architecture = "amd64"
	for range 3 {
		b.clock.SetTime(b.clock.Now().Add(time.Hour))
		b.reconcile()
	}
	b.told("ImplausibleMeasurement")
	b.agents.err = errors.New("asking the node agent: unreachable")
	for range 3 {
		b.clock.SetTime(b.clock.Now().Add(time.Hour))
		b.reconcile()
	}
	b.told("NodeAgentSilent")
	stalled := meta.FindStatusCondition(b.profile().Status.Conditions, v1alpha1.ConditionStalled)
	if stalled.Status != metav1.ConditionTrue || stalled.Reason != v1alpha1.ReasonNodeAgentSilent ||
		b.label() != "software" {
		t.Errorf("label %q, Stalled is %+v", b.label(), stalled)
	}
	b.agents.err, b.agents.measured = nil, z15()
	b.reconcile()
	b.told()
	if ready := meta.FindStatusCondition(
		b.profile().Status.Conditions, v1alpha1.ConditionReady,
	); ready.Status != metav1.ConditionTrue || b.label() != "hardware" {
		t.Errorf("label %q, Ready is %+v", b.label(), ready)
	}
}

// TestNodeAndAgentAreOfOneArchitecture: what an agent says of itself has to agree with what the kubelet says of the
// node.
func TestNodeAndAgentAreOfOneArchitecture(t *testing.T) {
	for name, test := range map[string]struct {
		kubelet string
		change  func(*wirev1.NodeMeasurement)
		label   string
	}{
		"the same":                {"s390x", func(*wirev1.NodeMeasurement) {}, "hardware"},
		"not known":               {"", func(*wirev1.NodeMeasurement) {}, "hardware"},
		"an accelerator on amd64": {"amd64", func(*wirev1.NodeMeasurement) {}, "software"},
		"dfltcc on amd64": {"amd64", func(m *wirev1.NodeMeasurement) {
			m.Architecture, m.Accelerator = "amd64", nil
		}, "software"},
	} {
		node := nodeNamed()
		node.Status.NodeInfo.Architecture = test.kubelet
		node.Labels["lighterage.dev/deflate"] = "hardware"
		b := newBench(t, node, agentPod("agent", "z15-a", "10.0.0.1", 0))
		test.change(b.agents.measured)
		b.reconcile()
		stalled := meta.FindStatusCondition(b.profile().Status.Conditions, v1alpha1.ConditionStalled)
		if b.label() != test.label || (stalled.Reason == v1alpha1.ReasonImplausibleMeasurement) != (test.label == "software") {
			t.Errorf("%s: label %q, %+v", name, b.label(), stalled)
		}
		var labelled corev1.Node
		if err := b.api.Get(context.Background(), client.ObjectKeyFromObject(node), &labelled); err != nil {
			t.Fatal(err)
		}
		if _, former := labelled.Labels["lighterage.dev/deflate"]; former {
			t.Errorf("%s: the label that kubelets may set is still there", name)
		}
	}
}

// TestAgentThatDoesNotRun: a node whose agent crashes again and again, or never starts, has a profile that says so,
// counts as one without an accelerator after a while whatever Node Feature Discovery says, and the agent is not asked
// in vain.
func TestAgentThatDoesNotRun(t *testing.T) {
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	ended := func(code int32, reason string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}
	}
	for name, test := range map[string]struct {
		state, last corev1.ContainerState
		change      func(*corev1.Pod)
		says        []string
	}{
		"crashes": {
			waiting("CrashLoopBackOff", "back-off 5m0s restarting"), ended(1, "Error"), nil,
			[]string{"does not run: CrashLoopBackOff, the last time with exit code 1 (Error)", "logs --previous agent"},
		},
		"has crashed": {
			ended(139, "Error"), corev1.ContainerState{}, nil, []string{"has ended, the last time with exit code 139"},
		},
		"lacks memory": {
			waiting("CrashLoopBackOff", "back-off"), ended(137, "OOMKilled"), nil,
			[]string{"OOMKilled", "nodeAgent.resources.limits.memory"},
		},
		"has no image": {
			waiting("ImagePullBackOff", "no such image for s390x"), corev1.ContainerState{}, nil,
			[]string{"ImagePullBackOff: no such image for s390x", "describe pod agent"},
		},
		"not even that": {
			corev1.ContainerState{}, corev1.ContainerState{},
			func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} }, []string{"has not started"},
		},
		"no space for it": {corev1.ContainerState{}, corev1.ContainerState{}, func(p *corev1.Pod) {
			p.Spec.NodeName = ""
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
					{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{"z15-a"}},
				}}},
			}}}
			p.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "Insufficient memory"},
			}}
		}, []string{"cannot be placed (Insufficient memory)", "nodeAgent.priorityClassName"}},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeNamed()
			node.Labels[v1alpha1.NFDDeflateLabel] = "true"
			pod := agentPod("agent", "z15-a", "10.0.0.1", 0)
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{
				{Name: "a-mesh", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
				{Name: "agent", State: test.state, LastTerminationState: test.last},
			}
			if test.change != nil {
				test.change(pod)
			}
			b := newBench(t, node, pod)
			if pause := b.reconcile(); pause != 10*time.Minute {
				t.Errorf("looked for again after %s", pause)
			}
			check := func(reason, label string) {
				t.Helper()
				ready := meta.FindStatusCondition(b.profile().Status.Conditions, v1alpha1.ConditionReady)
				if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != reason || b.label() != label {
					t.Fatalf("label %q, Ready is %+v", b.label(), ready)
				}
				for _, words := range test.says {
					if !strings.Contains(ready.Message, words) {
						t.Errorf("%q lacks %q", ready.Message, words)
					}
				}
			}
			check(v1alpha1.ReasonNodeAgentUnreachable, "")
			b.told()
			b.clock.SetTime(start.Add(10 * time.Minute))
			for range 2 {
				if pause := b.reconcile(); pause != 0 {
					t.Errorf("looked for every %s", pause)
				}
			}
			check(v1alpha1.ReasonNodeAgentSilent, "software")
			b.told("NodeAgentSilent")
			if len(b.agents.asked) > 0 {
				t.Errorf("asked %v", b.agents.asked)
			}
		})
	}
}

// TestAgentThatNeverAnswers: what Node Feature Discovery says is accepted while the agent is being started, and not for
// ever.
func TestAgentThatNeverAnswers(t *testing.T) {
	node := nodeNamed()
	node.Labels[v1alpha1.NFDDeflateLabel] = "true"
	pod := agentPod("agent", "z15-a", "10.0.0.1", 0)
	b := newBench(t, node, pod)
	b.agents.measured, b.agents.err = nil, errors.New("asking the node agent: unreachable")
	b.reconcile()
	if b.label() != "" {
		t.Errorf("label %q at once", b.label())
	}
	if err := b.api.Delete(context.Background(), pod); err != nil {
		t.Fatal(err)
	}
	b.clock.SetTime(start.Add(4 * time.Minute))
	if pause := b.reconcile(); pause != 6*time.Minute {
		t.Errorf("looked for again after %s", pause)
	}
	b.clock.SetTime(start.Add(10 * time.Minute))
	b.reconcile()
	if b.label() != "software" {
		t.Errorf("label %q", b.label())
	}
	b.told("NodeAgentSilent")
}

// TestImplausible: an agent that says what cannot be does not draw work to its node, and does not overwrite what was
// known.
func TestImplausible(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*wirev1.NodeMeasurement)
		words  string
	}{
		"accelerator on amd64": {func(m *wirev1.NodeMeasurement) { m.Architecture = "amd64" }, `architecture "amd64"`},
		"accelerator unused":   {func(m *wirev1.NodeMeasurement) { m.Engines = m.Engines[:1] }, "no figures of an engine"},
		"accelerator at no speed": {
			func(m *wirev1.NodeMeasurement) { m.Engines[1].CompressBytesPerSecond = 0 }, "no figures of an engine",
		},
		"too fast": {
			func(m *wirev1.NodeMeasurement) { m.Engines[0].DecompressBytesPerSecond = math.MaxUint64 }, `by engine "go"`,
		},
		"a level too fast": {
			func(m *wirev1.NodeMeasurement) { m.Engines[0].Levels[0].CompressBytesPerSecond = 1e13 }, `by engine "go"`,
		},
		"all cores of the world": {func(m *wirev1.NodeMeasurement) { m.Cores = math.MaxUint32 }, "cores"},
		"a network of tar": {
			func(m *wirev1.NodeMeasurement) { m.NetworkCpuNanosPerGib = math.MaxUint64 }, "on the network",
		},
		"a segment of tar": {
			func(m *wirev1.NodeMeasurement) { m.Network = &wirev1.NetworkMeasurement{SegmentPicos: math.MaxUint64} },
			"a segment on the network",
		},
		"nothing":    {func(m *wirev1.NodeMeasurement) { proto.Reset(m) }, "lacks the architecture"},
		"no cores":   {func(m *wirev1.NodeMeasurement) { m.Cores = 0 }, "lacks"},
		"at no time": {func(m *wirev1.NodeMeasurement) { m.MeasuredTime = nil }, "lacks"},
		"from the future": {
			func(m *wirev1.NodeMeasurement) { m.MeasuredTime = timestamppb.New(start.Add(48 * time.Hour)) }, "in the future",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nodeNamed(), agentPod("agent", "z15-a", "10.0.0.1", 0))
			b.reconcile()
			before := b.profile().Status
			test.change(b.agents.measured)
			b.reconcile()
			s := b.profile().Status
			stalled := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionStalled)
			if stalled.Status != metav1.ConditionTrue || stalled.Reason != v1alpha1.ReasonImplausibleMeasurement ||
				!strings.Contains(stalled.Message, test.words) {
				t.Errorf("Stalled is %+v", stalled)
			}
			if b.label() != "software" || !cmp.Equal(before.Engines, s.Engines) || before.Architecture != s.Architecture ||
				before.Cores != s.Cores {
				t.Errorf("label %q, status %+v", b.label(), s)
			}
			if event := <-b.recorder.Events; !strings.Contains(event, "Warning ImplausibleMeasurement") {
				t.Errorf("event %s", event)
			}
			b.agents.measured = z15()
			b.reconcile()
			if b.label() != "hardware" {
				t.Errorf("label %q after it came to its senses", b.label())
			}
		})
	}
}
