// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is what /proc/stat counts in: USER_HZ, which is 100 on every architecture that Linux and Go share.
const clockTick = 10 * time.Millisecond

// cpuCounter is the file of a control group that counts CPU time, or empty for the whole system.
type cpuCounter string

func (c cpuCounter) read() (time.Duration, error) {
	if c == "" {
		return systemCPU()
	}
	text, err := os.ReadFile(string(c))
	if err != nil {
		return 0, fmt.Errorf("read the control group's CPU time: %w", err)
	}
	// cpuacct.usage is a number of nanoseconds; cpu.stat begins with usage_usec and one of microseconds.
	fields, unit := strings.Fields(string(text)), time.Nanosecond
	if len(fields) > 1 && fields[0] == "usage_usec" {
		fields, unit = fields[1:], time.Microsecond
	}
	if len(fields) == 0 {
		return 0, fmt.Errorf("read the control group's CPU time: %s is empty", string(c))
	}
	n, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the control group's CPU time: %w", err)
	}
	return time.Duration(n) * unit, nil
}

// systemCPU returns the CPU time that the whole system has spent on anything but idling and waiting for disks.
func systemCPU() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("read the system's CPU time: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("read the system's CPU time: /proc/stat begins with %q", line)
	}
	var ticks int64
	for i, field := range fields[1:9] {
		if i == 3 || i == 4 { // idle, iowait
			continue
		}
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read the system's CPU time: %w", err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}

// treeSize is how much there is in a tree.
type treeSize struct {
	files, links, directories int
	bytes                     int64
}

func measureTree(root string) (treeSize, error) {
	var size treeSize
	err := filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir():
			size.directories++
		case entry.Type()&fs.ModeSymlink != 0:
			size.links++
		default:
			info, err := entry.Info()
			if err != nil {
				return err
			}
			size.files++
			size.bytes += info.Size()
		}
		return nil
	})
	if err != nil {
		return treeSize{}, fmt.Errorf("measure the tree %s: %w", root, err)
	}
	return size, nil
}
