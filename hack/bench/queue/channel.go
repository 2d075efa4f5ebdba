// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/lighterage/lighterage/controllers/pki"
	"github.com/lighterage/lighterage/hack/bench/network"
)

// stretch is a load of a channel: messages of a size in batches over a link.
type stretch struct {
	size, batch int
	mbits       int // 0: not limited
}

// stretches are those of row 4, and one in which the link is not the limit. Row 4 has 2,000 messages of 5,000 bytes in
// a batch; 900 are the most that a channel has.
var stretches = []stretch{
	{5000, 900, linkMbits},
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
func overChannels(ctx context.Context, e extent, o options, got *results) (err error) {
	link, err := network.New(ctx, "ltgq", "10.231.8.")
	if err != nil {
		if ctx.Err() == nil {
			got.missing = append(got.missing, "a channel over a limited link: "+err.Error())
			err = nil
		}
		return err
	}
	defer func() { err = errors.Join(err, link.Close()) }() //nolint:contextcheck // also when the context has ended
	for round := range e.channelRounds {
		for _, s := range stretches {
			if err := link.Limit(ctx, s.mbits); err != nil {
				return err
			}
			for i := range channelCodecs {
				name := channelCodecs[(i+round)%len(channelCodecs)]
				j, err := travel(ctx, link, s, name, e.channelBytes, o.memory)
				if err != nil {
					return fmt.Errorf("send messages of %d bytes by a channel with codec %s: %w", s.size, name, err)
				}
				got.journeys = append(got.journeys, j)
			}
		}
	}
	return nil
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
	var all []*end
	defer func() {
		for _, e := range all {
			err = errors.Join(err, e.close())
		}
	}()
	ca, err := newClusters()
	if err != nil {
		return j, err
	}
	begin := func(role, space string, settings endSettings) (*end, error) {
		e, err := startEnd(ctx, role, space, filepath.Join(directory, role), ca, settings)
		if err == nil {
			all = append(all, e)
		}
		return e, err
	}
	receiver, err := begin(receiveEnd, link.Receiver(), endSettings{Codec: name, Listen: "127.0.0.1:0"})
	if err != nil {
		return j, err
	}
	gateway, err := begin(
		gatewayEnd, link.Receiver(), endSettings{Listen: link.Address() + ":0", Target: receiver.address},
	)
	if err != nil {
		return j, err
	}
	sender, err := begin(sendEnd, link.Sender(), endSettings{Codec: name})
	if err != nil {
		return j, err
	}
	if _, err := sender.do(endOrder{Put: j.messages, Size: s.size}); err != nil {
		return j, err
	}
	before, err := usageOfAll(all)
	if err != nil {
		return j, err
	}
	a, err := sender.do(endOrder{Gateway: gateway.address, Batch: uint32(s.batch)})
	if err != nil {
		return j, err
	}
	after, err := usageOfAll(all)
	if err != nil {
		return j, err
	}
	if a.Codec != name || a.Messages != uint64(j.messages) {
		return j, fmt.Errorf("the channel carried %d of %d messages with codec %q", a.Messages, j.messages, a.Codec)
	}
	n := float64(j.messages)
	j.rate, j.cpu, j.payload, j.wire = n/a.Seconds, after.minus(before).cpu/n, float64(a.Payload)/n, float64(a.Wire)/n
	return j, nil
}

func usageOfAll(all []*end) (usage, error) {
	var total usage
	for _, e := range all {
		u, err := usageOf(e.command.Process.Pid)
		if err != nil {
			return usage{}, err
		}
		total = total.add(u)
	}
	return total, nil
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

// end is a process that serves one.
type end struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
	address string
}

// startEnd writes what an end needs into a directory and starts it.
func startEnd(ctx context.Context, role, space, directory string, ca clusters, s endSettings) (*end, error) {
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
	issued, err := own.Issue(pki.Template{Identity: identity, DNSNames: []string{host}, Lifetime: time.Hour}, time.Now())
	if err != nil {
		return nil, err
	}
	for _, sub := range []string{volumeDir, tokensDir} {
		if err := os.MkdirAll(filepath.Join(directory, sub), 0o700); err != nil {
			return nil, err
		}
	}
	for file, content := range map[string][]byte{
		"tls.crt": issued.CertificatePEM, "tls.key": issued.KeyPEM, "cluster-ca.crt": own.CertificatePEM,
		"peer-ca.crt": peer.CertificatePEM,
		settingsFile:  settings, filepath.Join(tokensDir, "bench"): []byte(token),
	} {
		if err := os.WriteFile(filepath.Join(directory, file), content, 0o600); err != nil {
			return nil, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	e := &end{command: network.Command(ctx, space, self, "-end", role, "-dir", directory)}
	e.command.Stderr = os.Stderr
	if e.in, err = e.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := e.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := e.command.Start(); err != nil {
		return nil, err
	}
	e.out = bufio.NewScanner(out)
	first, err := e.answer()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start to %s: %w", role, err), e.close())
	}
	e.address = first.Address
	return e, nil
}

func (e *end) do(o endOrder) (endAnswer, error) {
	if err := json.NewEncoder(e.in).Encode(o); err != nil {
		return endAnswer{}, err
	}
	return e.answer()
}

func (e *end) answer() (endAnswer, error) {
	var a endAnswer
	if !e.out.Scan() {
		return a, errors.Join(errors.New("an end of a channel has ended"), e.out.Err())
	}
	if err := json.Unmarshal(e.out.Bytes(), &a); err != nil {
		return a, fmt.Errorf("read an answer: %w", err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

func (e *end) close() error {
	_ = e.in.Close()
	return e.command.Wait()
}
