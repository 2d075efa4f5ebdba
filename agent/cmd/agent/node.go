// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/lighterage/lighterage/agent/codec/engines"
	"github.com/lighterage/lighterage/agent/cpumf"
	"github.com/lighterage/lighterage/agent/node"
	"github.com/lighterage/lighterage/agent/transport"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func (a *agent) node(ctx context.Context) error {
	var c wirev1.NodeConfig
	if err := a.readConfig(&c); err != nil {
		return err
	}
	if err := required("control_address", c.GetControlAddress()); err != nil {
		return err
	}
	options := node.Options{Engines: engines.All(), Log: a.log}
	if c.GetAcceleratorCounters() {
		options.OpenCounters = func() (node.Counters, error) {
			facility, err := cpumf.Open(cpumf.ThisSystem())
			if err != nil {
				return nil, err
			}
			return facility, nil
		}
	}
	broker, err := a.newBroker(c.GetAcceleratorShares())
	if err != nil {
		return err
	}
	if broker != nil {
		options.Shares, options.Accelerator = broker, broker.follow
		defer broker.close()
	}
	profiler := node.NewProfiler(options)
	server := transport.NewControlServer(transport.NewFiles(a.configDir))
	wirev1.RegisterNodeAgentServer(server, profiler)
	stop, err := a.serveManager(server, c.GetControlAddress())
	if err != nil {
		return err
	}
	defer stop()
	profiler.Run(ctx)
	return nil
}
