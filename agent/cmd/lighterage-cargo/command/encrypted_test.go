// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"

	"github.com/lighterage/lighterage/agent/agefile"
	"github.com/lighterage/lighterage/agent/cargo/cargofile"
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
	// Nothing plain is written under the name of an encrypted file: it would replace what can be read.
	before := contents(t, directory)
	for name, arguments := range map[string][]string{
		"rebuild":       {"rebuild", at("a.gz.age")},
		"copy":          {"copy", at("a.gz.age"), at("c.gz.age")},
		"copy --force":  {"copy", "--force", at("b.gz"), at("a.gz.age")},
		"copy inflated": {"copy", "--inflate", at("a.gz.age"), at("c.age")},
		"copy packed":   {"copy", "--as", "gzip", at("b.gz"), at("c.gz.age")},
		"to a store":    {"copy", at("b.gz"), "s3://archive/c.gz.age"},
	} {
		_, err := run(t, nil, "", append([]string{"--identity", key}, arguments...)...)
		if !errors.Is(err, cargofile.ErrName) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := contents(t, directory); !maps.Equal(before, after) {
		t.Errorf("there is %q, and was %q", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
	}
	if out := with("cat", at("a.gz.age")); out != plain() {
		t.Errorf("cat wrote %d bytes at the end", len(out))
	}
	if _, err := run(t, nil, "", "--identity", at("absent"), "cat", at("a.gz.age")); err == nil {
		t.Error("it was read with no file of identities")
	}
}

// contents is what the files of a directory have.
func contents(t *testing.T, directory string) map[string]string {
	t.Helper()
	all := map[string]string{}
	files, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(directory, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[f.Name()] = string(b)
	}
	return all
}
