// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package agentclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	"github.com/lighterage/lighterage/controllers/pki"
)

// gatewayTimeout bounds a question to another cluster's gateway, connecting included.
const gatewayTimeout = 10 * time.Second

type peerGateway struct {
	options Options
}

var _ PeerGateway = (*peerGateway)(nil)

// NewPeerGateway returns a client of other clusters' gateways. It makes a connection for every question, as there are
// few.
func NewPeerGateway(o Options) PeerGateway {
	o.Timeout = cmp.Or(o.Timeout, gatewayTimeout)
	return &peerGateway{options: o}
}

func (p *peerGateway) Hello(ctx context.Context, gateway Gateway) (*wirev1.HelloResponse, error) {
	var response *wirev1.HelloResponse
	err := p.call(ctx, gateway, func(ctx context.Context, client wirev1.GatewayClient) (err error) {
		response, err = client.Hello(
			ctx, &wirev1.HelloRequest{ProtocolVersion: wirev1.ProtocolVersion, Version: wirev1.Version},
		)
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, ok := wirev1.InCommon(response.GetProtocolVersion()); !ok {
		return nil, fmt.Errorf("%w: the gateway at %s (version %s) speaks protocol %d and this cluster (version %s) %d; "+
			"upgrade the older one",
			ErrIncompatible, gateway.Endpoint, response.GetVersion(), response.GetProtocolVersion(), wirev1.Version,
			wirev1.ProtocolVersion)
	}
	return response, nil
}

func (p *peerGateway) Withdraw(ctx context.Context, gateway Gateway, namespace, name string) error {
	return p.call(ctx, gateway, func(ctx context.Context, client wirev1.GatewayClient) error {
		_, err := client.Withdraw(ctx, &wirev1.WithdrawRequest{Namespace: namespace, Name: name})
		return err
	})
}

func (p *peerGateway) Receipt(
	ctx context.Context, gateway Gateway, request ReceiptRequest,
) (*wirev1.ReceiptResponse, error) {
	var response *wirev1.ReceiptResponse
	err := p.call(ctx, gateway, func(ctx context.Context, client wirev1.GatewayClient) (err error) {
		response, err = client.Receipt(ctx, &wirev1.ReceiptRequest{
			Namespace: request.Namespace, Name: request.Name, RunId: request.Run, Attempt: uint32(max(0, request.Attempt)),
			Envelope: request.Envelope,
		})
		return err
	})
	return response, err
}

func (p *peerGateway) call(
	ctx context.Context, gateway Gateway, question func(context.Context, wirev1.GatewayClient) error,
) error {
	roots, err := pki.ParseBundle(gateway.CABundle)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUntrusted, err)
	}
	pair, _, err := p.options.Credentials.Certificate(ctx)
	if err != nil {
		return fmt.Errorf("taking the manager's certificate: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	transport := newCredentials(pki.ClientConfig(pair, pki.Pool(roots), pki.GatewayServerName))
	conn, err := grpc.NewClient(gateway.Endpoint,
		grpc.WithTransportCredentials(transport),
		grpc.WithAuthority(pki.GatewayServerName),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)),
	)
	if err != nil {
		return fmt.Errorf("%w: endpoint %q cannot be used: %w", ErrUnreachable, gateway.Endpoint, err)
	}
	defer conn.Close()
	if err := question(ctx, wirev1.NewGatewayClient(conn)); err != nil {
		return classify(gateway, err, transport.log.last(), p.options.Timeout)
	}
	return nil
}

// classify turns what gRPC and TLS say into one of the errors of this package, with the fix.
func classify(gateway Gateway, err, handshake error, timeout time.Duration) error {
	if failure := failureOf(err); failure != nil {
		switch failure.GetReason() {
		case wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED:
			return fmt.Errorf(
				"%w: the gateway at %s refuses this cluster: %s", ErrUntrusted, gateway.Endpoint, failure.GetMessage(),
			)
		case wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE:
			return fmt.Errorf("%w: the gateway at %s: %s", ErrIncompatible, gateway.Endpoint, failure.GetMessage())
		}
	}
	var verification *tls.CertificateVerificationError
	var hostname x509.HostnameError
	var refused *refusedError
	switch {
	case errors.As(handshake, &hostname):
		return fmt.Errorf("%w: who answers at %s is of that cluster but is not its gateway (%w); check spec.endpoint of "+
			"the Peer",
			ErrUntrusted, gateway.Endpoint, hostname)
	case errors.As(handshake, &verification):
		return fmt.Errorf("%w: the certificate of the gateway at %s does not verify against the Peer's caBundle (%w); copy "+
			"ca.crt from the ConfigMap lighterage-ca of that cluster into spec.caBundle; if it is there and that cluster's CA "+
			"was replaced just now, put the former one back beside it for as long as its gateway still serves with that",
			ErrUntrusted, gateway.Endpoint, verification.Err)
	case errors.As(handshake, &refused):
		return fmt.Errorf("%w: the gateway at %s refused this cluster's certificate (%w); give that cluster a Peer with "+
			"ca.crt from this cluster's ConfigMap lighterage-ca", ErrUntrusted, gateway.Endpoint, refused)
	}
	switch status.Code(err) {
	case codes.Unauthenticated, codes.PermissionDenied:
		return fmt.Errorf("%w: the gateway at %s does not know this cluster (%s); give that cluster a Peer with ca.crt "+
			"from this cluster's ConfigMap lighterage-ca", ErrUntrusted, gateway.Endpoint, status.Convert(err).Message())
	case codes.Unimplemented, codes.FailedPrecondition:
		return fmt.Errorf(
			"%w: the gateway at %s: %s; upgrade the older cluster", ErrIncompatible, gateway.Endpoint,
			status.Convert(err).Message(),
		)
	case codes.DeadlineExceeded:
		return fmt.Errorf("%w: the gateway at %s does not answer within %s; check spec.endpoint, its Service and firewalls",
			ErrUnreachable, gateway.Endpoint, timeout)
	default:
		return fmt.Errorf("%w: the gateway at %s does not answer (%s); check spec.endpoint, its Service and firewalls",
			ErrUnreachable, gateway.Endpoint, status.Convert(err).Message())
	}
}

// failureOf returns the Failure that a gateway attached to an error, if it did.
func failureOf(err error) *wirev1.Failure {
	for _, detail := range status.Convert(err).Details() {
		if failure, ok := detail.(*wirev1.Failure); ok {
			return failure
		}
	}
	return nil
}
