// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

const becomeSleep = "LIGHTERAGE_TEST_BECOME_SLEEP"

func TestMain(m *testing.M) {
	if procs := os.Getenv(becomeSleep); procs != "" {
		fmt.Fprintln(os.Stderr, Enter([]string{procs, "", "/bin/sleep", "60"}))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// Whoever waits for a unit asks whether it is alive while Enter becomes the program.
func TestAliveWhileEntering(t *testing.T) {
	procs := filepath.Join(t.TempDir(), "cgroup.procs")
	for range 40 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), becomeSleep+"="+procs)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		start, _, err := processStart(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		r := Record{PID: cmd.Process.Pid, Start: start}
		for comm := ""; comm != "sleep\n" && !t.Failed(); {
			if !r.Alive() {
				t.Error("a unit that is being started does not count as alive")
			}
			data, err := os.ReadFile("/proc/" + strconv.Itoa(r.PID) + "/comm")
			if err != nil {
				t.Error(err)
			}
			comm = string(data)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
}

// A unit does not keep open what the command that started it was given.
func TestNothingIsInherited(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), becomeSleep+"="+filepath.Join(t.TempDir(), "cgroup.procs"))
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{write}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	// The other end is closed as soon as the unit runs, and not when it ends.
	if _, err := read.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("reading ends with %v", err)
	}
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the unit has ended: %v", err)
	}
}
