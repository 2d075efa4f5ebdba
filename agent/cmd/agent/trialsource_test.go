// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lighterage/lighterage/agent/calibrate"
	"github.com/lighterage/lighterage/agent/sampling"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const sampledName = "0000.http.lighterage.internal"

// texts gives bodies of 1000 bytes.
type texts []byte

func (b texts) Sample(_ context.Context, _ sampling.Request, give func(sampling.Item) error) (sampling.Seen, error) {
	for at := 0; at+1000 <= len(b); at += 1000 {
		if err := give(sampling.Item{Content: b[at : at+1000], Length: 1000}); err != nil {
			return sampling.Seen{}, err
		}
	}
	return sampling.Seen{Items: 500, Bytes: 500_000}, nil
}

// replica serves samples as a replica of an HTTPEndpoint of a namespace does.
func replica(t *testing.T, authority *transporttest.Authority, namespace string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := transport.NewSampledServer(
		transport.NewFiles(authority.Directory(t, authority, "/ns/"+namespace+"/httpendpoint/shop", sampledName)),
	)
	wirev1.RegisterSamplerServer(
		server,
		sampling.NewServer(
			texts(calibrate.Sample(64_000)), sampling.Limits{Bytes: 1 << 20, Items: 100, Duration: time.Minute},
		),
	)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func agentsConfig(t *testing.T, addresses ...string) *wirev1.TrialConfig {
	c := trialConfig(t, "")
	c.Path = ""
	c.Agents = &wirev1.TrialAgents{
		Unit: wirev1.TrialUnit_TRIAL_UNIT_BODY, ServerName: sampledName, Addresses: addresses,
		Duration: durationpb.New(time.Second),
	}
	return c
}

// TestTrialOfBodies asks a replica over mutual TLS and measures what it gives; of its contents nothing is logged.
func TestTrialOfBodies(t *testing.T) {
	east, log := transporttest.NewAuthority(t, "east"), filepath.Join(t.TempDir(), "termination")
	directory := east.Directory(t, east, "/ns/bank/trial/shop", sendName)
	configure(t, directory, agentsConfig(t, replica(t, east, "bank")))
	var said lines
	if code := run(
		t.Context(), []string{"trial", "--config-dir", directory, "--termination-log", log}, &said, &said,
	); code != exitOK {
		t.Fatalf("exit code %d: %s", code, said.String())
	}
	found := &wirev1.TrialResult{}
	if err := proto.Unmarshal(final(t, log).GetTrial(), found); err != nil {
		t.Fatal(err)
	}
	if s := found.GetSample(); s.GetUnit() != wirev1.TrialUnit_TRIAL_UNIT_BODY || s.GetItems() != 64 ||
		s.GetItemsTotal() != 500 || s.GetBytes() != 64_000 || s.GetBytesTotal() != 500_000 {
		t.Errorf("%v", s)
	}
	if rows := found.GetRows(); len(rows) < 5 || rows[1].GetProblem() != "" || rows[1].GetWireBytes() >= 64_000 {
		t.Errorf("%v", rows)
	}
	if secret := string(calibrate.Sample(64_000)[1000:1020]); strings.Contains(said.String(), secret) {
		t.Error("contents were logged")
	}

	// The replica of another namespace does not let it in.
	configure(t, directory, agentsConfig(t, replica(t, east, "other")))
	if code := run(
		t.Context(), []string{"trial", "--config-dir", directory, "--termination-log", log}, &said, &said,
	); code != exitFailed {
		t.Errorf("exit code %d", code)
	}
	if f := final(t, log).GetFailure(); f.GetReason() != wirev1.FailureReason_FAILURE_REASON_CONNECTION_LOST {
		t.Errorf("%v", f)
	}
}

func TestTrialOfAgentsRefuses(t *testing.T) {
	directory := trialDirectory(t)
	for says, change := range map[string]func(*wirev1.TrialConfig){
		"lacks agents.server_name": func(c *wirev1.TrialConfig) { c.Agents.ServerName = "" },
		"both a volume and agents": func(c *wirev1.TrialConfig) { c.Volume = "/volume" },
		"0 addresses":              func(c *wirev1.TrialConfig) { c.Agents.Addresses = nil },
		"257 addresses":            func(c *wirev1.TrialConfig) { c.Agents.Addresses = make([]string, 257) },
		"agents.unit is":           func(c *wirev1.TrialConfig) { c.Agents.Unit = 0 },
		"agents.duration is 0s":    func(c *wirev1.TrialConfig) { c.Agents.Duration = nil },
		"agents.duration is 1h":    func(c *wirev1.TrialConfig) { c.Agents.Duration = durationpb.New(time.Hour) },
	} {
		c := agentsConfig(t, "127.0.0.1:1")
		change(c)
		configure(t, directory, c)
		var said lines
		if code := run(t.Context(), []string{"trial", "--config-dir", directory}, &said, &said); code != exitConfig ||
			!strings.Contains(said.String(), says) {
			t.Errorf("%s: exit code %d: %s", says, code, said.String())
		}
	}
}
