// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package messages_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/api/messages"
	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
)

const token = "a-token"

// fake is a MessageService that keeps messages in memory. What it does otherwise than it should, tests say by before
// and after.
type fake struct {
	messagesv1.UnimplementedMessageServiceServer
	address string
	roots   *x509.CertPool
	stop    func()

	// before is asked ahead of each call, and after with what it answers; their errors are what the client gets.
	before func(call int, request any) error
	after  func(call int, response any) error

	mu       sync.Mutex
	calls    int
	requests []any
	sequence uint64
	ids      map[string]uint64
	ready    []*messagesv1.ReceivedMessage
	held     map[string]*messagesv1.ReceivedMessage
	dead     []*messagesv1.ReceivedMessage
	extended map[string]int
}

// startFake serves by TLS on a port of this machine until stop is called.
func startFake() (*fake, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	f := &fake{
		roots: x509.NewCertPool(), ids: map[string]uint64{}, held: map[string]*messagesv1.ReceivedMessage{},
		extended: map[string]int{},
	}
	f.roots.AddCert(parsed)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f.address = listener.Addr().String()
	server := grpc.NewServer(
		grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}, MinVersion: tls.VersionTLS13,
		})),
		grpc.UnaryInterceptor(f.intercept),
	)
	messagesv1.RegisterMessageServiceServer(server, f)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	f.stop = func() {
		server.Stop()
		<-served
	}
	return f, nil
}

// client starts a fake and a client of it.
func client(t *testing.T, options ...messages.Option) (*fake, *messages.Client) {
	t.Helper()
	f, err := startFake()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.stop)
	c, err := messages.New(f.address, append([]messages.Option{
		messages.WithTLS(&tls.Config{RootCAs: f.roots}), messages.WithToken(token), //nolint:gosec // New sets the version.
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return f, c
}

func (f *fake) intercept(
	ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler,
) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if got := md.Get("authorization"); len(got) != 1 || got[0] != "Bearer "+token {
		return nil, status.Error(codes.Unauthenticated, "the token is not known")
	}
	f.mu.Lock()
	f.calls++
	call := f.calls
	f.requests = append(f.requests, request)
	f.mu.Unlock()
	if f.before != nil {
		if err := f.before(call, request); err != nil {
			return nil, err
		}
	}
	response, err := handle(ctx, request)
	if err == nil && f.after != nil {
		err = f.after(call, response)
	}
	return response, err
}

// made is what was asked.
func (f *fake) made() []any {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

func (f *fake) Put(_ context.Context, r *messagesv1.PutRequest) (*messagesv1.PutResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := &messagesv1.PutResponse{}
	for _, m := range r.GetMessages() {
		if sequence, ok := f.ids[m.GetId()]; ok {
			out.Results = append(out.Results, &messagesv1.PutResult{Sequence: sequence, Duplicate: true})
			continue
		}
		f.sequence++
		if m.GetId() != "" {
			f.ids[m.GetId()] = f.sequence
		}
		f.ready = append(f.ready, &messagesv1.ReceivedMessage{Message: m, Sequence: f.sequence})
		out.Results = append(out.Results, &messagesv1.PutResult{Sequence: f.sequence})
	}
	return out, nil
}

func (f *fake) Get(ctx context.Context, r *messagesv1.GetRequest) (*messagesv1.GetResponse, error) {
	until := time.Now().Add(r.GetWait().AsDuration())
	for {
		f.mu.Lock()
		from := &f.ready
		if r.GetDeadLetters() {
			from = &f.dead
		}
		n := min(len(*from), int(r.GetMaxMessages()))
		if n > 0 {
			out := (*from)[:n:n]
			*from = (*from)[n:]
			for _, m := range out {
				m.Deliveries++
				m.Receipt = fmt.Sprintf("%d-%d", m.GetSequence(), m.GetDeliveries())
				f.held[m.GetReceipt()] = m
			}
			f.mu.Unlock()
			return &messagesv1.GetResponse{Messages: out}, nil
		}
		f.mu.Unlock()
		if time.Now().After(until) {
			return &messagesv1.GetResponse{}, nil
		}
		select {
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// settle does something with each message that a client has.
func (f *fake) settle(receipts []string, do func(*messagesv1.ReceivedMessage)) []messagesv1.ReceiptResult {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := make([]messagesv1.ReceiptResult, len(receipts))
	for i, receipt := range receipts {
		m := f.held[receipt]
		if m == nil {
			out[i] = messagesv1.ReceiptResult_RECEIPT_RESULT_EXPIRED
			continue
		}
		delete(f.held, receipt)
		do(m)
		out[i] = messagesv1.ReceiptResult_RECEIPT_RESULT_DONE
	}
	return out
}

func (f *fake) Acknowledge(
	_ context.Context, r *messagesv1.AcknowledgeRequest,
) (*messagesv1.AcknowledgeResponse, error) {
	return &messagesv1.AcknowledgeResponse{Results: f.settle(r.GetReceipts(), func(*messagesv1.ReceivedMessage) {})}, nil
}

func (f *fake) Release(_ context.Context, r *messagesv1.ReleaseRequest) (*messagesv1.ReleaseResponse, error) {
	return &messagesv1.ReleaseResponse{Results: f.settle(r.GetReceipts(), func(m *messagesv1.ReceivedMessage) {
		f.ready = append(f.ready, m)
	})}, nil
}

func (f *fake) Extend(_ context.Context, r *messagesv1.ExtendRequest) (*messagesv1.ExtendResponse, error) {
	return &messagesv1.ExtendResponse{Results: f.settle(r.GetReceipts(), func(m *messagesv1.ReceivedMessage) {
		f.held[m.GetReceipt()] = m
		f.extended[m.GetReceipt()]++
	})}, nil
}

func (f *fake) Reject(_ context.Context, r *messagesv1.RejectRequest) (*messagesv1.RejectResponse, error) {
	return &messagesv1.RejectResponse{Results: f.settle(r.GetReceipts(), func(m *messagesv1.ReceivedMessage) {
		m.DeadLetter = &messagesv1.DeadLetter{Reason: "Rejected", Detail: r.GetDetail()}
		f.dead = append(f.dead, m)
	})}, nil
}
