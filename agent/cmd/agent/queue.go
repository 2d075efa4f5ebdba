// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"

	"google.golang.org/grpc"

	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/queueagent"
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
	if err := required("queue", c.GetQueue(), "listen_address", c.GetListenAddress()); err != nil {
		return err
	}
	member, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("read the name of this host, which says which member it is: %w", err)
	}
	queue := queueagent.New(queueagent.Options{
		Read: read, Member: member, Directory: a.configDir, MembersTLS: transport.NewFiles(a.configDir).MembersConfig(),
		Log: a.log, Engines: a.chosen, Dictionaries: dictionaryTiming,
		Decoders: func(ctx context.Context) *codec.Registry { return a.decoders(ctx).registry },
	})
	return a.serveClients(ctx, c, queue, queueagent.SampleLimits, func(s grpc.ServiceRegistrar) {
		wirev1.RegisterQueueAgentServer(s, queue)
	})
}
