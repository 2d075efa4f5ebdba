// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// NewSampledServer returns a server for the manager of the agent's own cluster, and for the agents of CompressionTrials
// of the agent's own namespace. Those may call the service Sampler and nothing else; the manager may call everything
// else.
func NewSampledServer(files *Files) *grpc.Server {
	return newControlServer(files, files.managerOrTrial,
		grpc.MaxRecvMsgSize(wirev1.MaxSentConfig+1<<10),
		grpc.UnaryInterceptor(func(
			ctx context.Context, q any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
		) (any, error) {
			if err := mayCall(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return handler(ctx, q)
		}),
		grpc.StreamInterceptor(func(
			server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
		) error {
			if err := mayCall(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return handler(server, stream)
		}),
	)
}

// managerOrTrial accepts the manager, and trials of the namespace that is in the agent's own certificate.
func (f *Files) managerOrTrial(cs tls.ConnectionState) error {
	path, err := peerPath(cs)
	if err != nil || path == ManagerPath {
		return err
	}
	certificate, err := f.Certificate()
	if err != nil {
		return err
	}
	own, err := peerPath(tls.ConnectionState{PeerCertificates: []*x509.Certificate{certificate.Leaf}})
	if err != nil {
		return fmt.Errorf("the agent's own certificate: %w", err)
	}
	namespace, _, ok := namespaced(own)
	caller, kind, trial := namespaced(path)
	if !ok || !trial || kind != "trial" || caller != namespace {
		return fmt.Errorf("the peer is %q; only the manager and CompressionTrials of the agent's namespace are allowed", path)
	}
	return nil
}

// namespaced takes an identity apart that is of something in a namespace.
func namespaced(path string) (namespace, kind string, ok bool) {
	parts := strings.Split(path, "/")
	if len(parts) != 5 || parts[0] != "" || parts[1] != "ns" || parts[2] == "" || parts[4] == "" {
		return "", "", false
	}
	return parts[2], parts[3], true
}

// mayCall reports whether the method is for who calls: samples for trials, everything else for the manager.
func mayCall(ctx context.Context, method string) error {
	path, err := callerPath(ctx)
	if err != nil {
		return status.Error(codes.Unauthenticated, err.Error())
	}
	if samples := strings.HasPrefix(
		method, "/"+wirev1.Sampler_ServiceDesc.ServiceName+"/",
	); samples == (path == ManagerPath) {
		return status.Errorf(codes.PermissionDenied, "%q may not call %s", path, method)
	}
	return nil
}

func callerPath(ctx context.Context) (string, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "", errors.New("the caller is not known")
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return "", errors.New("the caller did not come by TLS")
	}
	return peerPath(info.State)
}
