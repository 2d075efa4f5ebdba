// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package cpumf

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	device = "bus/event_source/devices/cpum_cf"
	// maxProcessors bounds how many counters are opened: two each.
	maxProcessors = 1024
)

// layout is what is to be opened.
type layout struct {
	kind            uint32
	access, busy    uint64
	processors      []int
	cyclesPerSecond uint64
}

// numbers of DFLT_ACCESS and DFLT_CYCLES by machine type, for kernels that name no events.
var numbers = map[string]struct{ access, busy uint64 }{
	"8561": {247, 252}, "8562": {247, 252}, // z15
	"3931": {248, 253}, "3932": {248, 253}, // z16
	"9175": {248, 253}, // z17
}

// read finds out what to open.
func read(s System) (layout, error) {
	var l layout
	kind, err := fs.ReadFile(s.Sys, device+"/type")
	if errors.Is(err, fs.ErrNotExist) {
		return l, &Error{
			Reason:  NotSupported,
			Message: "the kernel shows no CPU measurement facility; guests of z/VM and KVM have none", Err: err,
		}
	}
	if err != nil {
		return l, &Error{Reason: Failed, Message: fmt.Sprintf("read the type of the facility: %v", err), Err: err}
	}
	number, err := strconv.ParseUint(strings.TrimSpace(string(kind)), 10, 32)
	if err != nil {
		return l, &Error{Reason: Failed, Message: "the type of the facility is no number", Err: err}
	}
	l.kind = uint32(number)
	machine := field(s.CPUInfo, "machine")
	if l.access, err = event(s.Sys, "DFLT_ACCESS", numbers[machine].access); err == nil {
		l.busy, err = event(s.Sys, "DFLT_CYCLES", numbers[machine].busy)
	}
	if err != nil {
		return l, &Error{
			Reason: NotSupported, Message: fmt.Sprintf("the counters of machine type %.16q are not known", machine), Err: err,
		}
	}
	online, err := fs.ReadFile(s.Sys, "devices/system/cpu/online")
	if err == nil {
		l.processors, err = processors(strings.TrimSpace(string(online)))
	}
	if err != nil {
		return l, &Error{Reason: Failed, Message: fmt.Sprintf("read which processors are online: %v", err), Err: err}
	}
	if megahertz, err := strconv.ParseFloat(field(s.CPUInfo, "cpu MHz static"), 64); err == nil && megahertz > 0 &&
		megahertz < math.MaxUint16 {
		l.cyclesPerSecond = uint64(megahertz*1e6) * uint64(chips(s.Sys, l.processors))
	}
	return l, nil
}

// event returns the number that the kernel gives a counter by name, or else a number that is known; 0 is none.
func event(sys fs.FS, name string, known uint64) (uint64, error) {
	text, err := fs.ReadFile(sys, device+"/events/"+name)
	if err == nil {
		value, found := strings.CutPrefix(strings.TrimSpace(string(text)), "event=")
		if number, err := strconv.ParseUint(value, 0, 16); found && err == nil {
			return number, nil
		}
	}
	if known == 0 {
		return 0, fmt.Errorf("counter %s has no number", name)
	}
	return known, nil
}

// processors reads a list such as 0-3,8.
func processors(list string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(list, ",") {
		first, last, span := strings.Cut(part, "-")
		if !span {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		if err != nil {
			return nil, err
		}
		to, err := strconv.ParseUint(last, 10, 16)
		if err != nil {
			return nil, err
		}
		for n := from; n <= to; n++ {
			if len(out) == maxProcessors {
				return nil, fmt.Errorf("there are more than %d", maxProcessors)
			}
			out = append(out, int(n))
		}
	}
	return out, nil
}

// chips counts the chips of processors, each of which has an accelerator; at least 1.
func chips(sys fs.FS, processors []int) int {
	var seen []string
	for _, processor := range processors {
		var place []string
		for _, level := range []string{"drawer_id", "book_id", "physical_package_id"} {
			text, err := fs.ReadFile(sys, fmt.Sprintf("devices/system/cpu/cpu%d/topology/%s", processor, level))
			if err == nil {
				place = append(place, strings.TrimSpace(string(text)))
			}
		}
		if id := strings.Join(place, "/"); !slices.Contains(seen, id) {
			seen = append(seen, id)
		}
	}
	return max(len(seen), 1)
}

// field returns the first value of a name in /proc/cpuinfo, be it "name : value" or "name = value," within a line.
func field(cpuinfo []byte, name string) string {
	for line := range strings.Lines(string(cpuinfo)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
		if _, rest, found := strings.Cut(line, name+" = "); found {
			value, _, _ := strings.Cut(rest, ",")
			return strings.TrimSpace(value)
		}
	}
	return ""
}
