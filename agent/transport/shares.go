// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

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

const (
	// handshakes is how many connections of an IP address are accepted at once, and handshakeEvery how often one more is.
	handshakes, handshakeEvery = 16, time.Second
	// maxAddresses bounds the IP addresses that are remembered; while there are more, connections of new ones are closed.
	maxAddresses = 4096
)

// ListenEach is Listen without counting, and of one IP address at most each connections are open at once, and 16 and
// one more each second are accepted; further ones are closed before they cost a handshake.
func ListenEach(l net.Listener, limit, each int) net.Listener {
	return &eachListener{
		Listener: Listen(l, nil, limit), admission: admission{each: each, of: map[string]*address{}}, now: time.Now,
	}
}

type eachListener struct {
	net.Listener
	admission
	now func() time.Time
}

// Accept implements net.Listener.
func (l *eachListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host := hostOf(conn.RemoteAddr())
		if l.take(host, l.now()) {
			return &eachConn{Conn: conn, release: sync.OnceFunc(func() { l.release(host) })}, nil
		}
		_ = conn.Close()
	}
}

// admission bounds the connections of each IP address.
type admission struct {
	each int

	mu sync.Mutex
	of map[string]*address
}

// address is an IP address with its open connections. paid is when the last of its connections has been made up for.
type address struct {
	open int
	paid time.Time
}

func (a *admission) take(host string, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of[host] == nil {
		if len(a.of) >= maxAddresses {
			maps.DeleteFunc(a.of, func(_ string, x *address) bool { return x.open == 0 && !x.paid.After(now) })
		}
		if len(a.of) >= maxAddresses {
			return false
		}
		a.of[host] = &address{}
	}
	x := a.of[host]
	if x.paid.Before(now) {
		x.paid = now
	}
	if x.open >= a.each || x.paid.Sub(now) > (handshakes-1)*handshakeEvery {
		return false
	}
	x.open++
	x.paid = x.paid.Add(handshakeEvery)
	return true
}

func (a *admission) release(host string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of[host].open--
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
