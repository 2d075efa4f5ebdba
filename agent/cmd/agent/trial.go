// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"runtime"
	"time"

	"google.golang.org/grpc"

	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/filter"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/node"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/sampling"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/tree"
	"github.com/lighterage/lighterage/agent/trial"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func (a *agent) trial(ctx context.Context) error {
	var c wirev1.TrialConfig
	if err := a.readConfig(&c); err != nil {
		return err
	}
	setting, links, err := trialSetting(&c)
	if err != nil {
		return err
	}
	report, files := trial.NewReport(), transport.NewFiles(a.configDir)
	stop, err := a.serveControl(files, c.GetControlAddress(), report, nil)
	if err != nil {
		return err
	}
	defer stop()
	return a.end(report, func() error {
		sample, err := takeSample(ctx, &c, files)
		if err != nil {
			return err
		}
		report.Progress("whether there is an accelerator", 0, 0)
		accelerator, verdict := hardware.Find(ctx)
		found, err := trial.Measure(ctx, trial.Options{
			Sample: sample, Software: engines.All(), Accelerator: accelerator, Verdict: verdict,
			Setting: setting, Links: links, Progress: report.Progress,
		})
		if err != nil {
			return err
		}
		found.Accelerator = node.Accelerator(verdict)
		return report.Result(found)
	}())
}

// trialSetting checks a configuration and returns what to predict for.
func trialSetting(c *wirev1.TrialConfig) (policy.Setting, []float64, error) {
	cores := runtime.GOMAXPROCS(0)
	setting := policy.Setting{Cores: cores, PeerCores: cores}
	if err := trialSource(c); err != nil {
		return setting, nil, err
	}
	if size := c.GetSampleBytes(); size < trial.MinSample || size > trial.MaxSample {
		return setting, nil, badConfig("sample_bytes is %d: use %d to %d", size, trial.MinSample, trial.MaxSample)
	}
	if n := len(c.GetLinkBytesPerSecond()); n == 0 || n > trial.MaxLinks {
		return setting, nil, badConfig("%d links: use 1 to %d", n, trial.MaxLinks)
	}
	var links []float64
	for i, link := range c.GetLinkBytesPerSecond() {
		if link == 0 {
			return setting, nil, badConfig("link %d carries nothing: use 1 or more bytes a second", i)
		}
		links = append(links, float64(link))
	}
	resolved, err := compression.Read(c.GetCompression())
	if err != nil {
		return setting, nil, badConfig("%w", err)
	}
	setting.Objective, setting.Prices = resolved.Policy.Objective, resolved.Policy.Prices
	return setting, links, nil
}

// trialSource checks where the sample is to come from.
func trialSource(c *wirev1.TrialConfig) error {
	agents := c.GetAgents()
	if agents == nil {
		err := required("volume", c.GetVolume(), "path", c.GetPath(), "control_address", c.GetControlAddress())
		if err != nil {
			return err
		}
		return ofClaim(c.GetVolume())
	}
	if err := required(
		"control_address", c.GetControlAddress(), "agents.server_name", agents.GetServerName(),
	); err != nil {
		return err
	}
	duration := agents.GetDuration().AsDuration()
	switch n := len(agents.GetAddresses()); {
	case c.GetVolume() != "" || c.GetPath() != "":
		return badConfig("the configuration has both a volume and agents")
	case n == 0 || n > trial.MaxAgents:
		return badConfig("%d addresses of agents: use 1 to %d", n, trial.MaxAgents)
	case agents.GetUnit() != wirev1.TrialUnit_TRIAL_UNIT_BODY && agents.GetUnit() != wirev1.TrialUnit_TRIAL_UNIT_MESSAGE:
		return badConfig("agents.unit is %v: use TRIAL_UNIT_BODY or TRIAL_UNIT_MESSAGE", agents.GetUnit())
	case agents.GetUnit() == wirev1.TrialUnit_TRIAL_UNIT_BODY && (duration < sampling.MinDuration ||
		duration > sampling.MaxDuration):
		return badConfig("agents.duration is %v: use %v to %v", duration, sampling.MinDuration, sampling.MaxDuration)
	}
	return nil
}

// takeSample takes what is to be measured with.
func takeSample(ctx context.Context, c *wirev1.TrialConfig, files *transport.Files) (*trial.Sample, error) {
	if c.GetAgents() != nil {
		return askAgents(ctx, c, files)
	}
	patterns, err := filter.New(c.GetInclude(), c.GetExclude())
	if err != nil {
		return nil, failure.New(wirev1.FailureReason_FAILURE_REASON_INVALID_FILTER, "spec.%w", err)
	}
	source, err := tree.OpenSource(c.GetVolume(), c.GetPath())
	if err != nil {
		return nil, err
	}
	defer source.Close()
	source.SetFilter(patterns)
	return trial.Take(ctx, source, int64(c.GetSampleBytes()), c.GetSeed())
}

// askTimeout bounds how long a connection to an agent in the same cluster may take.
const askTimeout = 15 * time.Second

// askAgents takes a sample of what other agents have.
func askAgents(ctx context.Context, c *wirev1.TrialConfig, files *transport.Files) (*trial.Sample, error) {
	asked := c.GetAgents()
	return trial.Ask(ctx, trial.Agents{
		Unit: asked.GetUnit(), Addresses: asked.GetAddresses(), Duration: asked.GetDuration().AsDuration(),
		Connect: func(ctx context.Context, n int) (grpc.ClientConnInterface, func(), error) {
			client, err := (&transport.Dialer{Address: asked.GetAddresses()[n], Files: files}).DialOwn(asked.GetServerName())
			if err != nil {
				return nil, nil, err
			}
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			if err := client.Ready(ctx); err != nil {
				return nil, nil, errors.Join(err, client.Close())
			}
			return client, func() { _ = client.Close() }, nil
		},
	}, int64(c.GetSampleBytes()), c.GetSeed())
}
