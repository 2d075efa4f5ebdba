// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// maxPending is the most that the server holds in bytes for one connection that does not take it,
	// unless two messages are longer; then it ends the connection. It is the server's default, since
	// what a client asked for by one request may be as much; that it is not as much for each of many
	// is who serves clients to see to, by Pending.
	maxPending = server.MAX_PENDING_SIZE
	// writeDeadline is how long the server lets a connection take for that. All connections are within
	// the process, and who serves clients sees when one takes nothing, which the server cannot tell
	// from one that takes it slowly, or waits for others.
	writeDeadline = 10 * time.Minute
	// MaxSubscriptions bounds those of one connection. Each takes some hundred bytes, and up to 8 KiB.
	MaxSubscriptions = 4096

	// maxBatches is how many atomic batches the stream may have open: those of clients, which who serves them
	// bounds, and one of each channel that ends here.
	maxBatches = 500
	// MaxAtomicBatch is how many messages an atomic batch may have: those of a channel's and its marker.
	MaxAtomicBatch = 2048

	maxListed = 4096
)

// Pending is what the server holds for a client that does not take it.
type Pending struct {
	// Client is how the server calls its connection: client_id of what it says of itself.
	Client uint64
	Bytes  int
}

// Pending lists clients for which the server holds something, up to some thousand for which it is most.
func (s *Store) Pending() []Pending {
	all, err := s.server.Connz(&server.ConnzOptions{Sort: server.ByPending, User: clientUser, Limit: maxListed})
	if err != nil {
		return nil // which is about options that do not go together
	}
	var out []Pending
	for _, c := range all.Conns {
		if c.Pending > 0 {
			out = append(out, Pending{c.Cid, c.Pending})
		}
	}
	return out
}
