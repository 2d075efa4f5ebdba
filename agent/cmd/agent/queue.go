// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queueagent"
	"github.com/lighterage/lighterage/agent/sampling"
	"github.com/lighterage/lighterage/agent/transport"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func (a *agent) queue(ctx context.Context) error {
	read := func() (*wirev1.QueueConfig, error) {
		c := new(wirev1.QueueConfig)
		return c, a.readConfig(c)
	}
	c, err := read()
	if err != nil {
		return err
	}
	if err := required(
		"queue", c.GetQueue(), "listen_address", c.GetListenAddress(), "control_address", c.GetControlAddress(),
		"health_address", c.GetHealthAddress(),
	); err != nil {
		return err
	}
	member, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("read the name of this host, which says which member it is: %w", err)
	}
	files := transport.NewFiles(a.configDir)
	queue := queueagent.New(queueagent.Options{
		Read: read, Member: member, Directory: a.configDir, MembersTLS: files.MembersConfig(), Log: a.log,
		Engines: func(ctx context.Context, c compression.Settings) (*codec.Registry, policy.Accelerator) {
			e := a.encoders(ctx, c)
			return e.registry, e.accelerator
		},
		Decoders: func(ctx context.Context) *codec.Registry {
			return a.decoders(ctx).registry
		},
	})
	health, err := net.Listen("tcp", c.GetHealthAddress())
	if err != nil {
		return badConfig("listen for health checks: %w", err)
	}
	defer a.serveHealth(health, queue.HealthHandler())()
	listener, err := net.Listen("tcp", c.GetControlAddress())
	if err != nil {
		return badConfig("listen for the manager: %w", err)
	}
	server := transport.NewSampledServer(files)
	wirev1.RegisterQueueAgentServer(server, queue)
	wirev1.RegisterSamplerServer(server, sampling.NewServer(queue, queueagent.SampleLimits))
	defer a.serve(server, transport.Listen(listener, nil, maxControlConns))()
	return queue.Run(ctx)
}
