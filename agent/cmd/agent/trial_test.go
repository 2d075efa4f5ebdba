// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/calibrate"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func trialConfig(t *testing.T, volume string) *wirev1.TrialConfig {
	return &wirev1.TrialConfig{
		Volume: volume, Path: ".", SampleBytes: 1 << 20, LinkBytesPerSecond: []uint64{1e6, 1e9},
		ControlAddress: freeAddress(t),
		Compression: &wirev1.CompressionSettings{
			Mode: wirev1.CompressionMode_COMPRESSION_MODE_AUTO, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
			Codecs:    []string{"deflate"},
			Objective: wirev1.CompressionObjective_COMPRESSION_OBJECTIVE_COST,
			Prices:    &wirev1.Prices{CpuHourNanos: 31e6, NetworkGibNanos: 50e6},
		},
	}
}

func trialDirectory(t *testing.T) string {
	east := transporttest.NewAuthority(t, "east")
	return east.Directory(t, east, "/ns/bank/trial/ledger", sendName)
}

func TestTrial(t *testing.T) {
	volume, log := t.TempDir(), filepath.Join(t.TempDir(), "termination")
	if err := os.WriteFile(filepath.Join(volume, "ledger"), calibrate.Sample(2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	directory := trialDirectory(t)
	configure(t, directory, trialConfig(t, volume))
	var said lines
	if code := run(
		t.Context(), []string{"trial", "--config-dir", directory, "--termination-log", log}, &said, &said,
	); code != exitOK {
		t.Fatalf("exit code %d: %s", code, said.String())
	}
	report, found := final(t, log), &wirev1.TrialResult{}
	if err := proto.Unmarshal(report.GetTrial(), found); err != nil {
		t.Fatal(err)
	}
	if report.GetState() != wirev1.AgentState_AGENT_STATE_SUCCEEDED || len(found.GetRows()) < 5 ||
		found.GetSample().GetBytesTotal() != 2<<20 ||
		found.GetSample().GetBytes() != 1<<20 || len(found.GetBest()) != 2 || found.GetAccelerator().GetMessage() == "" ||
		found.GetRows()[0].GetCostNanos() == 0 {
		t.Errorf("%v %v", report, found)
	}
}

func TestTrialRefuses(t *testing.T) {
	volume, log := t.TempDir(), filepath.Join(t.TempDir(), "termination")
	directory := trialDirectory(t)
	for says, change := range map[string]func(*wirev1.TrialConfig){
		"lacks volume":           func(c *wirev1.TrialConfig) { c.Volume = "" },
		"sample_bytes is 5":      func(c *wirev1.TrialConfig) { c.SampleBytes = 5 },
		"0 links":                func(c *wirev1.TrialConfig) { c.LinkBytesPerSecond = nil },
		"link 1 carries nothing": func(c *wirev1.TrialConfig) { c.LinkBytesPerSecond = []uint64{1, 0} },
		"compression":            func(c *wirev1.TrialConfig) { c.Compression = nil },
	} {
		c := trialConfig(t, volume)
		change(c)
		configure(t, directory, c)
		var said lines
		if code := run(t.Context(), []string{"trial", "--config-dir", directory}, &said, &said); code != exitConfig ||
			!strings.Contains(said.String(), says) {
			t.Errorf("%s: exit code %d: %s", says, code, said.String())
		}
	}
	for reason, change := range map[wirev1.FailureReason]func(*wirev1.TrialConfig){
		wirev1.FailureReason_FAILURE_REASON_SOURCE_EMPTY:     func(*wirev1.TrialConfig) {},
		wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND: func(c *wirev1.TrialConfig) { c.Path = "nowhere" },
		wirev1.FailureReason_FAILURE_REASON_INVALID_FILTER:   func(c *wirev1.TrialConfig) { c.Include = []string{"!a"} },
	} {
		c := trialConfig(t, volume)
		change(c)
		configure(t, directory, c)
		var said lines
		code := run(t.Context(), []string{"trial", "--config-dir", directory, "--termination-log", log}, &said, &said)
		if report := final(t, log); code != exitFailed || report.GetFailure().GetReason() != reason {
			t.Errorf("%v: exit code %d: %v", reason, code, report)
		}
	}
}
