// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package compression

import (
	"math"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const mib = 1 << 20

// Carrier adds to decisions what a byte takes on its way.
func Carrier(d *wirev1.Decisions, c policy.Carrier) {
	d.SendNanosPerMib = whole(c.Send * mib * 1e9)
	if c.Link > 0 {
		d.LinkBytesPerSecond = whole(1 / c.Link)
	}
	if c.Disk > 0 {
		d.DiskBytesPerSecond = whole(1 / c.Disk)
	}
	d.InflateNanosPerMib = whole(c.Inflate * mib * 1e9)
}

// Decisions says what is decided now for at most so many classes, which name says what to call.
func Decisions(
	c *adapt.Classes, most int, name func(class int) (content, size string, id codec.ID),
) *wirev1.Decisions {
	d := &wirev1.Decisions{Objective: string(c.Serving().Effective())}
	Carrier(d, c.Carrier())
	for _, seen := range c.Seen(most) {
		content, size, id := name(seen.Class)
		one := &wirev1.ClassDecision{
			Content: content, Size: size, Codec: id.String(), Operations: uint64(seen.Bodies), Bytes: uint64(seen.Bytes),
			Trials: uint64(seen.Trials),
		}
		Judged(one, seen.Reason, seen.Recent, seen.Weighed)
		d.Classes = append(d.Classes, one)
	}
	return d
}

// Judged adds to the decision about a class by which figures it was made.
func Judged(d *wirev1.ClassDecision, reason policy.Reason, recent policy.Attempt, w policy.Weighed) {
	d.Reason = string(reason)
	if recent.Plain > 0 {
		d.CompressedPermille = uint32(min(whole(1000*recent.Wire/recent.Plain), math.MaxUint32))
		d.CompressNanosPerMib = whole(recent.CPU / recent.Plain * mib * 1e9)
	}
	is, other := w.Compressed, w.AsIs
	if reason != "" {
		is, other = other, is
	}
	if is > 0 {
		d.Known, d.OtherPermille = true, int32(min(math.Round(1000*(other-is)/is), math.MaxInt32))
	}
}

// Regret is what is reported of what choices lost against the best alternative; nil if that is not known.
func Regret(lost policy.Lost, best policy.Option, known bool) *wirev1.Regret {
	if !known {
		return nil
	}
	r := &wirev1.Regret{
		Permille: int64(max(min(math.Round(1000*lost.Share), math.MaxInt32), -1000)), MarginPermille: whole(1000 * lost.Margin),
		Units: uint64(lost.Units), Codec: codec.None.String(),
	}
	if !best.Stored() {
		r.Codec, r.Level, r.Hardware = best.Codec.String(), best.Level.String(), best.Class == codec.Hardware
	}
	return r
}

// whole rounds a figure of 0 or more.
func whole(f float64) uint64 { return uint64(max(min(math.Round(f), math.MaxInt64), 0)) }
