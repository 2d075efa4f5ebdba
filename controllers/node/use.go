// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"net"
	"sync"
	"time"

	"k8s.io/utils/clock"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/agentclient"
)

// forgetAfter is when an agent is forgotten that was not heard of.
const forgetAfter = 15 * time.Minute

// Use gathers how long agents were in calls of accelerators, from the answers that the manager gets anyway. It is safe
// for concurrent use.
type Use struct {
	clock clock.PassiveClock

	mu     sync.Mutex
	since  time.Time         // when the first answer was heard: a manager asks while it leads
	agents map[string]*calls // by IP address; without those that never used an accelerator
}

// calls are those of one agent.
type calls struct {
	start   time.Time // of the process; zero when it does not say
	nanos   uint64    // as it said last
	pending uint64    // not taken yet
	heard   time.Time
}

// NewUse returns one that has heard of no agent.
func NewUse(c clock.PassiveClock) *Use {
	return &Use{clock: c, agents: map[string]*calls{}}
}

// Listen returns agents whose answers are heard.
func (u *Use) Listen(agents agentclient.Agents) agentclient.Agents { return listening{agents, u} }

type listening struct {
	agentclient.Agents
	use *Use
}

// Report implements agentclient.Agents.
func (l listening) Report(ctx context.Context, target agentclient.Target) (*wirev1.Report, error) {
	report, err := l.Agents.Report(ctx, target)
	if err == nil {
		l.use.hear(target, report.GetStartTime().AsTime(), report.GetCpu().GetAcceleratorNanos())
	}
	return report, err
}

// HTTPReport implements agentclient.Agents.
func (l listening) HTTPReport(ctx context.Context, target agentclient.Target) (*wirev1.HTTPReport, error) {
	report, err := l.Agents.HTTPReport(ctx, target)
	if err == nil {
		l.use.hear(target, report.GetStartTime().AsTime(), report.GetCpu().GetAcceleratorNanos())
	}
	return report, err
}

// QueueReport implements agentclient.Agents.
func (l listening) QueueReport(ctx context.Context, target agentclient.Target) (*wirev1.QueueReport, error) {
	report, err := l.Agents.QueueReport(ctx, target)
	if err == nil {
		l.use.hear(target, report.GetStartTime().AsTime(), report.GetCpu().GetAcceleratorNanos())
	}
	return report, err
}

// Profile implements agentclient.Agents. A node agent does not say when it started.
func (l listening) Profile(ctx context.Context, target agentclient.Target) (*wirev1.NodeMeasurement, error) {
	measured, err := l.Agents.Profile(ctx, target)
	if err == nil {
		l.use.hear(target, time.Time{}, measured.GetAcceleratorUse().GetCallNanos())
	}
	return measured, err
}

// hear takes in what an agent says. What a process did before this manager led was counted by the one before, or by
// none: it does not count.
func (u *Use) hear(target agentclient.Target, start time.Time, nanos uint64) {
	address, _, err := net.SplitHostPort(target.Address)
	if err != nil {
		return
	}
	now := u.clock.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.since.IsZero() {
		u.since = now
	}
	agent := u.agents[address]
	switch {
	case agent == nil && nanos == 0:
		return
	case agent == nil:
		u.forget(now)
		agent = &calls{start: start}
		if start.After(u.since) {
			agent.pending = nanos
		}
		u.agents[address] = agent
	case !agent.start.Equal(start) || nanos < agent.nanos: // another process
		agent.start = start
		agent.pending += nanos
	default:
		agent.pending += nanos - agent.nanos
	}
	agent.nanos, agent.heard = nanos, now
}

func (u *Use) forget(now time.Time) {
	for address, agent := range u.agents {
		if now.Sub(agent.heard) > forgetAfter {
			delete(u.agents, address)
		}
	}
}

// take returns the time of calls of these agents that was not taken yet.
func (u *Use) take(addresses []string) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	var sum time.Duration
	for _, address := range addresses {
		if agent := u.agents[address]; agent != nil {
			sum += time.Duration(min(agent.pending, uint64(maxPending)))
			agent.pending = 0
		}
	}
	return sum
}

// maxPending bounds what one agent is believed between two looks.
const maxPending = 24 * time.Hour
