// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package meter

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ThreadCPU calls f and returns the CPU time that the calling thread spent in it,
// user and system. What f starts on other goroutines is not included. One call
// costs well under a microsecond besides f. It returns 0 on a kernel that does not
// tell.
func ThreadCPU(f func()) time.Duration {
	// The goroutine must not move to another thread between the two readings.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := threadTime()
	f()
	return threadTime() - start
}

// threadTime asks the kernel without telling Go's scheduler, which is half of what it costs: this never waits.
func threadTime() time.Duration {
	var ts unix.Timespec
	_, _, errno := unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_THREAD_CPUTIME_ID,
		uintptr(unsafe.Pointer(&ts)), 0) //nolint:gosec // what the call takes
	if errno != 0 {
		return 0
	}
	return time.Duration(ts.Nano())
}

// OnThread calls f, which stays on one thread.
func OnThread(f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	f()
}

// Stopwatch adds up the CPU time of stretches of what a thread does. The goroutine must not move to another thread
// while it is used: it is for what runs in OnThread. The zero value stands still.
type Stopwatch struct {
	begun, total time.Duration
	runs         bool
}

// Start begins a stretch, or goes on with the one that has begun.
func (s *Stopwatch) Start() {
	if !s.runs {
		s.begun, s.runs = threadTime(), true
	}
}

// Stop ends a stretch, if one has begun.
func (s *Stopwatch) Stop() {
	if s.runs {
		s.total += threadTime() - s.begun
		s.runs = false
	}
}

// Total of the stretches that have ended.
func (s *Stopwatch) Total() time.Duration { return s.total }

// ProcessCPU returns the CPU time that this process has spent since it started, in
// its own code and in the kernel on its behalf. What the kernel spends on the
// network outside of system calls is not included.
func ProcessCPU() (user, system time.Duration, err error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, 0, fmt.Errorf("read the CPU time of this process: %w", err)
	}
	return time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano()), nil
}
