// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"io"
	"os"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
)

const (
	// maxCPUInfo is how much of /proc/cpuinfo is read; the first processor tells all.
	maxCPUInfo = 64 << 10
	// maxModel is the longest model in bytes.
	maxModel = 128
)

// Host is the machine that figures belong to: on another they are others.
type Host struct {
	// Kernel release.
	Kernel string
	// CPUModel in the words of /proc/cpuinfo.
	CPUModel string
}

// ReadHost returns what this machine is. What cannot be read is empty.
func ReadHost() Host {
	var host Host
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		host.Kernel = printable(unix.ByteSliceToString(name.Release[:]))
	}
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return host
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxCPUInfo))
	if err != nil {
		return host
	}
	host.CPUModel = modelOf(string(text))
	return host
}

// modelOf finds the model of the first processor: amd64 names it, s390x gives the number of the machine, arm64 two
// codes.
func modelOf(cpuinfo string) string {
	first := map[string]string{}
	for line := range strings.Lines(cpuinfo) {
		key, value, found := strings.Cut(line, ":")
		key = strings.TrimSpace(key)
		if _, seen := first[key]; found && !seen {
			first[key] = strings.TrimSpace(value)
		}
	}
	_, machine, ofS390 := strings.Cut(first["processor 0"], "machine = ")
	switch {
	case first["model name"] != "":
		return printable(first["model name"])
	case ofS390:
		machine, _, _ = strings.Cut(machine, ",")
		return printable(first["vendor_id"] + " machine " + machine)
	case first["CPU implementer"] != "":
		return printable("implementer " + first["CPU implementer"] + " part " + first["CPU part"])
	}
	return ""
}

// printable cuts text at maxModel and leaves out what does not belong into a status.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	if len(text) > maxModel {
		text = strings.ToValidUTF8(text[:maxModel], "")
	}
	return strings.TrimSpace(text)
}
