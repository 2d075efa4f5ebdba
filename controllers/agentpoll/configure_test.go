// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentpoll_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/agentpoll"
)

// TestConfigure: agents that lack a configuration get it at once and once; what fails is tried again, and nobody is
// silent for it.
func TestConfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := agentpoll.New(prometheus.NewRegistry())
		// What each agent has, how often it was given something, and whether that fails.
		var mu sync.Mutex
		has, given := map[string]uint64{"a": 1, "b": 1, "c": 1}, map[string]int{}
		var broken error
		poller := agentpoll.NewPoller(pool, agentpoll.Question[*wirev1.ConfigurationState]{
			Name: "test", Class: agentpoll.Serving,
			Ask: func(_ context.Context, target agentclient.Target) (*wirev1.ConfigurationState, error) {
				mu.Lock()
				defer mu.Unlock()
				return &wirev1.ConfigurationState{Generation: has[target.Address]}, nil
			},
			News: func(before, after *wirev1.ConfigurationState) bool { return false },
			Lacks: func(said *wirev1.ConfigurationState, generation uint64) bool {
				return said != nil && said.GetGeneration() < generation
			},
			Configure: func(_ context.Context, target agentclient.Target, config agentpoll.Configuration) error {
				mu.Lock()
				defer mu.Unlock()
				given[target.Address]++
				if broken != nil {
					return broken
				}
				has[target.Address] = config.GetGeneration()
				return nil
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- pool.Start(ctx) }()
		name := types.NamespacedName{Namespace: "bank", Name: "front"}
		var targets []agentpoll.Target
		for _, address := range []string{"a", "b", "c"} {
			targets = append(targets, agentpoll.Target{Pod: types.UID(address), Target: agentclient.Target{Address: address}})
		}
		poller.Observe(name, targets...)
		expect := func(what string, want map[string]int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !maps.Equal(given, want) {
				t.Errorf("%s: given %v, want %v", what, given, want)
			}
			clear(given)
		}
		config := func(generation uint64) agentpoll.Configuration { return &wirev1.HTTPConfig{Generation: generation} }
		// Before anybody has answered, as after a start of the manager.
		poller.Configure(name, config(2))
		time.Sleep(time.Minute)
		expect("at the start", map[string]int{"a": 1, "b": 1, "c": 1})
		poller.Configure(name, config(2))
		time.Sleep(time.Minute)
		expect("all have it", map[string]int{})
		mu.Lock()
		has["b"] = 4
		mu.Unlock()
		time.Sleep(time.Minute)
		poller.Configure(name, config(3))
		time.Sleep(10 * time.Millisecond)
		expect("at once", map[string]int{"a": 1, "c": 1})
		poller.Configure(name, config(0))
		time.Sleep(time.Minute)
		expect("of no generation", map[string]int{})
		breaks := func(now error) {
			mu.Lock()
			defer mu.Unlock()
			broken = now
		}
		breaks(errors.New("it does not arrive"))
		poller.Configure(name, config(4))
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		if given["a"] < 5 || given["a"] > 21 || given["b"] > 0 {
			t.Errorf("in vain %v times", given)
		}
		clear(given)
		mu.Unlock()
		for _, seen := range poller.Observe(name, targets...).Agents {
			if seen.Silent || seen.Err != nil {
				t.Errorf("%+v", seen)
			}
		}
		breaks(nil)
		time.Sleep(time.Minute)
		expect("again", map[string]int{"a": 1, "c": 1})
		breaks(fmt.Errorf("asking: %w", agentclient.ErrRejected))
		poller.Configure(name, config(5))
		time.Sleep(time.Minute)
		expect("they cannot take it", map[string]int{"a": 1, "b": 1, "c": 1})
		breaks(nil)
		poller.Configure(name, config(6))
		time.Sleep(time.Minute)
		expect("the next one", map[string]int{"a": 1, "b": 1, "c": 1})
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
