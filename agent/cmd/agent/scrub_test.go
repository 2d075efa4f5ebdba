// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/cargo"
	"github.com/lighterage/lighterage/agent/cargo/cargofile"
	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestScrubsAVolume: the agent verifies what rests in a claim, and says what it found.
func TestScrubsAVolume(t *testing.T) {
	r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
	files := cargofile.Files{Engines: engines.Default()}
	for _, name := range []string{"a.gz", "b.gz"} {
		_, err := files.Pack(t.Context(), strings.NewReader(strings.Repeat(name, 1000)), filepath.Join(r.source, "data", name),
			cargo.PackOptions{Form: cargo.Gzip, Engines: engines.Default()}, false)
		if err != nil {
			t.Fatal(err)
		}
	}
	send := proto.CloneOf(r.config.Send)
	send.SourceForm = wirev1.Form_FORM_GZIP
	r.config = &wirev1.LocalConfig{Send: send, Scrub: &wirev1.Scrub{}}
	code, report, log := r.run(t.Context(), t)
	if code != exitOK || report.GetProgress().GetFiles() != 2 || report.GetDecompression().GetSoftware().GetOperations() != 0 ||
		len(report.GetOmissions()) != 1 || report.GetOmissions()[0].GetWhat() != "NoChecksum" {
		t.Fatalf("the agent exits with %d, %v:\n%s", code, report, log)
	}
	if err := os.Truncate(filepath.Join(r.source, "data/b.gz"), 20); err != nil {
		t.Fatal(err)
	}
	r.config.Scrub.Inflate, r.config.InflateInSoftware = true, true
	code, report, log = r.run(t.Context(), t)
	d := report.GetDecompression()
	if code != exitOK || report.GetProgress().GetFiles() != 1 || d.GetSoftware().GetOperations() == 0 ||
		d.GetHardware().GetOperations() != 0 || d.GetReason() != "SoftwareUsed" ||
		report.GetOmissions()[0].GetWhat() != "Damaged" || report.GetOmissions()[0].GetExamples()[0] != "b.gz" {
		t.Fatalf("the agent exits with %d, %v:\n%s", code, report, log)
	}
}

// TestScrubsAStore counts its requests.
func TestScrubsAStore(t *testing.T) {
	server := objectstoretest.New(t, "me")
	r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
	moved := r.config
	r.config = &wirev1.LocalConfig{
		Send: moved.Send, Receive: moved.Receive, DestinationStore: storeEnd(t, server), Transfer: "bank/ledger (1)",
	}
	if code, _, log := r.run(t.Context(), t); code != exitOK {
		t.Fatalf("the agent exits with %d:\n%s", code, log)
	}
	send := proto.CloneOf(moved.Send)
	send.Volume, send.Path = "", ""
	r.config = &wirev1.LocalConfig{Send: send, SourceStore: storeEnd(t, server), Scrub: &wirev1.Scrub{Inflate: true}}
	code, report, log := r.run(t.Context(), t)
	if code != exitOK || report.GetProgress().GetFiles() != 1 || len(report.GetOmissions()) > 0 || report.GetCopyTime() == nil ||
		report.GetStore().GetReadRequests() == 0 || report.GetStore().GetReceivedBytes() < uint64(len(r.content)) ||
		report.GetWireBytes() < uint64(len(r.content)) {
		t.Errorf("the agent exits with %d, %v:\n%s", code, report, log)
	}
}

// TestScrubsArchivesOfAClaim, without inflating and with it.
func TestScrubsArchivesOfAClaim(t *testing.T) {
	r := archivedRun(t, "deflate")
	send := proto.CloneOf(r.config.Send)
	send.Form, send.SourceForm = wirev1.Form_FORM_UNSPECIFIED, wirev1.Form_FORM_ARCHIVE
	send.Volume, send.Path = r.destination, "copy"
	r.config = &wirev1.LocalConfig{Send: send, InflateInSoftware: true}
	for _, inflate := range []bool{false, true} {
		r.config.Scrub = &wirev1.Scrub{Inflate: inflate}
		code, report, log := r.run(t.Context(), t)
		if code != exitOK || report.GetProgress().GetFiles() != 1 || len(report.GetOmissions()) > 0 ||
			report.GetCopyTime() == nil || (report.GetDecompression().GetSoftware().GetOperations() > 0) != inflate {
			t.Fatalf("inflate %v: the agent exits with %d, %v:\n%s", inflate, code, report, log)
		}
	}
	archives, err := filepath.Glob(filepath.Join(r.destination, "copy/.lighterage/archives/[0-9]*.tar.gz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("archives %q, %v", archives, err)
	}
	if err := os.Truncate(archives[0], 40); err != nil {
		t.Fatal(err)
	}
	code, report, log := r.run(t.Context(), t)
	if code != exitOK || report.GetProgress().GetFiles() != 0 || len(report.GetOmissions()) != 1 ||
		report.GetOmissions()[0].GetWhat() != "Damaged" {
		t.Errorf("damaged: the agent exits with %d, %v:\n%s", code, report, log)
	}
	send.Path = "."
	code, report, _ = r.run(t.Context(), t)
	if code != exitFailed || report.GetFailure().GetReason() != wirev1.FailureReason_FAILURE_REASON_SOURCE_NOT_FOUND {
		t.Errorf("without archives: the agent exits with %d, %v", code, report)
	}
}

// TestScrubsNothingElse: a configuration that says two things is rejected.
func TestScrubsNothingElse(t *testing.T) {
	server := objectstoretest.New(t, "me")
	for what, change := range map[string]func(*wirev1.LocalConfig){
		"a destination":     func(c *wirev1.LocalConfig) { c.DestinationStore = storeEnd(t, server) },
		"no form":           func(c *wirev1.LocalConfig) { c.Send.SourceForm = wirev1.Form_FORM_UNSPECIFIED },
		"a form of a store": func(c *wirev1.LocalConfig) { c.SourceStore = storeEnd(t, server) },
		"archives of a store": func(c *wirev1.LocalConfig) {
			c.SourceStore, c.Send.SourceForm = storeEnd(t, server), wirev1.Form_FORM_ARCHIVE
		},
		"no volume":   func(c *wirev1.LocalConfig) { c.Send.Volume = "" },
		"credentials": func(c *wirev1.LocalConfig) { c.Send.Volume = "/etc/lighterage" },
	} {
		r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
		r.config.Scrub, r.config.Send.SourceForm = &wirev1.Scrub{}, wirev1.Form_FORM_GZIP
		change(r.config)
		if code, _, _ := r.run(t.Context(), t); code != exitConfig {
			t.Errorf("%s: exit code %d", what, code)
		}
	}
}
