// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/lighterage/lighterage/agent/wire/tunnel"
)

const (
	// MaxControls is how many control connections a peer may keep to one replica.
	MaxControls = 32
	// maxWaiting is how many data connections of a peer may be waited for at the same time, and half of it how many for
	// one owner.
	maxWaiting = 128
	// dataPatience is how long one is waited for. Pods give up after 10 seconds.
	dataPatience = 8 * time.Second
	// controlPatience is how long a first control connection is waited for: as the peer's gateway starts again.
	controlPatience = 4 * time.Second
	// askAgain is after what time another control connection is asked.
	askAgain = 2 * time.Second
)

// Registry has the control connections that peers keep to this gateway, and asks for data connections by them.
type Registry struct {
	names Names

	mu    sync.Mutex
	peers map[string]*controls
	// waiting by server name.
	waiting map[string]*waiting
}

// controls of one peer.
type controls struct {
	all []*Control
	// waiting is how many data connections are, and waitingFor how many for each owner.
	waiting    int
	waitingFor map[string]int
	// changed is closed, and made again, when a control connection is added or lost.
	changed chan struct{}
}

// Control is a control connection.
type Control struct {
	// Ask are the server names of data connections that the peer is to make. It is never closed.
	Ask   chan string
	since time.Time
	peer  string
	done  chan struct{}
}

// waiting is a data connection that was asked for.
type waiting struct {
	peer    string
	owner   string
	arrived chan *net.TCPConn
	failed  chan struct{}
}

// NewRegistry returns one without control connections.
func NewRegistry(names Names) *Registry {
	return &Registry{names: names, peers: map[string]*controls{}, waiting: map[string]*waiting{}}
}

// Add takes in a control connection of a peer; nil: it has too many. leave must be called once when it has ended.
func (r *Registry) Add(peer string, now time.Time) (c *Control, leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.of(peer)
	if len(of.all) >= MaxControls {
		return nil, nil
	}
	c = &Control{Ask: make(chan string, maxWaiting), since: now, peer: peer, done: make(chan struct{})}
	of.all = append(of.all, c)
	of.change()
	return c, sync.OnceFunc(func() { r.leave(c) })
}

func (r *Registry) leave(c *Control) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(c.done)
	of := r.peers[c.peer]
	for i, one := range of.all {
		if one == c {
			of.all = append(of.all[:i:i], of.all[i+1:]...)
			break
		}
	}
	of.change()
	r.tidy(c.peer)
}

// change must be called with the lock held.
func (of *controls) change() {
	close(of.changed)
	of.changed = make(chan struct{})
}

// of must be called with the lock held.
func (r *Registry) of(peer string) *controls {
	if r.peers[peer] == nil {
		r.peers[peer] = &controls{changed: make(chan struct{}), waitingFor: map[string]int{}}
	}
	return r.peers[peer]
}

// tidy must be called with the lock held.
func (r *Registry) tidy(peer string) {
	if of := r.peers[peer]; of != nil && len(of.all) == 0 && of.waiting == 0 {
		delete(r.peers, peer)
	}
}

// Connections returns how many control connections a peer keeps to this replica, and since when the oldest.
func (r *Registry) Connections(peer string) (n int, since time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.peers[peer]
	if of == nil || len(of.all) == 0 {
		return 0, since
	}
	since = of.all[0].since
	for _, c := range of.all {
		if c.since.Before(since) {
			since = c.since
		}
	}
	return len(of.all), since
}

// Failed says that a peer could not make a data connection.
func (r *Registry) Failed(peer, serverName string) {
	r.mu.Lock()
	w := r.waiting[serverName]
	r.mu.Unlock()
	if w == nil || w.peer != peer { // it is over, or not its own
		return
	}
	select {
	case w.failed <- struct{}{}:
	default:
	}
}

// Mine is of passthrough.Data.
func (r *Registry) Mine(serverName string) bool {
	owner, ok := r.names.Owner(serverName)
	return ok && owner == r.names.Own
}

// Take is of passthrough.Data.
func (r *Registry) Take(serverName string, conn *net.TCPConn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.waiting[serverName]
	if w == nil {
		return false
	}
	delete(r.waiting, serverName) // it counts once
	w.arrived <- conn
	return true
}

// Connect returns a connection to a peer's gateway. A control connection that is lost is no reason to fail while there
// is another one. Without any, it waits a few seconds for one if patient, else it returns tunnel.NotConnected at once,
// so that another replica may be asked. The error is a *tunnel.Error, or that of making a name.
func (r *Registry) Connect(ctx context.Context, by Asked, patient bool) (*net.TCPConn, error) {
	peer := by.Peer
	name, err := r.names.New()
	if err != nil {
		return nil, err
	}
	w := &waiting{peer: peer, owner: by.Owner, arrived: make(chan *net.TCPConn, 1), failed: make(chan struct{}, 1)}
	if !r.await(name, w) {
		return nil, &tunnel.Error{Reason: tunnel.Busy}
	}
	defer r.forget(name, w)
	ctx, cancel := context.WithTimeout(ctx, dataPatience)
	defer cancel()
	first := time.NewTimer(controlPatience)
	defer first.Stop()
	asked := map[*Control]bool{}
	for {
		c, changed := r.pick(peer, asked)
		if c == nil && !patient && !alive(asked) {
			return nil, &tunnel.Error{Reason: tunnel.NotConnected}
		}
		var again, none <-chan time.Time
		var lost <-chan struct{}
		if c != nil {
			asked[c] = true
			again, lost, changed = time.After(askAgain), c.done, nil
			select {
			case c.Ask <- name:
			default: // it has as much to do as it may have
				continue
			}
		} else if len(asked) == 0 {
			none = first.C
		}
		select {
		case conn := <-w.arrived:
			return conn, nil
		case <-w.failed:
		case <-lost:
		case <-again:
		case <-changed:
		case <-none:
			return nil, &tunnel.Error{Reason: tunnel.NotConnected}
		case <-ctx.Done():
			return nil, &tunnel.Error{Reason: tunnel.NoAnswer, Cause: ctx.Err()}
		}
	}
}

func (r *Registry) await(name string, w *waiting) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.of(w.peer)
	if of.waiting >= maxWaiting || of.waitingFor[w.owner] >= maxWaiting/2 {
		return false
	}
	of.waiting++
	of.waitingFor[w.owner]++
	r.waiting[name] = w
	return true
}

// forget closes what has come too late.
func (r *Registry) forget(name string, w *waiting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, name)
	of := r.peers[w.peer]
	of.waiting--
	if of.waitingFor[w.owner]--; of.waitingFor[w.owner] == 0 {
		delete(of.waitingFor, w.owner)
	}
	r.tidy(w.peer)
	select {
	case late := <-w.arrived:
		_ = late.Close()
	default:
	}
}

// alive reports whether any of the control connections that were asked is still there.
func alive(asked map[*Control]bool) bool {
	for c := range asked {
		select {
		case <-c.done:
		default:
			return true
		}
	}
	return false
}

// pick returns a control connection that was not asked, and puts it behind the others; nil: there is none.
func (r *Registry) pick(peer string, asked map[*Control]bool) (c *Control, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.of(peer)
	for i, one := range of.all {
		if !asked[one] {
			of.all = append(append(of.all[:i:i], of.all[i+1:]...), one)
			return one, of.changed
		}
	}
	return nil, of.changed
}
