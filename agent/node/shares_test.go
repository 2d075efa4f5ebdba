// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/calibrate"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/codec/goflate"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/node"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// granting is what grants shares.
type granting struct{ weights map[string]uint32 }

func (g *granting) Sharing() *wirev1.AcceleratorSharing {
	return &wirev1.AcceleratorSharing{Agents: uint32(len(g.weights))}
}

func (g *granting) SetWeights(weights map[string]uint32) { g.weights = weights }

// TestShares: whoever grants shares is told the weights that the manager tells, and nothing by one that tells none; the
// engine of the accelerator after each measurement; and what it says is passed on.
func TestShares(t *testing.T) {
	told := make(chan codec.Engine, 1)
	shares := &granting{}
	p := node.NewProfiler(node.Options{
		Engines: []codec.Engine{goflate.New()}, Sample: calibrate.Sample(10_000), Budget: time.Microsecond,
		Log: slog.New(slog.DiscardHandler), Shares: shares, Accelerator: func(e codec.Engine) { told <- e },
		Find: func(context.Context) (codec.Engine, hardware.Verdict) {
			return nil, hardware.Verdict{State: hardware.Absent}
		},
		Network: func(context.Context) (node.NetworkCost, error) { return node.NetworkCost{}, nil },
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		p.Run(ctx)
		close(done)
	}()
	defer func() {
		cancel()
		<-done
	}()
	if engine := <-told; engine != nil {
		t.Errorf("told of an accelerator: %s", engine.Name())
	}
	weights := map[string]uint32{"bank": 300}
	var got *wirev1.GetProfileResponse
	for err := error(nil); got == nil || err != nil; time.Sleep(time.Millisecond) { // go test's own limit ends it
		got, err = p.GetProfile(t.Context(), &wirev1.GetProfileRequest{
			Weights: &wirev1.AcceleratorWeights{Namespaces: weights},
		})
	}
	n := got.GetMeasurement().GetAcceleratorUse().GetShares().GetAgents()
	if n != 1 || !maps.Equal(shares.weights, weights) {
		t.Errorf("%d agents, weights %v", n, shares.weights)
	}
	if _, err := p.GetProfile(t.Context(), &wirev1.GetProfileRequest{}); err != nil || len(shares.weights) != 1 {
		t.Errorf("weights %v after a manager that tells none, %v", shares.weights, err)
	}
}
