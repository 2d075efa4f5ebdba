// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cpumf

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// cpuInfoLimit bounds what is read of /proc/cpuinfo in bytes.
const cpuInfoLimit = 4 << 20

// ThisSystem is the machine it runs on.
func ThisSystem() System {
	s := System{Architecture: runtime.GOARCH, Sys: os.DirFS("/sys"), Open: open, Now: time.Now}
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		s.CPUInfo, _ = io.ReadAll(io.LimitReader(f, cpuInfoLimit))
		_ = f.Close()
	}
	return s
}

// open has the kernel count an event of all that a processor runs, the kernel included: the facility can leave out
// neither.
func open(kind uint32, event uint64, processor int) (Event, error) {
	attributes := &unix.PerfEventAttr{Type: kind, Config: event}
	attributes.Size = uint32(unsafe.Sizeof(*attributes))
	fd, err := unix.PerfEventOpen(attributes, -1, processor, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("perf_event_open", err)
	}
	return perfEvent(fd), nil
}

// perfEvent is a file descriptor of the kernel's.
type perfEvent int

// Count implements Event.
func (e perfEvent) Count() (uint64, error) {
	var value [8]byte
	n, err := unix.Read(int(e), value[:])
	if err != nil {
		return 0, os.NewSyscallError("read", err)
	}
	if n != len(value) {
		return 0, errors.New("the kernel returned less than a counter")
	}
	return binary.NativeEndian.Uint64(value[:]), nil
}

// Close implements Event.
func (e perfEvent) Close() error { return os.NewSyscallError("close", unix.Close(int(e))) }
