// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"runtime"

	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/filter"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/node"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/transfer"
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
	report := trial.NewReport()
	stop, err := a.serveControl(transport.NewFiles(a.configDir), c.GetControlAddress(), report)
	if err != nil {
		return err
	}
	defer stop()
	return a.end(report, func() error {
		sample, err := takeSample(ctx, &c)
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
	if err := required("volume", c.GetVolume(), "path", c.GetPath(), "control_address", c.GetControlAddress()); err != nil {
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
	compression, err := transfer.Settings(c.GetCompression())
	if err != nil {
		return setting, nil, badConfig("%w", err)
	}
	setting.Objective, setting.Prices = compression.Policy.Objective, compression.Policy.Prices
	return setting, links, nil
}

// takeSample reads what is to be measured with.
func takeSample(ctx context.Context, c *wirev1.TrialConfig) (*trial.Sample, error) {
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
