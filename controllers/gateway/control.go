// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
	v1alpha1 "github.com/lighterage/lighterage/api/v1alpha1"
	"github.com/lighterage/lighterage/controllers/gateway/reverse"
	"github.com/lighterage/lighterage/controllers/pki"
)

// endGrace is what a control connection that is not allowed any more has to be told so.
const endGrace = time.Second

// controlled are the control connections that peers keep, with what has to be asked again when Peers change.
type controlled struct {
	mu  sync.Mutex
	all map[*controlling]struct{}
}

type controlling struct {
	peer  string
	chain []*x509.Certificate
	// end may be called more than once.
	end func()
}

func (c *controlled) add(one *controlling) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[*controlling]struct{}{}
	}
	c.all[one] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, one)
	}
}

// check ends those that are not allowed any more.
func (c *controlled) check(allowed func(*controlling) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for one := range c.all {
		if !allowed(one) {
			one.end()
		}
	}
}

// Control asks a gateway that cannot be dialled for data connections until either side is stopped.
func (s *service) Control(
	stream grpc.BidiStreamingServer[wirev1.ControlRequest, wirev1.ControlResponse],
) (err error) {
	from, err := s.caller(stream.Context())
	defer func() { s.ended("Control", from, err) }()
	if err != nil {
		return err
	}
	if from.identity.Path != pki.GatewayPath {
		return untrusted("the certificate names %s, and only a gateway may keep a control connection", from.identity.Path)
	}
	if err := s.listensTo(stream.Context(), from.peer); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	connection := connectionOf(ctx)
	defer connection.conn.Use()()
	control, leave := s.registry.Add(from.peer, s.options.Clock.Now())
	if control == nil {
		return status.Errorf(codes.ResourceExhausted, "peer %s keeps %d control connections, and more are not allowed",
			from.peer, reverse.MaxControls)
	}
	defer leave()
	one := &controlling{peer: from.peer, chain: connection.State.PeerCertificates, end: func() {
		leave() // at once, also where a message is being written that nobody reads
		cancel()
		// It is time to read why; the connection serves nothing else.
		time.AfterFunc(endGrace, func() { _ = connection.conn.Close() })
	}}
	defer s.controlled.add(one)()
	// A Peer that was changed before that would not have ended it.
	if err := s.keeps(ctx, one); err != nil {
		return err
	}
	s.log.V(1).Info("Control connection accepted", "peer", from.peer)
	accepted := &wirev1.ControlAccepted{
		ProtocolVersion: wirev1.ProtocolVersion, Version: wirev1.Version, KnownAs: from.peer,
	}
	if err := stream.Send(&wirev1.ControlResponse{
		Message: &wirev1.ControlResponse_Accepted{Accepted: accepted},
	}); err != nil {
		return err
	}
	heard := make(chan error, 1)
	go func() { heard <- s.hear(stream, from.peer) }()
	return s.ask(ctx, stream, control, heard)
}

// ask passes on what the registry asks for.
func (s *service) ask(
	ctx context.Context, stream grpc.BidiStreamingServer[wirev1.ControlRequest, wirev1.ControlResponse],
	control *reverse.Control, heard <-chan error,
) error {
	for {
		select {
		case name := <-control.Ask:
			connect := &wirev1.ControlResponse{
				Message: &wirev1.ControlResponse_Connect{Connect: &wirev1.ConnectData{ServerName: name}},
			}
			if err := stream.Send(connect); err != nil {
				return err
			}
		case err := <-heard:
			return err
		case <-ctx.Done():
			return unavailable("the receiving cluster does not allow the control connection any more, or it has ended")
		case <-s.stopping.Done():
			return unavailable("this gateway is being stopped; trying again reaches another")
		}
	}
}

// hear reads what the peer says until the stream ends. What is of a later release is passed over.
func (s *service) hear(
	stream grpc.BidiStreamingServer[wirev1.ControlRequest, wirev1.ControlResponse], peer string,
) error {
	for {
		said, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if hello := said.GetHello(); hello != nil && !wirev1.Speaks(hello.GetProtocolVersion()) {
			if _, ok := wirev1.InCommon(hello.GetProtocolVersion()); !ok {
				return refuse(codes.FailedPrecondition, wirev1.FailureReason_FAILURE_REASON_PEER_INCOMPATIBLE,
					"the gateway (version %.64q) speaks protocol %d and the receiving cluster (version %s) %d; upgrade the older "+
						"cluster",
					hello.GetVersion(), hello.GetProtocolVersion(), wirev1.Version, wirev1.ProtocolVersion)
			}
		}
		if failed := said.GetFailed(); failed != nil {
			s.registry.Failed(peer, failed.GetServerName())
		}
	}
}

// listensTo rejects a peer that is not to keep control connections.
func (s *service) listensTo(ctx context.Context, name string) error {
	var peer v1alpha1.Peer
	if err := s.options.Client.Get(ctx, client.ObjectKey{Name: name}, &peer); err != nil {
		s.log.Error(err, "Peer cannot be looked up")
		return unavailable("the gateway cannot read its Peers now")
	}
	if peer.Spec.Connection != v1alpha1.PeerListen {
		return refuse(codes.PermissionDenied, wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED,
			"Peer %s of the receiving cluster is not to be reached over control connections; set connection: Listen on it "+
				"there, or connection: Both here", name)
	}
	return nil
}

// endControls ends control connections that a changed Peer does not allow any more.
func (g *Gateway) endControls() {
	ctx, cancel := context.WithTimeout(context.Background(), identifyTimeout)
	defer cancel()
	g.controlled.check(func(one *controlling) bool { return g.service.keeps(ctx, one) == nil })
}

// keeps rejects a control connection that is not allowed any more.
func (s *service) keeps(ctx context.Context, one *controlling) error {
	from, err := s.trust.identify(ctx, one.chain)
	if err != nil {
		return err
	}
	if from.peer != one.peer {
		return untrusted("the certificate is of Peer %s of the receiving cluster now, and was of %s", from.peer, one.peer)
	}
	return s.listensTo(ctx, one.peer)
}
