// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// nowBody is how the package time begins to read the clock.
const nowBody = "\tsec, nsec, mono := runtimeNow()"

// swapTime runs a program of the toolchain. It gives the linker the package time of the overlay in place of the one
// that everything else was compiled with, so that all of that comes from the build cache. The linker accepts one with
// the same interface alone.
const swapTime = `#!/usr/bin/env bash
set -euo pipefail
previous=
for argument; do
  if [[ $1 == */link && $previous == -importcfg ]]; then
    archive=$('%[1]s/bin/go' list -export -trimpath -overlay '%[2]s/overlay.json' -f '{{.Export}}' time)
    sed -i "s|^packagefile time=.*|packagefile time=$archive|" "$argument"
  fi
  previous=$argument
done
exec "$@"
`

// setClock has components built so that time.Now is off by a whole number of seconds, and nothing else: a static
// program asks no library for the time that could be put in front of it, and a time namespace leaves the real time
// alone. It returns what is to run the toolchain's programs for that, in dir.
func setClock(ctx context.Context, dir string, offset time.Duration) (toolexec string, err error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("finding the standard library: %w", err)
	}
	goroot := strings.TrimSpace(string(out))
	original := filepath.Join(goroot, "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		return "", fmt.Errorf("reading the package time: %w", err)
	}
	shifted, err := shiftClock(string(source), offset)
	if err != nil {
		return "", fmt.Errorf("changing %s: %w", original, err)
	}
	replacement := filepath.Join(dir, "time.go")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
	if err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	toolexec = filepath.Join(dir, "toolexec")
	for path, content := range map[string]string{
		replacement: shifted, filepath.Join(dir, "overlay.json"): string(list), toolexec: fmt.Sprintf(swapTime, goroot, dir),
	} {
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil { //nolint:gosec // one of them is run
			return "", fmt.Errorf("writing the overlay: %w", err)
		}
	}
	return toolexec, nil
}

// shiftClock is the source of the package time with another Now. No line moves, because positions are part of a
// package's interface.
func shiftClock(source string, offset time.Duration) (string, error) {
	if n := strings.Count(source, nowBody); n != 1 {
		return "", fmt.Errorf(
			"want one %q in it, found %d: this version of Go reads the clock in another way", strings.TrimSpace(nowBody), n,
		)
	}
	return strings.Replace(source, nowBody, fmt.Sprintf("%s; sec += %d", nowBody, int64(offset/time.Second)), 1), nil
}
