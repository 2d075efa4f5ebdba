// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent_test

import (
	"testing"
	"time"

	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/transport/transporttest"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// A Peer's revokedBefore ends the channels of that Peer, however its certificates are, and those of no other one.
func TestRevokingEndsThePeersChannels(t *testing.T) {
	north := transporttest.NewAuthority(t, "north")
	p := newPair(t, func(p *pair) {
		p.west.config.Acceptance.Peers = append(p.west.config.Acceptance.Peers, &wirev1.ChannelPeer{
			Name: "north", CaBundle: north.PEM(), Namespaces: []*wirev1.ChannelNamespace{{Name: "bank", ServerName: wayIn}},
		})
	})
	other, west := newMember(t), p.authorities[1]
	north.Write(t, other.directory, west, transport.QueuePath("bank", "orders"), "orders.bank.svc")
	way := startGateway(t, west.Directory(t, north, "/gateway", transport.GatewayServerName), north)
	way.backend.Store(p.gateway.backend.Load())
	other.config.Channel = &wirev1.ChannelConfig{
		GatewayEndpoint: way.Addr().String(), Namespace: "vault", Queue: "orders", Codecs: []string{"zstd"}, BatchMessages: 5,
	}
	other.run()
	other.await("it serves", serves)
	const revokes = wirev1.FailureReason_FAILURE_REASON_NOT_GRANTED
	from := func(peer string, r *wirev1.QueueReport) *wirev1.ReceivedChannel {
		for _, c := range r.GetReceived() {
			if c.GetPeer() == peer {
				return c
			}
		}
		return nil
	}
	p.west.await("both send", func(r *wirev1.QueueReport) bool {
		return from("east", r).GetConnected() && from("north", r).GetConnected()
	})
	revoke := func(revision string, before time.Time) {
		p.west.change(func(c *wirev1.QueueConfig) {
			c.Revision, c.Acceptance.Peers[0].RevokedBefore = revision, before.Unix()
		})
	}
	// othersGoOn: nothing was ended, and nothing was told to north.
	othersGoOn := func(revision string, sent uint64) {
		t.Helper()
		client := other.connect(north, "orders.bank.svc")
		if _, err := client.Publish(t.Context(), "orders.new", []byte("from the north")); err != nil {
			t.Fatal(err)
		}
		r := p.west.await("north goes on", func(r *wirev1.QueueReport) bool {
			return r.GetRevision() == revision && from("north", r).GetMessages() == sent
		})
		if e := from("north", r).GetLastError(); e.GetReason() == revokes {
			t.Errorf("the channel of north was ended: %v", e)
		}
		if e := other.Report(t.Context()).GetChannel().GetLastError(); e.GetReason() == revokes {
			t.Errorf("north was told: %v", e)
		}
	}

	// Certificates of east were issued by now: what is revoked later than that keeps it out.
	revoke("2", time.Now().Add(48*time.Hour))
	p.west.await("the channel of east has ended", func(r *wirev1.QueueReport) bool {
		c := from("east", r)
		return c != nil && !c.GetConnected() && c.GetLastError().GetReason() == revokes
	})
	othersGoOn("2", 1)

	// Revoked from before its certificates, east begins again at its next try.
	revoke("3", time.Now().Add(-48*time.Hour))
	p.west.await("east sends again", func(r *wirev1.QueueReport) bool { return from("east", r).GetConnected() })
	othersGoOn("3", 2)
}
