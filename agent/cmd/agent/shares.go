// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"os"
	"sync"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/hardware"
	"github.com/lighterage/lighterage/agent/share"
	"github.com/lighterage/lighterage/agent/transport"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// maxShareConns bounds the connections of agents, maxShareConnsEach those of one pod.
const maxShareConns, maxShareConnsEach = 512, 4

// sharing is an agent's part in the accelerator of its node.
type sharing struct {
	mu      sync.Mutex
	account *share.Account // nil before the accelerator is used first
	stop    func()
}

// engine returns an engine of the accelerator that keeps to the agent's share, where shares are granted. Agents on
// machines without an accelerator never come here, so that they ask nobody.
func (s *sharing) engine(a *agent, accelerator codec.Engine) codec.Engine {
	address := os.Getenv(wirev1.SharesVariable)
	if address == "" {
		return accelerator
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.account == nil {
		dialer := &transport.Dialer{Address: address, Files: transport.NewFiles(a.configDir)}
		dial := func() (share.Conn, error) {
			conn, err := dialer.DialOwn(transport.NodeServerName)
			if err != nil {
				return nil, err
			}
			return conn, nil
		}
		s.account = share.NewAccount(hardware.ServiceTime, nil)
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { share.Run(ctx, s.account, dial, a.log) })
		s.stop = func() {
			cancel()
			running.Wait()
		}
	}
	return share.Engine(accelerator, s.account)
}

func (s *sharing) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		s.stop()
	}
}

// broker grants shares while the accelerator of the node is proved to work.
type broker struct {
	*share.Broker
	agent  *agent
	listen func() (net.Listener, error)

	mu   sync.Mutex
	stop func() // nil while it does not serve
}

// newBroker returns one that does not serve yet; nil without a configuration.
func (a *agent) newBroker(c *wirev1.AcceleratorSharesConfig) (*broker, error) {
	if c == nil {
		return nil, nil
	}
	if err := required("accelerator_shares.listen_address", c.GetListenAddress()); err != nil {
		return nil, err
	}
	shares, err := share.NewBroker(share.BrokerOptions{
		Units: c.GetUnits(), ReservedPercent: c.GetReservedPercent(), Log: a.log,
	})
	if err != nil {
		return nil, badConfig("accelerator_shares: %w", err)
	}
	listen := func() (net.Listener, error) { return net.Listen("tcp", c.GetListenAddress()) }
	return &broker{Broker: shares, agent: a, listen: listen}, nil
}

// follow serves while there is an accelerator.
func (b *broker) follow(accelerator codec.Engine) {
	if accelerator == nil {
		b.close()
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stop != nil {
		return
	}
	if err := b.start(accelerator); err != nil {
		b.agent.log.Error("Shares of the accelerator are not granted", "error", err.Error())
	}
}

// start serves. The caller holds b.mu.
func (b *broker) start(accelerator codec.Engine) error {
	probe, closeProbe, err := share.Prober(accelerator)
	if err != nil {
		return err
	}
	listener, err := b.listen()
	if err != nil {
		_ = closeProbe()
		return err
	}
	server := transport.NewShareServer(transport.NewFiles(b.agent.configDir))
	wirev1.RegisterAcceleratorSharesServer(server, b.Broker)
	stop := b.agent.serve(server, transport.ListenEach(listener, maxShareConns, maxShareConnsEach))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { b.Probe(ctx, probe) })
	b.stop = func() {
		cancel()
		running.Wait()
		_ = closeProbe()
		stop()
	}
	b.agent.log.Info("Shares of the accelerator are granted", "address", listener.Addr().String())
	return nil
}

// close ends serving, which can take seconds, in which Sharing answers.
func (b *broker) close() {
	b.mu.Lock()
	stop := b.stop
	b.stop = nil
	b.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// Sharing implements node.Shares.
func (b *broker) Sharing() *wirev1.AcceleratorSharing {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stop == nil {
		return nil
	}
	return b.Broker.Sharing()
}
