// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/transport"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// TestSeveralChannels sends to a queue of another cluster and to one of the own at once, each of which is known by
// another authority.
func TestSeveralChannels(t *testing.T) {
	t.Parallel()
	const ownName, peerCA = "own.copies.bank.queue.lighterage.internal", "west.peer-ca.crt"
	copies := newMember(t)
	p := newPair(t, func(p *pair) {
		east := p.authorities[0]
		east.Write(t, copies.directory, east, transport.QueuePath("bank", "copies"), ownName)
		copies.config.Queue = "copies"
		copies.config.Acceptance = &wirev1.ChannelAcceptance{
			Address: "127.0.0.1:0", AnyCodec: true, Peers: []*wirev1.ChannelPeer{{
				CaBundle: east.PEM(), Namespaces: []*wirev1.ChannelNamespace{{Name: "bank", ServerName: ownName}},
			}},
		}
		copies.run()
		copies.await("it serves", serves)
		if err := os.Rename(
			filepath.Join(p.east.directory, transport.PeerCA), filepath.Join(p.east.directory, peerCA),
		); err != nil {
			t.Fatal(err)
		}
		c := p.east.config
		c.Channel.Name, c.Channel.CaFile = "west/vault/orders", peerCA
		c.Channels = []*wirev1.ChannelConfig{c.GetChannel(), {
			Name: "bank/copies", Address: copies.ChannelAddress().String(), ServerName: ownName, Namespace: "bank",
			Queue: "copies", Codecs: []string{"zstd"}, BatchMessages: 5, DataPath: "SMC",
		}}
		c.Channel = nil
	})
	const first = 6
	p.send(first)
	p.east.await("both channels count", func(r *wirev1.QueueReport) bool {
		if len(r.GetChannels()) != 2 || r.GetChannel() != nil {
			return false
		}
		for i, name := range []string{"west/vault/orders", "bank/copies"} {
			c := r.GetChannels()[i]
			// The other member listens by TCP alone. Where this kernel has no SMC that is the reason.
			path, reasons := c.GetDataPath(), []string{"Unavailable", "FellBack"}
			if i == 0 {
				reasons = []string{"Configured"}
			}
			if path.GetType() != "TCP" || !slices.Contains(reasons, path.GetReason()) {
				return false
			}
			if c.GetName() != name || c.GetMessages() != first || c.GetPosition() != first || c.GetOwnCluster() != (i == 1) ||
				c.GetWireBytes() <= c.GetPayloadBytes() {
				return false
			}
		}
		return true
	})
	copies.await("the queue of the same cluster has all", func(r *wirev1.QueueReport) bool {
		return len(r.GetReceived()) == 1 && r.GetReceived()[0].GetPeer() == "" &&
			r.GetReceived()[0].GetQueue() == "orders" && r.GetReceived()[0].GetMessages() == first &&
			r.GetOwnReceivedWireBytes() > r.GetReceived()[0].GetPayloadBytes() &&
			r.GetReceivedWireBytes() < r.GetOwnReceivedWireBytes() && r.GetContent().GetMessages() == first
	})

	// One that cannot be run yet keeps everything here.
	var before uint64
	p.east.await("bytes are known", func(r *wirev1.QueueReport) bool {
		_, before = sentBytes(r)
		return before > 0
	})
	p.east.change(func(c *wirev1.QueueConfig) {
		c.Revision = "2"
		c.Channels = append(c.Channels, &wirev1.ChannelConfig{Name: "north/vault/orders"})
	})
	p.east.await("the configuration is taken over", func(r *wirev1.QueueReport) bool { return r.GetRevision() == "2" })
	p.publish(2)
	p.get(2)
	p.east.await("nothing leaves", func(r *wirev1.QueueReport) bool {
		// Those that ended are counted still, apart from those that run.
		_, own := sentBytes(r)
		return r.GetContent().GetMessages() == 2 && len(r.GetChannels()) == 4 && own > before
	})
	p.east.change(func(c *wirev1.QueueConfig) { c.Revision, c.Channels = "3", c.GetChannels()[:2] })
	p.gone()
	p.send(1)
	copies.await("it has all", func(r *wirev1.QueueReport) bool { return r.GetContent().GetMessages() == first+3 })

	// One is left, in the other form of the configuration.
	p.east.change(func(c *wirev1.QueueConfig) {
		c.Revision, c.Channel, c.Channels = "4", proto.CloneOf(c.GetChannels()[1]), nil
		c.Channel.Name = ""
	})
	p.east.await("the other form is taken over", func(r *wirev1.QueueReport) bool { return r.GetRevision() == "4" })
	p.publish(1)
	p.gone()
	copies.await("it has all", func(r *wirev1.QueueReport) bool { return r.GetContent().GetMessages() == first+4 })

	// The only one cannot be run any more: clients do not get what is for the other queue.
	told := proto.CloneOf(p.east.config.GetChannel())
	p.east.change(func(c *wirev1.QueueConfig) { c.Revision, c.Channel = "5", &wirev1.ChannelConfig{} })
	p.east.await("it is taken over", func(r *wirev1.QueueReport) bool { return r.GetRevision() == "5" })
	p.publish(1)
	p.east.await("it is held", func(r *wirev1.QueueReport) bool {
		return r.GetContent().GetMessages() == 1 && r.GetContent().GetUnacknowledged() == 1
	})
	if _, err := p.putter.CreateConsumer(
		t.Context(), "orders", jetstream.ConsumerConfig{Durable: "teller", AckPolicy: jetstream.AckExplicitPolicy},
	); err == nil {
		t.Error("clients have a consumer")
	}
	p.east.change(func(c *wirev1.QueueConfig) { c.Revision, c.Channel = "6", told })
	p.gone()
	copies.await("it has all", func(r *wirev1.QueueReport) bool { return r.GetContent().GetMessages() == first+5 })
}

// sentBytes are those of all channels, to other clusters and to the own.
func sentBytes(r *wirev1.QueueReport) (peers, own uint64) {
	for _, c := range r.GetChannels() {
		if c.GetOwnCluster() {
			own += c.GetWireBytes()
		} else {
			peers += c.GetWireBytes()
		}
	}
	return peers, own
}

func TestChannelsConfigurations(t *testing.T) {
	sound := func(name string) *wirev1.ChannelConfig {
		return &wirev1.ChannelConfig{
			Name: name, Address: "copies:8444", ServerName: "own", Namespace: "bank", Queue: "copies",
		}
	}
	for says, change := range map[string]func(*wirev1.QueueConfig){
		"twice": func(c *wirev1.QueueConfig) {
			c.Channels = []*wirev1.ChannelConfig{sound("a"), sound("a")}
		},
		"without a name": func(c *wirev1.QueueConfig) { c.Channels = []*wirev1.ChannelConfig{sound("")} },
		"use one of them": func(c *wirev1.QueueConfig) {
			c.Channel, c.Channels = sound(""), []*wirev1.ChannelConfig{sound("a")}
		},
		"lacks channel.server_name": func(c *wirev1.QueueConfig) { c.Channel = sound(""); c.Channel.ServerName = "" },
		"channel.ca_file":           func(c *wirev1.QueueConfig) { c.Channel = sound(""); c.Channel.CaFile = "../tls.key" },
	} {
		m := newMember(t)
		m.change(change)
		if err := m.Agent.Run(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
