// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replicas has what kinds have in common whose agents run all the time, several of one kind beside each other:
// asking them, summing up what they say, and their pods. What is about one kind alone is not here.
package replicas

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/agentpoll"
)

const (
	// lookAgain is how soon an object is looked at again when no event tells of anything.
	lookAgain = 2 * time.Minute
	// tryAgain is the same while something keeps it from being what its spec says, which may be anybody's and have no
	// events.
	tryAgain = 30 * time.Second
)

// LookAgain is how soon to look at an object again: when a pod that is not ready has had its time to start, when
// certificates may be due, of which half of the lifetime is left then, or when something else is, after a wait that is
// 0 if nothing is.
func LookAgain(
	pods []*corev1.Pod, startGrace, lifetime, other time.Duration, problem bool, now time.Time,
) time.Duration {
	next := lookAgain
	if problem {
		next = tryAgain
	}
	for _, wait := range []time.Duration{lifetime / 8, other} {
		if wait > 0 {
			next = min(next, wait)
		}
	}
	for _, pod := range pods {
		if left := pod.CreationTimestamp.Add(startGrace).Sub(now); left >= 0 && !ready(pod) {
			next = min(next, left+time.Second)
		}
	}
	return next
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Heard is what is known of the agents of an object's pods.
type Heard[R any] struct {
	// Agents are in the order of the pods. Pods that do not run have none: theirs is the zero value.
	Agents []agentpoll.Observation[R]
	// Due: it is the object's turn to show statistics.
	Due bool
	// Asked: all agents have been, since they or the manager started.
	Asked bool
}

// Listen returns what the agents of pods said last, and has no others of the object's asked. serverName is what their
// certificates hold.
func Listen[R any](
	reports agentpoll.Poller[R], object types.NamespacedName, pods []*corev1.Pod, port int, serverName string,
) Heard[R] {
	var targets []agentpoll.Target
	for _, pod := range pods {
		if Answers(pod) {
			target := agentclient.Target{Address: Address(pod, port), ServerName: serverName}
			targets = append(targets, agentpoll.Target{Pod: pod.UID, Target: target})
		}
	}
	seen := reports.Observe(object, targets...)
	heard := Heard[R]{Due: seen.Due, Asked: true, Agents: make([]agentpoll.Observation[R], len(pods))}
	for i, pod := range pods {
		if Answers(pod) {
			heard.Agents[i], seen.Agents = seen.Agents[0], seen.Agents[1:]
			heard.Asked = heard.Asked && heard.Agents[i].Asked
		}
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

// Address of a port of a pod.
func Address(pod *corev1.Pod, port int) string {
	return net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(port))
}

// NetworkSeconds is the coefficient that was measured for a node, in seconds of CPU time for each GiB; nil when there
// is none.
func NetworkSeconds(profiles map[string]v1alpha1.NodeProfileStatus, node string) *float64 {
	profile, known := profiles[node]
	if !known {
		return nil
	}
	seconds, err := strconv.ParseFloat(profile.NetworkCPUSecondsPerGiB, 64)
	if err != nil || seconds < 0 || seconds > 1e6 {
		return nil // a profile that says nothing usable is one that does not know
	}
	return &seconds
}

// maxResetRequest bounds what of the annotation's value is looked at.
const maxResetRequest = 256

// ResetRequest is the value of the annotation that asks for a reset of statistics.
func ResetRequest(object metav1.Object) string {
	value := object.GetAnnotations()[v1alpha1.ResetStatisticsAnnotation]
	return strings.ToValidUTF8(value[:min(len(value), maxResetRequest)], "")
}
