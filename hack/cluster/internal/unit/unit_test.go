// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestParseRecord(t *testing.T) {
	tests := map[string]struct {
		in   string
		want Record
		ok   bool
	}{
		"good":          {"4711 99 abc\n", Record{4711, 99, "abc"}, true},
		"empty":         {"", Record{}, false},
		"pid only":      {"4711\n", Record{}, false},
		"init":          {"1 99 abc\n", Record{}, false},
		"every process": {"-1 99 abc\n", Record{}, false},
		"own group":     {"0 99 abc\n", Record{}, false},
		"not a number":  {"x 99 abc\n", Record{}, false},
		"bad start":     {"4711 -1 abc\n", Record{}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseRecord(tt.in)
			if (err == nil) != tt.ok || got != tt.want {
				t.Errorf("parseRecord(%q) = %+v, %v", tt.in, got, err)
			}
		})
	}
}

func TestParseStat(t *testing.T) {
	line := "42 (a) (b c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654 20 21"
	start, state, err := parseStat([]byte(line))
	if err != nil || start != 987654 || state != 'S' {
		t.Errorf("parseStat = %d, %c, %v; want 987654, S", start, state, err)
	}
	for _, bad := range []string{"", "42 (a", "42 (a) S 1 2"} {
		if _, _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("parseStat(%q) gave no error", bad)
		}
	}
}

// A pid file must never lead to the death of a process that only has the pid of
// one of ours.
func TestKillSparesAnotherProcessOfTheSamePid(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	start, _, err := processStart(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}

	other := Record{PID: cmd.Process.Pid, Start: start + 1}
	if other.Alive() {
		t.Error("a process with another start time counts as alive")
	}
	if err := other.Kill(); err != nil {
		t.Fatal(err)
	}
	same := Record{PID: cmd.Process.Pid, Start: start}
	if !same.Alive() {
		t.Fatal("Kill ended a process with another start time")
	}
	if err := same.Kill(); err != nil {
		t.Fatal(err)
	}
	if same.Alive() {
		t.Error("the process is alive after Kill")
	}
}

func TestRecordRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pids", "x.pid")
	if _, err := ReadRecord(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("ReadRecord of nothing: %v", err)
	}
	want := Record{PID: 4711, Start: 12, Digest: "d"}
	if err := want.Write(path); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadRecord(path); err != nil || got != want {
		t.Errorf("ReadRecord = %+v, %v; want %+v", got, err, want)
	}
}

func TestDigestFollowsConfiguration(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	digest := func(content string, args ...string) string {
		t.Helper()
		if err := os.WriteFile(config, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := Unit{Name: "u", Args: args, Configs: []string{config}}.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	a := digest("one", "/bin/a")
	if b := digest("one", "/bin/a"); b != a {
		t.Error("the same unit has two digests")
	}
	if digest("two", "/bin/a") == a || digest("one", "/bin/b") == a {
		t.Error("a changed unit has the same digest")
	}
	keyed, err := Unit{Name: "u", Args: []string{"/bin/a"}, Env: []string{"KEY=other"}, Configs: []string{config}}.Digest()
	plain, err2 := Unit{Name: "u", Args: []string{"/bin/a"}, Configs: []string{config}}.Digest()
	if err != nil || err2 != nil || keyed == plain {
		t.Errorf("a changed environment has the same digest: %v, %v", err, err2)
	}
}
