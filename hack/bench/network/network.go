// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

// Package network joins two network namespaces by a link with a speed, for benchmarks.
package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/lighterage/lighterage/hack/bench/harness"
)

// Pair is two namespaces that see nothing but each other.
type Pair struct {
	sender, receiver side
}

type side struct {
	space, device, address string
}

// New makes the namespaces NAME-a and NAME-b, which nobody may have, joined by virtual
// interfaces. It needs root and the commands ip and tc. Link addresses are those of the
// namespaces alone: prefix and 1 or 2, such as 10.231.7. for 10.231.7.1.
func New(ctx context.Context, name, prefix string) (*Pair, error) {
	p := &Pair{
		sender:   side{space: name + "-a", device: name + "-va", address: prefix + "1"},
		receiver: side{space: name + "-b", device: name + "-vb", address: ReceiverAddress(prefix)},
	}
	a, b := p.sender, p.receiver
	var made []side
	for _, s := range []side{a, b} {
		if err := harness.Command(ctx, "ip", "netns", "add", s.space); err != nil {
			//nolint:contextcheck // also when the context has ended
			return nil, errors.Join(
				fmt.Errorf("set up a network (this needs root, and %s and %s to be free): %w", a.space, b.space, err), remove(made),
			)
		}
		made = append(made, s)
	}
	for _, args := range []string{
		"link add " + a.device + " netns " + a.space + " type veth peer name " + b.device + " netns " + b.space,
		"-n " + a.space + " address add " + a.address + "/30 dev " + a.device,
		"-n " + b.space + " address add " + b.address + "/30 dev " + b.device,
		"-n " + a.space + " link set " + a.device + " up", "-n " + b.space + " link set " + b.device + " up",
		"-n " + a.space + " link set lo up", "-n " + b.space + " link set lo up",
	} {
		if err := harness.Command(ctx, "ip", strings.Fields(args)...); err != nil {
			//nolint:contextcheck // also when the context has ended
			return nil, errors.Join(
				fmt.Errorf("set up a network: %w", err), remove(made),
			)
		}
	}
	return p, nil
}

// Sender and Receiver are the names of the namespaces.
func (p *Pair) Sender() string { return p.sender.space }

// Receiver is that which Limit does not hold.
func (p *Pair) Receiver() string { return p.receiver.space }

// SenderAddress is where the receiver reaches the sender.
func (p *Pair) SenderAddress() string { return p.sender.address }

// Address is where the sender reaches the receiver.
func (p *Pair) Address() string { return p.receiver.address }

// ReceiverAddress is that of the receiver in a network with a prefix.
func ReceiverAddress(prefix string) string { return prefix + "2" }

// Limit holds what the sender sends to so many Mbit/s by a token bucket; 0 lifts it.
func (p *Pair) Limit(ctx context.Context, mbits int) error {
	// There is none at first.
	_ = harness.Command(ctx, "tc", "-n", p.sender.space, "qdisc", "del", "dev", p.sender.device, "root")
	if mbits == 0 {
		return nil
	}
	const leastBurst = 16 << 10
	burst := max(mbits*1e6/8/250, leastBurst) // 4 ms
	return harness.Command(ctx, "tc", "-n", p.sender.space, "qdisc", "add", "dev", p.sender.device, "root", "tbf",
		"rate", fmt.Sprintf("%dmbit", mbits), "burst", fmt.Sprint(burst), "latency", "50ms")
}

// Sent is how many bytes have crossed the link since Limit, with the headers of frames, packets and segments.
func (p *Pair) Sent(ctx context.Context) (int64, error) {
	out, err := exec.CommandContext(
		ctx, "tc", "-n", p.sender.space, "-s", "-j", "qdisc", "show", "dev", p.sender.device,
	).Output()
	if err != nil {
		return 0, fmt.Errorf("count what crossed the link: %w", err)
	}
	return sent(out)
}

// sent reads what tc tells of a device.
func sent(told []byte) (int64, error) {
	var all []struct {
		Kind  string
		Bytes int64
	}
	if err := json.Unmarshal(told, &all); err != nil {
		return 0, fmt.Errorf("count what crossed the link: %w", err)
	}
	for _, one := range all {
		if one.Kind == "tbf" {
			return one.Bytes, nil
		}
	}
	return 0, errors.New("count what crossed the link: it has no limit")
}

// Command is one that runs in a namespace of the pair.
func Command(ctx context.Context, space, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", space, name}, args...)...)
}

// StartListening starts a program in the receiver's namespace and waits, without connecting, until it listens at an
// address there.
func (p *Pair) StartListening(ctx context.Context, command *exec.Cmd, address string) (*harness.Process, error) {
	return startListening(ctx, p.receiver.space, command, address)
}

// StartBeside does the same in the sender's namespace.
func (p *Pair) StartBeside(ctx context.Context, command *exec.Cmd, address string) (*harness.Process, error) {
	return startListening(ctx, p.sender.space, command, address)
}

func startListening(ctx context.Context, space string, command *exec.Cmd, address string) (*harness.Process, error) {
	process, err := harness.Start(command)
	if err != nil {
		return nil, err
	}
	for range 400 {
		text, err := harness.Output(ctx, "ip", "netns", "exec", space, "ss", "-Hltn")
		if err != nil {
			process.Stop(0)
			return nil, fmt.Errorf("look for a listener: %w", err)
		}
		if slices.Contains(strings.Fields(text), address) {
			return process, nil
		}
		select {
		case <-process.Ended():
			return nil, fmt.Errorf("nobody listens at %s: %w", address, process.Wait())
		case <-time.After(25 * time.Millisecond):
		}
	}
	process.Stop(0)
	return nil, fmt.Errorf("nobody listens at %s", address)
}

// Close removes the namespaces.
func (p *Pair) Close() error { return remove([]side{p.sender, p.receiver}) }

func remove(sides []side) error {
	var errs []error
	for _, s := range sides {
		errs = append(errs, harness.Command(context.Background(), "ip", "netns", "del", s.space))
	}
	return errors.Join(errs...)
}
