// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/agentpoll"
)

// Pool returns a pool that asks while a manager runs.
func Pool(mgr ctrl.Manager) (*agentpoll.Pool, error) {
	pool := agentpoll.New(prometheus.NewRegistry())
	if err := mgr.Add(pool); err != nil {
		return nil, fmt.Errorf("adding the pool: %w", err)
	}
	return pool, nil
}

// Asking is an agentpoll.Poller that asks at once, so that a reconcile sees what agents say now. Progress is always
// due, and an agent that does not answer is silent.
type Asking[R any] func(context.Context, agentclient.Target) (R, error)

// Observe is of agentpoll.Poller.
func (a Asking[R]) Observe(_ types.NamespacedName, targets ...agentpoll.Target) agentpoll.Observed[R] {
	seen := agentpoll.Observed[R]{Due: true}
	for _, target := range targets {
		report, err := a(context.Background(), target.Target)
		seen.Agents = append(seen.Agents, agentpoll.Observation[R]{Asked: true, Report: report, Err: err, Silent: err != nil})
	}
	return seen
}

// Shown is of agentpoll.Poller.
func (a Asking[R]) Shown(types.NamespacedName) {}

// Configure is of agentpoll.Poller; nobody is given anything.
func (a Asking[R]) Configure(types.NamespacedName, agentpoll.Configuration) {}

// Refresh is of agentpoll.Poller.
func (a Asking[R]) Refresh(types.NamespacedName) {}

// Forget is of agentpoll.Poller.
func (a Asking[R]) Forget(types.NamespacedName) {}

// Source is of agentpoll.Poller; it wakes nobody.
func (a Asking[R]) Source() source.Source {
	return source.Func(func(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error { return nil })
}
