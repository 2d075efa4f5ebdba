// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"google.golang.org/grpc"

	"github.com/lighterage/lighterage/agent/httpagent"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

func (a *agent) http(ctx context.Context) error {
	read := func() (*wirev1.HTTPConfig, error) {
		c := new(wirev1.HTTPConfig)
		return c, a.readConfig(c)
	}
	c, err := read()
	if err != nil {
		return err
	}
	if err := required("listen_address", c.GetListenAddress()); err != nil {
		return err
	}
	proxy := httpagent.New(httpagent.Options{Read: read, Log: a.log, Engines: a.chosen})
	return a.serveClients(ctx, c, proxy, httpagent.SampleLimits, func(s grpc.ServiceRegistrar) {
		wirev1.RegisterHTTPAgentServer(s, proxy)
	})
}
