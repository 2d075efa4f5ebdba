// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build faults

package queuefaults_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// skewVariable says by how many seconds the clock of a process is off, if its program was built by skewedAgent.
const skewVariable = "LIGHTERAGE_TEST_CLOCK_SKEW"

// TestSkewedClocks breaks a queue whose members have clocks that are apart. When the leader changes, what was given and
// not acknowledged comes again later by as much as the clocks differ, which has to be less than the patience of the
// test. It runs in the long run only: the agent is built again from its first package on.
func TestSkewedClocks(t *testing.T) {
	if os.Getenv(longVariable) == "" {
		t.Skip("building the agent takes minutes; set " + longVariable)
	}
	agent := skewedAgent(t)
	const apart = 40 * time.Second
	q := newQueue(t, 3, func(m *member, index int) {
		m.agent = agent
		m.environment = []string{fmt.Sprintf("%s=%d", skewVariable, int((time.Duration(index-1) * apart).Seconds()))}
	})
	l := begin(q, q)
	l.consume()
	l.breaks(threeMembers, duration(t, 0))
}

// skewedAgent builds the agent with a standard library whose clock can be off.
func skewedAgent(t *testing.T) string {
	t.Helper()
	const file = "/src/time/time.go"
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	original := string(bytes.TrimSpace(root)) + file
	source, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	const reads, imports = "sec, nsec, mono := runtimeNow()\n", "import (\n"
	if n := bytes.Count(source, []byte("func Now() Time {\n\t"+reads)); n != 1 {
		t.Fatalf("time.Now of %s is not what this test knows how to change", runtime.Version())
	}
	source = bytes.Replace(
		source, []byte("func Now() Time {\n\t"+reads), []byte("func Now() Time {\n\t"+reads+"\tsec += skew\n"), 1,
	)
	source = bytes.Replace(source, []byte(imports), []byte(imports+"\t\"syscall\"\n"), 1)
	source = append(source, `
var skew = func() (n int64) {
	text, _ := syscall.Getenv("`+skewVariable+`")
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		text = text[1:]
	}
	for _, digit := range []byte(text) {
		n = 10*n + int64(digit-'0')
	}
	if negative {
		n = -n
	}
	return n
}()
`...)
	work := t.TempDir()
	replacement, overlay, agent := filepath.Join(work, "time.go"), filepath.Join(work, "overlay.json"),
		filepath.Join(work, "agent")
	if err := os.WriteFile(replacement, source, 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(
		t.Context(), "go", "build", "-tags", "faults", "-overlay", overlay, "-o", agent, "../../agent/cmd/agent",
	)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the agent: %v: %s", err, out)
	}
	return agent
}
