// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func probeConfig(t *testing.T, server *objectstoretest.Server) *wirev1.ProbeConfig {
	t.Helper()
	return &wirev1.ProbeConfig{
		Store: &wirev1.ObjectStoreConfig{
			Endpoint: server.URL, CaBundle: server.CA, Bucket: objectstoretest.Bucket, Prefix: "east",
			CredentialsDirectory: objectstoretest.Credentials(t, "me", "hush-hush"),
		},
		DialPolicy: &wirev1.DialPolicy{AllowLoopback: true},
	}
}

// probe runs the agent and returns its exit code, its report and what it logged.
func probe(t *testing.T, c *wirev1.ProbeConfig) (int, *wirev1.Report, string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "termination")
	east := transporttest.NewAuthority(t, "east")
	directory := east.Directory(t, east, "/ns/bank/objectstore/cargo", sendName)
	configure(t, directory, c)
	var said lines
	code := run(t.Context(), []string{"probe", "--config-dir", directory, "--termination-log", log}, &said, &said)
	return code, final(t, log), said.String()
}

func TestProbe(t *testing.T) {
	server := objectstoretest.New(t, "me")
	server.Set(objectstoretest.Faults{IgnoreConditionalComplete: true}, "me")
	code, report, said := probe(t, probeConfig(t, server))
	if code != exitOK || report.GetState() != wirev1.AgentState_AGENT_STATE_SUCCEEDED || len(report.GetPromises()) != 8 {
		t.Fatalf("exit code %d, %v: %s", code, report, said)
	}
	for _, promise := range report.GetPromises() {
		if promise.GetKept() != (promise.GetType() != "ConditionalComplete") {
			t.Error(promise)
		}
	}
	if left := server.Keys(); len(left) > 0 {
		t.Errorf("it leaves %v", left)
	}
}

func TestProbeFails(t *testing.T) {
	server := objectstoretest.New(t, "another")
	code, report, said := probe(t, probeConfig(t, server))
	if code != exitFailed || report.GetState() != wirev1.AgentState_AGENT_STATE_FAILED ||
		report.GetFailure().GetReason() != wirev1.FailureReason_FAILURE_REASON_STORE_DENIED || report.GetPromises() != nil {
		t.Errorf("exit code %d, %v", code, report)
	}
	if strings.Contains(said, "hush-hush") {
		t.Error("the log holds a credential")
	}
	c := probeConfig(t, server)
	c.DialPolicy = &wirev1.DialPolicy{}
	before := len(server.Requests())
	code, report, _ = probe(t, c)
	if code != exitFailed || report.GetFailure().GetReason() != wirev1.FailureReason_FAILURE_REASON_STORE_UNREACHABLE ||
		len(server.Requests()) != before {
		t.Errorf("an address that must not be dialled: exit code %d, %v", code, report)
	}
}

func TestProbeRejectsConfigurations(t *testing.T) {
	server := objectstoretest.New(t, "me")
	for name, change := range map[string]func(*wirev1.ProbeConfig){
		"no policy": func(c *wirev1.ProbeConfig) { c.DialPolicy = nil },
		"no store":  func(c *wirev1.ProbeConfig) { c.Store = nil },
		"no PEM":    func(c *wirev1.ProbeConfig) { c.Store.CaBundle = []byte("x") },
		"no TLS":    func(c *wirev1.ProbeConfig) { c.Store.Endpoint = "http://store.example" },
	} {
		c := probeConfig(t, server)
		change(c)
		code, report, said := probe(t, c)
		if code != exitConfig || report.GetFailure().GetMessage() == "" {
			t.Errorf("%s: exit code %d, %v: %s", name, code, report, said)
		}
	}
	if n := len(server.Requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}
