// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/egress"
	"github.com/lighterage/lighterage/agent/queue/external"
	"github.com/lighterage/lighterage/agent/queue/store"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// engine keeps the messages: a server in this process, or external ones.
type engine = store.Engine

var (
	_ engine = (*store.Store)(nil)
	_ engine = (*external.External)(nil)
)

// open returns what keeps the messages, with the queue's stream in it, a connection of the agent's own, and the
// configuration that was good for that.
func (a *Agent) open(
	ctx context.Context, c *wirev1.QueueConfig, o store.Options,
) (engine, *nats.Conn, *wirev1.QueueConfig, error) {
	if c.GetExternal() != nil {
		return a.openExternal(ctx, c)
	}
	a.say("the store reads the volume")
	kept, err := store.Start(ctx, o)
	if err != nil {
		return nil, nil, c, err
	}
	conn, err := kept.Connect("agent of member " + a.options.Member)
	if err != nil {
		kept.Shutdown()
		return nil, nil, c, err
	}
	a.say("the members have not agreed on the stream yet")
	if err := a.ensureFirst(ctx, kept, conn, c); err != nil {
		conn.Close()
		kept.Shutdown()
		return nil, nil, c, err
	}
	return kept, conn, c, nil
}

// externalOptions says where the external servers are.
func (a *Agent) externalOptions(c *wirev1.QueueConfig) (external.Options, error) {
	x := c.GetExternal()
	permitted, err := egress.Parse(c.GetDialPolicy())
	if err != nil {
		return external.Options{}, err
	}
	return external.Options{
		Egress: permitted,
		Queue:  c.GetQueue(), Owner: x.GetOwner(), Member: a.options.Member, Servers: x.GetServers(),
		CABundle:  x.GetCaBundle(),
		Directory: x.GetCredentialsDirectory(), Memory: c.GetStorage().GetMemory(), MaxMessage: maxMessage(c),
		Log: a.options.Log,
	}, nil
}

// permit makes what a configuration says of addresses count for connections to external servers and object stores.
func (a *Agent) permit(kept engine, c *wirev1.QueueConfig) error {
	if !dials(c) {
		return nil
	}
	permitted, err := egress.Parse(c.GetDialPolicy())
	if err != nil {
		return err
	}
	a.stores.Set(permitted)
	if c.GetExternal() != nil {
		kept.SetEgress(permitted)
	}
	return nil
}

// dials reports whether a configuration names what is dialled at the wish of a tenant.
func dials(c *wirev1.QueueConfig) bool {
	return c.GetExternal() != nil || c.GetArchive().GetStore() != nil || c.GetRestore().GetStore() != nil
}

// openPatience bounds one try to make the streams in external servers.
const openPatience = 10 * time.Second

// openExternal waits until external servers keep the queue's messages. What keeps them from it may have to be fixed in
// the configuration, which is read again for each try.
func (a *Agent) openExternal(
	ctx context.Context, c *wirev1.QueueConfig,
) (engine, *nats.Conn, *wirev1.QueueConfig, error) {
	first := c
	a.say("the external servers do not keep messages for this queue yet")
	for {
		kept, conn, err := a.tryExternal(ctx, c)
		a.noteExternal(err, c)
		if err == nil {
			return kept, conn, c, nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, c, ctx.Err()
		case <-time.After(a.options.Interval):
		}
		next, err := a.options.Read()
		if err == nil {
			err = validate(next)
		}
		if err == nil && next.GetExternal() == nil {
			err = errors.New("an engine cannot be changed to another: make another queue and move the messages")
		}
		a.frame.Note(err)
		if err == nil {
			started := proto.CloneOf(first)
			started.External = next.GetExternal() // nothing hangs on the servers yet
			if err = changeable(started, next); err == nil {
				c = next
			}
			a.frame.Note(err)
		}
	}
}

// noteExternal notes whether external servers serve.
func (a *Agent) noteExternal(err error, c *wirev1.QueueConfig) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil && (a.external == nil || a.external.Error() != err.Error()) {
		a.options.Log.Warn("External servers do not keep the messages yet", "problem", err.Error())
	}
	a.external = err
	a.frame.Begin(c)
}

// tryExternal returns the streams in external servers, which are there. Errors say what to do.
func (a *Agent) tryExternal(ctx context.Context, c *wirev1.QueueConfig) (engine, *nats.Conn, error) {
	o, err := a.externalOptions(c)
	if err != nil {
		return nil, nil, err
	}
	kept, err := external.New(o)
	if err != nil {
		return nil, nil, err
	}
	conn, err := kept.Connect("agent of member " + a.options.Member)
	if err != nil {
		return nil, nil, err
	}
	if err = kept.Check(conn); err == nil {
		trying, cancel := context.WithTimeout(ctx, openPatience)
		defer cancel()
		settings := streamSettings(c)
		if err = a.ensureFirst(trying, kept, conn, c); err == nil {
			err = kept.EnsureLeases(trying, conn, settings)
		}
		if err == nil {
			err = kept.EnsureIDs(trying, conn, settings)
		}
		if err == nil {
			err = kept.Begin(ctx)
		}
	}
	if err != nil {
		conn.Close()
		return nil, nil, kept.Explain(err)
	}
	return kept, conn, nil
}
