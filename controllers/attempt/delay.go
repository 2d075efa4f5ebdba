// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package attempt

import (
	"fmt"
	"hash/fnv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// retryFirst doubles with every failed attempt, up to retryLast.
	retryFirst = 5 * time.Second
	retryLast  = 5 * time.Minute

	// stallStep grows by itself with every attempt that only somebody could have fixed, up to StallLast.
	stallStep = time.Minute
	// StallLast is also how long to wait for what events tell of, in case one is missed.
	StallLast = 5 * time.Minute

	// longestWait is the longest that an attempt waits for, spread included.
	longestWait = max(retryLast, StallLast) * 3 / 2

	// refusedFirst is the shortest wait after the API server refused what an attempt consists of.
	refusedFirst = 10 * time.Second

	// StartGrace is how long a pod may take to be scheduled and started before that is called Stalled.
	StartGrace = time.Minute
)

// RetryDelay is the wait after that many failed attempts.
func RetryDelay(failures int32) time.Duration {
	delay := retryFirst
	for ; failures > 1 && delay < retryLast; failures-- {
		delay *= 2
	}
	return min(delay, retryLast)
}

// UntilFirst is how long to wait for the first of several times after the start of something that has been waited for,
// those over excepted; StartGrace at most.
func UntilFirst(waited time.Duration, times ...time.Duration) time.Duration {
	wait := StartGrace
	for _, at := range times {
		if at > waited {
			wait = min(wait, at-waited)
		}
	}
	return wait
}

// Sooner is the shorter of two waits, of which 0 is none.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// Spread makes a wait up to half as long again, so that Transfers that one fault has hit do not all come back at the
// same moment. The number tells the waits of one Transfer apart.
func Spread(delay time.Duration, uid types.UID, number int64) time.Duration {
	return delay + time.Duration(Share(uid, number)*float64(delay/2)).Round(time.Second)
}

// UntilNext is how long the next attempt is to wait yet. No wait is planned that is longer than longestWait: if one
// is, the clock was set back since, and there is no telling how much of the wait is over.
func UntilNext(planned *metav1.Time, now time.Time) time.Duration {
	wait := planned.Sub(now)
	if wait > longestWait {
		return 0
	}
	return wait
}

// StallDelay is the wait after that many attempts that only somebody could have fixed.
func StallDelay(attempts int32) time.Duration {
	return min(time.Duration(max(attempts, 1))*stallStep, StallLast)
}

// Share is at least 0 and less than 1: the same for all who ask, and even over different objects and numbers.
func Share(uid types.UID, number int64) float64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%d", uid, number)
	// A product of its low half spreads what the hash's high bits leave together.
	return float64(h.Sum64()*0x9E3779B97F4A7C15>>11) / (1 << 53)
}
