// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package queuefaults_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The environment of the program within its namespaces.
const (
	insideVariable = "LIGHTERAGE_QUEUEFAULTS_INSIDE"
	agentVariable  = "LIGHTERAGE_QUEUEFAULTS_AGENT"
	longVariable   = "QUEUE_FAULTS_DURATION" // how long each of the long tests breaks things
	// doubtVariable lets clients of queues of three also put messages once more that were acknowledged, got and
	// acknowledged before, as those of queues of one always do. Queues stand that after restarts, but for the case that
	// docs/decisions/036-broken-queues.md names last: a member that has not heard yet what others gave, while one that
	// was restarted leads, may take such a message. That one is a matter of luck, so it is not done by default.
	doubtVariable = "QUEUE_FAULTS_DOUBT"
)

// patience bounds what has to come on a machine that is busy.
const patience = 5 * time.Minute

// TestMain builds the agent, and becomes another process in namespaces of its own, with networks, mounts and processes
// that end with it.
func TestMain(m *testing.M) {
	if os.Getenv(insideVariable) != "" {
		if err := enter(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	code, err := outside()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func outside() (int, error) {
	for _, tool := range []string{"ip", "iptables", "nsenter", "unshare"} {
		if _, err := exec.LookPath(tool); err != nil {
			return 0, fmt.Errorf("the tests break networks with %s, which is not here: %w", tool, err)
		}
	}
	work, err := os.MkdirTemp("", "queuefaults")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(work)
	agent := filepath.Join(work, "agent")
	build := exec.CommandContext(context.Background(), "go", slices.Concat([]string{
		// By its tag members change dictionaries every few seconds.
		"build", "-tags", strings.TrimPrefix(os.Getenv("LIGHTERAGE_TAGS")+",faults", ","), "-o", agent,
	}, agentFlags,
		[]string{"../../agent/cmd/agent"})...)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return 0, fmt.Errorf("build the agent: %w", err)
	}
	inside := exec.CommandContext(context.Background(), "/proc/self/exe", os.Args[1:]...)
	inside.Env = append(os.Environ(), insideVariable+"=1", agentVariable+"="+agent, "TMPDIR="+work)
	inside.Stdin, inside.Stdout, inside.Stderr = os.Stdin, os.Stdout, os.Stderr
	inside.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
	}
	if uid := os.Geteuid(); uid != 0 {
		inside.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		inside.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		inside.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	var failed *exec.ExitError
	if err := inside.Run(); errors.As(err, &failed) {
		return max(failed.ExitCode(), 1), nil
	} else if err != nil {
		return 0, fmt.Errorf("start the tests in namespaces of their own, which needs root or user namespaces: %w", err)
	}
	return 0, nil
}

// enter sets up what all tests use of the namespaces.
func enter() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to ourselves: %w", err)
	}
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("mount /run: %w", err)
	}
	for _, command := range []string{
		"ip link set lo up", "ip link add members type bridge", "ip addr add " + clientAddress + "/24 dev members",
		"ip link set members up",
	} {
		if err := run(strings.Fields(command)...); err != nil {
			return err
		}
	}
	return nil
}

func run(command ...string) error {
	out, err := exec.CommandContext(context.Background(), command[0], command[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, out)
	}
	return nil
}

// duration for which a test breaks things: short, unless the environment says how long.
func duration(t *testing.T, short time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(longVariable)
	if text == "" {
		return short
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", longVariable, err)
	}
	return d
}
