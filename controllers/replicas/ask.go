// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package replicas has what kinds have in common whose agents run all the time, several of one kind beside each other: asking them, summing
// up what they say, and their pods. What is about one kind alone is not here.
package replicas

import (
	"net"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// askedAtOnce bounds the questions to replicas of one object that are under way.
const askedAtOnce = 16

// EachAtOnce calls ask for 0 to n-1, some of them at a time, and returns when all calls have.
func EachAtOnce(n int, ask func(i int)) {
	slots := make(chan struct{}, askedAtOnce)
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			ask(i)
		})
	}
	wait.Wait()
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

// NetworkSeconds is the coefficient that was measured for a node, in seconds of CPU time for each GiB; nil when there is none.
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
