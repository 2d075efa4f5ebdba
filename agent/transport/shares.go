// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// SharingKinds are the kinds whose agents share a node's accelerator, as identities name them.
func SharingKinds() []string { return []string{"transfer", "delivery", "queue", "httpendpoint"} }

// ShareCaller is an agent that shares a node's accelerator.
type ShareCaller struct {
	// Namespace, Kind and Name are those of its certificate.
	Namespace, Kind, Name string
	// Address is the IP address of its pod: replicas have one certificate.
	Address string
}

// NewShareServer returns a server for agents of the agent's own cluster that share the accelerator, and nobody else.
func NewShareServer(files *Files) *grpc.Server {
	return newControlServer(files, func(cs tls.ConnectionState) error {
		_, err := shareCaller(cs)
		return err
	}, grpc.MaxRecvMsgSize(1<<10), grpc.MaxConcurrentStreams(2))
}

// ShareCallerOf returns who calls a server of NewShareServer.
func ShareCallerOf(ctx context.Context) (ShareCaller, error) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ShareCaller{}, errors.New("the caller is not known")
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return ShareCaller{}, errors.New("the caller did not come by TLS")
	}
	who, err := shareCaller(info.State)
	if err != nil {
		return ShareCaller{}, err
	}
	who.Address = hostOf(p.Addr)
	return who, nil
}

func shareCaller(cs tls.ConnectionState) (ShareCaller, error) {
	path, err := peerPath(cs)
	if err != nil {
		return ShareCaller{}, err
	}
	namespace, kind, ok := namespaced(path)
	if !ok || !slices.Contains(SharingKinds(), kind) {
		return ShareCaller{}, fmt.Errorf("the peer is %q, which shares no accelerator", path)
	}
	return ShareCaller{Namespace: namespace, Kind: kind, Name: path[strings.LastIndexByte(path, '/')+1:]}, nil
}

func hostOf(address net.Addr) string {
	host, _, err := net.SplitHostPort(address.String())
	if err != nil {
		return ""
	}
	return host
}

// ListenEach is Listen without counting, and of one IP address at most each connections are open at once; further ones
// are closed.
func ListenEach(l net.Listener, limit, each int) net.Listener {
	return &eachListener{Listener: Listen(l, nil, limit), each: each, open: map[string]int{}}
}

type eachListener struct {
	net.Listener
	each int

	mu   sync.Mutex
	open map[string]int
}

// Accept implements net.Listener.
func (l *eachListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host := hostOf(conn.RemoteAddr())
		if l.take(host) {
			return &eachConn{Conn: conn, release: sync.OnceFunc(func() { l.release(host) })}, nil
		}
		_ = conn.Close()
	}
}

func (l *eachListener) take(host string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[host] >= l.each {
		return false
	}
	l.open[host]++
	return true
}

func (l *eachListener) release(host string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[host]--; l.open[host] <= 0 {
		delete(l.open, host)
	}
}

type eachConn struct {
	net.Conn
	release func()
}

// Close implements net.Conn.
func (c *eachConn) Close() error {
	c.release()
	return c.Conn.Close()
}
