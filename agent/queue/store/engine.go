// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"net"

	"github.com/nats-io/nats.go"

	"github.com/lighterage/lighterage/agent/egress"
)

// Engine keeps the messages of a queue: a server in this process (Store), or external ones (external.External). It is
// safe for concurrent use. What every engine does is tested by package enginetest.
type Engine interface {
	// Dial returns a connection on which the server speaks the protocol of NATS to a client that has not said yet who it
	// is, and Introduce adds to what is said at CONNECT that by which the connection has the rights of a client. The nonce
	// is what the server wants to have signed; empty: nothing.
	Dial(ctx context.Context) (net.Conn, error)
	Introduce(connect map[string]any, nonce string) error
	// Shared reports whether others than the clients of this queue use the server, which is external then.
	Shared() bool
	// SetEgress changes which addresses external servers may have.
	SetEgress(p egress.Policy)
	// Connect returns a connection of the agent itself, which may do everything in the queue's streams. It connects again
	// by itself whenever it is lost.
	Connect(name string, options ...nats.Option) (*nats.Conn, error)

	// Ensure, EnsureIDs and EnsureLeases make the stream of the queue, that of ids and that of leases, or change them to
	// the settings. Errors are *StreamError.
	Ensure(ctx context.Context, conn *nats.Conn, settings Settings) error
	EnsureIDs(ctx context.Context, conn *nats.Conn, settings Settings) error
	EnsureLeases(ctx context.Context, conn *nats.Conn, settings Settings) error
	Statistics(ctx context.Context, conn *nats.Conn) (Statistics, error)
	Sample(
		ctx context.Context, conn *nats.Conn, seed uint64, visit func(header nats.Header, payload []byte) (bool, error),
	) error

	// Configure is told before a client asks for a consumer with these filters. An error says that it must not be asked
	// for: a *FiltersError that it never may, others that it may be later. An empty name is one that the server chooses.
	// fresh says that it may be asked for only if there is none of that name.
	Configure(ctx context.Context, consumer string, filters []string) (fresh bool, err error)
	// NewSweep removes what was acknowledged before the start and is there still.
	NewSweep(conn *nats.Conn) *Sweep
	// Pending lists clients for which this process holds what they did not take yet, those first for which it is most.
	Pending() []Pending
	// Applied counts changes that this member has taken over from others.
	Applied() uint64

	// KeepSpace closes the stream while a volume of members is short of space, until the context ends. tell is given what
	// keeps it from that, and nil after each time that nothing did.
	KeepSpace(ctx context.Context, conn *nats.Conn, tell func(error))
	// Crowded says why the volume takes no messages, or none of the longest, of so many bytes.
	Crowded(longest int64) error
	// Leader reports whether this member gives out messages and sends them by channels.
	Leader() bool
	// Ready says why clients cannot be served now, and Failed why the agent has to be started again.
	Ready() error
	Failed() error
	// Shutdown ends it and hands what it leads to other members. Shutting down twice is allowed.
	Shutdown()
}

// What follows is the matter of those who run external servers.

// Pending implements Engine.
func (s *Streams) Pending() []Pending { return nil }

// Applied implements Engine.
func (s *Streams) Applied() uint64 { return 0 }

// NewSweep implements Engine.
func (s *Streams) NewSweep(*nats.Conn) *Sweep { return &Sweep{} }

// KeepSpace implements Engine.
func (s *Streams) KeepSpace(context.Context, *nats.Conn, func(error)) {}

// Crowded implements Engine.
func (s *Streams) Crowded(int64) error { return nil }

// SetEgress implements Engine. A server in this process is not dialled.
func (s *Streams) SetEgress(egress.Policy) {}
