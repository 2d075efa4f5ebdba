// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package compression

import (
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Report says what engines did with data. Its reason is that of most of what was compressed, or, where nothing was, of
// most of what was not. Engine and level are empty where nothing was compressed.
func Report(s meter.Snapshot) *wirev1.Compression {
	out := &wirev1.Compression{
		Codec:             codec.None.String(),
		UncompressedBytes: count(s.UncompressedBytes), CompressedBytes: count(s.CompressedBytes),
		Hardware: Operations(s.Hardware), Software: Operations(s.Software), Stored: Operations(s.Stored),
		Skipped: counts(s.Skipped), Reasons: counts(s.Compressed), Estimate: estimate(s.Estimate),
	}
	out.Reason = string(most(s.Compressed))
	if out.GetReason() == "" {
		out.Reason = string(most(s.Skipped))
	}
	if len(s.Uses) > 0 {
		use := mostUsed(s.Uses)
		out.Codec, out.Engine, out.Level = use.Codec.String(), use.Engine, use.Level.String()
	}
	return out
}

// Decompression says what inflated data, and why software did where that did most.
func Decompression(s meter.Snapshot, software policy.Reason) *wirev1.Decompression {
	out := &wirev1.Decompression{
		Hardware: Operations(s.Hardware), Software: Operations(s.Software), Fallback: Operations(s.Fallback),
	}
	switch {
	case s.Hardware.Operations == 0 && s.Software.Operations == 0:
	case s.Hardware.Bytes >= s.Software.Bytes:
		out.Reason = string(policy.HardwareUsed)
	default:
		out.Reason = string(software)
	}
	return out
}

// Operations are counted operations as they travel.
func Operations(c meter.Count) *wirev1.Operations {
	return &wirev1.Operations{Operations: count(c.Operations), Bytes: count(c.Bytes)}
}

func count(n int64) uint64 { return uint64(max(n, 0)) }

// counts is nil when nothing was counted.
func counts(reasons map[policy.Reason]int64) map[string]uint64 {
	if len(reasons) == 0 {
		return nil
	}
	m := make(map[string]uint64, len(reasons))
	for reason, n := range reasons {
		m[string(reason)] = count(n)
	}
	return m
}

// most returns the reason with the greatest count, the first by name of several, so that reports do not flicker.
func most(counts map[policy.Reason]int64) policy.Reason {
	var best policy.Reason
	for reason, n := range counts {
		if n > counts[best] || n == counts[best] && reason < best {
			best = reason
		}
	}
	return best
}

// mostUsed is the engine and level that compressed most of the data. Names decide between equals.
func mostUsed(uses map[meter.Use]meter.Count) meter.Use {
	var best meter.Use
	for use, n := range uses {
		most := uses[best].Bytes
		if n.Bytes > most || n.Bytes == most && (best.Engine == "" || use.Engine < best.Engine ||
			use.Engine == best.Engine && use.Level < best.Level) {
			best = use
		}
	}
	return best
}

// estimate is nil when no sample was taken.
func estimate(e meter.Estimate) *wirev1.Estimate {
	if e == (meter.Estimate{}) {
		return nil
	}
	return &wirev1.Estimate{
		Blocks: count(e.Blocks), Bytes: count(e.Bytes), ErrorBytes: count(e.ErrorBytes), Wasted: count(e.Wasted),
		Probes: count(e.Probes), Missed: count(e.Missed), Nanos: count(int64(e.CPU)),
	}
}
