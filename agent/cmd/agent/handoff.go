// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"time"

	"github.com/lighterage/lighterage/agent/handoff"
	"github.com/lighterage/lighterage/agent/transfer/send"
	"github.com/lighterage/lighterage/agent/transport"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

const (
	// handOffTimeout bounds making a connection through an object store, where a round trip can take seconds.
	handOffTimeout = time.Minute
	// cleanTimeout bounds the removal of what is left in the store.
	cleanTimeout = 20 * time.Second
	// gatewayTimeout bounds a relay's connection to the gateway.
	gatewayTimeout = 10 * time.Second
)

// handOffBackoff is for a relay that may start later than the sender.
var handOffBackoff = send.Backoff{
	First: time.Second, Most: 10 * time.Second, Patience: 10 * time.Minute,
	Advice: "in the other cluster an ObjectStore with the same bucket and prefix must have handOff: Receive and the " +
		"condition HandOffReady",
}

// handOff sends through an object store.
func (a *agent) handOff(ctx context.Context) error {
	var c wirev1.HandOffConfig
	if err := a.readConfig(&c); err != nil {
		return err
	}
	sent := c.GetSend()
	if err := required("volume", sent.GetVolume()); err != nil {
		return err
	}
	pace, err := paceOf(sent)
	if err != nil {
		return err
	}
	report := send.NewReport()
	// What the network carries are the requests to the store.
	store, err := openMetered(c.GetVia(), report, pace)
	if err != nil {
		return err
	}
	defer store.Close()
	sent.GatewayEndpoint, sent.ReceiverEndpoint, sent.ReceiverServerName = "", "", ""
	return a.sendTo(ctx, sent, report, pace, func(ctx context.Context, to *transport.Dialer) (*handoff.Offer, error) {
		report.SetDetail("Waiting for the other cluster to take this up from the object store")
		offer, err := handoff.NewOffer(ctx, handoff.Options{Store: store})
		if err != nil {
			a.logDetail(err)
			return nil, err
		}
		to.Address, to.Connect, to.Timeout = "the-object-store", offer.DialContext, handOffTimeout
		return offer, nil
	})
}

// whileOffered returns a context that ends when the store fails an offer, and what to call at the end. Without an offer
// there is nothing to do.
func (a *agent) whileOffered(ctx context.Context, offer *handoff.Offer) (context.Context, func()) {
	if offer == nil {
		return ctx, func() {}
	}
	offered, end := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-offer.Failed():
			end(offer.Err())
		case <-offered.Done():
		}
	}()
	return offered, func() {
		end(nil)
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
		defer cancel()
		if err := offer.Close(cleaning); err != nil {
			a.logDetail(err)
			a.log.Warn("What is left in the object store is for the relay to remove", "error", err.Error())
		}
	}
}

// because returns what the store has against an offer in place of an error that comes of it: connections know no
// reasons.
func because(offer *handoff.Offer, err error) error {
	if err != nil && offer != nil && offer.Err() != nil {
		return offer.Err()
	}
	return err
}

// relay connects senders to the gateway.
func (a *agent) relay(ctx context.Context) error {
	var c wirev1.RelayConfig
	if err := a.readConfig(&c); err != nil {
		return err
	}
	if err := required("gateway_address", c.GetGatewayAddress()); err != nil {
		return err
	}
	report := &probeReport{start: time.Now()}
	return a.end(report, func() error {
		store, err := openStore(c.GetStore().GetStore(), c.GetStore().GetDialPolicy(), nil, nil)
		if err != nil {
			return err
		}
		defer store.Close()
		dialer := net.Dialer{Timeout: gatewayTimeout}
		err = handoff.Relay(ctx, handoff.RelayOptions{
			// The kubelet waits for 10 s.
			Options: handoff.Options{Store: store, Patience: 5 * time.Second},
			Dial: func(ctx context.Context) (net.Conn, error) {
				return dialer.DialContext(ctx, "tcp", c.GetGatewayAddress())
			},
			Log: a.log,
		})
		a.logDetail(err)
		return err
	}())
}
