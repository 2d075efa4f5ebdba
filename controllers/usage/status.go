// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package usage

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
)

// Status is how status shows a usage. FromStatus reads it.
func (u Usage) Status() *v1alpha1.UsageStatus {
	return &v1alpha1.UsageStatus{
		Send: u.Send.status(), Receive: u.Receive.status(),
		UncompressedBytes: u.Uncompressed, CompressedBytes: u.Compressed, WireBytes: u.Wire,
		ChannelBytes: u.Channel, ObjectStore: u.Store.status(),
	}
}

// status is nil where a side has spent nothing, and lacks stages in which it has not.
func (c CPU) status() *v1alpha1.CPUUsage {
	if c == (CPU{}) {
		return nil
	}
	shown := func(stage Stage) string {
		if c[stage] == 0 {
			return ""
		}
		return Seconds(c[stage])
	}
	return &v1alpha1.CPUUsage{
		ProcessSeconds: Seconds(c[Process]), IdleSeconds: shown(Idle), CompressSeconds: shown(Compress),
		DecompressSeconds: shown(Decompress), ReadSeconds: shown(Read), WriteSeconds: shown(Write),
		NetworkSeconds: shown(Network),
	}
}

// FromStatus is what a status says was used; nothing for nil.
func FromStatus(status *v1alpha1.UsageStatus) Usage {
	if status == nil {
		return Usage{}
	}
	return Usage{
		Send: cpuFrom(status.Send), Receive: cpuFrom(status.Receive),
		Uncompressed: max(0, status.UncompressedBytes), Compressed: max(0, status.CompressedBytes),
		Wire: max(0, status.WireBytes), Channel: max(0, status.ChannelBytes),
		Store: storeFrom(status.ObjectStore),
	}
}

func cpuFrom(status *v1alpha1.CPUUsage) CPU {
	if status == nil {
		return CPU{}
	}
	return CPU{
		Process: Nanos(status.ProcessSeconds), Idle: Nanos(status.IdleSeconds), Compress: Nanos(status.CompressSeconds),
		Decompress: Nanos(status.DecompressSeconds), Read: Nanos(status.ReadSeconds), Write: Nanos(status.WriteSeconds),
		Network: Nanos(status.NetworkSeconds),
	}
}

// Seconds writes nanoseconds as decimal seconds without loss, and Nanos reads them. nanos must not be negative.
func Seconds(nanos int64) string {
	text := fmt.Sprintf("%d.%09d", nanos/int64(time.Second), nanos%int64(time.Second))
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// Nanos reads decimal seconds; 0 for what cannot be read, as the manager writes them itself.
func Nanos(seconds string) int64 {
	units, fraction, _ := strings.Cut(seconds, ".")
	whole, err := strconv.ParseInt(units, 10, 64)
	if err != nil || whole < 0 || whole > math.MaxInt64/int64(time.Second)-1 {
		return 0
	}
	part, err := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	if err != nil || part < 0 {
		part = 0
	}
	return whole*int64(time.Second) + part
}
