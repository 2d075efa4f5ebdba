// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"sync"
	"time"

	"github.com/lighterage/lighterage/controllers/agentclient"
)

// raises remembers the agents that did not take another limit of bandwidth. To give one more, nobody else may be
// admitted while it is asked. The zero value is ready for use, also concurrent.
type raises struct {
	mu     sync.Mutex
	failed map[agentclient.Target]time.Time
}

// wait is for how long an agent is not to be given more; 0: it may be.
func (r *raises) wait(agent agentclient.Target, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, failed := r.failed[agent]
	if !failed {
		return 0
	}
	return max(limitRetry-now.Sub(at), 0)
}

// note notes whether an agent took its limit.
func (r *raises) note(agent agentclient.Target, now time.Time, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.failed, agent)
		return
	}
	for other, at := range r.failed {
		if now.Sub(at) >= limitRetry {
			delete(r.failed, other)
		}
	}
	if r.failed == nil {
		r.failed = map[agentclient.Target]time.Time{}
	}
	r.failed[agent] = now
}
