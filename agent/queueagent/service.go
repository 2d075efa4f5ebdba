// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/lighterage/lighterage/agent/queue/dispatch"
	"github.com/lighterage/lighterage/agent/queue/service"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// messages serves clients of MessageService; nil: nobody.
type messages struct {
	hub     *dispatch.Hub
	service *service.Service
	server  *service.Server
	stop    context.CancelFunc
	running sync.WaitGroup
}

// startMessages serves MessageService if the configuration has an address for it. What
// fails later goes to ended.
func (a *Agent) startMessages(
	ctx context.Context, r *running, c *wirev1.QueueConfig, maxPayload int, ended chan<- error,
) (*messages, error) {
	if c.GetServiceAddress() == "" {
		return nil, nil //nolint:nilnil // Nothing is served, which is no failure.
	}
	m := &messages{hub: dispatch.New(dispatch.Options{
		Conn: r.conn, Queue: c.GetQueue(), Leads: r.store.Leader, IDs: r.ids, Quota: r.quota, Failed: r.store.Failed,
		MaxPayload: maxPayload, MaxDeliveries: c.GetRedelivery().GetMaxDeliveries(), Forwards: sends(c),
		Decoding: r.channels.decoding, Log: a.options.Log,
		EnsureLeases: func(ctx context.Context) error { return r.store.EnsureLeases(ctx, r.conn, streamSettings(c)) },
	})}
	var err error
	if m.service, err = service.New(service.Options{
		Queue: c.GetQueue(), Conn: r.conn, Front: r.front, IDs: r.ids, Quota: r.quota, Hub: m.hub, MaxPayload: maxPayload,
		Visibility: c.GetRedelivery().GetVisibilityTimeout().AsDuration(),
		Log:        a.options.Log,
	}); err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.GetServiceAddress())
	if err != nil {
		return nil, fmt.Errorf("listen for clients of gRPC and HTTP: %w", err)
	}
	m.server = service.NewServer(m.service) //nolint:contextcheck // It ends by Drain and Close.
	ctx, m.stop = context.WithCancel(context.WithoutCancel(ctx))
	m.running.Go(func() {
		if err := m.hub.Run(ctx); err != nil {
			ended <- fmt.Errorf("give out messages: %w", err)
		}
	})
	m.running.Go(func() {
		if err := m.server.Serve(listener); err != nil {
			ended <- fmt.Errorf("serve clients of gRPC and HTTP: %w", err)
		}
	})
	a.options.Log.Info("Clients of gRPC and HTTP are served", "address", listener.Addr().String())
	return m, nil
}

// adopt takes over what may change while it serves.
func (m *messages) adopt(c *wirev1.QueueConfig) {
	if m == nil {
		return
	}
	m.service.SetVisibility(c.GetRedelivery().GetVisibilityTimeout().AsDuration())
	m.hub.SetMaxDeliveries(c.GetRedelivery().GetMaxDeliveries())
	m.hub.SetForwards(sends(c))
}

// held is how many messages are with clients, and how many of these were before.
func (m *messages) held() (held, again uint64) {
	if m == nil {
		return 0, 0
	}
	n, before := m.hub.Held()
	return count(n), count(before)
}

// drain lets requests end that are being served.
func (m *messages) drain(ctx context.Context) error {
	if m == nil {
		return nil
	}
	return m.server.Drain(ctx)
}

// close ends serving at once. It may be repeated.
func (m *messages) close() {
	if m == nil {
		return
	}
	m.server.Close()
	m.stop()
	m.running.Wait()
}
