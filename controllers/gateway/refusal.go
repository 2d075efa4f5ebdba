// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// refusal is an error that tells the caller why, and what to do. As a gRPC status it carries the Failure as a detail.
type refusal struct {
	code    codes.Code
	failure *wirev1.Failure
}

func refuse(code codes.Code, reason wirev1.FailureReason, format string, arguments ...any) *refusal {
	return &refusal{code: code, failure: &wirev1.Failure{Reason: reason, Message: fmt.Sprintf(format, arguments...)}}
}

// Error is of error.
func (r *refusal) Error() string {
	return r.failure.GetMessage()
}

// GRPCStatus is what gRPC sends.
func (r *refusal) GRPCStatus() *status.Status {
	plain := status.New(r.code, r.failure.GetMessage())
	detailed, err := plain.WithDetails(r.failure)
	if err != nil {
		return plain
	}
	return detailed
}

// untrusted refuses a caller.
func untrusted(format string, arguments ...any) *refusal {
	return refuse(codes.Unauthenticated, wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED, format, arguments...)
}

// invalid refuses what no correct caller sends.
func invalid(format string, arguments ...any) *refusal {
	return refuse(codes.InvalidArgument, wirev1.FailureReason_FAILURE_REASON_INVALID_DATA, format, arguments...)
}

// unavailable refuses for now: callers try again after a pause.
func unavailable(format string, arguments ...any) error {
	return status.Errorf(codes.Unavailable, format, arguments...)
}

// failureOf returns the Failure in an error, if it is a refusal that trying again does not fix.
func failureOf(err error) *wirev1.Failure {
	var refused *refusal
	if errors.As(err, &refused) {
		return refused.failure
	}
	return nil
}
