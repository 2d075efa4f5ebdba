// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package httpendpoint

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/agentclient"
	"github.com/lighterage/lighterage/controllers/agentpoll"
	"github.com/lighterage/lighterage/controllers/replicas"
)

// Reports has replicas asked for reports.
func Reports(pool *agentpoll.Pool, agents agentclient.Agents) agentpoll.Poller[*wirev1.HTTPReport] {
	return agentpoll.NewPoller(pool, agentpoll.Question[*wirev1.HTTPReport]{
		Name: "httpendpoint", Class: agentpoll.Serving, Ask: agents.HTTPReport,
		News:  func(before, after *wirev1.HTTPReport) bool { return !proto.Equal(stateOf(before), stateOf(after)) },
		Lacks: replicas.Lacks[*wirev1.HTTPReport],
		Configure: func(ctx context.Context, target agentclient.Target, config agentpoll.Configuration) error {
			own, ok := config.(*wirev1.HTTPConfig)
			if !ok {
				return fmt.Errorf("configuring the agent at %s: %T is no configuration of it", target.Address, config)
			}
			return agents.SetHTTPConfig(ctx, target, own)
		},
	})
}

// stateOf is what of a report conditions follow from.
func stateOf(r *wirev1.HTTPReport) *wirev1.HTTPReport {
	return &wirev1.HTTPReport{
		State: r.GetState(), Revision: r.GetRevision(), ConfigError: r.GetConfigError(), Certificate: r.GetCertificate(),
		Configuration:  r.GetConfiguration(),
		BackendFailure: r.GetBackendFailure(), BackendStatus: r.GetBackendStatus(),
		Statistics: &wirev1.HTTPStatistics{Reset_: r.GetStatistics().GetReset_()},
		Compression: &wirev1.Compression{
			Codec: r.GetCompression().GetCodec(), Engine: r.GetCompression().GetEngine(), Reason: r.GetCompression().GetReason(),
		},
	}
}
