// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package front

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/lighterage/lighterage/agent/queue/store"
)

// slowClients is what is done about clients that do not take what they asked for.
type slowClients struct {
	// patience is how long a client may take nothing at all; it is sent away after that, or after
	// two thirds of it at the earliest. The kernel takes nothing for as long as it has more than two
	// thirds of what it buffers, so that one which takes some 60 KB/s may seem to take nothing for most of it.
	patience time.Duration
	// pending is how many bytes the server holds for all clients together at most. Beyond it those
	// are sent away for which it holds most.
	pending int
	// look is how often that is looked at, and hurry how often when it is more than half.
	look, hurry time.Duration
}

var defaultSlow = slowClients{
	patience: 30 * time.Second, pending: 128 << 20, look: 100 * time.Millisecond, hurry: 20 * time.Millisecond,
}

// writeChunk is how many bytes are written with one deadline, so that a client that is only slow
// is not taken for one that takes nothing.
const writeChunk = 256 << 10

// write writes to the client, for as long as that takes something. writing is held.
func (c *conn) write(b []byte) (written int, err error) {
	for {
		if now := time.Now(); now.After(c.renew) {
			patience := c.front.slow.Load().patience
			if err := c.outer.SetWriteDeadline(now.Add(patience)); err != nil {
				return written, err
			}
			c.renew = now.Add(patience / 3)
		}
		n, err := c.outer.Write(b[:min(len(b), writeChunk)])
		written += n
		if errors.Is(err, os.ErrDeadlineExceeded) && !c.parting.Swap(true) {
			c.front.options.Log.Warn("Slow client disconnected: it read nothing that it asked for", "client", c.outer.RemoteAddr().String(),
				"patience", c.front.slow.Load().patience.String())
		}
		if b = b[n:]; err != nil || len(b) == 0 {
			return written, err
		}
	}
}

// tooSlow sends a client away for which memory is held that others wait for.
func (c *conn) tooSlow() {
	if c.parting.Swap(true) {
		return
	}
	c.front.options.Log.Warn("Slow client disconnected: its unread data holds buffer memory that other clients wait for", "client", c.outer.RemoteAddr().String(),
		"patience", c.front.inflated.lastPatience.String())
	go c.close()
}

// pender is a Server that holds what clients did not take yet; see store.Store. Others hold it elsewhere.
type pender interface {
	Pending() []store.Pending
}

// watchSlow sends clients away that make the server hold too much, until the context ends.
func (f *Front) watchSlow(ctx context.Context) {
	server, ok := f.options.Server.(pender)
	if !ok {
		return
	}
	for pause := defaultSlow.look; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		slow := f.slow.Load()
		pause = slow.look
		if !f.behind() {
			continue // The server looks at each connection of all to tell what it holds.
		}
		pending := server.Pending()
		if total(pending) > slow.pending/2 {
			pause = slow.hurry
		}
		if worst := excess(pending, slow.pending); len(worst) > 0 {
			f.shed(worst)
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

func total(pending []store.Pending) (sum int) {
	for _, p := range pending {
		sum += p.Bytes
	}
	return sum
}

// excess returns those without which the others have no more than the limit, as few as possible.
func excess(pending []store.Pending, limit int) []store.Pending {
	left := total(pending)
	if left <= limit {
		return nil
	}
	slices.SortFunc(pending, func(a, b store.Pending) int { return cmp.Compare(b.Bytes, a.Bytes) })
	for i, p := range pending {
		if left <= limit {
			return pending[:i]
		}
		left -= p.Bytes
	}
	return pending
}

// shed ends the connections of some clients.
func (f *Front) shed(worst []store.Pending) {
	byID := make(map[uint64]int, len(worst))
	for _, p := range worst {
		byID[p.Client] = p.Bytes
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		if !c.greeted.Load() {
			continue // it has got nothing yet
		}
		bytes, ok := byID[c.serverID]
		if !ok || c.parting.Swap(true) {
			continue
		}
		f.options.Log.Warn("Slow client disconnected: buffer memory is exhausted, and this client has the most unread data", "client", c.outer.RemoteAddr().String(),
			"bytes", bytes, "limit", f.slow.Load().pending)
		go c.close()
	}
}
