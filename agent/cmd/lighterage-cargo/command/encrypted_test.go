// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/lighterage/lighterage/agent/agefile"
)

// TestEncrypted: a file that is encrypted, as its index is, is listed, read, verified and copied with an identity, and
// not without.
func TestEncrypted(t *testing.T) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	at := func(name string) string { return filepath.Join(directory, name) }
	key := at("key")
	if err := os.WriteFile(key, []byte(identity.String()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, nil, plain(), "copy", "--as", "gzip", "--records", "lines", "-", at("a.gz"))
	for from, to := range map[string]string{"a.gz": "a.gz.age", ".a.gz.lgci": ".a.gz.age.lgci"} {
		b, err := os.ReadFile(at(from))
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := agefile.Seal(b, identity.Recipient())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(to), sealed, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	with := func(arguments ...string) string {
		return must(t, nil, "", append([]string{"--identity", key}, arguments...)...)
	}
	if out := with("cat", at("a.gz.age")); out != plain() {
		t.Errorf("cat wrote %d bytes", len(out))
	}
	if out := with("records", at("a.gz.age"), "17"); !strings.Contains(out, "line 1") {
		t.Errorf("records wrote %q", out)
	}
	if out := with("ls", at("a.gz.age")); !strings.Contains(out, "3000") {
		t.Errorf("ls wrote %q", out)
	}
	with("verify", "--inflate", at("a.gz.age"))
	with("copy", at("a.gz.age"), at("b.gz"))
	if out := must(t, nil, "", "cat", at("b.gz")); out != plain() {
		t.Errorf("the copy has %d bytes", len(out))
	}
	if _, err := run(t, nil, "", "cat", at("a.gz.age")); err == nil {
		t.Error("it was read without an identity")
	}
	if _, err := run(t, nil, "", "--identity", at("absent"), "cat", at("a.gz.age")); err == nil {
		t.Error("it was read with no file of identities")
	}
}
