// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/queue/audit"
	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/roles"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// requests are what the calls of the service ask for, by gRPC and JSON. What is not here nobody may call.
var requests = map[string]roles.Request{
	messagesv1.MessageService_Put_FullMethodName:         roles.Publish,
	messagesv1.MessageService_Get_FullMethodName:         roles.Consume,
	messagesv1.MessageService_Acknowledge_FullMethodName: roles.Settle,
	messagesv1.MessageService_Release_FullMethodName:     roles.Settle,
	messagesv1.MessageService_Extend_FullMethodName:      roles.Settle,
	messagesv1.MessageService_Reject_FullMethodName:      roles.Settle,

	reflectionv1.ServerReflection_ServerReflectionInfo_FullMethodName: roles.Describe,
}

// caller is who asks, by what and from where. The session is nil where the connection is not one of a Server.
type caller struct {
	client           roles.Client
	session          *audit.Session
	protocol, remote string
}

type callerKey struct{}

// session returns that of who asks; nil: there is none.
func session(ctx context.Context) *audit.Session {
	from, _ := ctx.Value(callerKey{}).(caller)
	return from.session
}

// may returns an error unless the client of a request may ask for something. A context without a client has no
// operations.
func (s *Service) may(ctx context.Context, r roles.Request) error {
	from, _ := ctx.Value(callerKey{}).(caller)
	if from.client.Operations.Allow(r) {
		return nil
	}
	s.options.Front.Count(front.ForbiddenRequests)
	s.options.Front.Audit().Reject(audit.Forbidden, from.client.Name, from.protocol, from.remote)
	if roles.Needed(r) == "" {
		return status.Error(codes.PermissionDenied, "no client may call this")
	}
	return status.Errorf(
		codes.PermissionDenied,
		"this client of queue %s lacks the operation %s: give it a role with it in spec.authentication", s.options.Queue,
		roles.Needed(r),
	)
}

// intercept has only those calls served that the client may ask for.
func (s *Service) intercept(
	ctx context.Context, in any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	if err := s.may(ctx, requests[info.FullMethod]); err != nil {
		return nil, err
	}
	return handle(ctx, in)
}

// guard is intercept for HTTP. Nothing is read of the body of a request that is refused.
func (s *Service) guard(r roles.Request, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if err := s.may(req.Context(), r); err != nil {
			writeError(w, err)
			return
		}
		handler.ServeHTTP(w, req)
	})
}
