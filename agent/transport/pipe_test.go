// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/transport"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// mirror answers every part of a manifest, and never reads ahead.
type mirror struct {
	wirev1.UnimplementedReceiverServer
}

func (mirror) Session(stream wirev1.Receiver_SessionServer) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		need := &wirev1.Need{Bitmap: m.GetManifest().GetEntries()[0].GetPath()}
		if err := stream.Send(&wirev1.SessionResponse{Message: &wirev1.SessionResponse_Need{Need: need}}); err != nil {
			return err
		}
	}
}

func TestPipe(t *testing.T) {
	pipe := transport.NewPipe(func(conn net.Conn) { _, _ = io.Copy(conn, io.LimitReader(conn, 3<<20)) })
	wirev1.RegisterReceiverServer(pipe, mirror{})
	served := make(chan error, 1)
	go func() { served <- pipe.Serve(pipe.Listener()) }()

	client, err := pipe.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Ready(t.Context()); err != nil || client.Untrusted() != nil || client.Target() == "" {
		t.Fatal(err, client.Untrusted(), client.Target())
	}
	stream, err := wirev1.NewReceiverClient(client).Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// More than sockets and flow control hold, before anything is read.
	const messages = 64
	large := bytes.Repeat([]byte("path"), 64<<10)
	sent := make(chan error, 1)
	go func() {
		for range messages {
			manifest := &wirev1.Manifest{Entries: []*wirev1.Entry{{Path: large}}}
			if err := stream.Send(
				&wirev1.SessionRequest{Message: &wirev1.SessionRequest_Manifest{Manifest: manifest}},
			); err != nil {
				sent <- err
				return
			}
		}
		sent <- stream.CloseSend()
	}()
	for i := range messages {
		m, err := stream.Recv()
		if err != nil || !bytes.Equal(m.GetNeed().GetBitmap(), large) {
			t.Fatalf("answer %d: %d bytes, %v", i, len(m.GetNeed().GetBitmap()), err)
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}

	conn, err := pipe.DialBlocks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	block := bytes.Repeat([]byte("block"), 3<<20/5+1)[:3<<20]
	go func() { _, _ = conn.Write(block) }()
	got := make([]byte, len(block))
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, block) {
		t.Errorf("the block came back different, %v", err)
	}
	// The other end is closed when its function has returned.
	if _, err := conn.Read(got); !errors.Is(err, io.EOF) {
		t.Error(err)
	}

	pipe.Stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	ended, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	late, err := pipe.Dial()
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	if _, err := wirev1.NewReceiverClient(late).Session(ended); err == nil {
		t.Error("a pipe that was stopped is connected to")
	}
}
