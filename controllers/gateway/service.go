// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"

	"github.com/go-logr/logr"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/agentreport"
	"github.com/lighterage/lighterage/controllers/audit"
	"github.com/lighterage/lighterage/controllers/gateway/passthrough"
	"github.com/lighterage/lighterage/controllers/gateway/reverse"
	"github.com/lighterage/lighterage/controllers/pki"
)

// service is the gRPC service Gateway.
type service struct {
	wirev1.UnimplementedGatewayServer
	options Options
	trust   *trust
	limits  *peerLimits
	metrics *metrics
	waiters *waiters
	// registry and controlled have the control connections of peers.
	registry   *reverse.Registry
	controlled *controlled
	// rejections is the audit trail.
	rejections *audit.Rejections
	log        logr.Logger
	// stopping ends when the gateway is about to.
	stopping context.Context
}

// Hello tells any trusted caller under which name it is known. What to make of another protocol version is the caller's
// decision: it learns both.
func (s *service) Hello(ctx context.Context, in *wirev1.HelloRequest) (_ *wirev1.HelloResponse, err error) {
	from, err := s.caller(ctx)
	defer func() { s.ended("Hello", from, err) }()
	if err != nil {
		return nil, err
	}
	_, _, isTransfer := from.identity.Transfer()
	_, _, isQueue := from.identity.Queue()
	if !isTransfer && !isQueue && from.identity.Path != pki.ManagerPath {
		return nil, untrusted(
			"the certificate names %s, and only a manager, a Transfer or a Queue may call a gateway", from.identity.Path,
		)
	}
	return &wirev1.HelloResponse{ProtocolVersion: wirev1.ProtocolVersion, Version: wirev1.Version, KnownAs: from.peer}, nil
}

// Open answers refusals in the stream, so that callers need to look in one place only.
func (s *service) Open(in *wirev1.OpenRequest, stream grpc.ServerStreamingServer[wirev1.OpenResponse]) error {
	from, err := s.caller(stream.Context())
	if err == nil {
		err = s.open(from, in, stream)
	}
	s.ended("Open", from, err)
	if failure := failureOf(err); failure != nil {
		return stream.Send(&wirev1.OpenResponse{State: &wirev1.OpenResponse_Refused{Refused: failure}})
	}
	return err
}

// Withdraw deletes the Deliveries of a Transfer of the caller's cluster, wherever they are, or what was made for one
// that pulls.
func (s *service) Withdraw(ctx context.Context, in *wirev1.WithdrawRequest) (_ *wirev1.WithdrawResponse, err error) {
	from, err := s.caller(ctx)
	defer func() { s.ended("Withdraw", from, err) }()
	if err != nil {
		return nil, err
	}
	if err := validateTransfer(in.GetNamespace(), in.GetName()); err != nil {
		return nil, err
	}
	namespace, name, isTransfer := from.identity.Transfer()
	itself := isTransfer && namespace == in.GetNamespace() && name == in.GetName()
	if !itself && from.identity.Path != pki.ManagerPath {
		return nil, untrusted(
			"the certificate names %s, and only a manager or the Transfer itself may withdraw it", from.identity.Path,
		)
	}
	if in.GetPull() != nil {
		return &wirev1.WithdrawResponse{}, s.withdrawPulled(ctx, from.peer, in)
	}
	deliveries, err := s.current(ctx, from.peer, in.GetNamespace(), in.GetName())
	if err != nil {
		s.log.Error(err, "Deliveries cannot be listed")
		return nil, unavailable("the gateway cannot reach its API server now")
	}
	for i := range deliveries {
		if err := s.remove(ctx, &deliveries[i], "Withdrawn by its peer"); err != nil {
			s.log.Error(err, "Delivery cannot be deleted")
			return nil, unavailable("the gateway cannot reach its API server now")
		}
	}
	return &wirev1.WithdrawResponse{}, nil
}

// caller returns who makes a request, if it may make one now. Limits come first: what follows costs more.
func (s *service) caller(ctx context.Context) (caller, error) {
	connection, owner, err := s.admit(ctx)
	if err != nil {
		return caller{peer: nameOf(owner)}, err
	}
	from, err := s.trust.identify(ctx, connection.State.PeerCertificates)
	if err != nil {
		return caller{}, err
	}
	if owner == nil || owner.Name != from.peer {
		if err := s.limits.request(from.peer, tenantOf(from.identity)); err != nil {
			return from, err
		}
	}
	connection.conn.as(from)
	return from, nil
}

// admit returns the connection of a request, and who owns it, nil for a stranger, if one more may be made now.
func (s *service) admit(ctx context.Context) (connectionInfo, *passthrough.Owner, error) {
	connection := connectionOf(ctx)
	if connection.conn == nil {
		return connection, nil, unavailable("the gateway does not know the connection")
	}
	owner := connection.conn.owner.Load()
	if owner == nil && !s.limits.stranger() {
		return connection, nil, unavailable(
			"the gateway has too many requests of callers that it does not know; trying again later helps",
		)
	}
	if owner != nil {
		if err := s.limits.request(owner.Name, owner.Part); err != nil {
			return connection, owner, err
		}
	}
	return connection, owner, nil
}

func nameOf(owner *passthrough.Owner) string {
	if owner == nil {
		return ""
	}
	return owner.Name
}

// reasonThrottled is that of rejections which trying again later helps.
const reasonThrottled = "Unavailable"

// ended counts a request, and writes it into the audit trail if it was rejected.
func (s *service) ended(method string, from caller, err error) {
	s.metrics.count(method, from.peer, err)
	rejected := audit.Rejection{Peer: from.peer, Method: method, Identity: from.identity.Path}
	switch failure := failureOf(err); {
	case failure != nil:
		rejected.Reason, rejected.Message = agentreport.FailureReason(failure.GetReason()), failure.GetMessage()
	case status.Code(err) == codes.Unavailable:
		rejected.Reason, rejected.Message = reasonThrottled, status.Convert(err).Message()
	default:
		return
	}
	s.rejections.Record(rejected)
}

// keyOf names a Delivery in logs.
func keyOf(delivery *v1alpha1.Delivery) string {
	return delivery.Namespace + "/" + delivery.Name
}
