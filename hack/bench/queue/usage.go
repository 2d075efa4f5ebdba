// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// usage is what processes have used since they began.
type usage struct {
	// cpu seconds, user and system.
	cpu float64
	// Bytes of files that were read from a disk, and that are to be written to one, less
	// those that were removed before they were written. Files on tmpfs are not among them.
	read, written float64
}

func (u usage) add(o usage) usage {
	return usage{cpu: u.cpu + o.cpu, read: u.read + o.read, written: u.written + o.written}
}

func (u usage) minus(o usage) usage { return u.add(usage{-o.cpu, -o.read, -o.written}) }

// ownCPU is the CPU seconds of this process.
func ownCPU() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// usageOf is that of one process.
func usageOf(pid int) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return usage{}, err
	}
	u, err := parseIO(string(io))
	if err != nil {
		return usage{}, err
	}
	u.cpu, err = parseCPU(string(stat))
	return u, err
}

// usageOfGroup is that of all processes of a group, with those that they have waited for.
func usageOfGroup(group int) (usage, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return usage{}, err
	}
	var total usage
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if of, err := syscall.Getpgid(pid); err != nil || of != group {
			continue
		}
		if u, err := usageOf(pid); err == nil { // else it has just ended
			total = total.add(u)
		}
	}
	return total, nil
}

// ticks are how the kernel counts CPU time in /proc, by second.
const ticks = 100

var errForm = errors.New("/proc has another form")

// parseCPU reads /proc/PID/stat: what the process used and the children that it waited for.
func parseCPU(stat string) (float64, error) {
	// The name of the program may hold anything.
	_, rest, _ := strings.Cut(stat[max(strings.LastIndex(stat, ")"), 0):], " ")
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return 0, errForm
	}
	sum := 0.0
	for _, f := range fields[11:15] {
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			return 0, fmt.Errorf("%w: %w", errForm, err)
		}
		sum += n / ticks
	}
	return sum, nil
}

// parseIO reads /proc/PID/io.
func parseIO(text string) (usage, error) {
	values := make(map[string]float64)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return usage{}, fmt.Errorf("%w: %w", errForm, err)
		}
		values[name] = n
	}
	if _, ok := values["write_bytes"]; !ok {
		return usage{}, errForm
	}
	return usage{read: values["read_bytes"], written: values["write_bytes"] - values["cancelled_write_bytes"]}, nil
}

// sizeOf is how many bytes the files under a directory have whose names end so.
func sizeOf(directory string, ends ...string) (int64, error) {
	var total int64
	err := filepath.WalkDir(directory, func(path string, entry os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // it was removed meanwhile
		}
		if err != nil || entry.IsDir() {
			return err
		}
		for _, end := range ends {
			if !strings.HasSuffix(path, end) {
				continue
			}
			info, err := entry.Info()
			if errors.Is(err, os.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			total += info.Size()
		}
		return nil
	})
	return total, err
}
