// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/hack/bench/agents"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/network"
)

// pair is a sender and a receiver.
type pair struct {
	work             string
	cores            int
	sender, receiver *harness.Worker
	runs             int
}

func startPair(ctx context.Context, link *network.Pair, work string, cores int) (*pair, error) {
	p := &pair{work: work, cores: cores}
	ca, _, err := pki.NewCA("bench", time.Now())
	if err != nil {
		return nil, fmt.Errorf("make a CA: %w", err)
	}
	// One core each, or two for both.
	senderCPUs, receiverCPUs := "0", "1"
	if cores > 1 {
		senderCPUs, receiverCPUs = "0,1", "0,1"
	}
	if p.receiver, err = p.start(
		ctx, ca, receiveRole, link.Receiver(), receiverCPUs, pki.DeliveryIdentity("bench", namespace, "copy"), serverName,
	); err != nil {
		return nil, err
	}
	if p.sender, err = p.start(
		ctx, ca, sendRole, link.Sender(), senderCPUs, pki.TransferIdentity("bench", namespace, name),
		"sender.lighterage.internal",
	); err != nil {
		return nil, errors.Join(err, p.receiver.Close())
	}
	return p, nil
}

func (p *pair) start(
	ctx context.Context, ca *pki.CA, role, space, cpus string, identity pki.Identity, dns string,
) (*harness.Worker, error) {
	dir := filepath.Join(p.work, role)
	if err := agents.Files(dir, ca, ca, pki.Template{Identity: identity, DNSNames: []string{dns}}, nil); err != nil {
		return nil, err
	}
	command := append([]string{"-c", cpus}, harness.Self(benchmark, role, dir)...)
	cmd := network.Command(ctx, space, "taskset", command...)
	// What a run frees the next one shall find again: a virtual machine's host makes new memory dear.
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", p.cores), "GODEBUG=madvdontneed=0")
	return harness.StartWorker(cmd)
}

func (p *pair) close() error { return errors.Join(p.sender.Close(), p.receiver.Close()) }

// move sends a directory once.
func (p *pair) move(o order) (outcome, error) {
	p.runs++
	o.Run = fmt.Sprintf("run%d", p.runs)
	var ready, sent, received answer
	if err := errors.Join(p.receiver.Order(o), p.receiver.Answer(&ready)); err != nil {
		return outcome{}, fmt.Errorf("receive: %w", err)
	}
	o.Address = ready.Address
	if err := errors.Join(p.sender.Order(o), p.sender.Answer(&sent)); err != nil {
		return outcome{}, fmt.Errorf("send: %w", err)
	}
	if err := p.receiver.Answer(&received); err != nil {
		return outcome{}, fmt.Errorf("receive: %w", err)
	}
	return outcome{
		elapsed: sent.Elapsed.Seconds(), cpu: (sent.CPU + received.CPU).Seconds(), bytes: float64(sent.Bytes),
		choice: sent.Choice,
	}, nil
}
