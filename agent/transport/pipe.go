// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Pipe joins a sender and a receiver that are in one process. What goes through it leaves the process nowhere, so
// nothing is encrypted and nobody has to say who they are.
type Pipe struct {
	*grpc.Server
	blocks   func(net.Conn)
	listener pipeListener
}

// NewPipe returns a pipe that hands connections which carry blocks to a function and closes them when it returns. The
// receiver's service is to be registered with it before Serve.
func NewPipe(blocks func(net.Conn)) *Pipe {
	return &Pipe{
		Server: grpc.NewServer(
			grpc.Creds(insecure.NewCredentials()),
			grpc.MaxRecvMsgSize(maxMessage),
			grpc.MaxSendMsgSize(maxMessage),
		),
		blocks:   blocks,
		listener: pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})},
	}
}

// Listener is what the pipe's Serve wants.
func (p *Pipe) Listener() net.Listener { return &p.listener }

// Dial returns a connection to the receiver's service.
func (p *Pipe) Dial() (*Client, error) {
	conn, err := grpc.NewClient("passthrough:///pipe",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return p.connect(ctx) }),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to the receiver in this process: %w", err)
	}
	return &Client{ClientConn: conn, trust: &trust{broken: make(chan struct{})}}, nil
}

// connect makes a connection of sockets: gRPC wants space for what nobody reads yet.
func (p *Pipe) connect(ctx context.Context) (net.Conn, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a pair of sockets: %w", err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "pipe")
		end, failed := net.FileConn(file)
		_ = file.Close() // FileConn has its own.
		if failed != nil {
			err = failed
			continue
		}
		ends[i] = end
	}
	if err == nil {
		select {
		case p.listener.conns <- ends[1]:
			return ends[0], nil
		case <-p.listener.closed:
			err = net.ErrClosed
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	for _, end := range ends {
		if end != nil {
			_ = end.Close()
		}
	}
	return nil, fmt.Errorf("connect to the receiver in this process: %w", err)
}

// DialBlocks makes a connection that carries blocks to the receiver. Writing waits for the other end to read, and the
// bytes are copied once, from the one's memory to the other's.
func (p *Pipe) DialBlocks(context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		p.blocks(far)
		_ = far.Close()
	}()
	return near, nil
}

// pipeListener gives out the far ends of connections.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Accept implements net.Listener.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }
