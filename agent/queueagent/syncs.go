// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// probeInterval is between two probes. Status is read less often.
const probeInterval = 10 * time.Second

// probeName is the file in the member's directory that probes write, rateName that by which it is seen how many bytes the
// volume takes.
const (
	probeName = "sync-probe"
	rateName  = "rate-probe"
	rateBytes = 256 << 10
)

// volumeSyncs measures how long the volume takes until a small write would survive the node.
type volumeSyncs struct {
	syncTimes
	path string
}

// syncTimes are how long syncs take. A nil one measures nothing.
type syncTimes struct {
	now func() time.Time

	mu     sync.Mutex
	begun  time.Time // zero: none is under way
	count  uint64
	failed uint64
	total  time.Duration
	last   time.Duration
	high   time.Duration
}

func newVolumeSyncs(directory string) *volumeSyncs {
	return &volumeSyncs{syncTimes: syncTimes{now: time.Now}, path: filepath.Join(directory, probeName)}
}

// measureVolume measures until the context ends. It returns nil where messages are not on a volume of this member.
func (a *Agent) measureVolume(ctx context.Context, kept engine, c *wirev1.QueueConfig) *volumeSyncs {
	if kept.Shared() || c.GetStorage().GetMemory() {
		return nil
	}
	v := newVolumeSyncs(c.GetStorage().GetDirectory())
	go each(ctx, probeInterval, v.probe, func(err error) {
		a.options.Log.Warn("How long the volume takes to sync is not known", "error", err.Error())
	})
	return v
}

// measureCheckpoints makes checkpoints of the store until the context ends. It returns nil where there are none.
func (a *Agent) measureCheckpoints(ctx context.Context, kept engine) *syncTimes {
	own, ok := kept.(*store.Store)
	if !ok {
		return nil
	}
	c := own.NewCheckpoint()
	if c == nil {
		return nil
	}
	times := &syncTimes{now: time.Now}
	go each(ctx, c.Every(probeInterval), func() error {
		n, err := c.Look()
		switch {
		case err != nil:
			return times.measure(func() error { return err }) // counts it
		case n == 0:
			return nil
		}
		return times.measure(c.Sync)
	}, func(err error) {
		a.options.Log.Warn("The store has no checkpoint", "error", err.Error())
	})
	return times
}

// each calls a function at an interval until the context ends. Of failures it says the first in a row.
func each(ctx context.Context, interval time.Duration, do func() error, warn func(error)) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	failing := false
	for {
		err := do()
		if err != nil && !failing {
			warn(err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// probe writes and syncs once.
func (v *volumeSyncs) probe() error {
	return v.measure(func() error { return writeAndSync(v.path) })
}

// measure takes the time of a sync.
func (v *syncTimes) measure(sync func() error) error {
	v.mu.Lock()
	v.begun = v.now()
	v.mu.Unlock()
	err := sync()
	v.mu.Lock()
	defer v.mu.Unlock()
	took := v.now().Sub(v.begun)
	v.begun = time.Time{}
	if err != nil {
		v.failed++
		return err
	}
	v.count++
	v.total += took
	v.last, v.high = took, max(v.high, took)
	return nil
}

func (v *volumeSyncs) report() *wirev1.QueueVolumeSyncs {
	if v == nil {
		return nil
	}
	return v.syncTimes.report()
}

func (v *volumeSyncs) reset() {
	if v != nil {
		v.syncTimes.reset()
	}
}

// writeAndSync overwrites a file of one sector, so that a volume that is full takes it too.
func writeAndSync(path string) error {
	var sector [512]byte
	_, err := writeBytes(path, sector[:])
	return err
}

// writeBytes overwrites a file, and returns the CPU time that writing took.
func writeBytes(path string, b []byte) (cpu time.Duration, err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }() // What counts is whether it was synced.
	cpu = meter.ThreadCPU(func() { _, err = file.WriteAt(b, 0) })
	if err != nil {
		return 0, err
	}
	return cpu, file.Sync()
}

// rate measures for how long a byte more or less occupies the volume, and the CPU seconds that writing it takes: a sync
// takes its time whatever there is to sync. ok is false where that could not be measured, as on a volume that is full.
func (v *volumeSyncs) rate() (perByte, cpu float64, ok bool) {
	if v == nil {
		return 0, 0, false
	}
	begun := v.now()
	if err := writeAndSync(v.path); err != nil {
		return 0, 0, false
	}
	small := v.now().Sub(begun)
	begun = v.now()
	spent, err := writeBytes(filepath.Join(filepath.Dir(v.path), rateName), make([]byte, rateBytes))
	if err != nil {
		return 0, 0, false
	}
	long := v.now().Sub(begun)
	return max(long-small, time.Microsecond).Seconds() / rateBytes, spent.Seconds() / rateBytes, true
}

// report is nil where nothing is measured.
func (v *syncTimes) report() *wirev1.QueueVolumeSyncs {
	if v == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	r := &wirev1.QueueVolumeSyncs{
		Count: v.count, Failed: v.failed, TotalNanos: uint64(v.total), LastNanos: uint64(v.last), HighNanos: uint64(v.high),
	}
	if !v.begun.IsZero() {
		r.WaitingNanos = uint64(max(v.now().Sub(v.begun), 1))
	}
	return r
}

// reset forgets what was counted. The last one stays: it is a state.
func (v *syncTimes) reset() {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.count, v.failed, v.total, v.high = 0, 0, 0, 0
}
