// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestSetClock: a program that is built so has another time, and measures durations as ever.
func TestSetClock(t *testing.T) {
	root := newModule(t)
	main := "package main\n\nimport \"time\"\n\nfunc main() {\n\tbegin := time.Now()\n\tprintln(begin.Unix(), " +
		"int64(time.Since(begin)))\n}\n"
	if err := os.WriteFile(filepath.Join(root, "cmd", "main.go"), []byte(main), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, offset := range []time.Duration{24 * time.Hour, -36 * time.Hour} {
		work := t.TempDir()
		c := testComponent
		var err error
		if c.toolexec, err = setClock(t.Context(), work, offset); err != nil {
			t.Fatal(err)
		}
		bin, err := build(t.Context(), root, work, c, "v1", v1.Platform{OS: "linux", Architecture: runtime.GOARCH})
		if err != nil {
			t.Fatal(err)
		}
		before := time.Now().Add(offset).Unix()
		out, err := exec.CommandContext(t.Context(), bin.path).CombinedOutput()
		after := time.Now().Add(offset).Unix()
		fields := strings.Fields(string(out))
		if err != nil || len(fields) != 2 {
			t.Fatalf("%v: %s", err, out)
		}
		now, err := strconv.ParseInt(fields[0], 10, 64)
		if err != nil || now < before || now > after {
			t.Errorf("the clock says %s, want %d to %d", fields[0], before, after)
		}
		if since, err := time.ParseDuration(fields[1] + "ns"); err != nil || since < 0 || since > time.Minute {
			t.Errorf("%s ns passed: %v", fields[1], err)
		}
	}
}

func TestShiftClockNoticesAnotherLibrary(t *testing.T) {
	if _, err := shiftClock("package time\n\nfunc Now() Time { return read() }\n", time.Hour); err == nil {
		t.Error("the clock of a library that is not known was changed")
	}
}
