// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestPauseAndLimit: a sender that is slow takes another limit, and ends in the middle when the manager asks it to. The
// receiver says why.
func TestPauseAndLimit(t *testing.T) {
	for name, pause := range map[string]bool{"Pause": true, "Limit": false} {
		t.Run(name, func(t *testing.T) {
			east, west := transporttest.NewAuthority(t, "east"), transporttest.NewAuthority(t, "west")
			source, destination := t.TempDir(), t.TempDir()
			content := make([]byte, 16<<20)
			_, _ = rand.Read(content)
			if err := os.WriteFile(filepath.Join(source, "large"), content, 0o600); err != nil {
				t.Fatal(err)
			}
			receiveDir := west.Directory(t, east, "/ns/bank/delivery/ledger", receiveName)
			receive := &wirev1.ReceiveConfig{
				RunId: "abcde", Attempt: 1, SenderNamespace: "bank", SenderName: "ledger", Volume: destination, Path: ".",
				ControlAddress: freeAddress(t), DataAddress: freeAddress(t), AllowDelete: true,
			}
			configure(t, receiveDir, receive)
			gateway := startGateway(
				t, west.Directory(t, east, "/gateway", transport.GatewayServerName), receiveName, receive.DataAddress,
			)
			sendDir := east.ForRun("abcde").Directory(t, west, "/ns/bank/transfer/ledger", sendName)
			send := &wirev1.SendConfig{
				RunId: "abcde", Attempt: 1, GatewayEndpoint: gateway, Volume: source, Path: ".",
				ControlAddress: freeAddress(t), BandwidthLimit: transport.MinPace, Privileged: true, Mirror: true,
				Compression: &wirev1.CompressionSettings{
					Mode: wirev1.CompressionMode_COMPRESSION_MODE_NEVER, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
				},
			}
			configure(t, sendDir, send)
			logs := filepath.Join(t.TempDir(), "log")
			ended := make(chan int, 2)
			start := func(mode, directory string) {
				var log lines
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("%s: %s", mode, log.String())
					}
				})
				go func() {
					ended <- run(
						t.Context(), []string{mode, "--config-dir", directory, "--termination-log", logs + mode}, &log, &log,
					)
				}()
			}
			dial := func(of *transporttest.Authority, address, name string) *transport.Client {
				t.Helper()
				conn, err := (&transport.Dialer{
					Address: address, Files: transport.NewFiles(of.Directory(t, of, "/manager", "")),
				}).Dial(name)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { conn.Close() })
				if err := conn.Ready(t.Context()); err != nil {
					t.Fatal(err)
				}
				return conn
			}
			start("receive", receiveDir)
			dial(west, receive.ControlAddress, receiveName)
			start("send", sendDir)
			conn := dial(east, send.ControlAddress, sendName)
			agent := wirev1.NewAgentClient(conn)
			for {
				got, err := agent.GetReport(t.Context(), &wirev1.GetReportRequest{})
				if err != nil {
					t.Fatal(err)
				}
				if got.Report.State == wirev1.AgentState_AGENT_STATE_TRANSFERRING && got.Report.WireBytes > transport.MinPace {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			_, err := agent.SetBandwidthLimit(t.Context(), &wirev1.SetBandwidthLimitRequest{BandwidthLimit: 1})
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("a limit of one byte: %v", err)
			}
			exit, state, reason := exitOK, wirev1.AgentState_AGENT_STATE_SUCCEEDED, wirev1.FailureReason(0)
			if pause {
				exit, state = exitFailed, wirev1.AgentState_AGENT_STATE_FAILED
				reason = wirev1.FailureReason_FAILURE_REASON_PAUSED
				_, err = agent.Pause(t.Context(), &wirev1.PauseRequest{})
			} else {
				_, err = agent.SetBandwidthLimit(t.Context(), &wirev1.SetBandwidthLimitRequest{})
			}
			if err != nil {
				t.Fatal(err)
			}
			asked := time.Now()
			for range 2 {
				if got := <-ended; got != exit {
					t.Errorf("an agent exits with %d", got)
				}
			}
			// At the first limit the rest takes a minute.
			if took := time.Since(asked); took > 20*time.Second {
				t.Errorf("it takes %v", took)
			}
			for _, mode := range []string{"send", "receive"} {
				r := final(t, logs+mode)
				if r.State != state || r.GetFailure().GetReason() != reason {
					t.Errorf("%s: %v", mode, r)
				}
				if sent := r.GetProgress().GetBytes(); pause == (sent == uint64(len(content))) {
					t.Errorf("%s: %d bytes", mode, sent)
				}
			}
		})
	}
}
