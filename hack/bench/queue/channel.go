// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/hack/bench/agents"
	"github.com/lighterage/lighterage/hack/bench/harness"
	"github.com/lighterage/lighterage/hack/bench/network"
)

// stretch is a load of a channel: messages of a size in batches over a link.
type stretch struct {
	size, batch int
	mbits       int // 0: not limited
}

// stretches are those of row 4, and one in which the link is not the limit.
var stretches = []stretch{
	{5000, 2000, linkMbits},
	{16000, 625, linkMbits},
	{70000, 143, linkMbits},
	{400000, 25, linkMbits},
	{32000, 500, 0},
}

// linkMbits is the speed of the limited link.
const linkMbits = 100

// channelCodecs are what channels carry, by name.
var channelCodecs = []string{"none", "deflate", "zstd"}

// expected is how much more is put where it is compressed, so that turns take as long.
const expected = 3

// journey is what a channel did in one turn.
type journey struct {
	stretch
	codec    string
	messages int
	rate     float64 // messages a second
	cpu      float64 // seconds a message: both agents and the gateway
	payload  float64 // bytes a message as it travelled
	wire     float64 // bytes a message in both directions, TLS included
}

// overChannels measures channels between two agents in namespaces of their own, with a
// gateway beside the receiving one.
func (b *bench) overChannels(ctx context.Context) (err error) {
	link, err := network.New(ctx, "ltgq", "10.231.8.")
	if err != nil {
		if ctx.Err() == nil {
			b.missing = append(b.missing, "a channel over a limited link: "+err.Error())
			err = nil
		}
		return err
	}
	defer func() { err = errors.Join(err, link.Close()) }() //nolint:contextcheck // also when the context has ended
	return b.Rounds(b.channelRounds, func(round int) error {
		for _, s := range stretches {
			if err := link.Limit(ctx, s.mbits); err != nil {
				return err
			}
			for _, i := range harness.Order(round, len(channelCodecs)) {
				what := fmt.Sprintf("send messages of %d bytes by a channel with codec %s", s.size, channelCodecs[i])
				j, err := harness.Undisturbed(what, func() (journey, error) {
					return travel(ctx, link, s, channelCodecs[i], b.channelBytes, b.directory)
				})
				if err != nil {
					return fmt.Errorf("%s: %w", what, err)
				}
				b.journeys = append(b.journeys, j)
			}
			harness.Log("channel, round %d: messages of %d bytes", round+1, s.size)
		}
		return nil
	})
}

// travel is one turn: messages are put, then the channel is opened.
func travel(
	ctx context.Context, link *network.Pair, s stretch, name string, total int, parent string,
) (j journey, err error) {
	if name != channelCodecs[0] || s.mbits == 0 {
		total *= expected
	}
	j = journey{stretch: s, codec: name, messages: max(total/s.size, leastMessages)}
	directory, err := os.MkdirTemp(parent, "channel-")
	if err != nil {
		return j, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(directory)) }()
	e, err := startEnds(ctx, link, directory, endSettings{Codec: name}, endSettings{Codec: name})
	if err != nil {
		return j, err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	sender := e.sender
	var a endAnswer
	if err := errors.Join(sender.Order(endOrder{Put: j.messages, Size: s.size}), sender.Answer(&a)); err != nil {
		return j, err
	}
	before, err := e.cpu()
	if err != nil {
		return j, err
	}
	if err := errors.Join(
		sender.Order(endOrder{Gateway: e.gateway, Batch: uint32(s.batch)}), sender.Answer(&a),
	); err != nil {
		return j, err
	}
	after, err := e.cpu()
	if err != nil {
		return j, err
	}
	if a.Codec != name || a.Messages != uint64(j.messages) {
		return j, fmt.Errorf("the channel carried %d of %d messages with codec %q", a.Messages, j.messages, a.Codec)
	}
	n := float64(j.messages)
	j.rate, j.cpu, j.payload, j.wire = n/a.Seconds, (after-before).Seconds()/n, float64(a.Payload)/n, float64(a.Wire)/n
	return j, nil
}

// ends are two agents in namespaces of their own, with a gateway beside the receiving one.
type ends struct {
	all     []*harness.Worker
	sender  *harness.Worker
	gateway string // its address
}

func startEnds(
	ctx context.Context, link *network.Pair, directory string, sends, receives endSettings,
) (e *ends, err error) {
	ca, err := newClusters()
	if err != nil {
		return nil, err
	}
	e = &ends{}
	begin := func(role, space string, s endSettings) (*harness.Worker, string, error) {
		var first endAnswer
		w, err := startEnd(ctx, role, space, filepath.Join(directory, role), ca, s, &first)
		if err == nil {
			e.all = append(e.all, w)
		}
		return w, first.Address, err
	}
	receives.Listen = "127.0.0.1:0"
	_, receiver, err := begin(receiveEnd, link.Receiver(), receives)
	if err == nil {
		_, e.gateway, err = begin(
			gatewayEnd, link.Receiver(), endSettings{Listen: link.Address() + ":0", Target: receiver},
		)
	}
	if err == nil {
		e.sender, _, err = begin(sendEnd, link.Sender(), sends)
	}
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

// cpu is the CPU time of all of them.
func (e *ends) cpu() (total time.Duration, err error) {
	for _, w := range e.all {
		spent, err := w.PID().CPU()
		if err != nil {
			return 0, err
		}
		total += spent
	}
	return total, nil
}

func (e *ends) close() error {
	var errs []error
	for _, w := range e.all {
		errs = append(errs, w.Close())
	}
	return errors.Join(errs...)
}

// clusters are the CAs of both.
type clusters struct{ east, west *pki.CA }

func newClusters() (c clusters, err error) {
	if c.east, _, err = pki.NewCA(eastName, time.Now()); err != nil {
		return c, err
	}
	c.west, _, err = pki.NewCA(westName, time.Now())
	return c, err
}

// startEnd writes what an end needs into a directory and starts it.
func startEnd(
	ctx context.Context, role, space, directory string, ca clusters, s endSettings, first *endAnswer,
) (*harness.Worker, error) {
	own, peer := ca.west, ca.east
	identity, host := pki.QueueIdentity(westName, westNamespace, queue), westHost
	switch role {
	case sendEnd:
		own, peer = ca.east, ca.west
		identity, host = pki.QueueIdentity(eastName, eastNamespace, queue), eastHost
	case gatewayEnd:
		identity, host = pki.Identity{Cluster: westName, Path: pki.GatewayPath}, pki.GatewayServerName
	}
	s.PeerCA = peer.CertificatePEM
	settings, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(directory, volumeDir), 0o700); err != nil {
		return nil, err
	}
	if err := agents.Files(directory, own, peer, pki.Template{Identity: identity, DNSNames: []string{host}},
		map[string][]byte{settingsFile: settings, filepath.Join(tokensDir, "bench"): []byte(token)}); err != nil {
		return nil, err
	}
	self := harness.Self(benchmark, endRole, role, directory)
	return firstAnswer(network.Command(ctx, space, self[0], self[1:]...), first)
}
