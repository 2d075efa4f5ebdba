// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package send

import (
	"context"
	"net"
	"time"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/tree"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// Options describe one attempt to send.
type Options struct {
	RunID   string
	Attempt uint32
	// ProtocolVersion in which to speak to the receiver; default: the newest.
	ProtocolVersion uint32

	Source *tree.Source
	// Engines to compress with, the preferred ones first. Those of class Hardware count as verified.
	Engines *codec.Registry
	// Accelerator is what is known of the machine's, for the reason to give when software has to do its work.
	Accelerator policy.Accelerator
	// Policy and Codecs, in order of preference, say how to compress.
	Policy policy.Settings
	Codecs []codec.ID
	// Ways to compress between which mode Auto chooses block by block, and the engine of each; none: it compresses what
	// promises to shrink as the first of Codecs that the receiver reads, at the policy's level.
	Ways       []policy.Way
	WayEngines map[policy.Option]codec.Engine
	// BandwidthLimit is what DialBlocks' connections hold themselves to, in bytes a second, for the choice between
	// Ways; 0: nothing.
	BandwidthLimit uint64
	// Verify asks the receiver to read back what it wrote.
	Verify bool
	// CheckpointInterval is how many bytes each stream may have at stake; 0 is the receiver's default, 64 MiB.
	CheckpointInterval int64
	// Mirror asks the receiver to remove what the source does not have; nil if it is not to. Its patterns are those of
	// Source's filter.
	Mirror *wirev1.Mirror
	// Dial returns a new connection to the receiver. It is closed with Close.
	Dial func() (Conn, error)
	// DialBlocks returns a new connection to the receiver that carries blocks.
	DialBlocks func(context.Context) (net.Conn, error)
	// Streams is the number of workers, 1 to MaxStreams.
	Streams int
	Report  *Report
	// Direct says that the receiver is reached without a gateway.
	Direct bool
	// OneProcess says that the receiver is in this process, and what is sent crosses no network.
	OneProcess bool
	// ChangedPauses are how long to wait before files that changed while they were read are read again, each once more
	// for every pause. nil is the default: 1 s, then 5 s.
	ChangedPauses []time.Duration
	// Silence is how long a receiver, which says every second how far it is, may say nothing. 0 is the default: 1
	// minute.
	Silence time.Duration
}

const defaultSilence = time.Minute
