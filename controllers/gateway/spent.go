// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lighterage/lighterage/controllers/gatewaycost"
)

// lastWrite is the time that a gateway has to write what it spent when it stops.
const lastWrite = 3 * time.Second

// spending tells what a gateway spends on passing bytes from what it spends on all else. The latter is what it spent in
// the window in which it spent least: its other tasks do not depend on what passes.
type spending struct {
	at    time.Time
	cpu   time.Duration
	bytes int64

	// idle is CPU time by time, the least of so many windows.
	idle    float64
	windows int
	// unwritten is what is not in the ConfigMap yet.
	unwritten gatewaycost.Totals
}

// look ends a window. cpu and bytes are since the start of the process.
func (s *spending) look(at time.Time, cpu time.Duration, bytes int64) {
	begun, elapsed, spent, passed := !s.at.IsZero(), at.Sub(s.at), cpu-s.cpu, bytes-s.bytes
	s.at, s.cpu, s.bytes = at, cpu, bytes
	if !begun || elapsed <= 0 {
		return
	}
	rate := float64(spent) / float64(elapsed)
	if s.windows++; s.windows == 1 {
		s.idle = rate
		return // nothing to compare it with
	}
	s.idle = min(s.idle, rate)
	if passed > 0 {
		s.unwritten = s.unwritten.Plus(gatewaycost.Totals{
			CPU: max(0, spent-time.Duration(s.idle*float64(elapsed))), Bytes: passed,
		})
	}
}

// spender writes what this gateway spends. It is a manager.Runnable.
type spender struct {
	client    client.Client
	reader    client.Reader
	namespace string
	// passed returns how many bytes have passed.
	passed func() int64
	log    logr.Logger
}

// NeedLeaderElection is false: every replica spends.
func (s *spender) NeedLeaderElection() bool { return false }

// Start is of manager.Runnable.
func (s *spender) Start(ctx context.Context) error {
	ticker := time.NewTicker(gatewaycost.Interval)
	defer ticker.Stop()
	var all spending
	for ctx.Err() == nil {
		s.write(ctx, &all)
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrite)
	defer cancel()
	s.write(last, &all)
	return nil
}

// write keeps what cannot be written for the next time.
func (s *spender) write(ctx context.Context, all *spending) {
	cpu, err := processCPU()
	if err != nil {
		s.log.Error(err, "What the gateway spends is not counted")
		return
	}
	all.look(time.Now(), cpu, s.passed())
	if all.unwritten.Bytes == 0 {
		return
	}
	err = gatewaycost.Add(ctx, s.client, s.reader, s.namespace, all.unwritten)
	switch {
	case err == nil:
		all.unwritten = gatewaycost.Totals{}
	case !apierrors.IsConflict(err): // with another gateway: the next time will do
		s.log.Error(err, "What the gateway spent is not written yet")
	}
}

// processCPU is the CPU time of this process.
func processCPU() (time.Duration, error) {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0, fmt.Errorf("reading the CPU time of the process: %w", err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano()), nil
}
