// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plan decides what is to be done for a Transfer and a Delivery. It is pure: it is given what was seen and the
// time, and returns the status to write and what to do. It knows the Kubernetes types and reads or writes no cluster.
package plan

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// endingInterval is the time between two looks at what is being ended, in case no event tells of its end.
	endingInterval = 5 * time.Second
	// apartDelay is the wait before an attempt with one agent is followed by one with two.
	apartDelay = 2 * time.Second
	// RenewalRetry is the wait after a certificate could not be renewed, which is tried with half of its life left.
	RenewalRetry = 30 * time.Second

	// retryFirst doubles with every failed attempt, up to retryLast.
	retryFirst = 5 * time.Second
	retryLast  = 5 * time.Minute

	// stallStep grows by itself with every attempt that only somebody could have fixed, up to stallLast.
	stallStep = time.Minute
	stallLast = 5 * time.Minute

	// longestWait is the longest that an attempt waits for, spread included.
	longestWait = max(retryLast, stallLast) * 3 / 2

	// refusedFirst is the shortest wait after the API server refused what an attempt consists of.
	refusedFirst = 10 * time.Second

	// startGrace is how long a pod may take to be scheduled and started before that is called Stalled.
	startGrace = time.Minute

	// slotPatience is how long a pod that prefers an accelerator waits for a slot of one that was free when it was
	// planned.
	slotPatience = 15 * time.Second
	// maxSlotDoublings is how often slotPatience is doubled at most before a pod that waits for space elsewhere is
	// planned again: to 8 minutes.
	maxSlotDoublings = 5

	// maxHistory is what the API allows.
	maxHistory = 10
)

// retryDelay is the wait after that many failed attempts.
func retryDelay(failures int32) time.Duration {
	delay := retryFirst
	for ; failures > 1 && delay < retryLast; failures-- {
		delay *= 2
	}
	return min(delay, retryLast)
}

// untilFirst is how long to wait for the first of several times after the start of something that has been waited for,
// those over excepted; startGrace at most.
func untilFirst(waited time.Duration, times ...time.Duration) time.Duration {
	wait := startGrace
	for _, at := range times {
		if at > waited {
			wait = min(wait, at-waited)
		}
	}
	return wait
}

// sooner is the shorter of two waits, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// spread makes a wait up to half as long again, so that Transfers that one fault has hit do not all come back at the
// same moment. The number tells the waits of one Transfer apart.
func spread(delay time.Duration, uid types.UID, number int64) time.Duration {
	return delay + time.Duration(share(uid, number)*float64(delay/2)).Round(time.Second)
}

// untilAttempt is how long the next attempt is to wait yet. No wait is planned that is longer than longestWait: if one
// is, the clock was set back since, and there is no telling how much of the wait is over.
func untilAttempt(planned *metav1.Time, now time.Time) time.Duration {
	wait := planned.Sub(now)
	if wait > longestWait {
		return 0
	}
	return wait
}

// stallDelay is the wait after that many attempts that only somebody could have fixed.
func stallDelay(attempts int32) time.Duration {
	return min(time.Duration(max(attempts, 1))*stallStep, stallLast)
}
