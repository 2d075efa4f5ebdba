// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/cmd/lighterage-cargo/command"
	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
)

// run carries out a command line and returns what it writes.
func run(t testing.TB, getenv func(string) string, in string, arguments ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	if getenv == nil {
		getenv = func(string) string { return "" }
	}
	err := command.Run(t.Context(), arguments, command.Streams{
		In: strings.NewReader(in), Out: &out, Err: io.Discard, Getenv: getenv,
	})
	return out.String(), err
}

func must(t testing.TB, getenv func(string) string, in string, arguments ...string) string {
	t.Helper()
	out, err := run(t, getenv, in, arguments...)
	if err != nil {
		t.Fatalf("%q: %v", arguments, err)
	}
	return out
}

// plain has 3,000 lines.
func plain() string {
	var b strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

// TestJourney: a file is packed, listed, read, copied, verified and indexed again, on a file system and in a store.
func TestJourney(t *testing.T) {
	s := objectstoretest.New(t, "id")
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, s.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	getenv := func(name string) string {
		return map[string]string{
			"AWS_ENDPOINT_URL_S3": s.URL, "AWS_CA_BUNDLE": bundle, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret",
		}[name]
	}
	for where, at := range map[string]string{
		"local": t.TempDir() + "/", "remote": "s3://" + objectstoretest.Bucket + "/",
	} {
		for _, as := range []string{"gzip", "zstd"} {
			t.Run(where+"/"+as, func(t *testing.T) {
				a, b, back := at+as+"a", at+as+"b", at+as+"plain"
				must(t, getenv, plain(), "copy", "--as", as, "--records", "lines", "--block-size", "1000", "--level", "Balanced",
					"-", a)
				if out := must(t, getenv, "", "ls", a); !strings.Contains(out, " 3000 ") || !strings.Contains(out, a) {
					t.Errorf("ls: %s", out)
				}
				if out := must(t, getenv, "", "cat", a); out != plain() {
					t.Errorf("cat: %d bytes", len(out))
				}
				if out := must(t, getenv, "", "cat", "--offset", "5", "--length", "3", a); out != plain()[5:8] {
					t.Errorf("cat: %q", out)
				}
				if out := must(t, getenv, "", "records", a, "1234"); out != "line 1234\n" {
					t.Errorf("records: %q", out)
				}
				if out := must(t, getenv, "", "records", a, "2998-2999"); out != "line 2998\nline 2999\n" {
					t.Errorf("records: %q", out)
				}
				must(t, getenv, "", "copy", a, b)
				must(t, getenv, "", "copy", "--no-check", "--force", a, b)
				must(t, getenv, "", "copy", "--inflate", b, back)
				must(t, getenv, "", "copy", "--as", as, "--force", back, back)
				if out := must(t, getenv, "", "cat", back); out != plain() {
					t.Errorf("there and back: %d bytes", len(out))
				}
				if out := must(t, getenv, "", "verify", "--inflate", a, b); strings.Count(out, ": ok") != 2 {
					t.Errorf("verify: %s", out)
				}
				if _, err := run(t, getenv, "", "records", back, "1"); command.ExitCode(err) != 1 {
					t.Errorf("records of a file without: %v", err)
				}
				must(t, getenv, "", "rebuild", "--records", "lines", back)
				if out := must(t, getenv, "", "records", back, "1"); out != "line 1\n" {
					t.Errorf("records after rebuild: %q", out)
				}
				if out := must(t, getenv, "", "report", b); !strings.Contains(out, "lines, 3000") {
					t.Errorf("report: %s", out)
				}
			})
		}
	}
}

// TestWithoutIndex: a file without an index is read if that is wanted.
func TestWithoutIndex(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.gz")
	must(t, nil, plain(), "copy", "--as", "gzip", "-", name)
	if err := os.Remove(filepath.Join(filepath.Dir(name), ".a.gz.lgci")); err != nil {
		t.Fatal(err)
	}
	for _, arguments := range [][]string{
		{"cat", name}, {"report", name}, {"ls", name}, {"verify", name}, {"records", name, "1"},
	} {
		if _, err := run(t, nil, "", arguments...); command.ExitCode(err) != 1 {
			t.Errorf("%q: %v", arguments, err)
		}
	}
	if out := must(t, nil, "", "cat", "--scan", name); out != plain() {
		t.Errorf("cat: %d bytes", len(out))
	}
	if out := must(t, nil, "", "records", "--scan", "--records", "fixed=5", name, "1"); out != plain()[5:10] {
		t.Errorf("records: %q", out)
	}
}

// TestDamage: what is damaged is told, file by file.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good"), filepath.Join(dir, "bad")
	for _, name := range []string{good, bad} {
		must(t, nil, plain(), "copy", "--as", "zstd", "-", name)
	}
	b, err := os.ReadFile(bad)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2]++
	if err := os.WriteFile(bad, b, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(t, nil, "", "verify", bad, good)
	if command.ExitCode(err) != 1 || !strings.Contains(out, "good: ok") || strings.Contains(out, "bad: ok") {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := run(t, nil, "", "cat", bad); command.ExitCode(err) != 1 || out != "" {
		t.Errorf("%d bytes of a damaged block, %v", len(out), err)
	}
}

// TestHostileName: the name of a file does not command the terminal.
func TestHostileName(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a\x1b[2Jb")
	must(t, nil, plain(), "copy", "--as", "gzip", "-", name)
	for _, arguments := range [][]string{{"ls", filepath.Dir(name)}, {"report", name}, {"verify", name}} {
		if out := must(t, nil, "", arguments...); strings.Contains(out, "\x1b") {
			t.Errorf("%q: %q", arguments, out)
		}
	}
	_, err := run(t, nil, "", "copy", "--as", "gzip", "-", name)
	if err == nil || strings.Contains(command.Describe(err), "\x1b") {
		t.Errorf("%v", err)
	}
}

// TestUsage: a command line that cannot be followed is told from a failure, and changes nothing.
func TestUsage(t *testing.T) {
	dir := t.TempDir()
	to := filepath.Join(dir, "to")
	for _, arguments := range [][]string{
		{"list"}, {"ls"}, {"cat"}, {"cat", "a", "b"}, {"cat", "--offset", "-1", "a"}, {"cat", "--offset", "x", "a"},
		{"records", "a"}, {"records", "a", "x"}, {"records", "a", "2-1"}, {"records", "a", "-1"},
		{"records", "a", "0-9223372036854775807"}, {"records", "--records", "words", "a", "1"}, {"verify"},
		{"rebuild", "--records", "fixed=0", "a"}, {"copy", "a"}, {"copy", "--as", "lzw", "-", to},
		{"copy", "--as", "gzip", "--inflate", "-", to}, {"copy", "--records", "lines", "a", to},
		{"copy", "--as", "gzip", "--records", "x", "-", to}, {"copy", "--as", "gzip", "--level", "Most", "-", to},
		{"copy", "--level", "Fast", "a", to}, {"copy", "--level", "High", "--inflate", "a", to},
		{"copy", "--no-check", "--inflate", "a", to}, {"cat", "--no", "a"},
	} {
		if out, err := run(t, nil, "", arguments...); command.ExitCode(err) != 2 || out != "" {
			t.Errorf("%q: %q, %v", arguments, out, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
	if out := must(t, nil, ""); !strings.Contains(out, "records") {
		t.Errorf("help: %s", out)
	}
}

// TestInterrupted: standard input that waits for ever ends with the program, and nothing is left.
func TestInterrupted(t *testing.T) {
	dir := t.TempDir()
	in, to := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- command.Run(ctx, []string{"copy", "--as", "gzip", "-", filepath.Join(dir, "a")}, command.Streams{
			In: in, Out: io.Discard, Err: io.Discard,
		})
	}()
	for range 2 { // The second one is taken when the first was, for which the file is there.
		if _, err := to.Write([]byte("line\n")); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-done; command.ExitCode(err) != 1 {
		t.Errorf("got %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("left: %v, %v", entries, err)
	}
}
