// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build objectstores

package objectstoretest_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/objectstore/objectstoretest"
)

const testEnv = "LIGHTERAGE_TEST_THAT_IS_KILLED"

// init starts a process as a test does, and prints its number.
func init() {
	if os.Getenv(testEnv) == "" {
		return
	}
	c := exec.Command("sleep", "300")
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // This thread ends, and the process does not.
		started <- objectstoretest.StartWithTest(c)
	}()
	if err := <-started; err != nil {
		panic(err)
	}
	fmt.Println(c.Process.Pid)
	time.Sleep(time.Hour)
}

// TestServersEndWithTest kills a test, as a timeout or make does: what it started ends, and not before.
func TestServersEndWithTest(t *testing.T) {
	test := exec.CommandContext(t.Context(), os.Args[0])
	test.Env = append(os.Environ(), testEnv+"=1")
	out, err := test.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := objectstoretest.StartWithTest(test); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if !runs(pid) {
		t.Error("the process ended before the test")
	}
	_ = test.Process.Kill()
	_ = test.Wait()
	for deadline := time.Now().Add(10 * time.Second); runs(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the process outlives the test")
		}
	}
}

// runs reports whether a process is there that is no zombie.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
