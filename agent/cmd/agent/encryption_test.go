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
	// What fails before it serves leaves the listener to the end of the process.
	to.Send.ControlAddress = freeAddress(t)
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

// TestEncryptionElsewhere has configurations refused that would write what they say is encrypted as it is.
func TestEncryptionElsewhere(t *testing.T) {
	r := newLocalRun(t, wirev1.CompressionMode_COMPRESSION_MODE_AUTO)
	r.config.Encryption = &wirev1.Encryption{Recipients: []string{"age1x"}}
	if code, _, _ := r.run(t.Context(), t); code != exitConfig {
		t.Errorf("into a claim: exit code %d", code)
	}
}
