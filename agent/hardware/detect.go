// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// System is what a machine says of itself.
type System struct {
	// Architecture as Go names it.
	Architecture string
	// Auxv is the auxiliary vector that the kernel gave the process: pairs of a type
	// and a value.
	Auxv [][2]uintptr
	// CPUInfo is the beginning of /proc/cpuinfo.
	CPUInfo []byte
}

const (
	// cpuInfoLimit bounds what is read of /proc/cpuinfo: the line of features is
	// among its first on s390x.
	cpuInfoLimit = 64 << 10

	atHWCAP  = 16      // the type of the vector's entry for the processor's abilities
	hwcapDFL = 1 << 18 // its bit for the instruction DFLTCC
	featDFL  = "dflt"  // the same in /proc/cpuinfo
)

// Detect reports whether the machine claims to have the accelerator and, when it
// does not, what makes it so, as a sentence for an operator.
func (s System) Detect() (present bool, message string) {
	const hint = "z15 and LinuxONE III are the first machines with it; in a virtual machine the hypervisor must pass " +
		"facility 151 on"
	if s.Architecture != "s390x" {
		return false, fmt.Sprintf("architecture %s has no accelerator that this program can use; s390x has", s.Architecture)
	}
	kernel, processor := hasHWCAP(s.Auxv), hasFeature(s.CPUInfo, featDFL)
	switch {
	case kernel && processor:
		return true, ""
	case kernel:
		return false, "AT_HWCAP names the instruction DFLTCC, but the features in /proc/cpuinfo lack dflt: " +
			"check that the container sees the node's own /proc/cpuinfo"
	case processor:
		return false, "/proc/cpuinfo has dflt, but AT_HWCAP of this process lacks the instruction DFLTCC: " +
			"check that the process does not run under an emulator"
	default:
		return false, "the processor does not have the instruction DFLTCC: " + hint
	}
}

// hasHWCAP reports whether an auxiliary vector names the instruction.
func hasHWCAP(auxv [][2]uintptr) bool {
	for _, entry := range auxv {
		if entry[0] == atHWCAP {
			return entry[1]&hwcapDFL != 0
		}
	}
	return false
}

// hasFeature reports whether the first line "features" of a /proc/cpuinfo names a
// feature. It looks at no more than cpuInfoLimit bytes.
func hasFeature(cpuinfo []byte, feature string) bool {
	lines := bufio.NewScanner(bytes.NewReader(cpuinfo[:min(len(cpuinfo), cpuInfoLimit)]))
	lines.Buffer(nil, cpuInfoLimit)
	for lines.Scan() {
		key, value, found := strings.Cut(lines.Text(), ":")
		if found && strings.TrimSpace(key) == "features" {
			return slices.Contains(strings.Fields(value), feature)
		}
	}
	return false
}
