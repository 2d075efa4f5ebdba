// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

const (
	// lookAgain is how soon an object is looked at again when no event tells of anything.
	lookAgain = 2 * time.Minute
	// tryAgain is the same while something keeps it from being what its spec says, which may be anybody's and have no
	// events.
	tryAgain = 30 * time.Second
)

// LookAgain is how soon to look at an object again: when a pod that is not ready has had its time to start, when
// certificates may be due, of which half of the lifetime is left then, or when something else is, after waits that are
// 0 if nothing is.
func LookAgain[R Report](
	agents []Agent[R], startGrace, lifetime time.Duration, problem bool, now time.Time, others ...time.Duration,
) time.Duration {
	next := lookAgain
	if problem {
		next = tryAgain
	}
	for _, wait := range append(others, lifetime/8) {
		if wait > 0 {
			next = min(next, wait)
		}
	}
	for _, agent := range agents {
		if left := agent.Pod.CreationTimestamp.Add(startGrace).Sub(now); left >= 0 && !Ready(agent.Pod) {
			next = min(next, left+time.Second)
		}
	}
	return next
}

// maxResetRequest bounds what of the annotation's value is looked at.
const maxResetRequest = 256

// ResetRequest is the value of the annotation that asks for a reset of statistics.
func ResetRequest(object metav1.Object) string {
	value := object.GetAnnotations()[v1alpha1.ResetStatisticsAnnotation]
	return strings.ToValidUTF8(value[:min(len(value), maxResetRequest)], "")
}
