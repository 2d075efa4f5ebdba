// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import "github.com/lighterage/lighterage/agent/codec"

// Gate is what an engine of class Hardware is besides where agents share its accelerator. It is safe for concurrent
// use.
type Gate interface {
	// Enter returns why software has to compress a block, AcceleratorShare or AcceleratorBusy; "": the accelerator may.
	// Who is patient waits a little for the accelerator instead, and is never refused.
	Enter(patient bool) Reason
}

// Yield returns why the accelerator, of which this is the engine, yields a block of a size in bytes to software; "": it
// does not. It may wait where the settings disable software. A nil engine yields nothing.
func Yield(s Settings, engine codec.Engine, size int64) Reason {
	gate, shared := engine.(Gate)
	if !shared || s.Mode == Never || size < s.HardwareMinSize {
		return ""
	}
	return gate.Enter(s.SoftwareDisabled)
}
