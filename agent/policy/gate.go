// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "github.com/lighterage/lighterage/agent/codec"

// Gate is what an engine of class Hardware implements where agents share its accelerator. It is safe for concurrent
// use.
type Gate interface {
	// Enter returns why software has to compress a block, AcceleratorShare or AcceleratorBusy; "": the accelerator may.
	// A patient caller waits up to a second for the accelerator instead, and is never refused. It is asked once for
	// each block that is going to be compressed by the accelerator, and for no others.
	Enter(patient bool) Reason
}

// Yield returns why the accelerator, of which this is the engine, yields a block of a size in bytes to software; "": it
// does not. It may wait where the settings do not admit software. A nil engine yields nothing.
func Yield(s Settings, engine codec.Engine, size int64) Reason {
	gate, shared := engine.(Gate)
	if !shared || s.Mode == Never || size < s.HardwareMinSize {
		return ""
	}
	return gate.Enter(s.SoftwareDisabled || size < s.SoftwareMinSize)
}
