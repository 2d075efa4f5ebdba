// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package service_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/lighterage/lighterage/agent/queue/front"
	"github.com/lighterage/lighterage/agent/queue/roles"
	"github.com/lighterage/lighterage/agent/queue/service"
	"github.com/lighterage/lighterage/agent/queue/store"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// reflection is a stream of a client of reflection.
type reflection struct {
	*testing.T
	reflectionv1.ServerReflection_ServerReflectionInfoClient
}

// reflect opens a stream with a token.
func (q *queue) reflect(t *testing.T, token string) reflection {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+q.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(
		metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token),
	)
	if err != nil {
		t.Fatal(err)
	}
	return reflection{t, stream}
}

func symbol(name string) *reflectionv1.ServerReflectionRequest {
	return &reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: name},
	}
}

func list() *reflectionv1.ServerReflectionRequest {
	return &reflectionv1.ServerReflectionRequest{
		MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{},
	}
}

// ask sends a request and returns its answer, or how the stream ended.
func (r reflection) ask(request *reflectionv1.ServerReflectionRequest) (*reflectionv1.ServerReflectionResponse, error) {
	r.Helper()
	if err := r.Send(request); err != nil && !errors.Is(err, io.EOF) { // Recv says why it ended.
		r.Fatal(err)
	}
	return r.Recv()
}

// TestReflection: a client that knows nothing of the protocol learns of MessageService, by requests one after the
// other on one stream, and of nothing else that the program contains.
func TestReflection(t *testing.T) {
	t.Parallel()
	q := start(t, store.Settings{}, func(f *front.Options, _ *service.Options) {
		f.Settings.TokenRoles = roles.Roles{"clerk": roles.Put}
	})
	r := q.reflect(t, token)
	listed, err := r.ask(list())
	if err != nil {
		t.Fatal(err)
	}
	name := messagesv1.MessageService_ServiceDesc.ServiceName
	if s := listed.GetListServicesResponse().GetService(); len(s) != 1 || s[0].GetName() != name {
		t.Errorf("services: %v", s)
	}
	described, err := r.ask(symbol(name))
	if err != nil {
		t.Fatal(err)
	}
	set := new(descriptorpb.FileDescriptorSet)
	for _, text := range described.GetFileDescriptorResponse().GetFileDescriptorProto() {
		file := new(descriptorpb.FileDescriptorProto)
		if err := proto.Unmarshal(text, file); err != nil {
			t.Fatal(err)
		}
		set.File = append(set.File, file)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	found, err := files.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		t.Fatal(err)
	}
	var methods []string
	for i, m := 0, found.(protoreflect.ServiceDescriptor).Methods(); i < m.Len(); i++ {
		methods = append(methods, string(m.Get(i).Name()))
	}
	if want := []string{"Put", "Get", "Acknowledge", "Release", "Extend", "Reject"}; !slices.Equal(methods, want) {
		t.Errorf("methods: %v", methods)
	}
	for _, other := range []string{"lighterage.wire.v1.QueueConfig", "lighterage.wire.v1.Nothing"} {
		answer, err := r.ask(symbol(other))
		if err != nil {
			t.Fatal(err)
		}
		if code := answer.GetErrorResponse().GetErrorCode(); codes.Code(code) != codes.NotFound {
			t.Errorf("%s: %v", other, answer)
		}
	}
	if n := q.service.Requests(); n != 1 {
		t.Errorf("%d requests are served", n)
	}
	if err := r.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ends with %v", err)
	}
}

// TestReflectionRejects: reflection is for clients of the queue, its requests are short, and there are as many of its
// streams as there may be requests.
func TestReflectionRejects(t *testing.T) {
	t.Parallel()
	q := start(t, store.Settings{})
	if _, err := q.reflect(t, "wrong").ask(list()); status.Code(err) != codes.Unauthenticated {
		t.Errorf("with a wrong token: %v", err)
	}
	if n := q.front.Statistics().FailedAuthentications; n != 1 {
		t.Errorf("%d requests are counted as unauthenticated", n)
	}
	if _, err := q.reflect(t, token).ask(
		symbol(strings.Repeat("x", 8<<10)),
	); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a long request: %v", err)
	}
	free := q.service.TakeRequests()
	if _, err := q.reflect(t, token).ask(list()); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one request too many: %v", err)
	}
	free()
}

// TestReflectionDrains: an open stream does not keep a member from ending.
func TestReflectionDrains(t *testing.T) {
	t.Parallel()
	q := start(t, store.Settings{})
	r := q.reflect(t, token)
	if _, err := r.ask(list()); err != nil {
		t.Fatal(err)
	}
	if err := q.server.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Recv(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the stream ends with %v", err)
	}
}
