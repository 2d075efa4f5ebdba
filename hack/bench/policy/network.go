// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

const (
	senderSpace, receiverSpace = "ltgb-a", "ltgb-b"
	senderDevice, peerDevice   = "ltgb-va", "ltgb-vb"
	senderAddress, peerAddress = "10.231.7.1", "10.231.7.2"
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

// network is two namespaces that see nothing but each other.
type network struct{}

func newNetwork(ctx context.Context) (*network, error) {
	n := &network{}
	for _, args := range []string{
		"netns add " + senderSpace, "netns add " + receiverSpace,
		"link add " + senderDevice + " netns " + senderSpace + " type veth peer name " + peerDevice + " netns " + receiverSpace,
		"-n " + senderSpace + " address add " + senderAddress + "/30 dev " + senderDevice,
		"-n " + receiverSpace + " address add " + peerAddress + "/30 dev " + peerDevice,
		"-n " + senderSpace + " link set " + senderDevice + " up", "-n " + receiverSpace + " link set " + peerDevice + " up",
		"-n " + senderSpace + " link set lo up", "-n " + receiverSpace + " link set lo up",
	} {
		if err := command(ctx, "ip", strings.Fields(args)...); err != nil {
			return nil, errors.Join(fmt.Errorf("set up a network (this needs root, and %s and %s to be free): %w", senderSpace, receiverSpace, err), n.close()) //nolint:contextcheck // also when the context has ended
		}
	}
	return n, nil
}

// limit holds what the sender sends to a speed.
func (*network) limit(ctx context.Context, s speed) error {
	// There is none at first.
	_ = command(ctx, "tc", "-n", senderSpace, "qdisc", "del", "dev", senderDevice, "root")
	if s == 0 {
		return nil
	}
	burst := max(int(s.bytesPerSecond()/250), 16<<10) // 4 ms
	return command(ctx, "tc", "-n", senderSpace, "qdisc", "add", "dev", senderDevice, "root", "tbf",
		"rate", fmt.Sprintf("%dmbit", int(s)), "burst", fmt.Sprint(burst), "latency", "50ms")
}

func (*network) close() error {
	ctx := context.Background()
	return errors.Join(command(ctx, "ip", "netns", "del", senderSpace), command(ctx, "ip", "netns", "del", receiverSpace))
}

func command(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil { //nolint:gosec // a benchmark's own arguments
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
