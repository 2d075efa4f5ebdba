// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cgroup makes, lists, empties and removes the cgroups of the clusters,
// on machines with cgroup v1 and with cgroup v2.
//
// Being in one of these cgroups is what makes a process the clusters' own: it is
// inherited, it cannot be confused with another process's pid, and so it is what
// decides who may be killed.
package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Tree is the machine's cgroup hierarchies.
type Tree struct {
	// Mounts are the roots of the hierarchies: one with v2, several with v1.
	Mounts []string
	// Tracking is the hierarchy that says which processes are the clusters'.
	Tracking string
	// Beside is a v2 hierarchy without controllers that a machine with v1 may
	// have as well. Container runtimes leave cgroups there.
	Beside string
	// V2 is whether the one hierarchy is cgroup v2.
	V2 bool
}

// Detect finds the machine's hierarchies.
func Detect() (Tree, error) {
	var st unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &st); err == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
		return Tree{Mounts: []string{"/sys/fs/cgroup"}, Tracking: "/sys/fs/cgroup", V2: true}, nil
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return Tree{}, fmt.Errorf("listing cgroup hierarchies: %w", err)
	}
	defer f.Close()
	t := parse(bufio.NewScanner(f))
	if t.Tracking == "" {
		return Tree{}, errors.New(
			"no cgroup hierarchy with the pids controller is mounted below /sys/fs/cgroup: mount cgroup v1 or v2 there",
		)
	}
	return t, nil
}

// parse reads the v1 hierarchies out of a mountinfo file.
func parse(lines *bufio.Scanner) Tree {
	var t Tree
	for lines.Scan() {
		left, right, ok := strings.Cut(lines.Text(), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 || slices.Contains(t.Mounts, l[4]) {
			continue
		}
		if r[0] == "cgroup2" {
			t.Beside = l[4]
		}
		if r[0] != "cgroup" {
			continue
		}
		t.Mounts = append(t.Mounts, l[4])
		if slices.Contains(strings.Split(r[2], ","), "pids") {
			t.Tracking = l[4]
		}
	}
	return t
}

// Make creates the cgroup path and its parents in every hierarchy.
func (t Tree) Make(path string) error {
	for _, mount := range t.Mounts {
		dir := mount
		for _, elem := range strings.Split(path, "/") {
			if t.V2 {
				enableControllers(dir)
			}
			dir = filepath.Join(dir, elem)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("making cgroup: %w", err)
			}
			if err := inheritCpuset(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// enableControllers lets children of a v2 cgroup use whatever controllers it has.
func enableControllers(dir string) {
	list, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return
	}
	for _, c := range strings.Fields(string(list)) {
		// One controller at a time: some (cpu with realtime processes) may be
		// refused, and the kubelet says itself which one it misses.
		_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0o644)
	}
}

// inheritCpuset copies the parent's CPUs and memory nodes, which a v1 cpuset
// needs before any process can enter it.
func inheritCpuset(dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		own, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || strings.TrimSpace(string(own)) != "" {
			continue
		}
		parent, err := os.ReadFile(filepath.Join(filepath.Dir(dir), name))
		if err != nil || strings.TrimSpace(string(parent)) == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), parent, 0o644); err != nil {
			return fmt.Errorf("giving cgroup %s its %s: %w", dir, name, err)
		}
	}
	return nil
}

// ProcsFile is the file that moves a process into the cgroup path.
func (t Tree) ProcsFile(path string) string {
	return filepath.Join(t.Tracking, path, "cgroup.procs")
}

// Processes lists the processes in the cgroup path and below it.
func (t Tree) Processes(path string) ([]int, error) {
	var pids []int
	err := filepath.WalkDir(filepath.Join(t.Tracking, path), func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if d.IsDir() || d.Name() != "cgroup.procs" {
			return nil
		}
		data, err := os.ReadFile(p)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EOPNOTSUPP) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, field := range strings.Fields(string(data)) {
			// 0 is a process of another pid namespace.
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing processes of cgroup %s: %w", path, err)
	}
	return pids, nil
}

// Kill ends every process in the cgroup path and below, until none is left.
func (t Tree) Kill(path string, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		pids, err := t.Processes(path)
		if err != nil || len(pids) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("processes %v of cgroup %s do not end after %s", pids, path, timeout)
		}
		for _, pid := range pids {
			if err := t.killMember(path, pid); err != nil {
				return err
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// killMember kills pid if it is in the cgroup path. A pid can be given to another
// process at any time: the handle is taken first and the membership read after
// it, so that what is killed is what was checked.
func (t Tree) killMember(path string, pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	pids, err := t.Processes(path)
	if err != nil || !slices.Contains(pids, pid) {
		return err
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing process %d: %w", pid, err)
	}
	return nil
}

// Remove deletes the cgroup path and everything below it in every hierarchy. The
// cgroups must hold no process; one that is just ending is waited for.
func (t Tree) Remove(path string, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	mounts := t.Mounts
	if t.Beside != "" {
		mounts = append(slices.Clone(mounts), t.Beside)
	}
	for _, mount := range mounts {
		for {
			err := removeTree(filepath.Join(mount, path))
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("removing cgroup: %w", err)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	return nil
}

func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	// Not os.Remove: it tries unlink first, which cgroup files refuse with EPERM.
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "rmdir", Path: dir, Err: err}
	}
	return nil
}
