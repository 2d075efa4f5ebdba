// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replicas has what kinds have in common whose agents run all the time, several of one kind beside each other:
// asking them, summing up what they say, and their pods. What is about one kind alone is not here.
package replicas

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/agentpoll"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/topology"
	"github.com/lighterage/lighterage/controllers/usage"
)

// Report is what agents of a kind say: a pointer to a message of theirs, whose getters take nil.
type Report interface {
	comparable
	proto.Message
	// GetRevision names the configuration that the agent has taken.
	GetRevision() string
	// GetCertificate is about the one for clients.
	GetCertificate() *wirev1.HTTPCertificate
	// GetConfiguration has the generations of configurations that the agent knows; nil from agents of earlier releases.
	GetConfiguration() *wirev1.ConfigurationState
}

// Lacks reports whether an agent is to be sent the configuration of a generation: it takes some, and neither has this
// or a newer one in effect nor has rejected it.
func Lacks[R Report](report R, generation uint64) bool {
	known := report.GetConfiguration()
	return known != nil && known.GetGeneration() < generation && known.GetRejected() < generation
}

// maxGeneration is the highest that is believed, so that the next one is a number, too.
const maxGeneration = 1 << 62

// NewestGeneration is the highest generation of a configuration that an agent has in effect or has rejected.
func NewestGeneration[R Report](agents []Agent[R]) uint64 {
	var newest uint64
	for _, agent := range agents {
		known := agent.Report.GetConfiguration()
		if n := max(known.GetGeneration(), known.GetRejected()); n <= maxGeneration {
			newest = max(newest, n)
		}
	}
	return newest
}

// Agent is a pod and what its agent says.
type Agent[R Report] struct {
	Pod *corev1.Pod
	// Asked is true when the pod runs, so that its agent should answer.
	Asked bool
	// Report is nil when the agent was not asked or did not answer.
	Report R
	// Network of the pod's node; nil when it is not known.
	Network *usage.NetworkCost
	// NodeLabels of that node; nil when they are not known. They must not be changed.
	NodeLabels map[string]string
}

// Pods are those with the labels of selector in an object's namespace that are neither being stopped nor ended. owned
// tells by the name and kind of a pod's controller whether the pod is of the object.
func Pods(
	ctx context.Context, reader client.Reader, object client.Object, selector map[string]string,
	owned func(*metav1.OwnerReference) bool,
) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	err := reader.List(ctx, list, client.InNamespace(object.GetNamespace()), client.MatchingLabels(selector))
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %T %s: %w", object, client.ObjectKeyFromObject(object), err)
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		pod := &list.Items[i]
		if owner := metav1.GetControllerOf(pod); !Ended(pod) && owner != nil && owned(owner) {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// Heard is what is known of the agents of an object.
type Heard[R Report] struct {
	// Agents are in the order of their pods.
	Agents []Agent[R]
	// Due: it is the object's turn to show statistics.
	Due bool
	// Asked: all agents of pods that run have been, since they or the manager started.
	Asked bool
	// Oldest is how long ago the agent was asked whose report is the oldest; 0 when there is no report.
	Oldest time.Duration
}

// Listen returns what the agents of an object's pods said last, and has no others of the object's asked. serverName is
// what their certificates hold: whoever bears the labels without having the key of the object's Secret cannot answer.
// cluster knows their nodes.
func Listen[R Report](
	reports agentpoll.Poller[R], object client.ObjectKey, pods []*corev1.Pod, port int, serverName string,
	cluster *topology.Cluster,
) Heard[R] {
	var targets []agentpoll.Target
	for _, pod := range pods {
		if Answers(pod) {
			target := agentclient.Target{Address: Address(pod, port), ServerName: serverName}
			targets = append(targets, agentpoll.Target{Pod: pod.UID, Target: target})
		}
	}
	seen := reports.Observe(object, targets...)
	heard := Heard[R]{Due: seen.Due, Asked: true}
	var none R
	for _, pod := range pods {
		agent := Agent[R]{
			Pod: pod, Asked: Answers(pod), NodeLabels: cluster.Labels(pod.Spec.NodeName),
			Network: cluster.Network(pod.Spec.NodeName),
		}
		if agent.Asked {
			var said agentpoll.Observation[R]
			said, seen.Agents = seen.Agents[0], seen.Agents[1:]
			heard.Asked = heard.Asked && said.Asked
			if said.Report != none && !said.Silent {
				agent.Report = agentreport.Bounded(said.Report)
				heard.Oldest = max(heard.Oldest, said.Age)
			}
		}
		heard.Agents = append(heard.Agents, agent)
	}
	return heard
}

// Ended reports whether a pod is being stopped or has ended, so that it is nobody's replica any more.
func Ended(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// Answers reports whether a pod runs, so that its agent should answer.
func Answers(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != ""
}

// Ready reports whether a pod has the condition of that name.
func Ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Address of a port of a pod.
func Address(pod *corev1.Pod, port int) string {
	return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(port))
}
