// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// The main goroutine stays on the process's first thread, so that Enter calls exec
// there. Called from another thread, exec leaves the first one a zombie for a moment,
// and whoever looks at the process then believes that it has ended.
func init() { runtime.LockOSThread() }

// EnterArgs are the arguments with which this program becomes the unit's process.
func EnterArgs(u Unit) []string {
	return append([]string{"enter", u.Procs, u.NetNS}, u.Args...)
}

// Enter joins the cgroup and the network namespace of EnterArgs and then becomes
// the program named there. It returns only when that fails. It must be called from the
// main goroutine.
//
// Joining before the program runs leaves no moment in which a child of it could be
// outside. Only the network namespace changes: `ip netns exec` would mount another
// /sys, in which the kubelet finds no cgroups.
func Enter(args []string) error {
	if len(args) < 3 {
		return errors.New("enter wants a cgroup.procs file, a network namespace or \"\", and a command")
	}
	procs, netns, argv := args[0], args[1], args[2:]
	if err := os.WriteFile(procs, []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		return fmt.Errorf("joining cgroup: %w", err)
	}
	if unix.Gettid() != unix.Getpid() {
		return errors.New("enter was not called from the main goroutine")
	}
	if netns != "" {
		// The namespace belongs to this thread, and exec makes this thread the process.
		fd, err := unix.Open("/run/netns/"+netns, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("opening network namespace %s: %w", netns, err)
		}
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering network namespace %s: %w", netns, err)
		}
	}
	// A unit outlives the command that started it, and must not keep what that one was given open: a lock that a script
	// holds while the command runs, or the pipe of a program that waits for its end.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("giving up the descriptors of whoever started %s: %w", argv[0], err)
	}
	if err := unix.Exec(argv[0], argv, os.Environ()); err != nil {
		return fmt.Errorf("running %s: %w", argv[0], err)
	}
	return nil
}
