// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

const jsonType = "application/json"

// mux serves HTTP without gRPC.
func (s *Service) mux() *http.ServeMux {
	mux := http.NewServeMux()
	handle := func(pattern, method string, h http.Handler) { mux.Handle(pattern, s.guard(requests[method], h)) }
	handle("POST /v1/put", messagesv1.MessageService_Put_FullMethodName, call(s, s.Put))
	handle("POST /v1/get", messagesv1.MessageService_Get_FullMethodName, call(s, s.Get))
	handle("POST /v1/acknowledge", messagesv1.MessageService_Acknowledge_FullMethodName, call(s, s.Acknowledge))
	handle("POST /v1/release", messagesv1.MessageService_Release_FullMethodName, call(s, s.Release))
	handle("POST /v1/extend", messagesv1.MessageService_Extend_FullMethodName, call(s, s.Extend))
	handle("POST /v1/reject", messagesv1.MessageService_Reject_FullMethodName, call(s, s.Reject))
	handle("POST /v1/message", messagesv1.MessageService_Put_FullMethodName, http.HandlerFunc(s.putRaw))
	handle("POST /v1/message/next", messagesv1.MessageService_Get_FullMethodName, http.HandlerFunc(s.getRaw))
	handle(
		"DELETE /v1/message/{receipt}", messagesv1.MessageService_Acknowledge_FullMethodName,
		http.HandlerFunc(s.acknowledgeRaw),
	)
	return mux
}

// pointer is to a message of a type that protobuf generates.
type pointer[T any] interface {
	*T
	proto.Message
}

// call serves one of the service's calls with JSON.
func call[T any, Request pointer[T], Response proto.Message](
	s *Service, f func(context.Context, Request) (Response, error),
) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := s.body(w, r)
		if err != nil {
			writeError(w, err)
			return
		}
		in := Request(new(T))
		if err := protojson.Unmarshal(body, in); err != nil {
			writeError(w, invalid("the body is not the JSON of this call: %v", err))
			return
		}
		out, err := f(r.Context(), in)
		if err != nil {
			writeError(w, err)
			return
		}
		text, err := protojson.Marshal(out)
		if err != nil {
			writeError(w, status.Errorf(codes.Internal, "write the answer: %v", err))
			return
		}
		write(w, http.StatusOK, text)
	})
}

// body reads that of a request, for which memory is held before.
func (s *Service) body(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limit := int64(s.maxBody()) / 3 * 4 // payloads in JSON are in base64
	expected := r.ContentLength
	if expected < 0 || expected > limit {
		expected = limit
	}
	in := http.MaxBytesReader(w, r.Body, limit)
	var head []byte
	if r.ContentLength < 0 { // it may be short nevertheless
		var err error
		if head, err = io.ReadAll(io.LimitReader(in, smallBody+1)); err != nil {
			return nil, invalid("read the body: %v", err)
		}
		if len(head) <= smallBody {
			return head, nil
		}
	}
	if err := hold(r.Context(), int(expected)); err != nil {
		return nil, err
	}
	reading(r.Context(), int(expected))
	body, err := io.ReadAll(io.MultiReader(bytes.NewReader(head), in))
	var long *http.MaxBytesError
	if errors.As(err, &long) {
		return nil, status.Errorf(codes.InvalidArgument, "the body is longer than %d bytes", limit)
	}
	if err != nil {
		return nil, invalid("read the body: %v", err)
	}
	read(r.Context())
	return body, nil
}

func write(w http.ResponseWriter, code int, text []byte) {
	w.Header().Set("Content-Type", jsonType)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(text) // the client has gone
}

// httpCodes are those of errors.
var httpCodes = map[codes.Code]int{
	codes.InvalidArgument: http.StatusBadRequest, codes.Unauthenticated: http.StatusUnauthorized,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.FailedPrecondition: http.StatusConflict,
	codes.ResourceExhausted:  http.StatusTooManyRequests, codes.Unavailable: http.StatusServiceUnavailable,
	codes.DeadlineExceeded: http.StatusGatewayTimeout, codes.Canceled: 499,
}

// failure is the body of an answer that is one.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func writeError(w http.ResponseWriter, err error) {
	s := status.Convert(err)
	code, ok := httpCodes[s.Code()]
	if !ok {
		code = http.StatusInternalServerError
	}
	text, _ := json.Marshal(failure{s.Code().String(), s.Message()}) // strings always marshal
	write(w, code, text)
}

func grpcStatus(err error) string { return strconv.Itoa(int(status.Code(err))) }
