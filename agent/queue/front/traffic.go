// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"crypto/tls"
	"sync/atomic"

	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/queue/audit"
)

// What follows is for another way into the same queue, which serves the same clients by
// the same settings and counts where the front does.

// Settings returns those in effect.
func (f *Front) Settings() Settings { return f.settings.Load().Settings }

// Audit is where it is noted who does what.
func (f *Front) Audit() *audit.Log { return f.audit }

// CountUnauthenticated counts a client that showed nothing by which it has operations.
func (f *Front) CountUnauthenticated() { f.counters.unauthenticated.Add(1) }

// CountForbidden counts a request for which a client lacks the operation.
func (f *Front) CountForbidden() { f.counters.forbidden.Add(1) }

// TLSConfig returns the one of new connections, nil if they have no TLS.
func (f *Front) TLSConfig() *tls.Config { return f.tlsConfig(f.settings.Load()) }

// Enter counts a connection of a client. It returns false when there are too many; else
// Leave has to follow.
func (f *Front) Enter() bool {
	n := f.open.Add(1)
	if limit := f.settings.Load().MaxConnections; limit > 0 && n > int64(limit) {
		f.open.Add(-1)
		f.counters.refused.Add(1)
		return false
	}
	f.history.connected(n)
	f.counters.opened.Add(1)
	return true
}

// Leave counts its end.
func (f *Front) Leave() { f.gone() }

// WireBytes is where bytes from and to clients are counted.
func (f *Front) WireBytes() *atomic.Int64 { return &f.counters.wire }

// Encoded and Decoded are where messages are counted that are put, and made plain.
func (f *Front) Encoded() *meter.Meter { return &f.encoded }

// Decoded see Encoded.
func (f *Front) Decoded() *meter.Meter { return &f.decoded }

// CountPut counts an acknowledged put, and CountRefusedPut one that was not.
func (f *Front) CountPut(duplicate bool) {
	f.counters.puts.Add(1)
	if duplicate {
		f.counters.duplicates.Add(1)
	}
}

// CountRefusedPut see CountPut.
func (f *Front) CountRefusedPut() { f.counters.refusedPuts.Add(1) }

// CountGet counts a message that a client gets, perhaps as it is stored.
func (f *Front) CountGet(stored bool) {
	f.counters.gets.Add(1)
	if stored {
		f.counters.storedGets.Add(1)
	}
}

// CountUndecodable counts and logs a message that a client gets as it is stored because it
// is damaged.
func (f *Front) CountUndecodable(err error) { f.undecodable(err) }

// EngineFailed logs a fault of an engine.
func (f *Front) EngineFailed(err error) { f.engineFailed(err) }
