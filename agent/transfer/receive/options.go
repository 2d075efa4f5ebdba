// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"time"

	"github.com/lighterage/lighterage/agent/codec"
)

// Options describe one attempt to receive.
type Options struct {
	RunID   string
	Attempt uint32
	// Sender is the Transfer that the sender's certificate names, as NAMESPACE/NAME.
	Sender      string
	Destination Destination
	// AllowDelete says that the sender may ask for a mirror, which removes what the source does not have.
	AllowDelete bool
	Engines     *codec.Registry
	// InflateRates are the bytes of plain data for each second of CPU time that engines were measured to expand; may be
	// nil.
	InflateRates map[codec.ID]float64
	Report       *Report
	// OneProcess says that the sender is in this process and counts its CPU time.
	OneProcess bool
	// WaitForSender is how long the receiver waits for a session, Idle how long a session may be silent. 0 is the
	// default: 10 and 5 minutes.
	WaitForSender time.Duration
	Idle          time.Duration
}

const (
	defaultWaitForSender = 10 * time.Minute
	defaultIdle          = 5 * time.Minute
	// reportInterval is how often a receiver tells its sender how far it is.
	reportInterval = time.Second
)
