// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/killtest"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	receiveName = "0000.receive.lighterage.internal"
	sendName    = "1111.send.lighterage.internal"
)

// childEnv says that a process is an agent, whose arguments are those of the command line.
const childEnv = "LIGHTERAGE_TEST_AGENT"

func init() {
	if os.Getenv(childEnv) != "" {
		killtest.Watched()
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
}

// freeAddress returns an address that nobody listens on. Connections begin at 127.0.0.1, so that none takes its port.
func freeAddress(t *testing.T) string {
	t.Helper()
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250))
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func configure(t *testing.T, directory string, m proto.Message) {
	t.Helper()
	b, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(directory, "config.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// lines is a buffer that several goroutines write to.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func final(t *testing.T, path string) *wirev1.Report {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r wirev1.Report
	if err := protojson.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

func TestSendAndReceiveThroughGateway(t *testing.T) {
	east, west := transporttest.NewAuthority(t, "east"), transporttest.NewAuthority(t, "west")
	source, destination := t.TempDir(), t.TempDir()
	content := strings.Repeat("content of a file\n", 100_000)
	if err := os.MkdirAll(filepath.Join(source, "data/sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(source, "data/sub/file"), []byte(content), 0o640); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		filepath.Join(source, "data/x.log"): "left out", filepath.Join(destination, "copy/old"): "removed",
		filepath.Join(destination, "copy/y.log"): "kept",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}

	receiveDir := west.Directory(t, east, "/ns/bank/delivery/ledger", receiveName)
	receive := &wirev1.ReceiveConfig{
		RunId: "abcde", Attempt: 1, SenderNamespace: "bank", SenderName: "ledger", Volume: destination, Path: "copy",
		ControlAddress: freeAddress(t), DataAddress: freeAddress(t), AllowDelete: true,
		DataPath: "SMC",
	}
	configure(t, receiveDir, receive)
	gatewayAddress := startGateway(
		t, west.Directory(t, east, "/gateway", transport.GatewayServerName), receiveName, receive.DataAddress,
	)
	sendDir := east.ForRun("abcde").Directory(t, west, "/ns/bank/transfer/ledger", sendName)
	configure(t, sendDir, &wirev1.SendConfig{
		RunId: "abcde", Attempt: 1, GatewayEndpoint: gatewayAddress, Volume: source, Path: "data", Verify: true,
		ControlAddress: freeAddress(t), Privileged: true, DataPath: "SMC",
		Exclude: []string{"*.log"}, Mirror: true,
		Compression: &wirev1.CompressionSettings{
			Mode: wirev1.CompressionMode_COMPRESSION_MODE_ALWAYS, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
			Codecs:          []string{"deflate"},
			SoftwareEngines: []string{"lzip", "go"},
		},
	})
	logs := filepath.Join(t.TempDir(), "receive")
	var receiveLog, sendLog lines
	code := make(chan int, 1)
	go func() {
		code <- run(
			t.Context(), []string{"receive", "--config-dir", receiveDir, "--termination-log", logs}, &receiveLog, &receiveLog,
		)
	}()

	// The manager sees that the receiver waits.
	manager, err := (&transport.Dialer{
		Address: receive.ControlAddress, Files: transport.NewFiles(west.Directory(t, west, "/manager", "")),
	}).Dial(receiveName)
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	if err := manager.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := wirev1.NewAgentClient(manager).GetReport(t.Context(), &wirev1.GetReportRequest{})
	if err != nil || got.Report.State != wirev1.AgentState_AGENT_STATE_WAITING {
		t.Fatalf("the report is %v, %v", got, err)
	}

	sendLogs := logs + "-send"
	if got := run(
		t.Context(), []string{"send", "--config-dir", sendDir, "--termination-log", sendLogs}, &sendLog, &sendLog,
	); got != exitOK {
		t.Errorf("the sender exits with %d:\n%s", got, sendLog.String())
	}
	if got := <-code; got != exitOK {
		t.Errorf("the receiver exits with %d:\n%s", got, receiveLog.String())
	}
	if b, err := os.ReadFile(filepath.Join(destination, "copy/sub/file")); err != nil || string(b) != content {
		t.Errorf("%d bytes arrived, %v", len(b), err)
	}
	for path, want := range map[string]bool{"x.log": false, "y.log": true, "old": false} {
		if _, err := os.Stat(filepath.Join(destination, "copy", path)); (err == nil) != want {
			t.Errorf("%s at the destination: %v", path, err)
		}
	}
	for _, path := range []string{logs, sendLogs} {
		if r := final(t, path); r.State != wirev1.AgentState_AGENT_STATE_SUCCEEDED ||
			r.Progress.Bytes != uint64(len(content)) || r.Progress.Removed != 1 || r.EndTime == nil {
			t.Errorf("the final report is %v", r)
		}
	}
	if r := final(t, sendLogs); r.Compression.GetCodec() != "deflate" || r.Compression.GetEngine() != "go" ||
		r.Cpu.GetReceiveNanos() == 0 {
		t.Errorf("the sender's final report is %v", r)
	} else if path := r.GetDataPath(); path.GetType() != "TCP" ||
		path.GetReason() != "Unavailable" && path.GetReason() != "FellBack" {
		t.Errorf("SMC was tried, to a gateway without it, and the path is %v", path)
	}
}

func TestFailuresAreReported(t *testing.T) {
	east, west := transporttest.NewAuthority(t, "east"), transporttest.NewAuthority(t, "west")
	directory := east.Directory(t, west, "/ns/bank/transfer/ledger", sendName)
	volume := t.TempDir()
	good := func() *wirev1.SendConfig {
		return &wirev1.SendConfig{
			RunId: "abcde", Attempt: 1, GatewayEndpoint: freeAddress(t), Volume: volume, Path: ".",
			ControlAddress: "127.0.0.1:0",
			Compression: &wirev1.CompressionSettings{
				Mode: wirev1.CompressionMode_COMPRESSION_MODE_NEVER, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
			},
		}
	}
	tests := map[string]struct {
		change func(*wirev1.SendConfig)
		code   int
		reason wirev1.FailureReason
	}{
		"NoSource": {
			func(c *wirev1.SendConfig) { c.Path = "missing" }, exitFailed, wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND,
		},
		"Stopped": {func(c *wirev1.SendConfig) {}, exitFailed, wirev1.FailureReason_FAILURE_REASON_ABORTED},
		"BadPattern": {
			func(c *wirev1.SendConfig) { c.Exclude = []string{"a", "[b"} }, exitFailed,
			wirev1.FailureReason_FAILURE_REASON_INVALID_FILTER,
		},
		"NoGateway":    {func(c *wirev1.SendConfig) { c.GatewayEndpoint = "" }, exitConfig, 0},
		"NoRun":        {func(c *wirev1.SendConfig) { c.RunId = "" }, exitConfig, 0},
		"NoMode":       {func(c *wirev1.SendConfig) { c.Compression.Mode = 0 }, exitConfig, 0},
		"UnknownCodec": {func(c *wirev1.SendConfig) { c.Compression.Codecs = []string{"lzw"} }, exitConfig, 0},
		"BadPath":      {func(c *wirev1.SendConfig) { c.DataPath = "RDMA" }, exitConfig, 0},
		"Secrets":      {func(c *wirev1.SendConfig) { c.Volume = "/etc/lighterage-identities" }, exitConfig, 0},
		"Identities":   {func(c *wirev1.SendConfig) { c.IdentitiesDirectory = volume }, exitConfig, 0},
		"BadAddress":   {func(c *wirev1.SendConfig) { c.ControlAddress = "nonsense" }, exitConfig, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := good()
			test.change(c)
			configure(t, directory, c)
			path := filepath.Join(t.TempDir(), "log")
			ctx, cancel := context.WithCancelCause(t.Context())
			// The others end by themselves, on a slow machine too.
			if name == "Stopped" {
				defer time.AfterFunc(100*time.Millisecond, func() { cancel(errStopped) }).Stop()
			}
			defer cancel(nil)
			var log lines
			if got := run(
				ctx, []string{"send", "--config-dir", directory, "--termination-log", path}, &log, &log,
			); got != test.code {
				t.Errorf("the agent exits with %d:\n%s", got, log.String())
			}
			if test.code == exitFailed {
				if r := final(t, path); r.State != wirev1.AgentState_AGENT_STATE_FAILED || r.Failure.GetReason() != test.reason {
					t.Errorf("the final report is %v", r)
				}
			}
		})
	}
}

func TestCommandLine(t *testing.T) {
	empty := t.TempDir()
	garbage := t.TempDir()
	if err := os.WriteFile(filepath.Join(garbage, "config.json"), []byte(`{"unknown": 1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]int{
		"":                                exitConfig,
		"version":                         exitOK,
		"help":                            exitOK,
		"send -h":                         exitOK,
		"fly":                             exitConfig,
		"send extra":                      exitConfig,
		"send --nonsense":                 exitConfig,
		"send --config-dir " + empty:      exitConfig,
		"receive --config-dir " + empty:   exitConfig,
		"node --config-dir " + empty:      exitConfig,
		"send --config-dir " + garbage:    exitConfig,
		"receive --config-dir " + garbage: exitConfig,
	} {
		var out lines
		if got := run(t.Context(), strings.Fields(line), &out, &out); got != want {
			t.Errorf("%q exits with %d:\n%s", line, got, out.String())
		}
		if out.String() == "" {
			t.Errorf("%q says nothing", line)
		}
	}
}
