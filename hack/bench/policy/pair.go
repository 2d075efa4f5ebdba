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
	"github.com/lighterage/lighterage/test/corpus"
)

// pair is a sender and a receiver of Transfers.
type pair struct {
	work             string
	cores            int
	sender, receiver *harness.Worker
	runs             int
}

func startPair(ctx context.Context, link *network.Pair, work string, _ section, cores int) (bed, error) {
	p := &pair{work: filepath.Join(work, fmt.Sprint(cores)), cores: cores}
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

// over needs nothing: each run makes its connections.
func (p *pair) over(context.Context, speed) error { return nil }

func (p *pair) source() string { return filepath.Join(p.work, "source") }

// ready makes the data of a cell. Its first run pays for memory that they take, and counts for nobody.
func (p *pair) ready(ctx context.Context, c *cell) error {
	if err := fill(p.source(), c.kind.corpus, c.size); err != nil {
		return err
	}
	_, err := p.run(ctx, c, c.fixed[len(c.fixed)-1])
	return err
}

// run sends a directory once.
func (p *pair) run(_ context.Context, _ *cell, one *contender) (outcome, error) {
	o := order{Source: p.source(), Settings: one.settings, Codec: one.codec}
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

// fill makes a directory with so many bytes of a corpus.
func fill(dir, name string, size int64) error {
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the data before: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make a directory for data: %w", err)
	}
	made, ok := corpus.ByName(name)
	if !ok {
		return fmt.Errorf("there is no corpus %q", name)
	}
	// Blocks are compressed by themselves, so that it does not matter that they come again.
	plain := made.Generate(int(min(size, 16<<20)))
	f, err := os.Create(filepath.Join(dir, "data"))
	if err != nil {
		return fmt.Errorf("make data: %w", err)
	}
	for left := size; left > 0; left -= int64(len(plain)) {
		if _, err := f.Write(plain[:min(left, int64(len(plain)))]); err != nil {
			_ = f.Close()
			return fmt.Errorf("write data: %w", err)
		}
	}
	return f.Close()
}
