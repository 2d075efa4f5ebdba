// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// localRun is a configuration of mode local, and where it moves what.
type localRun struct {
	config              *wirev1.LocalConfig
	directory           string
	source, destination string
	content             string
}

func newLocalRun(t *testing.T, mode wirev1.CompressionMode) *localRun {
	t.Helper()
	own := transporttest.NewAuthority(t, "east")
	r := &localRun{
		directory: own.Directory(t, own, "/ns/bank/transfer/ledger", sendName), source: t.TempDir(), destination: t.TempDir(),
		content: strings.Repeat("content of a file\n", 100_000),
	}
	if err := os.MkdirAll(filepath.Join(r.source, "data/sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.source, "data/sub/file"), []byte(r.content), 0o640); err != nil {
		t.Fatal(err)
	}
	r.config = &wirev1.LocalConfig{
		Send: &wirev1.SendConfig{
			RunId: "abcde", Attempt: 1, Volume: r.source, Path: "data", Verify: true, ControlAddress: freeAddress(t),
			Compression: &wirev1.CompressionSettings{
				Mode: mode, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST, Codecs: []string{"deflate"},
				SoftwareEngines: []string{"go"},
			},
		},
		Receive: &wirev1.ReceiveConfig{
			RunId: "abcde", Attempt: 1, SenderNamespace: "bank", SenderName: "ledger", Volume: r.destination, Path: "copy",
		},
	}
	return r
}

// run runs the agent and returns its exit code, its final report if it left one, and what it logged.
func (r *localRun) run(ctx context.Context, t *testing.T) (int, *wirev1.Report, string) {
	t.Helper()
	configure(t, r.directory, r.config)
	path := filepath.Join(t.TempDir(), "log")
	var log lines
	code := run(ctx, []string{"local", "--config-dir", r.directory, "--termination-log", path}, &log, &log)
	// What fails before it serves leaves the listener to the end of the process, and so may one that ends.
	if r.config.GetSend() != nil {
		r.config.Send.ControlAddress = freeAddress(t)
	}
	if code == exitConfig {
		return code, nil, log.String()
	}
	return code, final(t, path), log.String()
}

func (r *localRun) arrived(t *testing.T) {
	t.Helper()
	if b, err := os.ReadFile(filepath.Join(r.destination, "copy/sub/file")); err != nil || string(b) != r.content {
		t.Errorf("%d bytes arrived, %v", len(b), err)
	}
}

// Each end reads and hashes all content, and the one report is of both.
func TestDigestsLocally(t *testing.T) {
	r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
	r.config.Send.Receipt = true
	code, report, log := r.run(t.Context(), t)
	if code != exitOK {
		t.Fatalf("the agent exits with %d:\n%s", code, log)
	}
	if c := report.GetContents(); c.GetBytes() != uint64(len(r.content)) || len(c.GetSha256()) != 32 {
		t.Errorf("%v", c)
	}
	sent, received := &wirev1.ContentDigest{CpuNanos: 3}, &wirev1.ContentDigest{CpuNanos: 4}
	if got := digestOfBoth(sent, received); got.GetCpuNanos() != 7 || digestOfBoth(nil, received) != nil {
		t.Errorf("the CPU time of both is %d ns", got.GetCpuNanos())
	}
}

func TestMovesLocally(t *testing.T) {
	r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
	code, report, log := r.run(t.Context(), t)
	if code != exitOK {
		t.Fatalf("the agent exits with %d:\n%s", code, log)
	}
	r.arrived(t)
	if report.State != wirev1.AgentState_AGENT_STATE_SUCCEEDED || report.Progress.Files != 1 ||
		report.Progress.Bytes != uint64(len(r.content)) || report.EndTime == nil {
		t.Errorf("the final report is %v", report)
	}
	if c := report.Compression; c.GetReason() != "NoNetwork" || c.GetEngine() != "none" ||
		c.GetStored().GetBytes() != uint64(len(r.content)) || c.GetSkipped()["NoNetwork"] == 0 {
		t.Errorf("compression %v", c)
	}
	if report.WireBytes != 0 || report.Cpu.SendNanos == 0 || report.Cpu.ReceiveNanos != 0 {
		t.Errorf("the process is counted %v, with %d bytes on a wire that is not there", report.Cpu, report.WireBytes)
	}

	// Nothing has changed, so nothing is moved again.
	r.config.Send.RunId, r.config.Receive.RunId = "fghij", "fghij"
	// What was told to a sender and a receiver apart holds here as well.
	r.config.Receive.AllowDelete = true
	r.config.Send.Mirror, r.config.Send.Exclude = true, []string{"*.keep"}
	for _, name := range []string{"stale", "old.keep"} {
		if err := os.WriteFile(filepath.Join(r.destination, "copy", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, report, log = r.run(t.Context(), t); code != exitOK || report.Progress.UnchangedFiles != 1 ||
		report.Compression.UncompressedBytes != 0 {
		t.Errorf("the agent exits with %d: %v\n%s", code, report, log)
	}
	left, err := filepath.Glob(filepath.Join(r.destination, "copy", "*"))
	if err != nil || len(left) != 2 || filepath.Base(left[0]) != "old.keep" {
		t.Errorf("the destination has %v, %v", left, err)
	}
}

func TestLocalPolicyDecides(t *testing.T) {
	r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_ALWAYS)
	code, report, log := r.run(t.Context(), t)
	if code != exitOK {
		t.Fatalf("the agent exits with %d:\n%s", code, log)
	}
	r.arrived(t)
	if c := report.Compression; c.GetEngine() != "go" || c.GetCompressedBytes() >= c.GetUncompressedBytes() ||
		report.Decompression.GetSoftware().GetOperations() == 0 {
		t.Errorf("compression %v", c)
	}
}

// What rests in a form is compressed on the way there, though nothing crosses a network, by the codec of the form
// whatever the policy prefers.
func TestLocalForm(t *testing.T) {
	r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
	r.config.Send.Form = wirev1.Form_FORM_GZIP
	r.config.Send.Compression.Codecs = []string{"zstd"}
	code, report, log := r.run(t.Context(), t)
	if code != exitOK {
		t.Fatalf("the agent exits with %d:\n%s", code, log)
	}
	rests, err := os.ReadFile(filepath.Join(r.destination, "copy/sub/file.gz"))
	if err != nil {
		t.Fatal(err)
	}
	in, err := gzip.NewReader(bytes.NewReader(rests))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(in); err != nil || string(b) != r.content || len(rests) > len(b)/2 {
		t.Errorf("%d bytes rest in %d, %v", len(b), len(rests), err)
	}
	if c := report.Compression; c.GetReason() == "NoNetwork" || c.GetEngine() != "go" ||
		report.Decompression.GetSoftware().GetOperations() > 0 {
		t.Errorf("compression %v, decompression %v", c, report.Decompression)
	}
}

func TestLocalFailures(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*localRun)
		code   int
		reason wirev1.FailureReason
	}{
		"NoSource": {
			func(r *localRun) { r.config.Send.Path = "missing" }, exitFailed,
			wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND,
		},
		"DestinationIsFile": {func(r *localRun) {
			if err := os.WriteFile(filepath.Join(r.destination, "copy"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, exitFailed, wirev1.FailureReason_FAILURE_REASON_DESTINATION_NOT_WRITABLE},
		"RestingInAStore": {func(r *localRun) {
			r.config.Send.Form, r.config.DestinationStore = wirev1.Form_FORM_GZIP, &wirev1.StoreEnd{}
			r.config.Transfer, r.config.Send.SourceForm = "bank/ledger", wirev1.Form_FORM_GZIP
		}, exitConfig, 0},
		"ArchivesOfNobody": {func(r *localRun) { r.config.Send.Form = wirev1.Form_FORM_ARCHIVE }, exitConfig, 0},
		"ArchivesOfArchives": {func(r *localRun) {
			r.config.Send.Form, r.config.Transfer = wirev1.Form_FORM_ARCHIVE, "bank/ledger"
			r.config.Send.SourceForm = wirev1.Form_FORM_ARCHIVE
		}, exitConfig, 0},
		"ArchivesWithAReceipt": {func(r *localRun) {
			r.config.Send.Form, r.config.Transfer = wirev1.Form_FORM_ARCHIVE, "bank/ledger"
			r.config.Send.Receipt = true
		}, exitConfig, 0},
		"NoArchives": {
			func(r *localRun) { r.config.Send.SourceForm = wirev1.Form_FORM_ARCHIVE }, exitFailed,
			wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND,
		},
		"ArchivesFromAStore": {func(r *localRun) {
			r.config.Send.Form, r.config.DestinationStore = wirev1.Form_FORM_ARCHIVE, &wirev1.StoreEnd{}
			r.config.SourceStore, r.config.Transfer = &wirev1.StoreEnd{}, "bank/ledger"
		}, exitConfig, 0},
		"NoDestination":   {func(r *localRun) { r.config.Receive = nil }, exitConfig, 0},
		"AnotherAttempt":  {func(r *localRun) { r.config.Receive.Attempt = 2 }, exitConfig, 0},
		"NoCompression":   {func(r *localRun) { r.config.Send.Compression = nil }, exitConfig, 0},
		"ControlAddress":  {func(r *localRun) { r.config.Send.ControlAddress = "nonsense" }, exitConfig, 0},
		"StoppedAtBefore": {func(*localRun) {}, exitFailed, wirev1.FailureReason_FAILURE_REASON_ABORTED},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
			test.change(r)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			if test.reason == wirev1.FailureReason_FAILURE_REASON_ABORTED {
				cancel(errStopped)
			}
			code, report, log := r.run(ctx, t)
			if code != test.code {
				t.Fatalf("the agent exits with %d:\n%s", code, log)
			}
			if code == exitFailed && (report.State != wirev1.AgentState_AGENT_STATE_FAILED ||
				report.Failure.GetReason() != test.reason) {
				t.Errorf("the final report is %v", report)
			}
		})
	}
}

// A sender whose receiver is in the same cluster goes to it without a gateway.
func TestSendDirectly(t *testing.T) {
	own := transporttest.NewAuthority(t, "east")
	source, destination := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "file"), []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	receiveDir := own.Directory(t, own, "/ns/vault/delivery/ledger", receiveName)
	receive := &wirev1.ReceiveConfig{
		RunId: "abcde", Attempt: 1, SenderNamespace: "bank", SenderName: "ledger", Volume: destination, Path: ".",
		ControlAddress: freeAddress(t), DataAddress: freeAddress(t),
	}
	configure(t, receiveDir, receive)
	sendDir := own.ForRun("abcde").Directory(t, own, "/ns/bank/transfer/ledger", sendName)
	configure(t, sendDir, &wirev1.SendConfig{
		RunId: "abcde", Attempt: 1, ReceiverEndpoint: receive.DataAddress, ReceiverServerName: receiveName,
		Volume: source, Path: ".", Verify: true, ControlAddress: freeAddress(t),
		Compression: &wirev1.CompressionSettings{
			Mode: wirev1.CompressionMode_COMPRESSION_MODE_NEVER, Level: wirev1.CompressionLevel_COMPRESSION_LEVEL_FAST,
		},
	})
	var receiveLog, sendLog lines
	code := make(chan int, 1)
	go func() {
		code <- run(t.Context(), []string{"receive", "--config-dir", receiveDir}, &receiveLog, &receiveLog)
	}()
	manager, err := (&transport.Dialer{
		Address: receive.ControlAddress, Files: transport.NewFiles(own.Directory(t, own, "/manager", "")),
	}).Dial(receiveName)
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	if err := manager.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := run(t.Context(), []string{"send", "--config-dir", sendDir}, &sendLog, &sendLog); got != exitOK {
		t.Errorf("the sender exits with %d:\n%s", got, sendLog.String())
	}
	if got := <-code; got != exitOK {
		t.Errorf("the receiver exits with %d:\n%s", got, receiveLog.String())
	}
	if b, err := os.ReadFile(filepath.Join(destination, "file")); err != nil || string(b) != "content" {
		t.Errorf("%q arrived, %v", b, err)
	}
}
