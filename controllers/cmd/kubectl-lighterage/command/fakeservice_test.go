// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	messagesv1 "github.com/lighterage/lighterage/api/messages/v1"
	"github.com/lighterage/lighterage/controllers/pki"
)

const goodToken = "token-of-shop"

var putTime = time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)

// fakeService is a MessageService with TLS that keeps messages in memory. It gives out each once until it is released.
type fakeService struct {
	messagesv1.UnimplementedMessageServiceServer
	ca        []byte // that its certificate is of
	address   string
	directory string // with what clients need

	mu       sync.Mutex
	puts     []int // messages of each request
	messages []*messagesv1.ReceivedMessage
	given    map[string]*messagesv1.ReceivedMessage // by receipt
	events   []string
	waits    []time.Duration
	// What it does otherwise than it should.
	failure error
	refuse  *messagesv1.PutResult      // of payload "bad"
	late    bool                       // for acknowledging
	release []messagesv1.ReceiptResult // of what is released, in place of releasing it
}

// startService serves with a certificate for orders.bank.svc.
func startService(t *testing.T) *fakeService {
	t.Helper()
	ca, own, err := pki.NewCA("east", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Issue(
		pki.Template{
			Identity: pki.QueueIdentity("east", "bank", "orders"), DNSNames: []string{"orders.bank.svc"}, Lifetime: time.Hour,
		},
		time.Now(),
	)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := pair.TLS()
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(own.CertificatePEM)
	f := &fakeService{directory: t.TempDir(), ca: own.CertificatePEM, given: map[string]*messagesv1.ReceivedMessage{}}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, ClientCAs: clients,
		ClientAuth: tls.VerifyClientCertIfGiven,
	})), grpc.UnaryInterceptor(f.admit))
	messagesv1.RegisterMessageServiceServer(server, f)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.address = listener.Addr().String()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() { server.Stop(); <-ended })
	// The same CA admits clients with a certificate.
	client, err := ca.Issue(
		pki.Template{Identity: pki.QueueIdentity("east", "bank", "client"), Lifetime: time.Hour}, time.Now(),
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"tls.crt": client.CertificatePEM, "tls.key": client.KeyPEM, "ca.crt": f.ca, "token": []byte(goodToken + "\n"),
		"bad": []byte("other"),
	} {
		if err := os.WriteFile(f.file(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// file is the path of one of tls.crt, tls.key, ca.crt, token and bad.
func (f *fakeService) file(name string) string { return filepath.Join(f.directory, name) }

// direct are the arguments that reach it without a cluster.
func (f *fakeService) direct(arguments ...string) []string {
	return append(
		arguments, "--server", f.address, "--server-name", "orders.bank.svc", "--ca-file", f.file("ca.crt"), "--token-file",
		f.file("token"),
	)
}

func (f *fakeService) admit(ctx context.Context, r any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	headers, _ := metadata.FromIncomingContext(ctx)
	caller, _ := peer.FromContext(ctx)
	info, _ := caller.AuthInfo.(credentials.TLSInfo)
	if len(info.State.VerifiedChains) == 0 && !slices.Contains(headers.Get("authorization"), "Bearer "+goodToken) {
		return nil, status.Error(codes.Unauthenticated, "show a token")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure != nil {
		return nil, f.failure
	}
	return next(ctx, r)
}

// add puts a message there.
func (f *fakeService) add(payload string) {
	f.messages = append(f.messages, &messagesv1.ReceivedMessage{
		Message: &messagesv1.QueueMessage{Payload: []byte(payload)}, Sequence: uint64(len(f.messages) + 1),
		PutTime: timestamppb.New(putTime), Deliveries: 1,
	})
}

// Put implements messagesv1.MessageServiceServer.
func (f *fakeService) Put(_ context.Context, r *messagesv1.PutRequest) (*messagesv1.PutResponse, error) {
	f.puts = append(f.puts, len(r.GetMessages()))
	answer := &messagesv1.PutResponse{}
	for _, m := range r.GetMessages() {
		if f.refuse != nil && string(m.GetPayload()) == "bad" {
			answer.Results = append(answer.Results, f.refuse)
			continue
		}
		f.add("")
		last := f.messages[len(f.messages)-1]
		last.Message = m
		answer.Results = append(
			answer.Results, &messagesv1.PutResult{Sequence: last.GetSequence(), Duplicate: m.GetId() == "again"},
		)
	}
	return answer, nil
}

// Get implements messagesv1.MessageServiceServer.
func (f *fakeService) Get(_ context.Context, r *messagesv1.GetRequest) (*messagesv1.GetResponse, error) {
	f.waits = append(f.waits, r.GetWait().AsDuration())
	answer := &messagesv1.GetResponse{}
	for len(f.messages) > 0 && len(answer.GetMessages()) < int(r.GetMaxMessages()) {
		m := f.messages[0]
		f.messages = f.messages[1:]
		m.Receipt = "r" + strconv.FormatUint(m.GetSequence(), 10)
		f.given[m.GetReceipt()] = m
		answer.Messages = append(answer.Messages, m)
	}
	return answer, nil
}

// Acknowledge implements messagesv1.MessageServiceServer.
func (f *fakeService) Acknowledge(
	_ context.Context, r *messagesv1.AcknowledgeRequest,
) (*messagesv1.AcknowledgeResponse, error) {
	answer := &messagesv1.AcknowledgeResponse{}
	for _, receipt := range r.GetReceipts() {
		result := messagesv1.ReceiptResult_RECEIPT_RESULT_EXPIRED
		if f.given[receipt] != nil && !f.late {
			delete(f.given, receipt)
			f.events = append(f.events, "ack "+receipt)
			result = messagesv1.ReceiptResult_RECEIPT_RESULT_DONE
		}
		answer.Results = append(answer.Results, result)
	}
	return answer, nil
}

// Release implements messagesv1.MessageServiceServer.
func (f *fakeService) Release(_ context.Context, r *messagesv1.ReleaseRequest) (*messagesv1.ReleaseResponse, error) {
	answer := &messagesv1.ReleaseResponse{}
	if f.release != nil {
		return &messagesv1.ReleaseResponse{Results: f.release}, nil
	}
	for _, receipt := range r.GetReceipts() {
		if m := f.given[receipt]; m != nil {
			delete(f.given, receipt)
			f.messages = append(f.messages, m)
			f.events = append(f.events, "release "+receipt)
		}
		answer.Results = append(answer.Results, messagesv1.ReceiptResult_RECEIPT_RESULT_DONE)
	}
	return answer, nil
}
