// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"errors"

	"github.com/lighterage/lighterage/agent/cpumf"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Counters count what the logical partition does with the accelerator. *cpumf.Facility is one.
type Counters interface {
	Read() (cpumf.Counters, error)
	Close()
}

// openCounters opens them unless they are open; a failure is kept to be reported. The caller holds p.mu.
func (p *Profiler) openCounters() {
	if p.counters != nil || p.options.OpenCounters == nil {
		return
	}
	counters, err := p.options.OpenCounters()
	if err != nil {
		p.countersFailed = err
		p.options.Log.Warn("Counters of the accelerator are not read", "error", err.Error())
		return
	}
	p.counters, p.countersFailed = counters, nil
}

func (p *Profiler) closeCounters() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counters != nil {
		p.counters.Close()
		p.counters = nil
	}
}

// use is what is known of the accelerator's use now. The caller holds p.mu.
func (p *Profiler) use() *wirev1.AcceleratorUse {
	u := &wirev1.AcceleratorUse{CallNanos: uint64(p.options.CallTime())}
	if p.options.Shares != nil {
		u.Shares = p.options.Shares.Sharing()
	}
	if p.options.OpenCounters == nil {
		u.CountersReason = string(cpumf.NotEnabled)
		return u
	}
	err := p.countersFailed
	if p.counters != nil {
		var c cpumf.Counters
		if c, err = p.counters.Read(); err == nil {
			u.CountersReason = string(cpumf.Counting)
			u.Counters = &wirev1.AcceleratorCounters{
				AccessCycles: c.Access, BusyCycles: c.Busy, ElapsedNanos: uint64(c.Elapsed), CyclesPerSecond: c.CyclesPerSecond,
			}
			return u
		}
	}
	if err == nil {
		return u // they are not open yet
	}
	var failed *cpumf.Error
	if !errors.As(err, &failed) {
		failed = &cpumf.Error{Reason: cpumf.Failed, Message: err.Error()}
	}
	u.CountersReason, u.CountersMessage = string(failed.Reason), failed.Message
	return u
}
