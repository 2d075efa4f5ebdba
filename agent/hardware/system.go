// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !dfltcc

package hardware

import (
	"io"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// ThisSystem asks the machine it runs on. What cannot be read is missing.
func ThisSystem() System {
	s := System{Architecture: runtime.GOARCH}
	if s.Architecture != "s390x" {
		return s
	}
	if auxv, err := unix.Auxv(); err == nil {
		s.Auxv = auxv
	}
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		s.CPUInfo, _ = io.ReadAll(io.LimitReader(f, cpuInfoLimit))
		_ = f.Close()
	}
	return s
}
