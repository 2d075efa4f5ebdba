// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lighterage/lighterage/agent/failure"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// ledger is the sender of the tests.
var ledger = transport.Sender{Namespace: "bank", Name: "ledger", Run: "7f3ca"}

const serverName = "0000.receive.lighterage.internal"

func serve(t *testing.T, server interface {
	Serve(net.Listener) error
	Stop()
}, counter *transport.Counter, limit int) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(transport.Listen(listener, counter, limit))
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

func TestWhoMayConnect(t *testing.T) {
	east, west, north := transporttest.NewAuthority(t, "east"), transporttest.NewAuthority(t, "west"),
		transporttest.NewAuthority(t, "north")
	files := transport.NewFiles(west.Directory(t, east, "/ns/bank/delivery/ledger", serverName))
	var counter transport.Counter
	data := serve(t, transport.NewDataServer(files, ledger, func(conn net.Conn) {
		_, _ = conn.Write([]byte("blocks"))
	}), &counter, 100)
	later := ledger
	later.RevokedBefore = time.Now().Add(wirev1.CertificateBackdating)
	strict := serve(t, transport.NewDataServer(files, later, func(net.Conn) {
		t.Error("a connection for blocks")
	}), nil, 100)
	control := serve(t, transport.NewControlServer(files), nil, 100)
	run := east.ForRun(ledger.Run)

	tests := map[string]struct {
		address    string
		directory  string
		serverName string
		ok         bool
	}{
		"Sender": {data, run.Directory(t, west, "/ns/bank/transfer/ledger", ""), serverName, true},
		"OtherRun": {
			data, east.ForRun("aaaaa").Directory(t, west, "/ns/bank/transfer/ledger", ""), serverName, false,
		},
		"NoRun":               {data, east.Directory(t, west, "/ns/bank/transfer/ledger", ""), serverName, false},
		"Revoked":             {strict, run.Directory(t, west, "/ns/bank/transfer/ledger", ""), serverName, false},
		"OtherTransfer":       {data, run.Directory(t, west, "/ns/bank/transfer/other", ""), serverName, false},
		"OtherNamespace":      {data, run.Directory(t, west, "/ns/other/transfer/ledger", ""), serverName, false},
		"ManagerAsSender":     {data, east.Directory(t, west, "/manager", ""), serverName, false},
		"SenderOfOwnCluster":  {data, west.Directory(t, west, "/ns/bank/transfer/ledger", ""), serverName, false},
		"UnknownAuthority":    {data, north.Directory(t, west, "/ns/bank/transfer/ledger", ""), serverName, false},
		"ReceiverOfOtherPeer": {data, east.Directory(t, north, "/ns/bank/transfer/ledger", ""), serverName, false},
		"OtherServerName": {
			data, east.Directory(t, west, "/ns/bank/transfer/ledger", ""), "1111.receive.lighterage.internal", false,
		},
		"Manager":               {control, west.Directory(t, west, "/manager", ""), serverName, true},
		"ManagerOfOtherCluster": {control, east.Directory(t, west, "/manager", ""), serverName, false},
		"SenderAsManager":       {control, west.Directory(t, west, "/ns/bank/transfer/ledger", ""), serverName, false},
		"ManagerBelow":          {control, west.Directory(t, west, "/manager/x", ""), serverName, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client, err := (&transport.Dialer{
				Address: test.address, Files: transport.NewFiles(test.directory),
			}).Dial(test.serverName)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err = client.Ready(ctx)
			if test.ok && err != nil {
				t.Errorf("connecting ends with %v", err)
			}
			if !test.ok && !failure.Is(err, wirev1.FailureReason_FAILURE_REASON_PEER_UNTRUSTED) {
				t.Errorf("connecting ends with %v", err)
			}
			eager, err := (&transport.Dialer{
				Address: test.address, Files: transport.NewFiles(test.directory), Eager: true,
			}).Dial(test.serverName)
			if err != nil {
				t.Fatal(err)
			}
			defer eager.Close()
			// No server here has the service, so what is called ends either way.
			err = eager.Invoke(ctx, "/none/None", &wirev1.HelloRequest{}, &wirev1.HelloResponse{})
			if test.ok != (status.Code(err) == codes.Unimplemented) || test.ok != (eager.Untrusted() == nil) {
				t.Errorf("an eager call ends with %v, and there is %v", err, eager.Untrusted())
			}
			said, err := blocks(
				ctx, &transport.Dialer{Address: test.address, Files: transport.NewFiles(test.directory)}, test.serverName,
			)
			if want := test.ok && test.address == data; (err == nil) != want || want != (said == "blocks") {
				t.Errorf("a connection for blocks gives %q, %v", said, err)
			}
		})
	}
	if counter.Bytes() == 0 {
		t.Error("no bytes were counted")
	}
}

// blocks returns what a server says on a connection for blocks.
func blocks(ctx context.Context, d *transport.Dialer, serverName string) (string, error) {
	conn, err := d.DialBlocks(ctx, serverName)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	said, err := io.ReadAll(conn)
	return string(said), err
}

// Who connects and says nothing holds a place for a while only, and who does not say what it speaks gets nothing.
func TestOtherProtocols(t *testing.T) {
	east, west := transporttest.NewAuthority(t, "east"), transporttest.NewAuthority(t, "west")
	files := transport.NewFiles(west.Directory(t, east, "/ns/bank/delivery/ledger", serverName))
	address := serve(t, transport.NewDataServer(files, ledger, func(net.Conn) {
		t.Error("a connection for blocks")
	}), nil, 100)
	client := transport.NewFiles(east.ForRun("7f3ca").Directory(t, west, "/ns/bank/transfer/ledger", ""))
	certificate, err := client.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	for _, protocols := range [][]string{nil, {"http/1.1"}} {
		conn, err := tls.Dial("tcp", address, &tls.Config{
			Certificates: []tls.Certificate{*certificate}, InsecureSkipVerify: true,
			NextProtos: protocols, //nolint:gosec // The server is what is tested.
		})
		if err != nil {
			continue
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		if n, err := conn.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: the server answers %d bytes, %v", protocols, n, err)
		}
		_ = conn.Close()
	}
}

func TestFilesAreReadAgain(t *testing.T) {
	east, west := transporttest.NewAuthority(t, "east"), transporttest.NewAuthority(t, "west")
	directory := east.Directory(t, west, "/manager", "")
	files := transport.NewFiles(directory)
	first, err := files.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := files.Certificate(); again != first {
		t.Error("a certificate that did not change was read again")
	}
	east.Write(t, directory, west, "/manager", "")
	for _, name := range []string{"tls.crt", "tls.key"} {
		later := time.Now().Add(time.Minute)
		if err := os.Chtimes(filepath.Join(directory, name), later, later); err != nil {
			t.Fatal(err)
		}
	}
	second, err := files.Certificate()
	if err != nil || second == first {
		t.Errorf("a new certificate was not read: %v", err)
	}
	// While a file is missing or half written, the old one serves.
	if err := os.WriteFile(filepath.Join(directory, "tls.crt"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if third, err := files.Certificate(); err != nil || third != second {
		t.Errorf("with a damaged file: %v", err)
	}
	if err := os.Remove(filepath.Join(directory, "tls.crt")); err != nil {
		t.Fatal(err)
	}
	if fourth, err := files.Certificate(); err != nil || fourth != second {
		t.Errorf("without a file: %v", err)
	}
	if _, err := transport.NewFiles(directory).Certificate(); err == nil {
		t.Error("a missing certificate is no error at first")
	}
}

func TestConnectionsAreLimited(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := transport.Listen(inner, nil, 1)
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	dial := func() {
		t.Helper()
		conn, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	// The second one comes when the first one has spoken: as long as it is silent, it may be closed for the second one.
	dial()
	first := <-accepted
	if _, err := first.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	dial()
	select {
	case <-accepted:
		t.Fatal("two connections are open")
	case <-time.After(50 * time.Millisecond):
	}
	first.Close()
	first.Close() // Counts once.
	second := <-accepted
	if _, err := second.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if _, open := <-accepted; open {
		t.Error("a connection after closing")
	}
}

// Connections that say nothing neither keep the sender out nor take more than their share of descriptors.
func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	const limit, silent, open = 16, 10_000, 200
	east, west := transporttest.NewAuthority(t, "east"), transporttest.NewAuthority(t, "west")
	files := transport.NewFiles(west.Directory(t, east, "/ns/bank/delivery/ledger", serverName))
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counted := &watched{Listener: inner}
	server := transport.NewDataServer(files, ledger, func(conn net.Conn) { _, _ = conn.Write([]byte("blocks")) })
	go server.Serve(transport.Listen(counted, nil, limit))
	t.Cleanup(server.Stop)

	var conns [open]net.Conn
	for i := range silent {
		if former := conns[i%open]; former != nil {
			former.Close()
		}
		if conns[i%open], err = net.Dial("tcp", inner.Addr().String()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, conn := range conns {
			conn.Close()
		}
	})
	dialer := &transport.Dialer{
		Address: inner.Addr().String(),
		Files:   transport.NewFiles(east.ForRun("7f3ca").Directory(t, west, "/ns/bank/transfer/ledger", "")),
	}
	conn, err := dialer.DialBlocks(t.Context(), serverName)
	if err != nil {
		t.Fatal("the sender: ", err)
	}
	defer conn.Close()
	if b, err := io.ReadAll(conn); err != nil || string(b) != "blocks" {
		t.Errorf("the sender reads %q, %v", b, err)
	}
	// One more is accepted before another one is closed for it.
	if most := counted.most.Load(); most < limit || most > limit+1 {
		t.Errorf("%d connections were open at once", most)
	}
}

// watched counts the connections that are open. Accept is for one goroutine.
type watched struct {
	net.Listener
	open, most atomic.Int64
}

func (w *watched) Accept() (net.Conn, error) {
	conn, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	w.most.Store(max(w.most.Load(), w.open.Add(1)))
	return &watchedConn{Conn: conn, watched: w}, nil
}

type watchedConn struct {
	net.Conn
	watched *watched
	once    sync.Once
}

func (c *watchedConn) Close() error {
	c.once.Do(func() { c.watched.open.Add(-1) })
	return c.Conn.Close()
}
