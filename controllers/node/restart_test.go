// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentpoll"
	"github.com/lighterage/lighterage/controllers/controllertest"
	"github.com/lighterage/lighterage/controllers/node"
)

// unanswered is a poller whose first question to an agent was in vain a moment ago, or for long.
type unanswered struct {
	controllertest.Asking[*wirev1.NodeMeasurement]
	silent bool
}

func (u unanswered) Observe(types.NamespacedName, ...agentpoll.Target) agentpoll.Observed[*wirev1.NodeMeasurement] {
	return agentpoll.Observed[*wirev1.NodeMeasurement]{Agents: []agentpoll.Observation[*wirev1.NodeMeasurement]{
		{Asked: true, Err: errors.New("timed out"), Silent: u.silent},
	}}
}

// TestRestart: a manager that has just started and asked an agent once in vain leaves the profile as it is. What it
// then writes is that the agent has been silent for long.
func TestRestart(t *testing.T) {
	b := newBench(t, nodeNamed(), agentPod("agent", "z15-a", "10.0.0.1", 0))
	b.reconcile()
	before := b.profile()
	for _, silent := range []bool{false, true} {
		b.reconciler = node.NewReconciler(b.api, node.Options{
			Profiles: unanswered{silent: silent}, Namespace: operator, Clock: b.clock, Recorder: b.recorder,
		})
		b.reconcile()
		if wrote := b.profile().ResourceVersion != before.ResourceVersion; wrote != silent {
			t.Errorf("silent %t: wrote %t: %+v", silent, wrote, b.profile().Status.Conditions)
		}
	}
	if got := b.profile().Status.Conditions; len(got) == 0 {
		t.Errorf("conditions of a silent agent: %+v", got)
	}
	b.told(v1alpha1.ReasonNodeAgentUnreachable)
}
