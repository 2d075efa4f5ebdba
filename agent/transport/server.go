// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
)

const (
	// maxMessage is the longest message of a session, in bytes.
	maxMessage = 4 << 20
	// A peer that does not answer is noticed after keepaliveTime and keepaliveTimeout.
	keepaliveTime    = 30 * time.Second
	keepaliveTimeout = 20 * time.Second

	handshakeTimeout = 10 * time.Second
)

// NewControlServer returns a server for the manager of the agent's own cluster and nobody else.
func NewControlServer(files *Files) *grpc.Server {
	return newControlServer(files, onlyPath(ManagerPath))
}

// NewControlServers is NewControlServer for several servers at one address. pick returns the certificates of the one
// whose name the client asks for; nil if there is none.
func NewControlServers(pick func(serverName string) *Files) *grpc.Server {
	return controlServer(serverConfig(pick, ClusterCA, onlyPath(ManagerPath), grpcProtocol))
}

// ServerName is the one that the client of a call has asked for.
func ServerName(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			return info.State.ServerName
		}
	}
	return ""
}

func newControlServer(files *Files, check func(tls.ConnectionState) error, more ...grpc.ServerOption) *grpc.Server {
	return controlServer(files.serverConfig(ClusterCA, check, grpcProtocol), more...)
}

func controlServer(config *tls.Config, more ...grpc.ServerOption) *grpc.Server {
	options := append(serverOptions(),
		grpc.Creds(credentials.NewTLS(config)),
		grpc.MaxRecvMsgSize(64<<10),
		grpc.MaxConcurrentStreams(16),
	)
	return grpc.NewServer(append(options, more...)...)
}

func serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.MaxHeaderListSize(16 << 10),
	}
}
