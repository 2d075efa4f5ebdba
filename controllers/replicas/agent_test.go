// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpoll"
	"github.com/lighterage/lighterage/controllers/placement"
	"github.com/lighterage/lighterage/controllers/replicas"
	"github.com/lighterage/lighterage/controllers/topology"
)

// replica of an HTTPEndpoint; any kind would do.
type replica = replicas.Agent[*wirev1.HTTPReport]

// poller answers by pod.
type poller struct {
	agentpoll.Poller[*wirev1.HTTPReport]
	said map[types.UID]agentpoll.Observation[*wirev1.HTTPReport]
}

func (p poller) Observe(_ types.NamespacedName, agents ...agentpoll.Target) agentpoll.Observed[*wirev1.HTTPReport] {
	seen := agentpoll.Observed[*wirev1.HTTPReport]{Due: true}
	for _, agent := range agents {
		seen.Agents = append(seen.Agents, p.said[agent.Pod])
	}
	return seen
}

// TestListen: each agent has its own answer, also beside pods that cannot be asked, and one that is silent has none.
func TestListen(t *testing.T) {
	var pods []*corev1.Pod
	for _, name := range []string{"starting", "old", "silent", "new", "never"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		pod.Spec.NodeName = "z15"
		if name != "starting" {
			pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1"}
		}
		pods = append(pods, pod)
	}
	said := poller{said: map[types.UID]agentpoll.Observation[*wirev1.HTTPReport]{
		"old":    {Asked: true, Report: &wirev1.HTTPReport{Revision: "old"}, Age: 7 * time.Second},
		"silent": {Asked: true, Report: &wirev1.HTTPReport{Revision: "silent"}, Age: time.Minute, Silent: true},
		"new":    {Asked: true, Report: &wirev1.HTTPReport{Revision: "new"}, Age: time.Second},
		"never":  {Asked: true, Age: time.Hour},
	}}
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "z15", Labels: map[string]string{"class": "spot"}}}
	cluster := topology.NewCluster(placement.Facts{
		Nodes: []corev1.Node{node}, Profiles: map[string]v1alpha1.NodeProfileStatus{"z15": {NetworkCPUSecondsPerGiB: "0.5"}},
	})
	heard := replicas.Listen(said, client.ObjectKey{}, pods, 9443, "name", cluster)
	var got []string
	for i, agent := range heard.Agents {
		if agent.Pod != pods[i] || agent.Asked != (i > 0) || agent.Network.PerGiB != 0.5 ||
			agent.NodeLabels["class"] != "spot" {
			t.Errorf("%d: %+v", i, agent)
		}
		revision := "none"
		if agent.Report != nil {
			revision = agent.Report.GetRevision()
		}
		got = append(got, revision)
	}
	if want := []string{"none", "old", "none", "new", "none"}; !slices.Equal(got, want) {
		t.Errorf("heard %q, want %q", got, want)
	}
	if !heard.Due || !heard.Asked || heard.Oldest != 7*time.Second {
		t.Errorf("%+v", heard)
	}
	said.said["never"] = agentpoll.Observation[*wirev1.HTTPReport]{}
	if heard := replicas.Listen(said, client.ObjectKey{}, pods, 9443, "name", cluster); heard.Asked {
		t.Error("one was not asked yet")
	}
}

// TestCheckReports: an agent that is silent comes before one that is behind.
func TestCheckReports(t *testing.T) {
	agent := func(name string, report *wirev1.HTTPReport) replica {
		return replica{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}, Report: report}
	}
	present, behind := &wirev1.HTTPReport{Revision: "b"}, &wirev1.HTTPReport{Revision: "a"}
	for name, test := range map[string]struct {
		agents []replica
		reason string
	}{
		"none":    {nil, ""},
		"present": {[]replica{agent("a", present), agent("b", present)}, ""},
		"behind":  {[]replica{agent("a", present), agent("b", behind)}, v1alpha1.ReasonRollingOut},
		"silent":  {[]replica{agent("a", behind), agent("b", nil)}, v1alpha1.ReasonAgentUnreachable},
	} {
		got := ""
		if found := replicas.CheckReports("replicas", test.agents, "b", 9443); found != nil {
			got = found[0].Reason
		}
		if got != test.reason {
			t.Errorf("%s: %q, want %q", name, got, test.reason)
		}
	}
}

// TestLacks: who has or rejected a configuration, or one that is newer, is not sent it, and neither is one of an
// earlier release; a generation beyond all bounds is not believed.
func TestLacks(t *testing.T) {
	knows := func(generation, rejected uint64) *wirev1.HTTPReport {
		return &wirev1.HTTPReport{Configuration: &wirev1.ConfigurationState{Generation: generation, Rejected: rejected}}
	}
	for name, test := range map[string]struct {
		report *wirev1.HTTPReport
		lacks  bool
		newest uint64
	}{
		"older":     {knows(4, 0), true, 4},
		"present":   {knows(5, 0), false, 5},
		"newer":     {knows(6, 0), false, 6},
		"rejected":  {knows(4, 5), false, 5},
		"first":     {knows(0, 0), true, 0},
		"untold":    {&wirev1.HTTPReport{}, false, 0},
		"silent":    {nil, false, 0},
		"unlimited": {knows(1<<63, 0), false, 0},
	} {
		if lacks := replicas.Lacks(test.report, 5); lacks != test.lacks {
			t.Errorf("%s: lacks it: %v", name, lacks)
		}
		if newest := replicas.NewestGeneration([]replica{{Report: test.report}}); newest != test.newest {
			t.Errorf("%s: newest %d", name, newest)
		}
	}
}
