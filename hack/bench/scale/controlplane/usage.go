// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is what /proc counts CPU time in: USER_HZ, which is 100 on every architecture that Linux and Go share.
const tick = 10 * time.Millisecond

var errForm = errors.New("/proc has another form")

// PID is a process of which is asked what it uses.
type PID int

// Usage of a process.
type Usage struct {
	// CPU time since it was started.
	CPU time.Duration
	// Resident memory now and the most that it was, in bytes.
	Resident, Peak int64
}

// Usage returns what the process has used.
func (p PID) Usage() (Usage, error) {
	stat, err := p.read("stat")
	if err != nil {
		return Usage{}, err
	}
	// The name of the program may hold anything.
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) < 13 {
		return Usage{}, errForm
	}
	var u Usage
	for _, field := range fields[11:13] { // utime, stime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("%w: %w", errForm, err)
		}
		u.CPU += time.Duration(n) * tick
	}
	status, err := p.read("status")
	if err != nil {
		return Usage{}, err
	}
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "VmRSS":
			u.Resident, err = kibibytes(value)
		case "VmHWM":
			u.Peak, err = kibibytes(value)
		}
		if err != nil {
			return Usage{}, err
		}
	}
	return u, nil
}

func kibibytes(text string) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errForm, err)
	}
	return n << 10, nil
}

func (p PID) read(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(int(p)), name))
	if err != nil {
		return "", fmt.Errorf("look at process %d: %w", p, err)
	}
	return string(text), nil
}

// child returns this process's child of that name.
func child(name string) (PID, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("look for process %s: %w", name, err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := PID(pid).read("stat")
		if err != nil {
			continue // it has just ended
		}
		end := strings.LastIndex(stat, ")")
		begin := strings.Index(stat, "(")
		fields := strings.Fields(stat[end+1:])
		if begin < 0 || len(fields) < 2 || fields[0] == "Z" || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		if strings.HasPrefix(name, stat[begin+1:end]) { // the kernel keeps 15 characters
			return PID(pid), nil
		}
	}
	return 0, fmt.Errorf("there is no process %s", name)
}

// Machine returns for how long all processors together have worked and idled since the system began.
func Machine() (busy, idle time.Duration, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, fmt.Errorf("read the system's CPU time: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0, errForm
	}
	for i, field := range fields[1:9] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("%w: %w", errForm, err)
		}
		if i == 3 || i == 4 { // idle, iowait
			idle += time.Duration(n) * tick
		} else {
			busy += time.Duration(n) * tick
		}
	}
	return busy, idle, nil
}
