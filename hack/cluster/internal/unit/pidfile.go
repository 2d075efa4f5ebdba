// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Record is what a pid file says: which process a unit is, beyond mistake. A pid
// alone is given to another process sooner or later; the start time tells them apart.
type Record struct {
	PID int
	// Start is the process's start time in clock ticks since boot.
	Start uint64
	// Digest is the Digest of the unit that was started.
	Digest string
}

// endTimeout is how long a killed process may take to be gone.
const endTimeout = 2 * time.Minute

// maxPidFile bounds what is read of a pid file, in bytes.
const maxPidFile = 4096

// ReadRecord reads a pid file. The error is fs.ErrNotExist when there is none.
func ReadRecord(path string) (Record, error) {
	f, err := os.Open(path)
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	buf := make([]byte, maxPidFile)
	n, err := f.Read(buf)
	if n == 0 && err != nil {
		return Record{}, fmt.Errorf("reading pid file %s: %w", path, err)
	}
	return parseRecord(string(buf[:n]))
}

func parseRecord(s string) (Record, error) {
	fields := strings.Fields(s)
	if len(fields) != 3 {
		return Record{}, fmt.Errorf("pid file holds %d words, not 3: %q", len(fields), s)
	}
	pid, err := strconv.Atoi(fields[0])
	// 0 and negative numbers mean groups of processes to kill(2), and 1 is init.
	if err != nil || pid < 2 {
		return Record{}, fmt.Errorf("pid file: %q is not a pid", fields[0])
	}
	start, err := strconv.ParseUint(fields[1], 10, 64)
	if err != nil {
		return Record{}, fmt.Errorf("pid file: %q is not a start time", fields[1])
	}
	return Record{PID: pid, Start: start, Digest: fields[2]}, nil
}

// Write stores the record at path, whole or not at all.
func (r Record) Write(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing pid file: %w", err)
	}
	tmp := path + ".new"
	if err := os.WriteFile(tmp, fmt.Appendf(nil, "%d %d %s\n", r.PID, r.Start, r.Digest), 0o644); err != nil {
		return fmt.Errorf("writing pid file: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("writing pid file: %w", err)
	}
	return nil
}

// Alive is whether the very process of the record runs. A zombie does not.
func (r Record) Alive() bool {
	start, state, err := processStart(r.PID)
	return err == nil && start == r.Start && state != 'Z' && state != 'X'
}

// Kill ends the process of the record, if it still is that process.
func (r Record) Kill() error {
	fd, err := unix.PidfdOpen(r.PID, 0)
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening process %d: %w", r.PID, err)
	}
	defer unix.Close(fd)
	// The handle pins the process: compare after taking it.
	if !r.Alive() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("killing process %d: %w", r.PID, err)
	}
	// The handle becomes readable when the process has ended, which takes time when it waits for a disk. Signals
	// interrupt the poll.
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for deadline := time.Now().Add(endTimeout); ; {
		n, err := unix.Poll(fds, int(max(time.Until(deadline), 0).Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("waiting for process %d: %w", r.PID, err)
		case n == 0:
			return fmt.Errorf("process %d was killed and has not ended after %s", r.PID, endTimeout)
		default:
			return nil
		}
	}
}

// processStart returns a process's start time and its state letter.
func processStart(pid int) (uint64, byte, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	return parseStat(data)
}

// parseStat reads state and start time from a /proc/PID/stat line. The second
// field, the command in parentheses, may hold blanks and parentheses itself.
func parseStat(data []byte) (uint64, byte, error) {
	i := bytes.LastIndexByte(data, ')')
	if i < 0 {
		return 0, 0, fs.ErrInvalid
	}
	fields := strings.Fields(string(data[i+1:]))
	const startField = 19 // the 22nd of the line
	if len(fields) <= startField {
		return 0, 0, fs.ErrInvalid
	}
	start, err := strconv.ParseUint(fields[startField], 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("reading start time: %w", err)
	}
	return start, fields[0][0], nil
}
