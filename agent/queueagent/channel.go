// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queueagent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/lighterage/lighterage/agent/adapt"
	"github.com/lighterage/lighterage/agent/codec"
	"github.com/lighterage/lighterage/agent/compression"
	"github.com/lighterage/lighterage/agent/meter"
	"github.com/lighterage/lighterage/agent/policy"
	"github.com/lighterage/lighterage/agent/queue/channel"
	"github.com/lighterage/lighterage/agent/queue/classes"
	"github.com/lighterage/lighterage/agent/queue/ids"
	"github.com/lighterage/lighterage/agent/queue/message"
	"github.com/lighterage/lighterage/agent/transport"
	"github.com/lighterage/lighterage/agent/wire/datapath"
	wirev1 "github.com/lighterage/lighterage/agent/wire/v1"
)

// maxChannelConns bounds the connections of sending queues that are open at once, those without a finished handshake
// included.
const maxChannelConns = 256

// channels are the ends of channels that this member has: those that send, and one that receives from any number of
// queues.
type channels struct {
	agent    *Agent
	store    engine
	conn     *nats.Conn
	ids      ids.Keeper // nil: not kept
	decoding *message.Decoding
	files    *transport.Files
	work     channel.Work // of all ends, whatever the configuration was

	// The receiving end, nil when nothing is listened on.
	callers  *transport.Callers
	receiver *channel.Receiver
	server   *grpc.Server
	arrived  transport.Counter // bytes of its connections
	own      transport.Counter // those with queues of the same cluster

	// released: what a channel that was taken away has left is removed. Only follow, which is one goroutine, looks at
	// it.
	released bool

	mu sync.Mutex
	// What work had counted at the last reset.
	encodedReset, decodedReset meter.Snapshot

	sending []*sending // none when there is no channel
	fanout  func()     // ends what several of them share, and waits; nil: there is none
	// Bytes since the last reset of sending ends that have ended, to other clusters and to the own.
	ended, ownEnded transport.Counted
	// What arrived and own had counted at the last reset.
	arrivedReset, ownReset transport.Counted
}

// sending is a sending end that runs.
type sending struct {
	name    string // of one of several
	sender  *channel.Sender
	to      *channel.Destination
	classes *classes.Classes
	links   adapt.Links       // only measure, which is one goroutine, looks at it
	own     bool              // to a queue of the same cluster
	sent    transport.Counter // bytes of its connections
	reset   transport.Counted // what sent had counted at the last reset
	// stop ends it and waits.
	stop func()
}

// validateChannels refuses settings that no end could work with.
func validateChannels(c *wirev1.QueueConfig) error {
	if _, err := channel.ParseCodecs(c.GetAcceptance().GetCodecs()); err != nil {
		return fmt.Errorf("acceptance.codecs: %w", err)
	}
	if _, err := datapath.Parse(c.GetAcceptance().GetDataPath()); err != nil {
		return fmt.Errorf("acceptance.data_path: %w", err)
	}
	names := map[string]bool{}
	for _, s := range c.GetChannels() {
		if s.GetName() == "" || names[s.GetName()] {
			return fmt.Errorf("channels has the name %q twice, or one without a name", s.GetName())
		}
		if names[s.GetName()] = true; !runs(s) {
			continue
		}
		if err := validateChannel(s); err != nil {
			return fmt.Errorf("channels, %s: %w", s.GetName(), err)
		}
	}
	switch {
	case len(names) > 0 && c.GetChannel() != nil:
		return errors.New("the configuration has channel and channels: use one of them")
	case len(names) > 0 && c.GetExternal() != nil:
		return errors.New("the configuration has channels and external servers: use channel")
	case c.GetChannel() != nil && runs(c.GetChannel()):
		return validateChannel(c.GetChannel())
	}
	return nil
}

// runs reports whether it is known how to reach the other end.
func runs(s *wirev1.ChannelConfig) bool { return s.GetGatewayEndpoint() != "" || s.GetAddress() != "" }

// sends reports whether messages go to other queues alone.
func sends(c *wirev1.QueueConfig) bool { return c.GetChannel() != nil || len(c.GetChannels()) > 0 }

func validateChannel(s *wirev1.ChannelConfig) error {
	needed := map[string]string{
		"gateway_endpoint": s.GetGatewayEndpoint(), "namespace": s.GetNamespace(), "queue": s.GetQueue(),
	}
	if s.GetAddress() != "" {
		needed["gateway_endpoint"], needed["server_name"] = s.GetAddress(), s.GetServerName()
	}
	for name, value := range needed {
		if value == "" {
			return fmt.Errorf("the configuration lacks channel.%s", name)
		}
	}
	if _, err := channel.ParseCodecs(s.GetCodecs()); err != nil {
		return fmt.Errorf("channel.codecs: %w", err)
	}
	for _, level := range s.GetLevels() {
		if level != wirev1.CompressionLevel_COMPRESSION_LEVEL_UNSPECIFIED && compression.Level(level) == 0 {
			return fmt.Errorf("channel.levels has %v, which this release (%s) does not know", level, wirev1.Version)
		}
	}
	if s.GetBatchMessages() > channel.MaxBatchMessages {
		return fmt.Errorf("channel.batch_messages is %d: use up to %d", s.GetBatchMessages(), channel.MaxBatchMessages)
	}
	if name := s.GetCaFile(); name != "" && (name != filepath.Base(name) || strings.HasPrefix(name, ".")) {
		return fmt.Errorf("channel.ca_file is %q: use the name of a file", name)
	}
	if _, err := datapath.Parse(s.GetDataPath()); err != nil {
		return fmt.Errorf("channel.data_path: %w", err)
	}
	if d := s.GetBatchDelay(); d != nil && (d.CheckValid() != nil || d.AsDuration() < 0) {
		return fmt.Errorf("channel.batch_delay is %v: use 0 or more", d.AsDuration())
	}
	return nil
}

// newChannels returns the ends that a configuration asks for. The receiving one serves already; send starts the sending
// one.
func (a *Agent) newChannels(
	ctx context.Context, r *running, c *wirev1.QueueConfig, decoders *codec.Registry, decoding *message.Decoding,
) (*channels, error) {
	x := &channels{
		agent: a, store: r.store, conn: r.conn, ids: r.ids, decoding: decoding,
		files: transport.NewFiles(a.options.Directory), work: channel.Work{Failed: r.front.EngineFailed},
	}
	address := c.GetAcceptance().GetAddress()
	if address == "" {
		return x, nil
	}
	accepts, err := acceptanceOf(c)
	if err != nil {
		return nil, err
	}
	x.callers = transport.NewCallers(x.files, &x.own)
	if err := x.callers.Set(c.GetAcceptance().GetPeers()); err != nil {
		return nil, fmt.Errorf("acceptance.peers: %w", err)
	}
	x.receiver = channel.NewReceiver(channel.ReceiverOptions{
		Conn: r.conn, Stream: c.GetQueue(), Admit: channel.Admission(x.callers), Readable: decoders.Codecs(),
		Decoding: decoding, Work: &x.work,
		Encoding: func() *message.Encoding { return r.front.Settings().Encoding }, Classes: r.front.Classes(),
		MaxMessage: maxMessage(c), Log: a.options.Log,
	}, accepts)
	listener, err := datapath.Listen(ctx, datapath.Path(c.GetAcceptance().GetDataPath()), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for queues of other clusters: %w", err)
	}
	// Longer messages may be allowed later, up to what the store is prepared for.
	x.server = transport.NewChannelServer(x.callers, channel.FrameBound(max(maxMessage(c), leastPayload)))
	wirev1.RegisterChannelServer(x.server, x.receiver)
	a.channelAddress.Store(new(listener.Addr()))
	go func() {
		if err := x.server.Serve(transport.Listen(listener, &x.arrived, maxChannelConns)); err != nil {
			a.options.Log.Error("Server for queues of other clusters has ended", "address", address, "error", err.Error())
		}
	}()
	return x, nil
}

// acceptanceOf is which codecs are taken.
func acceptanceOf(c *wirev1.QueueConfig) (channel.Acceptance, error) {
	ids, err := channel.ParseCodecs(c.GetAcceptance().GetCodecs())
	return channel.Acceptance{Any: c.GetAcceptance().GetAnyCodec(), Codecs: ids}, err
}

// accept admits whom a configuration names, and ends the channels of those whom it does not. After an error nothing
// has changed.
func (x *channels) accept(c *wirev1.QueueConfig) error {
	if x.receiver == nil {
		return nil
	}
	accepts, err := acceptanceOf(c)
	if err != nil {
		return fmt.Errorf("acceptance.codecs: %w", err)
	}
	before := x.callers.RevokedBefore
	revoked := make(map[string]time.Time, len(c.GetAcceptance().GetPeers()))
	for _, peer := range c.GetAcceptance().GetPeers() {
		revoked[peer.GetName()] = before(peer.GetName())
	}
	if err := x.callers.Set(c.GetAcceptance().GetPeers()); err != nil {
		return fmt.Errorf("acceptance.peers: %w", err)
	}
	x.receiver.SetAcceptance(accepts)
	x.receiver.EndOthers(func(s channel.Source) bool {
		// With which certificate a channel began is not known: all of a peer that revokes begin again.
		return x.callers.May(transport.Caller(s)) && revoked[s.Peer].Equal(x.callers.RevokedBefore(s.Peer))
	})
	return nil
}

// limit says how long messages may be that arrive by channels which start from now on.
func (x *channels) limit(c *wirev1.QueueConfig) {
	if x.receiver != nil {
		x.receiver.SetMaxMessage(maxMessage(c))
	}
}

// sendingChanges reports whether a change of the configuration takes another sending end.
func sendingChanges(before, c *wirev1.QueueConfig) bool {
	return !proto.Equal(sendingOf(before), sendingOf(c))
}

// sendingOf is what of a configuration is about sending ends, prices excepted: those that run are told others.
func sendingOf(c *wirev1.QueueConfig) *wirev1.QueueConfig {
	var own wirev1.QueueConfig
	for _, one := range endsOf(c) {
		one = proto.CloneOf(one)
		one.Prices = nil
		own.Channels = append(own.Channels, one)
	}
	if settings := c.GetCompression(); sends(c) && settings != nil {
		own.Compression = proto.CloneOf(settings)
		own.Compression.Prices = nil
	}
	return &own
}

// endsOf are the sending ends that a configuration asks for.
func endsOf(c *wirev1.QueueConfig) []*wirev1.ChannelConfig {
	if c.GetChannel() != nil {
		return []*wirev1.ChannelConfig{c.GetChannel()}
	}
	return c.GetChannels()
}

// pricesOf are those by which a channel decides.
func pricesOf(c *wirev1.QueueConfig, one *wirev1.ChannelConfig) policy.Prices {
	if one.GetPrices() != nil {
		return compression.Prices(one.GetPrices())
	}
	return compression.Prices(c.GetCompression().GetPrices())
}

// price tells sending ends that run the prices of a configuration.
func (x *channels) price(c *wirev1.QueueConfig) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.sending {
		for _, one := range endsOf(c) {
			if one.GetName() == s.name {
				s.classes.Price(pricesOf(c, one))
			}
		}
	}
}

// send starts the sending ends that a configuration asks for, in place of those that run. After an error those go on.
// What cannot be run yet, or not any more, keeps clients away by the consumer of a Fanout, which removes nothing then,
// as one of several does. The context is that of the ends' life.
func (x *channels) send(ctx context.Context, c *wirev1.QueueConfig) error {
	wanted := endsOf(c)
	var fanout *channel.Fanout
	if len(c.GetChannels()) > 0 || slices.ContainsFunc(wanted, func(s *wirev1.ChannelConfig) bool { return !runs(s) }) {
		o := channel.FanoutOptions{
			Conn: x.conn, Stream: c.GetQueue(), Leads: x.store.Leader, IDs: x.ids, Log: x.agent.options.Log,
		}
		for _, one := range wanted {
			o.Names = append(o.Names, one.GetName())
		}
		fanout = channel.NewFanout(o)
	}
	var next []*sending
	for _, one := range wanted {
		if !runs(one) {
			continue
		}
		s, err := x.newSending(ctx, c, one, fanout)
		if err != nil {
			return err
		}
		next = append(next, s)
	}
	x.stopSending()
	x.released = false
	for _, s := range next {
		s.stop = beside(ctx, s.sender.Run)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sending = next
	if fanout != nil {
		x.fanout = beside(ctx, fanout.Run)
	}
	return nil
}

func (x *channels) newSending(
	ctx context.Context, c *wirev1.QueueConfig, wanted *wirev1.ChannelConfig, fanout *channel.Fanout,
) (*sending, error) {
	ids, err := channel.ParseCodecs(wanted.GetCodecs())
	if err != nil {
		return nil, fmt.Errorf("channel.codecs: %w", err)
	}
	resolved, err := compression.Read(c.GetCompression())
	if err != nil {
		return nil, err
	}
	// The channel's codecs, at the level and on the engines that the queue's compression has. A queue that compresses
	// nothing when messages are put may still compress for the channel.
	resolved.Codecs = slices.DeleteFunc(slices.Clone(ids), func(id codec.ID) bool { return id == codec.None })
	encoding := x.encoding(ctx, c, resolved)
	encodings := map[codec.ID]message.EncodingOptions{}
	for i, level := range wanted.GetLevels() {
		if own := resolved; i < len(ids) && ids[i] != codec.None && level != c.GetCompression().GetLevel() &&
			level != wirev1.CompressionLevel_COMPRESSION_LEVEL_UNSPECIFIED {
			own.Policy.Level, own.Codecs = compression.Level(level), ids[i:i+1]
			encodings[ids[i]] = x.encoding(ctx, c, own)
		}
	}
	s := &sending{classes: classes.New(c.GetQueue(), true, nil), own: wanted.GetAddress() != "", name: wanted.GetName()}
	s.classes.Price(pricesOf(c, wanted))
	s.to = &channel.Destination{
		Address: wanted.GetAddress(), ServerName: wanted.GetServerName(),
		Gateway: wanted.GetGatewayEndpoint(), Tunnel: wanted.GetGatewayTunnel(), Namespace: wanted.GetNamespace(),
		Queue: wanted.GetQueue(), Files: x.files, CAFile: wanted.GetCaFile(), Counter: &s.sent,
		Try: datapath.Path(wanted.GetDataPath()),
	}
	s.sender, err = channel.NewSender(channel.SenderOptions{
		Conn: x.conn, Stream: c.GetQueue(), Leads: x.store.Leader, Connect: s.to.Connect, Codecs: ids,
		BatchMessages: int(wanted.GetBatchMessages()), BatchDelay: wanted.GetBatchDelay().AsDuration(),
		Encoding: encoding, Encodings: encodings, Decoding: x.decoding, Work: &x.work, IDs: x.ids, Classes: s.classes,
		Fanout: fanout, Name: wanted.GetName(), Log: x.agent.options.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("channel: %w", err)
	}
	return s, nil
}

// encoding is how messages are compressed for the channel by settings.
func (x *channels) encoding(
	ctx context.Context, c *wirev1.QueueConfig, s compression.Settings,
) message.EncodingOptions {
	encoding := message.EncodingOptions{Policy: s.Policy, MinSize: max(size(c.GetCompressionMinSize()), 1)}
	if len(s.Codecs) > 0 {
		encoding.Engines, encoding.Accelerator = x.agent.options.Engines(ctx, s)
	}
	return encoding
}

func (x *channels) stopSending() {
	x.mu.Lock()
	all, fanout := x.sending, x.fanout
	x.mu.Unlock()
	for _, s := range all {
		s.stop()
	}
	if fanout != nil {
		fanout()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range all {
		sum := &x.ended
		if s.own {
			sum = &x.ownEnded
		}
		*sum = sum.Plus(s.sent.Counted().Minus(s.reset))
	}
	x.sending, x.fanout = nil, nil
}

// release removes what a former channel has left, until that has worked. Only the member that leads does: another one
// may not have been told yet that there is no channel, and sends, and makes what is to be removed, when it comes to
// lead.
func (x *channels) release(ctx context.Context, queue string) {
	x.mu.Lock()
	sends := len(x.sending) > 0 || x.fanout != nil
	x.mu.Unlock()
	if sends || !x.store.Leader() {
		x.released = false
		return
	}
	if x.released {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ensurePatience)
	defer cancel()
	if err := channel.Release(ctx, x.conn, queue); err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) {
			x.agent.options.Log.Warn("Channel that was taken away is in clients' way still", "error", err.Error())
		}
		return
	}
	x.released = true
}

// close ends all ends.
func (x *channels) close() {
	x.stopSending()
	if x.server != nil {
		x.server.Stop()
	}
}

func (x *channels) resetStatistics() {
	if x.receiver != nil {
		x.receiver.ResetStatistics()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.arrivedReset, x.ownReset = x.arrived.Counted(), x.own.Counted()
	x.encodedReset, x.decodedReset = x.work.Encoded.Snapshot(), x.work.Decoded.Snapshot()
	x.ended, x.ownEnded = transport.Counted{}, transport.Counted{}
	for _, s := range x.sending {
		s.sender.ResetStatistics()
		s.reset = s.sent.Counted()
	}
}

// worked returns what the engines did for channels since the last reset.
func (x *channels) worked() (encoded, decoded meter.Snapshot) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.work.Encoded.Snapshot().Minus(x.encodedReset), x.work.Decoded.Snapshot().Minus(x.decodedReset)
}

// report fills in what there is to say of channels, and returns what arrived for them.
func (x *channels) report(r *wirev1.QueueReport) transport.Traffic {
	if x.receiver != nil {
		r.Received = x.receiver.Status()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	arrived, own := x.arrived.Counted().Minus(x.arrivedReset), x.own.Counted().Minus(x.ownReset)
	r.ReceivedWireBytes, r.OwnReceivedWireBytes = count(arrived.Wire), count(own.Wire)
	traffic := arrived.Traffic.Plus(own.Traffic)
	for _, s := range x.sending {
		one := s.sender.Status()
		one.OwnCluster, one.Name = s.own, s.name
		if one.GetState() == wirev1.ChannelState_CHANNEL_STATE_RUNNING {
			one.DataPath = s.to.DataPath()
		}
		sent := s.sent.Counted().Minus(s.reset)
		one.WireBytes = count(sent.Wire)
		traffic = traffic.Plus(sent.Traffic)
		if s.name == "" {
			r.Channel = one
		} else {
			r.Channels = append(r.Channels, one)
		}
	}
	for _, sum := range []struct {
		transport.Counted
		own bool
	}{{x.ended, false}, {x.ownEnded, true}} {
		if sum.Wire > 0 {
			r.Channels = append(r.Channels, &wirev1.ChannelStatus{OwnCluster: sum.own, WireBytes: count(sum.Wire)})
			traffic = traffic.Plus(sum.Traffic)
		}
	}
	return traffic
}
