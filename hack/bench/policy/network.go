// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/lighterage/lighterage/hack/bench/network"
)

// speed of a network in Mbit/s, 0: unlimited.
type speed int

// slowest keeps one core so idle that a second one changes nothing.
const slowest speed = 10

func (s speed) String() string {
	if s == 0 {
		return "unlimited"
	}
	return fmt.Sprintf("%d Mbit/s", int(s))
}

// bytesPerSecond is 0 when unlimited.
func (s speed) bytesPerSecond() float64 { return float64(s) * 1e6 / 8 }

// prefix of the addresses of sender and receiver.
const prefix = "10.231.7."

// newNetwork makes the namespaces of sender and receiver, ltgb-a and ltgb-b.
func newNetwork(ctx context.Context) (*network.Pair, error) { return network.New(ctx, "ltgb", prefix) }
