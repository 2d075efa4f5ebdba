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
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/wire/tunnel"
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

func (p *peerGateway) WithdrawPull(ctx context.Context, gateway Gateway, request *wirev1.WithdrawRequest) error {
	return p.call(ctx, gateway, func(ctx context.Context, client wirev1.GatewayClient) error {
		_, err := client.Withdraw(ctx, request)
		return err
	})
}

func (p *peerGateway) Pull(
	ctx context.Context, gateway Gateway, request *wirev1.PullRequest,
) (*wirev1.PullResponse, error) {
	var response *wirev1.PullResponse
	var refused *RefusedError
	err := p.call(ctx, gateway, func(ctx context.Context, client wirev1.GatewayClient) (err error) {
		response, err = client.Pull(ctx, request)
		switch failure := failureOf(err); failure.GetReason() {
		case wirev1.FailureReason_FAILURE_REASON_UNSPECIFIED, wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED,
			wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE:
			return err
		default:
			refused = &RefusedError{Reason: failure.GetReason(), Message: failure.GetMessage()}
			return nil
		}
	})
	if refused != nil {
		return nil, refused
	}
	return response, err
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

func (p *peerGateway) History(
	ctx context.Context, gateway Gateway, request *wirev1.HistoryRequest,
) (*wirev1.HistoryResponse, error) {
	var response *wirev1.HistoryResponse
	err := p.call(ctx, gateway, func(ctx context.Context, client wirev1.GatewayClient) (err error) {
		response, err = client.History(ctx, request)
		return err
	})
	return response, err
}

func (p *peerGateway) call(
	ctx context.Context, gateway Gateway, question func(context.Context, wirev1.GatewayClient) error,
) error {
	pair, _, err := p.options.Credentials.Certificate(ctx)
	if err != nil {
		return fmt.Errorf("taking the manager's certificate: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	conn, err := Connect(gateway, pair, p.options.Timeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := question(ctx, wirev1.NewGatewayClient(conn)); err != nil {
		return conn.Explain(err)
	}
	return nil
}

// Connection is one to a gateway.
type Connection struct {
	*grpc.ClientConn
	gateway Gateway
	log     *handshakeLog
	timeout time.Duration
}

// Connect returns a connection to a gateway, made when it is first used, by who has the certificate. timeout is what
// errors say of questions that were not answered.
func Connect(
	gateway Gateway, pair *tls.Certificate, timeout time.Duration, options ...grpc.DialOption,
) (*Connection, error) {
	roots, err := pki.ParseBundle(gateway.CABundle)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUntrusted, err)
	}
	transport := newCredentials(pki.ClientConfig(pair, pki.Pool(roots), pki.GatewayServerName))
	options = append([]grpc.DialOption{
		grpc.WithTransportCredentials(transport),
		grpc.WithAuthority(pki.GatewayServerName),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes)),
	}, options...)
	target := gateway.Endpoint
	if gateway.Tunnel != "" || gateway.Dial != nil {
		target = "passthrough:///" + target // a proxy may know names that this pod does not
		dial := gateway.Dial
		if dial == nil {
			dial = new(net.Dialer).DialContext
		}
		dial = tunnel.Through(dial, gateway.Tunnel, func() (*tls.Certificate, error) { return pair, nil })
		options = append(options, grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := dial(ctx, "tcp", address)
			if err != nil {
				transport.log.record(err)
			}
			return conn, err
		}))
	}
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		return nil, fmt.Errorf("%w: endpoint %q cannot be used: %w", ErrUnreachable, gateway.Endpoint, err)
	}
	return &Connection{ClientConn: conn, gateway: gateway, log: transport.log, timeout: timeout}, nil
}

// Explain turns an error of a question into one of the errors of this package, with the fix.
func (c *Connection) Explain(err error) error {
	return classify(c.gateway, err, c.log.last(), c.timeout)
}

// classify turns what gRPC and TLS say into one of the errors of this package, with the fix.
func classify(gateway Gateway, err, handshake error, timeout time.Duration) error {
	if failure := failureOf(err); failure != nil {
		switch failure.GetReason() {
		case wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED:
			return fmt.Errorf(
				"%w: the gateway at %s refuses this cluster: %s", ErrUntrusted, gateway.Endpoint, failure.GetMessage(),
			)
		case wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED:
			return fmt.Errorf("%w: the gateway at %s: %s", ErrUntrusted, gateway.Endpoint, failure.GetMessage())
		case wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE:
			return fmt.Errorf("%w: the gateway at %s: %s", ErrIncompatible, gateway.Endpoint, failure.GetMessage())
		}
	}
	var verification *tls.CertificateVerificationError
	var hostname x509.HostnameError
	var refused *refusedError
	var tunnelled *tunnel.Error
	switch {
	case errors.As(handshake, &tunnelled):
		return fmt.Errorf("%w: %s (%w)", ErrUnreachable, tunnelAdvice(gateway, tunnelled), tunnelled)
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

// tunnelAdvice says what to do about a tunnel that was refused.
func tunnelAdvice(gateway Gateway, refused *tunnel.Error) string {
	peer, _ := tunnel.PeerOf(gateway.Tunnel)
	switch refused.Reason {
	case tunnel.NotConnected:
		return fmt.Sprintf("the gateway of peer %s keeps no control connection to this cluster's; set connection: Dial on "+
			"the Peer there that stands for this cluster, and read its condition Connected", peer)
	case tunnel.NoAnswer:
		return fmt.Sprintf("the gateway of peer %s keeps a control connection and made no data connection in time; see "+
			"the log of its gateway, and whether proxies or firewalls there allow further connections", peer)
	case tunnel.ProxyAuthentication:
		return "the proxy of spec.proxy wants other credentials; correct the key that spec.proxy.credentialsKey names in " +
			"Secret lighterage-proxies of the operator's namespace"
	case tunnel.ProxyRefused:
		return "the proxy of spec.proxy makes no connection to spec.endpoint; check both, and what the proxy allows"
	case tunnel.ProxyUnreachable:
		return "the proxy of spec.proxy does not answer; check spec.proxy.url and the network, and whether the proxy works"
	case tunnel.Unreachable:
		return "nobody accepts connections at spec.endpoint; check it, its Service and firewalls"
	case tunnel.Busy:
		return "this cluster's gateway makes as many connections to peers as it may; trying again later helps"
	case tunnel.NotAllowed:
		return "this cluster's gateway does not know the Peer, or not yet; if this lasts, see its log"
	default:
		return "this cluster's gateway makes no connection to the peer"
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
