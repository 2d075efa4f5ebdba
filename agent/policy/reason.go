// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

// Reason says why a block of data was compressed as it was, or why it was not.
// The texts are permanent: they are counted in status, metrics and reports.
//
// A block that nobody tried to compress and a block that was tried and did not
// shrink never have the same reason.
type Reason string

// The reasons of blocks that were compressed.
const (
	// HardwareUsed means: the accelerator compressed the block.
	HardwareUsed Reason = "HardwareUsed"
	// SoftwareUsed means: the processor compressed the block, and nothing was amiss: the
	// policy does not ask for hardware, and this machine has none that failed, or the
	// block is smaller than what the policy gives to hardware.
	SoftwareUsed Reason = "SoftwareUsed"
	// NoAccelerator means: the policy prefers hardware, this machine has none, and the
	// processor compressed the block instead.
	NoAccelerator Reason = "NoAccelerator"
	// SelfTestFailed means: this machine has an accelerator, but its use could not be
	// proved, or the library did not use it for this block or one before; the processor
	// compressed the block instead, whether or not the policy prefers hardware.
	SelfTestFailed Reason = "SelfTestFailed"
	// LevelNotAccelerated means: the policy prefers hardware, this machine's does not
	// compress at the policy's level, and the processor compressed the block instead.
	LevelNotAccelerated Reason = "LevelNotAccelerated"
	// CodecNotAccelerated means: the policy prefers hardware, the codec agreed with the
	// peer is one that no accelerator does, and the processor compressed the block
	// instead. What this machine has does not matter.
	CodecNotAccelerated Reason = "CodecNotAccelerated"
	// AcceleratorBusy means: the accelerator takes several times as long as it did before,
	// because others use it, and the processor compressed the block instead.
	AcceleratorBusy Reason = "AcceleratorBusy"
	// AcceleratorShare means: this agent has used its share of the accelerator, which others on the machine use as well,
	// and the processor compressed the block instead.
	AcceleratorShare Reason = "AcceleratorShare"
)

// The reasons of blocks that travel as they are because nobody tried.
const (
	// BelowMinimum means: the block is smaller than the least size that the policy
	// compresses.
	BelowMinimum Reason = "BelowMinimum"
	// SoftwareDisabled means: the policy allows hardware only and there is none.
	SoftwareDisabled Reason = "SoftwareDisabled"
	// Incompressible means: a sample of the block predicts that it does not shrink.
	Incompressible Reason = "Incompressible"
	// PolicyNever means: the policy's mode is Never.
	PolicyNever Reason = "PolicyNever"
	// PeerRefused means: the other side accepts no codec that compresses.
	PeerRefused Reason = "PeerRefused"
	// NoNetwork means: the policy's mode is Auto, and sender and receiver are one process,
	// so that there is no link whose bytes could be saved.
	NoNetwork Reason = "NoNetwork"
	// StoredAsIs means: the bytes became an object that any tool reads, which holds them as
	// they are.
	StoredAsIs Reason = "StoredAsIs"
	// AlreadyCompressed means: the block was compressed once, and travels as it rests at the source.
	AlreadyCompressed Reason = "AlreadyCompressed"
	// NetworkFaster means: the objective is Elapsed, and network and peer take the bytes
	// sooner as they are than they could be compressed.
	NetworkFaster Reason = "NetworkFaster"
	// DiskFaster means the same of a message that mostly the disk holds up which keeps it: that takes it sooner as it is.
	DiskFaster Reason = "DiskFaster"
	// CPUBudget means: compressing would take more CPU time than it is worth. Counted in
	// money where the objective is Cost and in itself where it is CPU; where it is Elapsed,
	// cores that others keep busy are missing, with which compressing would be quicker.
	CPUBudget Reason = "CPUBudget"
	// CPUDearer means the same of a body that a class of bodies was decided for: compressing bodies like it takes more
	// CPU time than is saved by sending fewer bytes.
	CPUDearer Reason = "CPUDearer"
)

// DidNotShrink is the reason of a block that an engine compressed to no less than
// it was, so that it travels as it is. The effort was spent.
const DidNotShrink Reason = "DidNotShrink"

// Attempted reports whether an engine worked on blocks with this reason.
func (r Reason) Attempted() bool {
	switch r {
	case HardwareUsed, SoftwareUsed, NoAccelerator, SelfTestFailed, LevelNotAccelerated, CodecNotAccelerated,
		AcceleratorBusy, AcceleratorShare, DidNotShrink:
		return true
	default:
		return false
	}
}
