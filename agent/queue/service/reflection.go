// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"context"
	"errors"
	"io"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

// maxReflectionRequest bounds a request of reflection in bytes. It has the name of a file or of something in one.
const maxReflectionRequest = 4 << 10

// newReflection returns a server that describes MessageService to clients such as grpcurl. It is not that of the calls,
// because its requests may be less long and its one call is a stream.
func newReflection(s *Service, calls reflection.ServiceInfoProvider) *grpc.Server {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxReflectionRequest), grpc.StreamInterceptor(s.interceptStream))
	reflectionv1.RegisterServerReflectionServer(server, reflection.NewServerV1(reflection.ServerOptions{
		Services: calls, DescriptorResolver: published{}, ExtensionResolver: new(protoregistry.Types),
	}))
	return server
}

// published finds the descriptors that clients of MessageService need, and not those of the other protocols of this
// program.
type published struct{}

// FindFileByPath implements protodesc.Resolver.
func (published) FindFileByPath(path string) (protoreflect.FileDescriptor, error) {
	file := messagesv1.File_api_messages_v1_messages_proto
	if path == file.Path() {
		return file, nil
	}
	for i := range file.Imports().Len() {
		if imported := file.Imports().Get(i); path == imported.Path() {
			return imported.FileDescriptor, nil
		}
	}
	return nil, protoregistry.NotFound
}

// FindDescriptorByName implements protodesc.Resolver.
func (p published) FindDescriptorByName(name protoreflect.FullName) (protoreflect.Descriptor, error) {
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return nil, err
	}
	if _, err := p.FindFileByPath(found.ParentFile().Path()); err != nil {
		return nil, err
	}
	return found, nil
}

// interceptStream is intercept for streams. It reads a message of a stream when the one before was answered.
func (s *Service) interceptStream(
	server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler,
) error {
	if err := s.may(stream.Context(), requests[info.FullMethod]); err != nil {
		return err
	}
	body, ok := stream.Context().Value(pacedKey{}).(*paced)
	if !ok {
		return errors.New("serve a stream: its body is not read message by message")
	}
	return handle(server, pacedStream{stream, body})
}

// serveStream serves a stream until the service drains.
func (s *Service) serveStream(server http.Handler, w http.ResponseWriter, r *http.Request) {
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	defer context.AfterFunc(s.draining, stop)() //nolint:contextcheck // It is another reason to end.
	body := &paced{
		ReadCloser: r.Body, limit: maxReflectionRequest, wanted: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	body.context = ctx
	r = r.WithContext(context.WithValue(ctx, pacedKey{}, body))
	r.Body = body
	server.ServeHTTP(w, r)
}

// paced is the body of a stream, of which a message is read when the stream wants one. gRPC would read on and keep
// what its handler has not taken, however much that is.
type paced struct {
	io.ReadCloser
	context context.Context //nolint:containedctx // It is that of the request whose body this is.
	limit   int
	wanted  chan struct{}
	closed  chan struct{} // by Close, once
	message *bounded
}

type pacedKey struct{}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	if p.message == nil || p.message.ended() {
		select {
		case <-p.wanted:
		case <-p.closed:
			return 0, io.EOF
		case <-p.context.Done():
			return 0, p.context.Err()
		}
		p.message = &bounded{ReadCloser: p.ReadCloser, context: p.context, limit: p.limit}
	}
	return p.message.Read(b)
}

// Close implements io.Closer. gRPC calls it once, when the stream has ended.
func (p *paced) Close() error {
	close(p.closed)
	return p.ReadCloser.Close()
}

// pacedStream is a stream with such a body.
type pacedStream struct {
	grpc.ServerStream
	body *paced
}

// RecvMsg implements grpc.ServerStream.
func (s pacedStream) RecvMsg(m any) error {
	select {
	case s.body.wanted <- struct{}{}:
	default: // It was not read yet, since the stream has ended.
	}
	return s.ServerStream.RecvMsg(m)
}
