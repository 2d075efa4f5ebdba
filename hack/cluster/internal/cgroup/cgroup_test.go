// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cgroup

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestParse(t *testing.T) {
	const mountinfo = `27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 27 0:30 / /sys/fs/cgroup rw - tmpfs none rw
31 30 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup none rw,cpu,cpuacct
32 30 0:32 / /sys/fs/cgroup/pids rw,nosuid shared:9 - cgroup none rw,pids
33 30 0:33 / /sys/fs/cgroup/unified rw - cgroup2 none rw
`
	got := parse(bufio.NewScanner(strings.NewReader(mountinfo)))
	if want := []string{"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/pids"}; !slices.Equal(got.Mounts, want) {
		t.Errorf("hierarchies %q, want %q", got.Mounts, want)
	}
	if got.Tracking != "/sys/fs/cgroup/pids" || got.Beside != "/sys/fs/cgroup/unified" || got.V2 {
		t.Errorf("parse = %+v", got)
	}
}

// folder makes a Tree of plain folders, which look enough like cgroups.
func folder(t *testing.T) Tree {
	t.Helper()
	dir := t.TempDir()
	return Tree{Mounts: []string{dir}, Tracking: dir}
}

func TestMakeAndRemove(t *testing.T) {
	tree := folder(t)
	if err := os.WriteFile(filepath.Join(tree.Tracking, "kept"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := tree.Make("a/b/c"); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := tree.Remove("a", 0); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := filepath.Glob(tree.Tracking + "/*"); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v; want only what was there before", left, err)
	}
}

// A process that has left the cgroup between listing and killing is not ours.
func TestKillSparesProcessOutside(t *testing.T) {
	tree := folder(t)
	if err := tree.Make("ours"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := tree.killMember("ours", cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Fatal("a process outside the cgroup was killed")
	}

	procs := tree.ProcsFile("ours")
	if err := os.WriteFile(procs, []byte(strconv.Itoa(cmd.Process.Pid)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pids, err := tree.Processes("ours")
	if err != nil || !slices.Equal(pids, []int{cmd.Process.Pid}) {
		t.Fatalf("Processes = %v, %v", pids, err)
	}
	if err := tree.killMember("ours", cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the process ended by itself, not by a signal")
	}
}
