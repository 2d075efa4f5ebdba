// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/agefile"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestEncryptsArchives has one agent encrypt and others restore and verify, with the files of their Secrets. Nothing of
// a Secret is logged.
func TestEncryptsArchives(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	server := objectstoretest.New(t, "me")
	r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_ALWAYS)
	to := r.config
	to.Send.Form = wirev1.Form_FORM_ARCHIVE
	r.config = &wirev1.LocalConfig{
		Send: to.Send, Receive: &wirev1.ReceiveConfig{
			RunId: "abcde", Attempt: 1, SenderNamespace: "bank", SenderName: "ledger",
		},
		DestinationStore: storeEnd(t, server), Transfer: "bank/ledger (1)",
		Encryption: &wirev1.Encryption{Recipients: []string{identity.Recipient().String()}},
	}
	if code, _, log := r.run(t.Context(), t); code == exitOK {
		t.Errorf("without a key the agent exits with %d:\n%s", code, log)
	}
	key := filepath.Join(r.directory, wirev1.ArchiveKey)
	if err := os.WriteFile(key, bytes.Repeat([]byte{7}, agefile.KeySize), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, log := r.run(t.Context(), t); code != exitOK {
		t.Fatalf("the agent exits with %d:\n%s", code, log)
	}
	send := proto.CloneOf(to.Send)
	send.Form, send.Volume, send.Path = wirev1.Form_FORM_UNSPECIFIED, "", ""
	send.Compression.Mode = wirev1.CompressionMode_COMPRESSION_MODE_AUTO
	identities := t.TempDir()
	r.config = &wirev1.LocalConfig{
		Send: send, Receive: to.Receive, SourceStore: storeEnd(t, server), IdentitiesDirectory: identities,
	}
	for what, content := range map[string]string{
		"no file": "", "another identity": "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX",
		"none": "hunter2",
	} {
		if content != "" {
			if err := os.WriteFile(filepath.Join(identities, wirev1.AgeIdentitiesKey), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		code, report, log := r.run(t.Context(), t)
		if code != exitFailed ||
			report.GetFailure().GetReason() != wirev1.FailureReason_FAILURE_REASON_ENCRYPTION_MISMATCH {
			t.Errorf("%s: the agent exits with %d, %v:\n%s", what, code, report.GetFailure(), log)
		}
		if content != "" && strings.Contains(log+report.String(), content) {
			t.Errorf("%s: the Secret is in the log", what)
		}
	}
	if err := os.WriteFile(
		filepath.Join(identities, wirev1.AgeIdentitiesKey), []byte(identity.String()+"\n"), 0o600,
	); err != nil {
		t.Fatal(err)
	}
	code, report, log := r.run(t.Context(), t)
	if code != exitOK || strings.Contains(log+report.String(), identity.String()) {
		t.Fatalf("the agent exits with %d:\n%s", code, log)
	}
	r.arrived(t)
	for _, inflate := range []bool{false, true} {
		c := &wirev1.LocalConfig{Send: send, SourceStore: storeEnd(t, server), Scrub: &wirev1.Scrub{Inflate: inflate}}
		if inflate {
			c.IdentitiesDirectory = identities
		}
		r.config = c
		code, report, log := r.run(t.Context(), t)
		if code != exitOK || len(report.GetOmissions()) > 0 || report.GetProgress().GetFiles() == 0 {
			t.Errorf("a scrub, inflate %v, exits with %d, %v:\n%s", inflate, code, report, log)
		}
	}
}

// TestEncryptsArchivesInAClaim has one agent encrypt into a claim, and others restore and verify there.
func TestEncryptsArchivesInAClaim(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
	r.config.Send.Form, r.config.Transfer = wirev1.Form_FORM_ARCHIVE, "bank/ledger (1)"
	r.config.Encryption = &wirev1.Encryption{Recipients: []string{identity.Recipient().String()}}
	key := filepath.Join(r.directory, wirev1.ArchiveKey)
	if err := os.WriteFile(key, bytes.Repeat([]byte{7}, agefile.KeySize), 0o600); err != nil {
		t.Fatal(err)
	}
	for unchanged := range uint64(2) {
		code, report, log := r.run(t.Context(), t)
		if code != exitOK || report.GetProgress().GetUnchangedFiles() != unchanged {
			t.Fatalf("the agent exits with %d, %v:\n%s", code, report.GetProgress(), log)
		}
	}
	archives, err := filepath.Glob(filepath.Join(r.destination, "copy/.lighterage/archives/[0-9]*.tar.gz.age"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("archives %q, %v", archives, err)
	}
	back := &localRun{directory: r.directory, source: r.source, destination: t.TempDir(), content: r.content}
	back.config = proto.CloneOf(r.config)
	back.config.Encryption, back.config.Transfer = nil, ""
	send := back.config.Send
	send.Volume, send.Form, send.SourceForm = r.destination, wirev1.Form_FORM_UNSPECIFIED, wirev1.Form_FORM_ARCHIVE
	send.Path, back.config.Receive.Volume = "copy", back.destination
	identities := t.TempDir()
	if code, report, _ := back.run(t.Context(), t); code != exitFailed ||
		report.GetFailure().GetReason() != wirev1.FailureReason_FAILURE_REASON_ENCRYPTION_MISMATCH {
		t.Errorf("without an identity: exit code %d, %v", code, report.GetFailure())
	}
	send.IdentitiesDirectory = identities
	if code, report, _ := back.run(t.Context(), t); code != exitFailed ||
		report.GetFailure().GetReason() != wirev1.FailureReason_FAILURE_REASON_ENCRYPTION_MISMATCH {
		t.Errorf("without a Secret: exit code %d, %v", code, report.GetFailure())
	}
	file := filepath.Join(identities, wirev1.AgeIdentitiesKey)
	if err := os.WriteFile(file, []byte(identity.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, report, log := back.run(t.Context(), t)
	if code != exitOK || strings.Contains(log+report.String(), identity.String()) {
		t.Fatalf("the agent exits with %d:\n%s", code, log)
	}
	back.arrived(t)
	for _, inflate := range []bool{false, true} {
		c := &wirev1.LocalConfig{Send: proto.CloneOf(send), Scrub: &wirev1.Scrub{Inflate: inflate}}
		if !inflate {
			c.Send.IdentitiesDirectory = ""
		}
		r.config = c
		code, report, log := r.run(t.Context(), t)
		if code != exitOK || len(report.GetOmissions()) > 0 || report.GetProgress().GetFiles() == 0 {
			t.Errorf("a scrub, inflate %v, exits with %d, %v:\n%s", inflate, code, report, log)
		}
	}
}

// TestEncryptionElsewhere has configurations refused that would write what they say is encrypted as it is, or that have
// identities for what is not decrypted.
func TestEncryptionElsewhere(t *testing.T) {
	encryption := &wirev1.Encryption{Recipients: []string{"age1x"}}
	for what, change := range map[string]func(*wirev1.LocalConfig){
		"files in a claim": func(c *wirev1.LocalConfig) { c.Encryption = encryption },
		"files in a form":  func(c *wirev1.LocalConfig) { c.Encryption, c.Send.Form = encryption, wirev1.Form_FORM_GZIP },
		"with a receipt": func(c *wirev1.LocalConfig) {
			c.Encryption, c.Send.Form, c.Transfer = encryption, wirev1.Form_FORM_ARCHIVE, "t"
			c.Send.Receipt = true
		},
		"of plain files": func(c *wirev1.LocalConfig) { c.Send.IdentitiesDirectory = "/identities" },
		"a scrub of files": func(c *wirev1.LocalConfig) {
			c.Send.IdentitiesDirectory, c.Scrub, c.Send.SourceForm = "/identities", &wirev1.Scrub{}, wirev1.Form_FORM_GZIP
		},
		"archives of archives": func(c *wirev1.LocalConfig) {
			c.Send.IdentitiesDirectory, c.Send.Form, c.Transfer = "/identities", wirev1.Form_FORM_ARCHIVE, "t"
		},
	} {
		r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
		change(r.config)
		if code, _, _ := r.run(t.Context(), t); code != exitConfig {
			t.Errorf("%s: exit code %d", what, code)
		}
	}
}
