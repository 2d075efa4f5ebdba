// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cpumf reads the counters of DFLTCC in the CPU measurement facility of IBM Z, which count what a whole logical
// partition does with the accelerator. It needs CAP_PERFMON.
package cpumf

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"
)

// Reason says whether the counters are read, or why not.
type Reason string

// The reasons.
const (
	// Counting: they are read.
	Counting Reason = "Counting"
	// NotEnabled: nobody asked for them.
	NotEnabled Reason = "NotEnabled"
	// NotS390x: the processor has no such facility.
	NotS390x Reason = "NotS390x"
	// NotSupported: the kernel shows no such facility, as in guests of z/VM and KVM, or a machine whose numbers of the
	// counters are not known.
	NotSupported Reason = "NotSupported"
	// NoCapability: the process lacks CAP_PERFMON, or seccomp denies the call.
	NoCapability Reason = "NoCapability"
	// NotAuthorized: the logical partition may not read the extended counter set; its activation profile says so.
	NotAuthorized Reason = "NotAuthorized"
	// Failed: the kernel answers otherwise; the message says how.
	Failed Reason = "Failed"
)

// Error is why the counters cannot be read.
type Error struct {
	Reason  Reason
	Message string
	Err     error // nil unless a call failed
}

// Error implements error.
func (e *Error) Error() string { return string(e.Reason) + ": " + e.Message }

// Unwrap returns the error of the call.
func (e *Error) Unwrap() error { return e.Err }

// Counters since they were opened, summed over the processors that were online then.
type Counters struct {
	// Access cycles were spent waiting for the accelerator, and Busy ones using it.
	Access, Busy uint64
	// Elapsed since they were opened.
	Elapsed time.Duration
	// CyclesPerSecond that all accelerators of the machine's visible chips have together; 0: not known.
	CyclesPerSecond uint64
}

// Event is an open counter of one processor.
type Event interface {
	// Count returns the counter's value since it was opened.
	Count() (uint64, error)
	Close() error
}

// System is what the counters are read from.
type System struct {
	// Architecture as Go names it.
	Architecture string
	// Sys is /sys, and CPUInfo the text of /proc/cpuinfo.
	Sys     fs.FS
	CPUInfo []byte
	// Open opens a counter on a processor. Its errors wrap a syscall.Errno.
	Open func(kind uint32, event uint64, processor int) (Event, error)
	Now  func() time.Time
}

// Facility has open counters. It is not safe for concurrent use.
type Facility struct {
	access, busy    []Event
	opened          time.Time
	now             func() time.Time
	cyclesPerSecond uint64
}

// Open opens the counters. Its error is an *Error.
func Open(s System) (*Facility, error) {
	if s.Architecture != "s390x" {
		return nil, &Error{Reason: NotS390x,
			Message: "processors of architecture " + s.Architecture + " have no such counters"}
	}
	layout, err := read(s)
	if err != nil {
		return nil, err
	}
	f := &Facility{now: s.Now, cyclesPerSecond: layout.cyclesPerSecond, opened: s.Now()}
	for _, processor := range layout.processors {
		for _, counter := range []struct {
			event uint64
			open  *[]Event
		}{{layout.access, &f.access}, {layout.busy, &f.busy}} {
			event, err := s.Open(layout.kind, counter.event, processor)
			if err != nil {
				f.Close()
				return nil, explain(err, counter.event, processor)
			}
			*counter.open = append(*counter.open, event)
		}
	}
	return f, nil
}

// explain types the error of opening a counter.
func explain(err error, event uint64, processor int) error {
	out := &Error{Reason: Failed, Err: err}
	switch {
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		out.Reason = NoCapability
		out.Message = "the node agent lacks CAP_PERFMON, or its seccomp profile denies perf_event_open; set " +
			"nodeAgent.acceleratorCounters of the chart, which adds the capability"
	case errors.Is(err, syscall.ENOENT):
		out.Reason = NotAuthorized
		out.Message = "the logical partition may not read the extended counter set; allow it in the Security page of its " +
			"activation profile, and activate the partition again"
	case errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS):
		out.Reason = NotSupported
		out.Message = "the kernel has no such counters"
	default:
		out.Message = fmt.Sprintf("open counter %d on processor %d: %v", event, processor, err)
	}
	return out
}

// Read returns the counters.
func (f *Facility) Read() (Counters, error) {
	c := Counters{CyclesPerSecond: f.cyclesPerSecond}
	for _, sum := range []struct {
		events []Event
		into   *uint64
	}{{f.access, &c.Access}, {f.busy, &c.Busy}} {
		for _, event := range sum.events {
			n, err := event.Count()
			if err != nil {
				return Counters{}, &Error{Reason: Failed, Message: fmt.Sprintf("read a counter: %v", err), Err: err}
			}
			*sum.into += n
		}
	}
	c.Elapsed = f.now().Sub(f.opened)
	return c, nil
}

// Close ends counting.
func (f *Facility) Close() {
	for _, event := range append(f.access, f.busy...) {
		_ = event.Close()
	}
	f.access, f.busy = nil, nil
}
