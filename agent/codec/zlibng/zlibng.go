// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package zlibng is the deflate engine of the zlib-ng library, and on s390x the
// way to the accelerator behind the instruction DFLTCC.
//
// It needs cgo and the build tag zlibng; without either the package compiles,
// Available reports false and New fails.
package zlibng

import (
	"sync/atomic"
	"time"

	"github.com/lighterage/lighterage/agent/codec/servicetime"
)

// The names of the engines that New returns.
const (
	// SoftwareName is the engine that runs on the processor.
	SoftwareName = "zlib-ng"
	// HardwareName is the engine that uses DFLTCC.
	HardwareName = "dfltcc"
)

// Options choose what New returns.
type Options struct {
	// Hardware allows the library to use DFLTCC where it finds the instruction.
	// The engine then calls itself HardwareName and codec.Hardware. That is a claim:
	// without the instruction the library works in software and reports no error. So
	// the engine's encoders and decoders implement codec.Witness, and Explained. Package
	// hardware proves the claim.
	//
	// Without it neither direction uses the instruction, so that what the engine
	// calls itself, codec.Software, is true on every machine.
	Hardware bool
	// InflateMinSize is the compressed size in bytes from which on an engine that is
	// allowed hardware inflates with it; software inflates what is shorter. At 0
	// nothing is.
	InflateMinSize int64
}

// Obstacle is what kept the library from using DFLTCC in a call.
type Obstacle uint8

// The obstacles.
const (
	// NoObstacle means: DFLTCC did all of the work.
	NoObstacle Obstacle = iota
	// NotBuilt means: the library was built without DFLTCC.
	NotBuilt
	// NoInstruction means: the library does not find the instruction on this machine,
	// or the block was shorter than Options.InflateMinSize.
	NoInstruction
	// OtherLevel means: the library was built to use DFLTCC at other levels.
	OtherLevel
	// OtherWindow means: DFLTCC does not take the window of the stream.
	OtherWindow
	// OtherObstacle means: something else, such as a block without any byte, or no
	// call yet.
	OtherObstacle
)

// Explained is what the encoders and decoders of an engine that is allowed hardware
// implement besides codec.Witness.
type Explained interface {
	// Obstacle returns what kept the library from DFLTCC in the last call that returned
	// no error.
	Obstacle() Obstacle
}

// calls is the wall time of calls in which DFLTCC worked, in nanoseconds, of all threads of this process.
var calls atomic.Int64

// CallTime returns how long this process's threads have been, together and since it started, in calls in which the
// accelerator did the work. Calls that software answered do not count.
func CallTime() time.Duration { return time.Duration(calls.Load()) }

func (o Options) name() string {
	if o.Hardware {
		return HardwareName
	}
	return SoftwareName
}

// served is how long the accelerator worked for this process.
var served servicetime.Meter

// ServiceTime returns an estimate of how long the accelerator has worked for this process since it started. It is part
// of CallTime: calls wait for each other, and for those of other processes.
func ServiceTime() time.Duration { return served.Total() }

// count adds a call on plain data of a length to CallTime and ServiceTime, unless software worked. A call that failed
// counts as the one before it did.
func count(obstacle Obstacle, o servicetime.Operation, length int, began time.Time) {
	if obstacle == NoObstacle {
		now := time.Now()
		calls.Add(int64(now.Sub(began)))
		served.Add(o, length, now.Sub(began), now)
	}
}
