// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package policy decides whether and how a block of data is compressed. It is
// pure: the same settings and facts give the same decision everywhere.
package policy

import (
	"fmt"

	"github.com/lighterage/lighterage/agent/codec"
)

// Mode is how strongly a policy wants compression.
type Mode string

const (
	// Auto compresses where a sample of the data promises a gain.
	Auto Mode = "Auto"
	// Always compresses without looking at the data first. Minimum sizes hold.
	Always Mode = "Always"
	// Never does not compress.
	Never Mode = "Never"
)

// Settings are what a user wants.
type Settings struct {
	Mode Mode
	// Level is the one to compress at. In mode Auto, where several ways are open, it is the
	// most effort to make.
	Level codec.Level
	// Objective is what mode Auto minimises, at the prices; empty: Elapsed.
	Objective Objective
	Prices    Prices
	// HardwareMinSize and SoftwareMinSize are the sizes in bytes from which on
	// hardware and software compress; smaller blocks they leave alone.
	HardwareMinSize int64
	SoftwareMinSize int64
	// SoftwareDisabled means: in hardware or not at all.
	SoftwareDisabled bool
	// PreferHardware says that it is worth a reason of its own when this machine has no
	// hardware for the blocks. Hardware that can is used in any case, and hardware that
	// should work and does not has its reason in any case.
	PreferHardware bool
}

// Validate returns an error that names the first setting that has no meaning.
func (s Settings) Validate() error {
	switch s.Mode {
	case Auto, Always, Never:
	default:
		return fmt.Errorf("compression mode %q: use Auto, Always or Never", s.Mode)
	}
	switch s.Level {
	case codec.Fast, codec.Balanced, codec.High:
	default:
		return fmt.Errorf("compression %v: use Fast, Balanced or High", s.Level)
	}
	switch s.Objective {
	case "", Cost, Elapsed, CPU, Bytes:
	default:
		return fmt.Errorf("objective %q: use Cost, Elapsed, CPU or Bytes", s.Objective)
	}
	if s.HardwareMinSize < 0 {
		return fmt.Errorf("least size for hardware is %d: use 0 or more bytes", s.HardwareMinSize)
	}
	if s.SoftwareMinSize < 0 {
		return fmt.Errorf("least size for software is %d: use 0 or more bytes", s.SoftwareMinSize)
	}
	return nil
}

// Accelerator is what is known of this machine's hardware.
type Accelerator uint8

const (
	// Absent means: the machine has none that this program can use.
	Absent Accelerator = iota
	// NotUsed means: the machine has one, but its use could not be proved.
	NotUsed
	// LacksLevel means: the machine has one, but it does not compress at the
	// policy's level.
	LacksLevel
	// LacksCodec means: accelerators do not do the codec, wherever they are.
	LacksCodec
	// Verified means: its use was proved.
	Verified
)

// Sample is what a look at a part of the data said.
type Sample uint8

const (
	// NotSampled means: nobody has looked.
	NotSampled Sample = iota
	// Promising means: the data probably shrink.
	Promising
	// Hopeless means: the data probably do not shrink.
	Hopeless
)

// Facts are what is known when the decision is made.
type Facts struct {
	// Size is the length of the block in bytes.
	Size int64
	// Codec is what the peer agreed to.
	Codec       codec.ID
	Accelerator Accelerator
	Sample      Sample
	// NoNetwork says that the block does not leave the process.
	NoNetwork bool
	// Yield is why an accelerator that is Verified yields the block to software; empty: it does not.
	Yield Reason
}

// Decision is what to do with a block.
type Decision struct {
	// Codec is None when the block travels as it is.
	Codec codec.ID
	// Class of the engine to use; NoClass when the codec is None.
	Class  codec.Class
	Level  codec.Level
	Reason Reason
	// NeedsSample says that the decision is to compress unless a sample, which was
	// not taken yet, speaks against it: take one and ask again.
	NeedsSample bool
}

// Decide returns what to do with a block. The settings must be valid.
func Decide(s Settings, f Facts) Decision {
	class, reason := choose(s, f)
	if class == codec.NoClass {
		return stored(reason)
	}
	if s.Mode == Auto && f.Sample == Hopeless {
		return stored(Incompressible)
	}
	return Decision{
		Codec:       f.Codec,
		Class:       class,
		Level:       s.Level,
		Reason:      reason,
		NeedsSample: s.Mode == Auto && f.Sample == NotSampled,
	}
}

func stored(reason Reason) Decision {
	return Decision{Codec: codec.None, Class: codec.NoClass, Reason: reason}
}

// Classes says which classes of engines the settings allow a block that is not empty.
func Classes(s Settings, f Facts) (hardware, software bool) {
	return f.Accelerator == Verified && f.Yield == "" && f.Size >= s.HardwareMinSize,
		!s.SoftwareDisabled && f.Size >= s.SoftwareMinSize
}

// choose picks the class of engine by everything but the data themselves.
func choose(s Settings, f Facts) (codec.Class, Reason) {
	if s.Mode == Never {
		return codec.NoClass, PolicyNever
	}
	if s.Mode == Auto && f.NoNetwork {
		return codec.NoClass, NoNetwork
	}
	if f.Codec == codec.None {
		return codec.NoClass, PeerRefused
	}
	if f.Size == 0 {
		return codec.NoClass, BelowMinimum
	}

	hardware, software := Classes(s, f)
	switch {
	case hardware:
		return codec.Hardware, HardwareUsed
	case !software && s.SoftwareDisabled && f.Accelerator != Verified:
		return codec.NoClass, SoftwareDisabled
	case !software:
		return codec.NoClass, BelowMinimum
	case f.Yield != "":
		return codec.Software, f.Yield
	}
	if !s.PreferHardware && f.Accelerator != NotUsed {
		return codec.Software, SoftwareUsed
	}
	return codec.Software, f.Accelerator.shortfall()
}

// shortfall is the reason of a block that software compresses although the policy
// prefers hardware, or hardware is there and fails.
func (a Accelerator) shortfall() Reason {
	switch a {
	case Verified:
		return SoftwareUsed // the block is too small for it
	case LacksLevel:
		return LevelNotAccelerated
	case LacksCodec:
		return CodecNotAccelerated
	case NotUsed:
		return SelfTestFailed
	default:
		return NoAccelerator
	}
}
