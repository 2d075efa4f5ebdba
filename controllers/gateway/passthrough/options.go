// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
)

// Target is where connections with some server name go.
type Target struct {
	// Address is host:port.
	Address string
	// Key is what CloseTarget takes, and what Limits.ConnectionsPerTarget counts by.
	Key string
	// Peer and Namespace are those whom the target is for, for Options.Ended.
	Peer, Namespace string
}

// Carried is what a passed connection has carried: bytes towards the target and back, the ClientHello excepted.
type Carried struct {
	In, Out  int64
	Duration time.Duration
}

// Limits bound what clients can take. A field that is zero stands for its default.
//
// Clients are unknown until the server in this process, or a target, has authenticated them. Unknown ones are bounded
// apart from the others, and where they are too many the oldest is evicted, so that however many come, a new one gets
// the time of a handshake: with the defaults, and 1000 of them a second, a second.
type Limits struct {
	// Connections is how many may be passed to targets that have authenticated their clients, in all. Half as many may
	// be passed beside them to targets that have not yet. Default 4096.
	Connections int
	// ConnectionsPerTarget is the same for one target, but as many of either kind. Default 128.
	ConnectionsPerTarget int
	// LocalConnections is how many authenticated clients may have to the server in this process, in all. One more
	// evicts the one that was idle longest. Default 4096.
	LocalConnections int
	// LocalConnectionsPerOwner is the same for each owner. Default 384.
	LocalConnectionsPerOwner int
	// LocalConnectionsPerPart is the same for each part of an owner. Default 192.
	LocalConnectionsPerPart int
	// Handshakes is how many may not have finished their ClientHello, and how many may have finished it but are not
	// authenticated by the server in this process. Default 1024 of each.
	Handshakes int
	// HandshakesPerSource is the same for each source: an IPv4 address or an IPv6 /64. Default 512.
	HandshakesPerSource int
	// HelloBytes is the size of a ClientHello. Default 16 KiB.
	HelloBytes int
	// HelloTimeout is the time that a client has for it. Default 5s.
	HelloTimeout time.Duration
	// DialTimeout is the time that a target has to accept. Default 10s.
	DialTimeout time.Duration
	// IdleTimeout closes passed connections on which nothing moved either way. Default 1h.
	IdleTimeout time.Duration
	// Lifetime closes passed connections however busy. Default 168h.
	Lifetime time.Duration
	// DrainTimeout is the time that passed connections get to end when the server stops. Default 20s.
	DrainTimeout time.Duration
}

func (l Limits) withDefaults() Limits {
	setDefault(&l.Connections, 4096)
	setDefault(&l.LocalConnections, 4096)
	setDefault(&l.LocalConnectionsPerOwner, 384)
	setDefault(&l.LocalConnectionsPerPart, 192)
	setDefault(&l.ConnectionsPerTarget, 128)
	setDefault(&l.Handshakes, 1024)
	setDefault(&l.HandshakesPerSource, 512)
	setDefault(&l.HelloBytes, 16<<10)
	setDefault(&l.HelloTimeout, 5*time.Second)
	setDefault(&l.DialTimeout, 10*time.Second)
	setDefault(&l.IdleTimeout, time.Hour)
	setDefault(&l.Lifetime, 168*time.Hour)
	setDefault(&l.DrainTimeout, 20*time.Second)
	return l
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field == 0 {
		*field = value
	}
}

// Validate says which limit makes no sense.
func (l Limits) Validate() error {
	l = l.withDefaults()
	for _, number := range []int{
		l.Connections, l.ConnectionsPerTarget, l.LocalConnections, l.LocalConnectionsPerOwner, l.LocalConnectionsPerPart,
		l.Handshakes, l.HandshakesPerSource, l.HelloBytes,
	} {
		if number < 0 {
			return errors.New("limits of the gateway must not be negative; 0 stands for the default")
		}
	}
	for _, duration := range []time.Duration{l.HelloTimeout, l.DialTimeout, l.IdleTimeout, l.Lifetime, l.DrainTimeout} {
		if duration < 0 {
			return errors.New("timeouts of the gateway must not be negative; 0 stands for the default")
		}
	}
	return nil
}

// Options of New.
type Options struct {
	// LocalName is the server name that is served in this process, through Server.Local.
	LocalName string
	// Lookup finds the target of any other server name; ok is false when there is none. It may wait until its context
	// ends, and is called again, with a context that has ended, to make sure that a target is still there.
	Lookup func(ctx context.Context, serverName string) (target Target, ok bool)
	// Data knows the server names of connections that this process waits for; it may be nil. It is asked before Lookup.
	Data Data
	// Ended is called when a connection that was passed to a target has ended; it may be nil.
	Ended func(Target, Carried)
	// Limits as wanted.
	Limits Limits
	// Metrics to count in.
	Metrics *Metrics
	// Log of connections, at verbosity 1 and above.
	Log logr.Logger
}
