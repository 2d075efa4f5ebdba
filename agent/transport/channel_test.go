// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// asking is a channel that says who calls.
type asking struct {
	wirev1.UnimplementedChannelServer
	callers *transport.Callers
}

func (a asking) Run(run grpc.BidiStreamingServer[wirev1.ChannelRunRequest, wirev1.ChannelRunResponse]) error {
	who, err := a.callers.FromContext(run.Context())
	if errors.Is(err, transport.ErrNotACaller) {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	if err != nil {
		return err
	}
	return run.Send(&wirev1.ChannelRunResponse{Message: &wirev1.ChannelRunResponse_Accepted{
		Accepted: &wirev1.ChannelAccepted{Codec: who.Peer + " " + who.Namespace + " " + who.Queue},
	}})
}

func TestCallers(t *testing.T) {
	east, west, north := transporttest.NewAuthority(t, "east"), transporttest.NewAuthority(t, "west"),
		transporttest.NewAuthority(t, "north")
	const domain = ".orders.vault.queue.lighterage.internal"
	name := "east-bank" + domain
	files := transport.NewFiles(west.Directory(t, east, transport.QueuePath("vault", "orders"), "*"+domain))
	callers := transport.NewCallers(files, nil)
	peers := []*wirev1.ChannelPeer{
		{
			Name: "north", CaBundle: north.PEM(),
			Namespaces: []*wirev1.ChannelNamespace{{Name: "bank", ServerName: "north-bank" + domain}},
		},
		{Name: "east", CaBundle: east.PEM(), Namespaces: []*wirev1.ChannelNamespace{
			{Name: "shop", ServerName: "east-shop" + domain}, {Name: "bank", ServerName: name}, {Name: "nameless"},
		}},
	}
	if err := callers.Set(peers); err != nil {
		t.Fatal(err)
	}
	if err := callers.Set([]*wirev1.ChannelPeer{{Name: "east", CaBundle: []byte("no PEM")}}); err == nil {
		t.Error("a bundle without a certificate was taken")
	}
	server := transport.NewChannelServer(callers, 1<<20)
	wirev1.RegisterChannelServer(server, asking{callers: callers})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)

	// call returns as whom the server knows a caller.
	call := func(t *testing.T, ca *transporttest.Authority, path, serverName string) (string, error) {
		t.Helper()
		dialer := &transport.Dialer{
			Address: listener.Addr().String(), Files: transport.NewFiles(ca.Directory(t, west, path, "sender")),
		}
		client, err := dialer.Dial(serverName)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		run, err := wirev1.NewChannelClient(client).Run(ctx)
		if err != nil {
			return "", err
		}
		response, err := run.Recv()
		return response.GetAccepted().GetCodec(), err
	}
	if who, err := call(t, east, transport.QueuePath("bank", "out"), name); err != nil || who != "east bank out" {
		t.Errorf("a queue that may send is %q: %v", who, err)
	}
	for what, c := range map[string]struct {
		ca         *transporttest.Authority
		path, name string
	}{
		"namespace without a grant": {east, transport.QueuePath("other", "out"), "east-other" + domain},
		"unknown authority":         {west, transport.QueuePath("bank", "out"), name},
		"a Transfer":                {east, transport.TransferPath("bank", "out"), name},
		"under another's name":      {east, transport.QueuePath("shop", "out"), name},
		"without a name of its own": {east, transport.QueuePath("nameless", "out"), "nameless" + domain},
		"another peer's namespace":  {north, transport.QueuePath("shop", "out"), "north-shop" + domain},
	} {
		if who, err := call(t, c.ca, c.path, c.name); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: known as %q: %v", what, who, err)
		}
	}
	if !callers.May(transport.Caller{Peer: "east", Namespace: "bank", Queue: "out"}) ||
		callers.May(transport.Caller{Peer: "east", Namespace: "other", Queue: "out"}) {
		t.Error("May does not say what Identify does")
	}
	// The test's certificates were issued an hour ago, plus by how much real ones are backdated.
	issued := time.Now().Add(-time.Hour).Add(wirev1.CertificateBackdating)
	for before, ok := range map[time.Duration]bool{-time.Minute: true, time.Hour: false} {
		peers[1].RevokedBefore = issued.Add(before).Unix()
		if err := callers.Set(peers); err != nil {
			t.Fatal(err)
		}
		if who, err := call(t, east, transport.QueuePath("bank", "out"), name); (err == nil) != ok {
			t.Errorf("revoked before %s after it was issued, it is known as %q: %v", before, who, err)
		}
	}
	if err := callers.Set(peers[:1]); err != nil {
		t.Fatal(err)
	}
	if who, err := call(t, east, transport.QueuePath("bank", "out"), name); status.Code(err) != codes.PermissionDenied {
		t.Errorf("after its grant was withdrawn it is known as %q: %v", who, err)
	}
}

// TestOwnNameIsForTheNamespace: queues of the same cluster and namespace are known without the name of a peer, and what
// they send is counted apart. Nobody else is authenticated by that name, which can be guessed.
func TestOwnNameIsForTheNamespace(t *testing.T) {
	own, east := transporttest.NewAuthority(t, "own"), transporttest.NewAuthority(t, "east")
	const domain = ".copies.bank.queue.lighterage.internal"
	files := transport.NewFiles(own.Directory(t, east, transport.QueuePath("bank", "copies"), "*"+domain))
	var apart, all transport.Counter
	callers := transport.NewCallers(files, &apart)
	if err := callers.Set([]*wirev1.ChannelPeer{
		{CaBundle: own.PEM(), Namespaces: []*wirev1.ChannelNamespace{{Name: "bank", ServerName: "own" + domain}}},
		{
			Name: "east", CaBundle: east.PEM(),
			Namespaces: []*wirev1.ChannelNamespace{{Name: "bank", ServerName: "x" + domain}},
		},
	}); err != nil {
		t.Fatal(err)
	}
	server := transport.NewChannelServer(callers, 1<<20)
	wirev1.RegisterChannelServer(server, asking{callers: callers})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(transport.Listen(listener, &all, 16)) }()
	t.Cleanup(server.Stop)
	call := func(ca *transporttest.Authority, path, name string) (string, error) {
		t.Helper()
		dialer := &transport.Dialer{
			Address: listener.Addr().String(), Files: transport.NewFiles(ca.Directory(t, own, path, "sender")),
		}
		client, err := dialer.Dial(name)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		run, err := wirev1.NewChannelClient(client).Run(ctx)
		if err != nil {
			return "", err
		}
		response, err := run.Recv()
		return response.GetAccepted().GetCodec(), err
	}
	for what, c := range map[string]struct {
		ca         *transporttest.Authority
		path, name string
	}{
		"a queue of another namespace": {own, transport.QueuePath("shop", "out"), "own" + domain},
		"a queue of a peer":            {east, transport.QueuePath("bank", "out"), "own" + domain},
		"under the name of a peer":     {own, transport.QueuePath("bank", "out"), "x" + domain},
		"a Transfer":                   {own, transport.TransferPath("bank", "out"), "own" + domain},
	} {
		if who, err := call(c.ca, c.path, c.name); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: known as %q: %v", what, who, err)
		}
	}
	if apart.Bytes() != 0 {
		t.Errorf("%d bytes of others count as those of the own cluster", apart.Bytes())
	}
	if who, err := call(own, transport.QueuePath("bank", "out"), "own"+domain); err != nil || who != " bank out" {
		t.Errorf("a queue of the namespace is %q: %v", who, err)
	}
	if apart.Bytes() == 0 || all.Bytes() == 0 {
		t.Errorf("%d bytes count as those of the own cluster, %d as others", apart.Bytes(), all.Bytes())
	}
}
