// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer_test

import (
	"bufio"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain puts the trees of the tests into memory where there is space and nobody has said where: hundreds of
// checkpoints wait for a disk else, and for what everybody else writes to it. Power losses are played, so that no test
// needs a disk (see machine).
func TestMain(m *testing.M) { os.Exit(inMemory(m)) }

func inMemory(m *testing.M) int {
	const shared, free = "/dev/shm", 2 << 30 // The tests need less than a quarter of that at once.
	var fs unix.Statfs_t
	if os.Getenv("TMPDIR") != "" || unix.Statfs(shared, &fs) != nil || fs.Type != unix.TMPFS_MAGIC ||
		fs.Bavail*uint64(fs.Bsize) < free || available() < free {
		return m.Run()
	}
	directory, err := os.MkdirTemp(shared, "lighterage-transfer-")
	if err != nil {
		return m.Run()
	}
	defer os.RemoveAll(directory)
	if err := os.Setenv("TMPDIR", directory); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// available returns how many bytes of memory can be had without swapping; 0 if nobody knows.
func available() uint64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var kib uint64
		if _, err := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return 0
}
