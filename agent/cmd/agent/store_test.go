// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func storeEnd(t *testing.T, server *objectstoretest.Server) *wirev1.StoreEnd {
	t.Helper()
	c := probeConfig(t, server)
	return &wirev1.StoreEnd{Store: c.GetStore(), DialPolicy: c.GetDialPolicy()}
}

func TestMovesThroughAStore(t *testing.T) {
	server := objectstoretest.New(t, "me")
	r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
	if err := os.Symlink("file", filepath.Join(r.source, "data/sub/link")); err != nil {
		t.Fatal(err)
	}
	to := r.config
	r.config = &wirev1.LocalConfig{
		Send: to.Send, Receive: &wirev1.ReceiveConfig{
			RunId: "abcde", Attempt: 1, SenderNamespace: "bank", SenderName: "ledger",
		},
		DestinationStore: storeEnd(t, server), Transfer: "bank/ledger (1)",
	}
	code, report, log := r.run(t.Context(), t)
	if code != exitOK {
		t.Fatalf("the agent exits with %d:\n%s", code, log)
	}
	if p := report.GetProgress(); p.GetFiles() != 1 || p.GetBytes() != uint64(len(r.content)) || !p.GetScanned() {
		t.Errorf("progress %v", p)
	}
	if c := report.GetCompression(); c.GetReason() != "StoredAsIs" || c.GetUncompressedBytes() != uint64(len(r.content)) ||
		c.GetCompressedBytes() != c.GetUncompressedBytes() {
		t.Errorf("compression %v", c)
	}
	if n := uint64(len(r.content)); report.GetWireBytes() < n || report.GetWireBytes() > 2*n {
		t.Errorf("%d bytes on the wire for %d", report.GetWireBytes(), n)
	}

	r.config = &wirev1.LocalConfig{Send: to.Send, Receive: to.Receive, SourceStore: storeEnd(t, server)}
	r.config.Send.Volume, r.config.Send.Path = "", ""
	if code, report, log = r.run(t.Context(), t); code != exitOK || report.GetWireBytes() < uint64(len(r.content)) {
		t.Fatalf("the agent exits with %d, %v:\n%s", code, report, log)
	}
	r.arrived(t)
	info, err := os.Stat(filepath.Join(r.destination, "copy/sub/file"))
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file is %v, %v", info, err)
	}
	if target, err := os.Readlink(filepath.Join(r.destination, "copy/sub/link")); err != nil || target != "file" {
		t.Errorf("the link is to %q, %v", target, err)
	}
	if code, report, _ = r.run(t.Context(), t); code != exitOK || report.GetProgress().GetUnchangedFiles() != 1 {
		t.Errorf("again: exit code %d, %v", code, report)
	}
}

// Both ends are read again and digested, whatever form objects have, and all agree on the content.
func TestDigestsThroughAStore(t *testing.T) {
	r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
	r.config.Send.Receipt = true
	if err := os.Link(filepath.Join(r.source, "data/sub/file"), filepath.Join(r.source, "data/sub/name")); err != nil {
		t.Fatal(err)
	}
	code, direct, log := r.run(t.Context(), t)
	if code != exitOK {
		t.Fatalf("the agent exits with %d:\n%s", code, log)
	}
	to := r.config
	for name, form := range map[string]wirev1.Form{
		"Files": wirev1.Form_FORM_UNSPECIFIED, "Archive": wirev1.Form_FORM_ARCHIVE, "Gzip": wirev1.Form_FORM_GZIP,
		"Zstd": wirev1.Form_FORM_ZSTD,
	} {
		t.Run(name, func(t *testing.T) {
			server := objectstoretest.New(t, "me")
			send := proto.CloneOf(to.GetSend())
			send.Form = form
			r.config = &wirev1.LocalConfig{
				Send: send, Receive: &wirev1.ReceiveConfig{
					RunId: "abcde", Attempt: 1, SenderNamespace: "bank", SenderName: "ledger",
				},
				DestinationStore: storeEnd(t, server), Transfer: "bank/ledger (1)",
			}
			code, stored, log := r.run(t.Context(), t)
			if code != exitOK {
				t.Fatalf("the agent exits with %d:\n%s", code, log)
			}
			send = proto.CloneOf(to.GetSend())
			send.Volume, send.Path = "", ""
			r.destination = t.TempDir()
			receive := proto.CloneOf(to.GetReceive())
			receive.Volume = r.destination
			r.config = &wirev1.LocalConfig{Send: send, Receive: receive, SourceStore: storeEnd(t, server)}
			code, restored, log := r.run(t.Context(), t)
			if code != exitOK {
				t.Fatalf("the agent exits with %d:\n%s", code, log)
			}
			want := direct.GetContents()
			for _, got := range []*wirev1.ContentDigest{stored.GetContents(), restored.GetContents()} {
				if got.GetEntries() != 2 || got.GetBytes() != want.GetBytes() || !bytes.Equal(got.GetSha256(), want.GetSha256()) {
					t.Errorf("%v, and %v from claim to claim", got, want)
				}
			}
		})
	}
}

// What rests compressed in a store was compressed once, and is inflated once: both are counted. The report says when
// the index was written.
func TestRestoresFormsInSoftware(t *testing.T) {
	for _, form := range []wirev1.Form{wirev1.Form_FORM_ARCHIVE, wirev1.Form_FORM_GZIP, wirev1.Form_FORM_ZSTD} {
		t.Run(form.String(), func(t *testing.T) { restoresInSoftware(t, form) })
	}
}

func restoresInSoftware(t *testing.T, form wirev1.Form) {
	t.Helper()
	server := objectstoretest.New(t, "me")
	r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_ALWAYS)
	to := r.config
	to.Send.Form = form
	r.config = &wirev1.LocalConfig{
		Send: to.Send, Receive: &wirev1.ReceiveConfig{
			RunId: "abcde", Attempt: 1, SenderNamespace: "bank", SenderName: "ledger",
		},
		DestinationStore: storeEnd(t, server), Transfer: "bank/ledger (1)",
	}
	begun := time.Now()
	code, report, log := r.run(t.Context(), t)
	if code != exitOK || report.GetCopyTime() != nil {
		t.Fatalf("the agent exits with %d, %v:\n%s", code, report, log)
	}
	if c := report.GetCompression(); form != wirev1.Form_FORM_ARCHIVE && // A tar is longer than its files.
		(c.GetUncompressedBytes() != uint64(len(r.content)) || c.GetCompressedBytes() >= c.GetUncompressedBytes() ||
			c.GetSoftware().GetBytes() != uint64(len(r.content))) {
		t.Errorf("compression %v of %d bytes", c, len(r.content))
	}
	to.Send.Form = wirev1.Form_FORM_UNSPECIFIED
	to.Send.Compression.Mode = wirev1.CompressionMode_COMPRESSION_MODE_AUTO
	to.Send.Volume, to.Send.Path = "", ""
	r.config = &wirev1.LocalConfig{
		Send: to.Send, Receive: to.Receive, SourceStore: storeEnd(t, server), InflateInSoftware: true,
	}
	if code, report, log = r.run(t.Context(), t); code != exitOK {
		t.Fatalf("the agent exits with %d:\n%s", code, log)
	}
	r.arrived(t)
	if d := report.GetDecompression(); d.GetHardware().GetBytes() != 0 || d.GetReason() != "SoftwareUsed" ||
		d.GetSoftware().GetBytes() < uint64(len(r.content)) ||
		form != wirev1.Form_FORM_ARCHIVE && d.GetSoftware().GetBytes() != uint64(len(r.content)) ||
		report.GetCpu().GetDecompressNanos() == 0 {
		t.Errorf("decompression %v, CPU %v", d, report.GetCpu())
	}
	if written := report.GetCopyTime().AsTime(); written.Before(begun.Add(-time.Minute)) ||
		written.After(time.Now().Add(time.Minute)) {
		t.Errorf("the index was written at %v", written)
	}
}

func TestStoreEndsFail(t *testing.T) {
	server := objectstoretest.New(t, "another")
	r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
	r.config.DestinationStore, r.config.Transfer = storeEnd(t, server), "bank/ledger (1)"
	code, report, _ := r.run(t.Context(), t)
	if code != exitFailed ||
		report.GetFailure().GetReason() != wirev1.FailureReason_FAILURE_REASON_STORE_DENIED {
		t.Errorf("exit code %d, %v", code, report.GetFailure())
	}
	before := r.config.Send.Volume
	for _, volume := range []string{"/etc/lighterage-store", "/", "/etc/../etc"} {
		r.config.Send.Volume = volume
		if code, _, _ := r.run(t.Context(), t); code != exitConfig {
			t.Errorf("credentials as data, %s: exit code %d", volume, code)
		}
	}
	r.config.Send.Volume, r.config.Transfer = before, ""
	if code, _, _ := r.run(t.Context(), t); code != exitConfig {
		t.Errorf("without an identity: exit code %d", code)
	}
}
