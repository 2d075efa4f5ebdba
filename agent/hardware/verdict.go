// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hardware finds the accelerator of the machine it runs on and proves that
// this program uses it.
//
// A label on a node, a bit of the kernel and the name of a library prove nothing:
// a library that drives the accelerator works in software, silently, when it was
// built without it or the level does not qualify. So the proof compresses and looks
// at what came out; docs/decisions/008-proof-of-hardware.md says why that is proof.
package hardware

import (
	"math"
	"slices"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
)

// State is what is known of the accelerator.
type State string

// The states.
const (
	// Verified means: this program was seen to use the accelerator.
	Verified State = "Verified"
	// NotUsed means: the machine has an accelerator, but its use was not proved, so
	// that software does all the work.
	NotUsed State = "NotUsed"
	// Absent means: the machine has no accelerator.
	Absent State = "Absent"
)

// Reason is why the state is what it is. The texts are permanent: they are shown in
// the status of NodeProfiles.
type Reason string

// The reasons.
const (
	// Proved is the reason of Verified.
	Proved Reason = "Proved"
	// NoInstruction is the reason of Absent.
	NoInstruction Reason = "NoInstruction"
	// LibraryWithout means: this program has no library that can use the accelerator.
	LibraryWithout Reason = "LibraryWithout"
	// LevelNotAccelerated means: the library was built to use the accelerator at other
	// levels than those of policies.
	LevelNotAccelerated Reason = "LevelNotAccelerated"
	// WindowNotAccelerated means: the accelerator does not take the window that blocks
	// are compressed with.
	WindowNotAccelerated Reason = "WindowNotAccelerated"
	// SelfTestFailed means: the accelerator should have been used, and the self-test
	// found that it was not or that it does not work.
	SelfTestFailed Reason = "SelfTestFailed"
	// Interrupted means: the self-test was ended from outside before it came to a result.
	Interrupted Reason = "Interrupted"
)

// NeverInflate is the InflateMinSize of an accelerator that only compresses.
const NeverInflate = math.MaxInt64

// Speed is what one level was measured to do on one thread, in plain bytes per
// second of CPU time. The time in which the processor waits for its accelerator
// counts as CPU time.
type Speed struct {
	Level codec.Level
	// Hardware and Software are the rates of the accelerator and of the software of
	// the same library at the level.
	Hardware, Software float64
	// HardwareRatio and SoftwareRatio are plain divided by compressed bytes.
	HardwareRatio, SoftwareRatio float64
}

// Verdict is what a search for the accelerator found.
type Verdict struct {
	State  State
	Reason Reason
	// Message says what was seen and, when the state is NotUsed, what fixes it. It is
	// shorter than 1024 bytes.
	Message string
	// Levels are those at which the accelerator was proved to compress. There is at
	// least one if and only if the state is Verified.
	Levels []codec.Level
	// SlowerThanSoftware says that software compresses faster than the accelerator at
	// the fastest level that both have.
	SlowerThanSoftware bool
	// InflateMinSize is the compressed size in bytes below which software inflates
	// faster than the accelerator, and therefore does. It is NeverInflate when the
	// accelerator was not seen to inflate, or was slower at every size.
	InflateMinSize int64
	// Compress has one entry for each of Levels.
	Compress []Speed
	// InflateHardware and InflateSoftware are the rates of inflating the longest block
	// of the self-test, in plain bytes per second of CPU time. The first is 0 when the
	// accelerator was not seen to inflate.
	InflateHardware, InflateSoftware float64
}

// Accelerator returns what the verdict means to a policy that asks for the level.
func (v Verdict) Accelerator(level codec.Level) policy.Accelerator {
	switch {
	case v.State == Absent:
		return policy.Absent
	case v.State == Verified && slices.Contains(v.Levels, level):
		return policy.Verified
	case v.State == Verified, v.Reason == LevelNotAccelerated:
		return policy.LacksLevel
	default:
		return policy.NotUsed
	}
}
