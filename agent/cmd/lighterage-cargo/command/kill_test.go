// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lighterage/lighterage/agent/cmd/lighterage-cargo/command"
	"github.com/lighterage/lighterage/agent/killtest"
)

// childEnv says that a process is lighterage-cargo, whose arguments are those of the command line.
const childEnv = "LIGHTERAGE_TEST_CARGO"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	killtest.Watched()
	err := command.Run(context.Background(), os.Args[1:], command.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, command.Describe(err))
	}
	os.Exit(command.ExitCode(err))
}

// TestKilled kills lighterage-cargo before each system call that changes files. Nothing half is under its name then,
// and the same command leaves the file and its index, and nothing else.
func TestKilled(t *testing.T) {
	from := filepath.Join(t.TempDir(), "from")
	other := strings.Repeat("other\n", 10_000)
	for form, programs := range map[string][]string{"gzip": {"gzip", "-tq"}, "zstd": {"zstd", "-tq"}} {
		must(t, nil, plain(), "copy", "--as", form, "--block-size", "5000", "-", from+form)
		for name, arguments := range map[string][]string{
			"copy": {"copy", from + form}, "no check": {"copy", "--no-check", from + form},
			"replace": {"copy", "--force", from + form}, "pack": {"copy", "--as", form, "--block-size", "5000"},
		} {
			if name == "pack" {
				source := from + "plain"
				if err := os.WriteFile(source, []byte(plain()), 0o600); err != nil {
					t.Fatal(err)
				}
				arguments = append(arguments, source)
			}
			t.Run(form+"/"+name, func(t *testing.T) {
				every := killtest.Every(3)
				before := make(map[string]int)
				for n := 1 + rand.IntN(every); ; n += every {
					directory := t.TempDir()
					to := filepath.Join(directory, "to")
					if name == "replace" {
						must(t, nil, other, "copy", "--as", form, "-", to)
					}
					when := fmt.Sprintf("killed before change %d", n)
					line := append(slices.Clone(arguments), to)
					c := exec.CommandContext(t.Context(), os.Args[0], line...)
					c.Env = append(os.Environ(), childEnv+"=1")
					var out bytes.Buffer
					c.Stdout, c.Stderr = &out, &out
					call := killtest.Run(t, c, directory, n)
					if call == "" && !c.ProcessState.Success() {
						t.Fatalf("%s failed: %s", line, out.Bytes())
					}
					before[call]++
					left := names(t, directory)
					wholeFile(t, to, programs, when, name == "replace", plain(), other)
					if _, err := os.Stat(to); err == nil && name != "replace" {
						line = slices.Insert(line, 1, "--force")
					}
					must(t, nil, "", line...)
					wholeFile(t, to, programs, when+" and repeated", false, plain())
					// What is to replace a file has a name of its own for a moment.
					replacing := name == "replace"
					if got := names(t, directory); !slices.Equal(got, []string{".to.lgci", "to"}) && !replacing {
						t.Errorf("%s before %s left %q, and repeating it %q", when, call, left, got)
					}
					if call == "" {
						break
					}
				}
				delete(before, "")
				t.Logf("killed before %v", before)
				if len(before) == 0 || killtest.Every(0) == 1 && before["linkat"]+before["renameat"] < 2 {
					t.Errorf("killed before %v only", before)
				}
			})
		}
	}
}

func names(t *testing.T, directory string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(directory)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// wholeFile fails the test unless a file is not there, or as a whole one of some contents, by its index and for a
// program of others. mixed: the index may be that of another one, which readers report.
func wholeFile(t *testing.T, path string, program []string, when string, mixed bool, contents ...string) {
	t.Helper()
	if _, err := os.Stat(path); os.IsNotExist(err) {
		return
	}
	if out, err := run(t, nil, "", "verify", "--inflate", path); err != nil {
		if !mixed {
			t.Errorf("%s: verify: %v, %s", when, err, out)
		}
		if _, err := run(t, nil, "", "cat", path); err == nil {
			t.Errorf("%s: a file with an index that is not its own is read", when)
		}
	}
	got, err := run(t, nil, "", "cat", "--scan", path)
	if err != nil || !slices.Contains(contents, got) {
		t.Errorf("%s: %d bytes, %v", when, len(got), err)
	}
	if name, err := exec.LookPath(program[0]); err == nil {
		if out, err := exec.CommandContext(t.Context(), name, append(program[1:], path)...).CombinedOutput(); err != nil {
			t.Errorf("%s: %s: %v: %s", when, program, err, out)
		}
	}
}
