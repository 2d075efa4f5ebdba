// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentjob

import (
	"net"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/agentpod"
	"github.com/lighterage/lighterage/controllers/agentpoll"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/attempt"
)

// Reports has agents of attempts asked for reports. kind is that of the objects, in metrics.
func Reports(pool *agentpoll.Pool, kind string, agents agentclient.Agents) agentpoll.Poller[*wirev1.Report] {
	return agentpoll.NewPoller(pool, agentpoll.Question[*wirev1.Report]{
		Name: kind, Class: agentpoll.Runs, Ask: agents.Report, News: agentreport.News,
	})
}

// Heard is what is known of the agent of an attempt, as plan wants to have it.
type Heard struct {
	// Report is nil when it has not answered, or is silent. Age is how old it is.
	Report *wirev1.Report
	Age    time.Duration
	Early  bool
	Silent bool
}

// Listen returns what the agent of an object's Job said last, and has no other agent of the object's asked. Without a
// pod that runs it is nothing.
func Listen(
	reports agentpoll.Poller[*wirev1.Report], object types.NamespacedName, job *batchv1.Job, pod *corev1.Pod,
	serverName string,
) Heard {
	ip, runs := attempt.AgentToAsk(job, pod)
	if !runs {
		reports.Forget(object)
		return Heard{}
	}
	seen := reports.Observe(object, agentpoll.Target{Pod: pod.UID, Target: agentclient.Target{
		Address: net.JoinHostPort(ip, strconv.Itoa(agentpod.ControlPort)), ServerName: serverName,
	}})
	agent := seen.Agents[0]
	if agent.Silent {
		return Heard{Silent: true}
	}
	return Heard{Report: agent.Report, Age: agent.Age, Early: !seen.Due}
}
