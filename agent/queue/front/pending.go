// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"time"

	"github.com/lighterage/lighterage/agent/queue/store"
)

// slowClients is what is done about clients that do not take what they asked for.
type slowClients struct {
	// patience is how long a client may take nothing at all: it is disconnected after that, or after
	// two thirds of it at the earliest. The kernel takes nothing for as long as it has more than two
	// thirds of what it buffers, so that one which takes some 60 KB/s may seem to take nothing for most of it.
	// As long a client may hold memory that others wait for, and a second more for each paceRate bytes.
	patience time.Duration
	// pending is how many bytes the server holds for all clients together at most. Beyond it those
	// are disconnected for which it holds most.
	pending int
	// look is how often that is looked at.
	look time.Duration
}

var defaultSlow = slowClients{patience: 30 * time.Second, pending: 128 << 20, look: 50 * time.Millisecond}

// watchPending disconnects clients that make the server hold too much, until the context ends.
func (f *Front) watchPending(ctx context.Context) {
	for {
		slow := f.slow.Load()
		select {
		case <-ctx.Done():
			return
		case <-time.After(slow.look):
		}
		if f.behind() { // The server looks at each connection of all to tell what it holds.
			f.shed(f.options.Server.Pending(), slow.pending)
		}
	}
}

// behind reports whether the server may hold something for a client: what it says to others is read as soon as it says
// it.
func (f *Front) behind() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		if c.greeted.Load() && !c.listening.Load() {
			return true
		}
	}
	return false
}

// shed disconnects those without which the server holds no more than a limit for the others, as few as possible.
func (f *Front) shed(pending []store.Pending, limit int) {
	left := 0
	for _, p := range pending {
		left += p.Bytes
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range pending {
		if left <= limit {
			return
		}
		left -= p.Bytes
		for c := range f.conns {
			if c.greeted.Load() && c.serverID == p.Client {
				c.disconnected("buffer memory is exhausted, and this client has the most unread data",
					"bytes", p.Bytes, "limit", limit)
				c.cancel()
			}
		}
	}
}
