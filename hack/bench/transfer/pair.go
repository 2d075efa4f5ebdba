// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/network"
)

// Pair is two agents that move a tree once, without a gateway between them, for benchmarks of others.
type Pair struct{ bench bench }

// End is one agent after a run.
type End struct {
	Report *wirev1.Report
	// CPU time of its process, by the kernel.
	CPU time.Duration
}

// NewPair starts the receiver, whose destination is an empty directory. What the pair needs is in dir.
func NewPair(
	ctx context.Context, dir, agent, source, destination string, settings *wirev1.CompressionSettings,
) (*Pair, error) {
	p := &Pair{bench{dir: dir, agent: agent, direct: true}}
	return p, p.bench.prepare(ctx, source, destination, false, settings)
}

// NewPairOver is a pair with a network between its agents and the gateway before the receiver, in which the sender
// verifies. The gateway is a process in GatewayRole of a benchmark.
func NewPairOver(
	ctx context.Context, benchmark string, link *network.Pair, dir, agent, source, destination string,
	settings *wirev1.CompressionSettings,
) (*Pair, error) {
	p := &Pair{bench{dir: dir, agent: agent, link: link, benchmark: benchmark}}
	return p, p.bench.prepare(ctx, source, destination, true, settings)
}

// Processes are those that the context ends: they may not live longer than their network.
func (p *Pair) Processes() (all []*harness.Process) {
	for _, process := range []*harness.Process{p.bench.receiver, p.bench.relay, p.bench.gateway} {
		if process != nil {
			all = append(all, process)
		}
	}
	return all
}

// NewHandOff is a pair whose sender reaches the receiver through an object store, a relay and the gateway.
func NewHandOff(
	ctx context.Context, dir, agent, source, destination string, settings *wirev1.CompressionSettings,
	via *wirev1.StoreEnd,
) (*Pair, error) {
	p := &Pair{bench{dir: dir, agent: agent, via: via}}
	return p, p.bench.prepare(ctx, source, destination, false, settings)
}

// Relay is the process that joins the store to the gateway, which the context ends; nil without one.
func (p *Pair) Relay() *harness.Process { return p.bench.relay }

// Receiver is the process of the receiver.
func (p *Pair) Receiver() harness.PID { return p.bench.receiver.PID() }

// Ended is closed when the receiver has ended.
func (p *Pair) Ended() <-chan struct{} { return p.bench.receiver.Ended() }

// Begin starts the sender.
func (p *Pair) Begin(ctx context.Context) (*harness.Process, error) {
	return harness.Start(p.bench.command(ctx, p.bench.sending()))
}

// Manager asks the sender what managers ask of it.
func (p *Pair) Manager() (agentclient.Agents, agentclient.Target, error) {
	pair, err := p.bench.ca.Issue(pki.Template{
		Identity: pki.Identity{Cluster: "bench", Path: pki.ManagerPath}, DNSNames: []string{pki.ManagerServerName},
		Lifetime: time.Hour,
	}, time.Now())
	if err != nil {
		return nil, agentclient.Target{}, fmt.Errorf("issue the manager's certificate: %w", err)
	}
	certificate, err := pair.TLS()
	return agentclient.NewAgents(agentclient.Options{Credentials: manager{&certificate, p.bench.ca}}),
		agentclient.Target{Address: p.bench.control, ServerName: senderName, Soon: true}, err
}

// manager has its certificate.
type manager struct {
	certificate *tls.Certificate
	ca          *pki.CA
}

func (m manager) Certificate(context.Context) (*tls.Certificate, *pki.CA, error) {
	return m.certificate, m.ca, nil
}

// Move runs the sender, of which started is told, and waits for both.
func (p *Pair) Move(ctx context.Context, started func(sender harness.PID)) (send, receive End, err error) {
	sender, err := p.Begin(ctx)
	if err != nil {
		return send, receive, err
	}
	started(sender.PID())
	// The receiver of a sender that has failed goes on waiting, until ctx ends.
	if err := sender.Wait(); err != nil {
		return send, receive, err
	}
	if err := p.bench.receiver.Wait(); err != nil {
		return send, receive, err
	}
	var err1, err2 error
	send.Report, err1 = p.bench.report(p.bench.sending())
	receive.Report, err2 = p.bench.report("receive")
	send.CPU, receive.CPU = spent(sender), spent(p.bench.receiver)
	return send, receive, errors.Join(err1, err2)
}

// spent is the CPU time of a process that has ended.
func spent(p *harness.Process) time.Duration {
	state := p.Command.ProcessState
	return state.UserTime() + state.SystemTime()
}
