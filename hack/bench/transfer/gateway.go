// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"context"
	"crypto/tls"
	"fmt"
	"path/filepath"

	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/hack/bench/agents"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/network"
)

// GatewayRole is the name of the role in which a benchmark has ServeGateway run, for pairs with a network.
const GatewayRole = "gateway"

// startGateway starts the gateway on the receiver's side of the network.
func (b *bench) startGateway(ctx context.Context, ca *pki.CA, listen, target string) (err error) {
	dir := filepath.Join(b.dir, GatewayRole)
	if err := agents.Files(dir, ca, ca, pki.Template{
		Identity: pki.Identity{Cluster: "bench", Path: pki.GatewayPath}, DNSNames: []string{pki.GatewayServerName},
	}, nil); err != nil {
		return err
	}
	self := harness.Self(b.benchmark, GatewayRole, dir, listen, target)
	b.gateway, err = b.link.StartListening(ctx, network.Command(ctx, b.link.Receiver(), self[0], self[1:]...), listen)
	return err
}

// ServeGateway serves the gateway, which admits every Transfer, until ctx ends. Its arguments are the directory with its
// certificate, the address at which it listens, and that of the receiver.
func ServeGateway(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("the gateway takes three arguments, not %d", len(args))
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(args[0], "tls.crt"), filepath.Join(args[0], "tls.key"))
	if err != nil {
		return fmt.Errorf("read the gateway's certificate: %w", err)
	}
	if _, err := (agents.Gateway{
		Listen: args[1], Certificate: certificate, Name: serverName, Target: args[2], Server: admitAll{},
	}).Serve(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
